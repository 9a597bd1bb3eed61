"""What a client needs to call an operation by name; ``calls.py``, which is generated, has all of them.

After a lost connection a client cannot know whether a request was executed.
``RetryClass`` says whether it may send the request again:

    READ_ONLY         yes: it changes nothing
    IDEMPOTENT        yes: executing it twice is the same as once
    done_when(error)  yes: the error means that the first request was executed
    NOT_REPEATED      no: the caller gets ``OutcomeUnknown``
"""

from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import PenstockError

DEFAULT_GROUP: Final = "default"
LIST_LIMIT: Final = 1000  # Entries that a listing returns unless asked for more.
HOLD: Final = "7d"  # How long retention waits for a group whose deleted messages were restored.
FETCH_BYTES: Final = 4 * 1024 * 1024  # Read and sent in about a millisecond, so that others do not wait long.
MOVE_MS_MAX: Final = 30_000  # Partitions that are to move, until they have.
PUBLISH_STAGED_MS_MAX: Final = 3600 * 1000  # A staged publish may be large.
REDRIVE_MS_MAX: Final = 24 * 3600 * 1000  # A redrive may be slow on purpose.
TRANSACTION_TIMEOUT: Final = "1m"  # As Kafka's producers: for so long an open transaction holds readers up.


class RetryClass(NamedTuple):
    """Whether an operation changes anything, and whether a client may repeat it."""

    changes: bool
    repeats: bool
    done: frozenset[str] = frozenset()  # Error codes by which a repeat finds that it was executed before.


READ_ONLY: Final = RetryClass(changes=False, repeats=True)
IDEMPOTENT: Final = RetryClass(changes=True, repeats=True)
NOT_REPEATED: Final = RetryClass(changes=True, repeats=False)


def done_when(error: type[PenstockError]) -> RetryClass:
    """A repeat that fails with this error was executed the first time."""
    return RetryClass(changes=True, repeats=True, done=frozenset({error.code}))


class NoArguments(msgspec.Struct, frozen=True):
    """For operations that take none."""


class Call(NamedTuple):
    """An operation that is called by name."""

    arguments: type[msgspec.Struct]
    answer: Any  # The type of its result.
    retry: RetryClass
    wait_ms: int = 0  # How much longer than usual the server may take.
