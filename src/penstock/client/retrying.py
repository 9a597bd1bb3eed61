"""What follows when a try of a request has failed.  No I/O, no waiting, no clock.

    it was refused only for now                     wait, and try again
    the connection was lost, and it may be repeated try again; perhaps it was done, so an error such as
                                                    "settled before" means that it was (``done``)
    the connection was lost, and it may not         the outcome is unknown
    no answer within the time                       the same, if it changes something
    anything else                                   the program gets the error

The event loop's requests (``session.py``), publishes in the caller's thread (``direct.py``) and requests to
the owners of a cluster (``routing.py``) share these rules.
"""

from collections.abc import Container
from enum import Enum, auto
from typing import Final

from penstock.client.connections.exchange import ConnectionLost
from penstock.errors import (
    Forbidden,
    MetadataStale,
    NotOwner,
    Overloaded,
    PartitionNotFound,
    PenstockError,
    QuotaExceeded,
    ShuttingDown,
    TopicNotFound,
    Unauthenticated,
)

FOR_NOW: Final = (Overloaded, QuotaExceeded, ShuttingDown)
# A publish is repeated with the same bytes: a node that forwards it may have had it written before.
REPEATED: Final = (ConnectionLost, *FOR_NOW)
# What a node says that does not own the partition, or has not heard yet of a topic, key or setting that the
# other nodes know: nothing was done, and another node decides.
ELSEWHERE: Final = (NotOwner, MetadataStale, TopicNotFound, PartitionNotFound, Forbidden)


class NextStep(Enum):
    AGAIN = auto()  # Now, or as soon as there is a connection.
    PAUSE = auto()  # And then again, unless the deadline comes first.
    DONE = auto()  # An earlier try was successful.
    UNKNOWN = auto()  # Perhaps it was done.
    UNANSWERED = auto()  # It changes nothing, and there was no answer in time.
    RAISE = auto()  # The error itself.


class RequestRetry:
    """One request, over all its tries."""

    __slots__ = ("_changes", "_done", "_repeat", "pauses", "sent")

    def __init__(self, changes: bool, repeat: bool, done: Container[str]) -> None:
        self.sent = False  # Perhaps it was done already.
        self.pauses = 0
        self._changes = changes
        self._repeat = repeat
        self._done = done

    @property
    def perhaps_done(self) -> bool:
        return self.sent and self._changes

    def after(self, error: Exception) -> NextStep:
        """The step after a try that has ended with this error."""
        if isinstance(error, ConnectionLost):
            self.sent = True
            return NextStep.AGAIN if self._repeat else NextStep.UNKNOWN
        if isinstance(error, TimeoutError):
            return NextStep.UNKNOWN if self._changes else NextStep.UNANSWERED
        if isinstance(error, FOR_NOW):
            self.pauses += 1
            return NextStep.PAUSE
        assert isinstance(error, PenstockError), "nothing else is caught"
        if self.sent and error.code in self._done:
            return NextStep.DONE
        # A login that is refused when the client connects again says nothing of what was sent before.
        refused = isinstance(error, Unauthenticated)
        return NextStep.UNKNOWN if self.perhaps_done and refused else NextStep.RAISE
