"""Keeps appends to a partition in order while some of them have to wait.

A producer has several requests in flight, and numbers its batches.  If one of them waits (for the ledger of
transactions, or for a thread that validates a large batch) and the next does not, the next would be
written first: out of order, and refused where batches are numbered.  So an append that waits joins a queue
for each partition it writes to, and while a queue is not empty, later appends join it too.

A request joins all its queues at once, so two requests never wait for each other.
"""

from collections.abc import Iterable
from typing import Final

from penstock.broker.state import Line, State, Topic
from penstock.broker.steps import Arrival, Steps

LOOK_MS: Final = 1000  # Whoever leaves a line wakes the others; this is for a wake-up that got lost.


class Standing:
    """One request's places in lines; ``leave`` them in any case."""

    __slots__ = ("_lines",)

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        for line in lines:
            line.standing.append(self)

    def wait(self, state: State) -> Steps[None]:
        """Until this one is the first in all its lines."""
        for line in self._lines:
            while line.standing[0] is not self:
                yield Arrival(line, state.clock.steady_ms() + LOOK_MS)

    def leave(self) -> None:
        """Let the others have their turn."""
        for line in self._lines:
            line.standing.remove(self)
            waiters, line.waiters = line.waiters, {}
            for waiter in waiters:
                waiter.wake()


def forget_empty(topic: Topic) -> None:
    """A topic without lines is the quick case."""
    for number in [number for number, line in topic.lines.items() if not line.standing]:
        del topic.lines[number]


def lines_of(topic: Topic, numbers: Iterable[int]) -> list[Line]:
    """The lines of some partitions; those that are not there have none."""
    there = {number for number in numbers if type(number) is int and 0 <= number < len(topic.partitions)}
    return [topic.lines.setdefault(number, Line()) for number in sorted(there)]
