"""Connection, clock and sleep for commands.

    connected(server)    a connection to the broker, closed at the end of the block
    clock()              the clock
    pause(seconds)       sleep

Commands use nothing else from outside, so a test can replace these with a broker in memory and a virtual
clock, and run any command.
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
    """Connect to this address; ``progress`` is shown if that takes long.

    ``login`` is a key, or a user and a password; default: the environment.
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
