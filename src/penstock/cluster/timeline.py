"""Measures how long partitions take to open after they were assigned to this node.

All partitions that one metadata entry gives to this node are one ``Takeover``: after a failure, a planned
move, or a start.  New partitions of a new topic have no previous owner and are not counted.
"""

from collections import deque
from typing import Final

from penstock.clock import Clock
from penstock.cluster.core.metadata import Key, State
from penstock.model.cluster import Takeover

KEPT_MAX: Final = 20


class Timeline:
    def __init__(self, node: int, clock: Clock) -> None:
        self.counts = {True: 0, False: 0}  # Finished takeovers, by whether they were clean.
        self._node = node
        self._clock = clock
        self._running: dict[tuple[int, str], _Running] = {}  # By epoch and previous owner.
        self._ended: deque[Takeover] = deque(maxlen=KEPT_MAX)

    def begin(self, key: Key, epoch: int, state: State) -> None:
        """A partition was assigned to this node, and is being loaded."""
        assigned = state.partition(key)
        if assigned is None or assigned.epoch != epoch or len(assigned.history) < 2:
            return
        before = assigned.history[-2]
        place = epoch, before.incarnation
        if place not in self._running:
            member = state.members.get(before.incarnation)
            self._running[place] = _Running(
                0 if member is None else member.node,
                before.clean,
                self._clock.wall_ms(),
                self._clock.steady_ms(),
            )
        self._running[place].left.add(key)

    def end(self, key: Key, *, opened: bool) -> None:
        """The partition is open, or this node no longer owns it."""
        for place, running in list(self._running.items()):
            if key in running.left:
                running.left.discard(key)
                running.opened += opened
                if not running.left:
                    self._close(place)

    def _close(self, place: tuple[int, str]) -> None:
        running = self._running.pop(place)
        if running.opened:
            self.counts[running.clean] += 1
            self._ended.appendleft(
                Takeover(
                    at_ms=running.wall_ms,
                    node=self._node,
                    previous=running.previous,
                    clean=running.clean,
                    partitions=running.opened,
                    duration_ms=self._clock.steady_ms() - running.steady_ms,
                )
            )

    def takeovers(self) -> list[Takeover]:
        """The last takeovers, newest first."""
        return list(self._ended)


class _Running:
    def __init__(self, previous: int, clean: bool, wall_ms: int, steady_ms: int) -> None:
        self.previous = previous
        self.clean = clean
        self.wall_ms = wall_ms
        self.steady_ms = steady_ms
        self.left: set[Key] = set()
        self.opened = 0
