"""Broker operations as steps: the decisions once, for threads and for event loops alike.

An operation of the broker is a generator.  Between two ``yield`` it runs under
the broker's one lock and never waits; each ``yield`` says what it waits for:

    Durable      a log has put everything written so far on disk
    Arrival      something happened on a topic, or it is time to look again
    GiveWay      nothing: others may have the lock, in the middle of long work
    Aside        something slow that needs no lock is worked out

A driver (``drivers/``) runs the generator, and does the waiting in its own
way: by blocking a thread, by awaiting a future, or by moving a virtual clock.
A caller may give up at any ``yield``; work that must be finished whatever the
caller does is not in the caller's steps but in ``State.jobs``.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, Protocol, TypeVar

from penstock.errors import NotCached
from penstock.log.archive import FetchedSegment
from penstock.log.files import Files
from penstock.log.log import Log

MOVE_MS: Final = 100  # Between two looks whether a partition has moved.
FETCH_MS: Final = 1000  # A fetched segment wakes the operations that wait for it; this is for a lost wake-up.

T = TypeVar("T")


class Waiter(Protocol):
    """Something that waits to be woken."""

    def wake(self) -> None: ...


class Waitable(Protocol):
    """What can be waited for: a topic."""

    waiters: dict[Waiter, None]  # The one that has waited longest is first.


class Durable:
    """Wait until ``log`` has made everything durable that was written when this was made."""

    __slots__ = ("log", "written")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.written = log.written


class Arrival:
    """Wait until something happens on ``topic``, at most until ``until_ms`` of the steady clock."""

    __slots__ = ("topic", "until_ms")

    def __init__(self, topic: Waitable, until_ms: int) -> None:
        self.topic = topic
        self.until_ms = until_ms


class GiveWay:
    """Let other operations have a turn, and continue."""

    __slots__ = ()


class Aside:
    """Wait for a slow function that needs nothing of the broker; ``result`` is what it returned."""

    __slots__ = ("function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.result: Any = None


Step = Durable | Arrival | GiveWay | Aside
Steps = Generator[Step, None, T]


def exhaust(steps: Steps[T]) -> T:
    """Run steps that only give way, where no other operation needs a turn."""
    while True:
        try:
            wanted = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        assert isinstance(wanted, GiveWay), "only GiveWay is expected here"


class Written:
    """The steps of an operation that has written all it writes: what is left is to wait until it is durable.

    A loop in a generator would do the same.  This is for the operation that clients wait for most often: on
    an event loop it needs neither a generator nor the exception that ends one (``LoopDriver.begin``).
    """

    __slots__ = ("result", "waits")

    def __init__(self, result: Any, waits: list[Durable]) -> None:
        self.result = result
        self.waits = waits

    def unfinished(self) -> Durable | None:
        """The next wait; None if all is durable."""
        for wanted in self.waits:
            if wanted.log.durable < wanted.written:
                return wanted
        return None

    def __iter__(self) -> "Written":
        return self

    def __next__(self) -> Durable:
        wanted = self.unfinished()
        if wanted is None:
            raise StopIteration(self.result)
        return wanted

    def close(self) -> None:
        """Like the method of a generator; nothing has to be released."""


def fetched(files: Files, now_ms: int, missing: NotCached) -> Steps[None]:
    """Wait a while for a segment that was not cached; the caller reads again afterwards.

    If it is not being fetched, the partition is about to move to a node that has it.
    """
    fetching = None if files.archive is None else files.archive.fetching(missing.path)
    yield Arrival(fetching or FetchedSegment(), now_ms + (FETCH_MS if fetching else MOVE_MS))


def aside(function: Callable[[], T]) -> Steps[T]:
    """Run a slow function without the lock, and return its result."""
    wanted = Aside(function)
    yield wanted
    result: T = wanted.result
    return result
