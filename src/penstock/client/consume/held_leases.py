"""The leases of a consumer whose messages are not settled yet.

No waiting and no I/O; ``receiver.py`` reports deliveries, ``settling.py`` answers.

A program that drops its messages without settling them no longer holds them.  The messages of a lease share
one object (the group's name, ``Holder``), which is collected with the last of them.  Such a lease is no
longer extended; it expires, and the messages are delivered again, as by an embedded broker.
"""

import weakref
from collections.abc import Iterable
from typing import Final

from penstock.model.message import LeaseRun
from penstock.wire.native import Run

FRESH: Final = 2 / 3  # Of the visibility timeout: a lease with more left is not extended.


class Holder(str):
    """The group's name in the messages of one lease; lives as long as one of them."""

    __slots__ = ("__weakref__",)


class HeldLease:
    """The unsettled messages of one lease."""

    __slots__ = ("holder", "left", "until")

    def __init__(self, until: float) -> None:
        self.left = 0
        self.until = until  # When it expires at the server, approximately, on the loop's clock.
        self.holder: weakref.ref[Holder] | None = None

    @property
    def alive(self) -> bool:
        """Whether the program can still settle one of its messages."""
        return self.holder is not None and self.holder() is not None


class HeldLeases:
    """The leases of one consumer."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._leases: dict[tuple[int, int], HeldLease] = {}  # By partition and number.
        self.count = 0  # Messages that are held and not answered.

    def take(self, partition: int, number: int, count: int, until: float) -> str:
        """Add a lease that was delivered; returns the name for its messages.

        A lease may come in several pieces; they share the name.
        """
        lease = self._leases.get((partition, number))
        if lease is None:
            lease = self._leases[partition, number] = HeldLease(until)
        lease.left += count
        self.count += count
        holder = lease.holder() if lease.holder is not None else None
        if holder is None:
            holder = Holder(self._group)
            lease.holder = weakref.ref(holder)
        return holder

    def answer(self, runs: Iterable[LeaseRun]) -> None:
        """Remove messages that were settled in any way."""
        for run in runs:
            key = (run.partition, run.lease)
            lease = self._leases.get(key)
            if lease is None:
                continue  # It was lost with its connection.
            count = min(run.end - run.start, lease.left)
            lease.left -= count
            self.count -= count
            if lease.left == 0:
                del self._leases[key]

    def holds(self, partition: int, number: int) -> bool:
        return (partition, number) in self._leases

    def held(self) -> list[tuple[int, int]]:
        """Partition and number of every lease that the program still holds; the others are forgotten."""
        for key in [key for key, lease in self._leases.items() if not lease.alive]:
            self.lose(key)
        return list(self._leases)

    def to_extend(self, now: float, visibility_s: float) -> list[tuple[int, int]]:
        """Leases that the program still holds and that expire soon."""
        return [key for key in self.held() if self._leases[key].until - now < visibility_s * FRESH]

    def extend(self, keys: Iterable[tuple[int, int]], until: float) -> None:
        """Record that the server has extended these."""
        for key in keys:
            if key in self._leases:
                self._leases[key].until = until

    def lose(self, key: tuple[int, int]) -> None:
        """Remove a lease that the server has ended, or will end."""
        lease = self._leases.pop(key, None)
        if lease is not None:
            self.count -= lease.left

    def clear(self) -> None:
        self._leases.clear()
        self.count = 0


def wire_runs(runs: list[LeaseRun]) -> list[Run]:
    """Runs in their wire form."""
    return [(run.partition, run.lease, run.start, run.end) for run in runs]
