"""Commit rounds: all appended bytes go into the store as one WAL entry, and are then acknowledged.

    appended --pack--> outstanding (at most ``window``) --decide--> confirmed, strictly in sequence (rule 6)
                                    └── a tombstone has the name --> rejected, with all that follows (rule 7)

Packing has no await, so a round is consistent over all logs, and sequence numbers are dense (rule 5).  A
round that is too large for one object is several entries, one after the other; it is confirmed with the
last one, and ignored without it.  When a name turns out to hold a tombstone, the entries below it have been
resolved; that entry, later ones and everything not packed were definitely not written.  The same holds if
the metadata say that this incarnation is sealed (rule 8): then nothing more is packed, and the entries
below the tombstone are resolved first.

The lease (rule 25): a confirmed entry proves that no tombstone stood below it when its create began, so
reads and deliveries are allowed for ``LEASE_MS`` from then on.  Without traffic ``renew`` asks the store
instead: the next name is missing, so nobody has sealed this incarnation.  A successor waits as long
before it delivers.

Cost: one create per round.  With a window of 2 the node answers the requests of one round, and reads the
next ones, while the store writes another; with a larger window rounds are smaller, and their creates cost
more than they save.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from penstock.clock import Clock
from penstock.cluster.core.host import Host, Packed
from penstock.cluster.core.objects import UNKNOWN, Store, decide, wal_name
from penstock.cluster.core.wal import encode_entries

LEASE_MS: Final = 2000
RENEW_MS: Final = 600  # An idle node renews its lease when less than this remains.
WINDOW: Final = 2  # Entries outstanding (rule 5); docs/benchmarks/cluster.md has others.


class Round:
    """A WAL entry in flight: a whole round, or a part of one."""

    def __init__(self, sequence: int, data: bytes, packed: Packed | None) -> None:
        self.sequence = sequence
        self.data = data
        self.packed = packed  # Confirmed with this entry; None: it is not the last part.
        self.began_ms = 0  # When it was sent first.
        self.ours: bool | None = None  # Whether the name holds our bytes; None: not known yet.


class Commits:
    """The WAL of this incarnation."""

    def __init__(
        self,
        incarnation: str,
        store: Store,
        host: Host,
        clock: Clock,
        random: Random,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        window: int = WINDOW,
    ) -> None:
        self.incarnation = incarnation
        self.next = 0  # The sequence of the next round.
        self.confirmed = 0  # All entries below are confirmed.
        self.tombstone: int | None = None  # This incarnation is sealed there.
        self.closed = False  # Nothing more is packed: this incarnation is ending itself.
        self.ended = asyncio.Event()  # Sealed, and every entry is resolved: the process must end.
        self.lease_ms = 0  # Reads and deliveries are allowed until then, by the steady clock.
        self._store = store
        self._host = host
        self._clock = clock
        self._random = random
        self._spawn = spawn
        self._window = window
        self._packed: deque[Round] = deque()  # Not sent yet: parts of one round.
        self._rounds: deque[Round] = deque()
        self._moved: list[asyncio.Future[None]] = []  # Waiters for ``confirmed``.
        self._renewing = False

    def flush(self) -> None:
        """Pack appended bytes, if the window allows another outstanding entry."""
        while self.tombstone is None and len(self._rounds) < self._window:
            if not self._packed and not self.closed:
                self._pack()
            if not self._packed:
                return
            entry = self._packed.popleft()
            entry.began_ms = self._clock.steady_ms()
            self._rounds.append(entry)
            self._spawn(self._commit(entry))

    def _pack(self) -> None:
        """Take all appended bytes as one round, in as many entries as it needs."""
        packed = self._host.pack()
        if packed is not None:
            nonce = f"{self._random.getrandbits(64):016x}"
            parts = encode_entries(nonce, packed.parts, self._store.object_bytes_max)
            for number, data in enumerate(parts, 1):
                self._packed.append(Round(self.next, data, packed if number == len(parts) else None))
                self.next += 1

    async def _commit(self, entry: Round) -> None:
        entry.ours = await decide(self._store, wal_name(self.incarnation, entry.sequence), entry.data)
        self._settle()

    def _settle(self) -> None:
        """Confirm or reject resolved rounds, in order (rule 6)."""
        while self._rounds and self._rounds[0].ours:
            self._confirm(self._rounds.popleft())
        if self._rounds and self._rounds[0].ours is False:
            self.seal(self._rounds[0].sequence)
        self._wake()
        self.seal(self.tombstone)
        self.flush()

    def _confirm(self, entry: Round) -> None:
        self.confirmed = entry.sequence + 1
        self._extend_lease(entry.began_ms)
        if entry.packed is not None:
            self._host.confirm(entry.packed)

    def seal(self, tombstone: int | None) -> None:
        """A tombstone has that sequence: end when the entries below it are resolved (rules 7, 8)."""
        if tombstone is None or self.ended.is_set():
            return
        self.tombstone = tombstone
        if self.confirmed >= tombstone or not self._rounds:
            self._rounds.clear()
            self._packed.clear()
            self.lease_ms = 0
            self.ended.set()
            self._host.reject()
            self._wake()

    def _extend_lease(self, began_ms: int) -> None:
        if not self.ended.is_set():
            self.lease_ms = max(self.lease_ms, began_ms + LEASE_MS)

    @property
    def leased(self) -> bool:
        """Whether this node may answer reads and deliver messages (rule 25)."""
        return self._clock.steady_ms() < self.lease_ms

    async def renew(self) -> None:
        """Renew the lease of an idle node, or find the tombstone."""
        if self._rounds or self.tombstone is not None:
            return
        began_ms, sequence = self._clock.steady_ms(), self.next
        try:
            found = await self._store.get(wal_name(self.incarnation, sequence))
        except UNKNOWN:
            return
        if found is None:
            self._extend_lease(began_ms)
        elif sequence == self.next:  # Not created by this incarnation, so another node has sealed it.
            self.seal(sequence)

    def renew_soon(self) -> None:
        """Run ``renew`` in a separate task."""
        if not self._renewing:
            self._renewing = True
            self._spawn(self._renew())

    async def _renew(self) -> None:
        try:
            await self.renew()
        finally:
            self._renewing = False

    async def reached(self, sequence: int) -> bool:
        """Wait until all entries below ``sequence`` are confirmed; False if the incarnation ends before."""
        while self.confirmed < sequence and not self.ended.is_set():
            moved = asyncio.get_running_loop().create_future()
            self._moved.append(moved)
            await moved
        return self.confirmed >= sequence

    def _wake(self) -> None:
        moved, self._moved = self._moved, []
        for future in moved:
            if not future.done():
                future.set_result(None)
