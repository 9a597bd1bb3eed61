"""Where a command gets the broker it works with, the time, and a moment to wait.

    connected(server)    the broker at the other end of a connection; closed at the end of the block
    clock()              what time it is
    pause(seconds)       nothing, for so long

The one seam between commands and the world: a test puts a broker in memory
and its virtual clock here, and runs any command against them.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import penstock  # Without a client, until one is asked for: a wrong command line is refused without it.
from penstock.cli.progress import ProgressBar
from penstock.clock import Clock, SystemClock

if TYPE_CHECKING:
    from penstock.api.broker import Broker

DEFAULT_SERVER: Final = "penstock://127.0.0.1:7070"


@contextmanager
def connected(server: str, *, progress: bool = True, **login: str) -> Iterator["Broker"]:
    """The broker at this address; ``progress`` shows that it is being waited for, if that takes long.

    ``login`` is a key, or a user and a password; without it the environment says who this is.
    """
    with ProgressBar("waiting for the server", unit="", wanted=progress):
        with penstock.connect(server, **login) as broker:
            yield broker


def clock() -> Clock:
    """The clock of this machine."""
    return SystemClock()


def pause(seconds: float) -> None:
    """Do nothing for a moment."""
    threading.Event().wait(seconds)
