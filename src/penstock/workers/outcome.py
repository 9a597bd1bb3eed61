"""How a function's call ends, and what that means for its message.

    returns                      DONE         ack
    raises                       Failed       nack, with the error; again after the group's backoff
    raises Retry(delay="5m")     Failed       nack; again after that delay
    raises Reject("why")         Rejected     reject: straight to the dead letters, never again
    takes too long               Failed       nack, with a TimeoutError (worker.py)

A call never raises here: its error is a value, so that a bug in a function is
not mistaken for one of ours.  Only a cancellation passes, because it is meant
for us.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from penstock.types import Duration, duration_ms


class Reject(Exception):  # noqa: N818 - `raise penstock.Reject("no such customer")` is how a user says it.
    """Raised by a worker's function to dead-letter the message without further attempts."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Retry(Exception):  # noqa: N818 - the same.
    """Raised by a worker's function to retry after ``delay``, or after the group's backoff."""

    def __init__(self, reason: str = "not now", *, delay: Duration | None = None) -> None:
        super().__init__(reason)
        self.delay_ms = None if delay is None else duration_ms("delay", delay)


class Done(NamedTuple):
    pass


class Failed(NamedTuple):
    """The call failed: retry after the delay, or after the group's backoff."""

    error: BaseException
    delay_ms: int | None = None


class Rejected(NamedTuple):
    reason: str


Outcome = Done | Failed | Rejected
DONE: Final = Done()


async def call_async(function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Outcome:
    try:
        await function(*arguments)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return Failed(error)  # It awaited something that was cancelled; the function itself was not.
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a function may raise what it likes.
        return judged(error)
    return DONE


def call_plain(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome | Awaitable[Any]:
    """Call a plain function; an awaitable that it returns is for the caller to await."""
    try:
        returned = function(*arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the same.
        return judged(error)
    return returned if inspect.isawaitable(returned) else DONE


def error_of(outcome: Outcome) -> BaseException | str | None:
    """The error of a call; None if there is none."""
    match outcome:
        case Failed(error=error):
            return error
        case Rejected(reason=reason):
            return reason
        case Done():
            return None


def judged(error: BaseException) -> Outcome:
    """The outcome that an error leads to."""
    if isinstance(error, Reject):
        return Rejected(error.reason)
    return Failed(error, error.delay_ms if isinstance(error, Retry) else None)
