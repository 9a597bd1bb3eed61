"""Decides what follows a failed attempt of a request.  No I/O, no waiting, no clock.

    temporarily refused                             wait, and try again
    the connection was lost, and it may be retried  try again; perhaps it was done, so an error such as
                                                    "settled before" means that it was (``done``)
    the connection was lost, and it may not         the outcome is unknown
    no response in time                             the same, if it changes something
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
# Errors of a node that does not own the partition, or does not know a topic, key or setting yet that other
# nodes know: nothing was done, and another node decides.
ELSEWHERE: Final = (NotOwner, MetadataStale, TopicNotFound, PartitionNotFound, Forbidden)


class NextStep(Enum):
    AGAIN = auto()  # Now, or as soon as there is a connection.
    PAUSE = auto()  # And then again, unless the deadline comes first.
    DONE = auto()  # An earlier attempt was successful.
    UNKNOWN = auto()  # It may have been done.
    UNANSWERED = auto()  # It changes nothing, and there was no response in time.
    RAISE = auto()  # The error itself.


class RequestRetry:
    """One request, over all its attempts."""

    __slots__ = ("_changes", "_done", "_repeat", "pauses", "sent")

    def __init__(self, changes: bool, repeat: bool, done: Container[str]) -> None:
        self.sent = False  # It may have been done already.
        self.pauses = 0
        self._changes = changes
        self._repeat = repeat
        self._done = done

    @property
    def perhaps_done(self) -> bool:
        return self.sent and self._changes

    def after(self, error: Exception) -> NextStep:
        """The step after an attempt that has failed with this error."""
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
        # A login that is refused when reconnecting says nothing about requests that were sent before.
        refused = isinstance(error, Unauthenticated)
        return NextStep.UNKNOWN if self.perhaps_done and refused else NextStep.RAISE
