"""Operations that take turns: one at a time, in the order in which they came.

    with Turn(state, [queue]) as turn:
        yield from turn.wait()
        ...                          # until here it is the first in the queue

For an operation that waits in the middle of something that no other operation may do meanwhile: changing the
partitions or groups of a topic, appending to a partition, and work in a thread of which one is enough.

A turn takes its places in all its queues at once, so no two turns wait for each other.
"""

from collections import deque
from typing import Final, Protocol, Self

from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.clock import Clock
from penstock.errors import Closed

LOOK_MS: Final = 60_000  # A turn that ends wakes the next one; this is for a wake-up that got lost.


class Open(Protocol):
    """What a turn needs to know of the broker's state."""

    clock: Clock
    closed: bool
    awaited: set[Waiter]


class Turn:
    """One operation's positions in queues, which must be given up in any case, by ``with`` or ``end``."""

    def __init__(self, state: Open, queues: "list[deque[Turn]]") -> None:
        self.waiters: dict[Waiter, None] = {}
        self._state = state
        self._queues = queues
        for queue in queues:
            queue.append(self)

    def wait(self) -> Steps[None]:
        """Wait until this turn is the first in all its queues."""
        try:
            while any(queue[0] is not self for queue in self._queues):
                if self._state.closed:
                    raise Closed(what="broker")
                self._state.awaited.add(self)
                yield Arrival(self, self._state.clock.steady_ms() + LOOK_MS)
        finally:
            self._state.awaited.discard(self)

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()

    def end(self) -> None:
        """Let the next operations have their turn."""
        for queue in self._queues:
            queue.remove(self)
            if queue:
                queue[0].wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
