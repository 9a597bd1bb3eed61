"""Commit rounds: everything that was appended goes into the store as one WAL entry, and is then acknowledged.

    appended --pack--> outstanding (at most ``window``) --decide--> confirmed, strictly in sequence (rule 6)
                                    └── a tombstone has the name --> rejected, with all that follows (rule 7)

Packing has no await, so an entry is consistent over all logs, and sequence numbers are dense (rule 5).
When a name turns out to hold a tombstone, the entries below it have been resolved; that one, the later
ones and everything not packed are definitely not written.  The same holds if the metadata say that this
incarnation is sealed (rule 8): then nothing more is packed, and the entries below the tombstone are
resolved first.

The lease (rule 25): a confirmed entry proves that no tombstone stood below it when its create began, so
reads and deliveries are allowed for ``LEASE_MS`` from then on.  Without traffic ``renew`` asks the store
instead: the next name is missing, so nobody has sealed this incarnation.  A successor waits as long
before it delivers.

Cost: one create per round.  With a window of 1 a round takes as long as the store; more are for slow
stores.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from penstock.clock import Clock
from penstock.cluster.core.host import Host, Packed
from penstock.cluster.core.objects import RETRY_S, UNKNOWN, Store, decide, wal_name
from penstock.cluster.core.wal import ENTRY_BYTES_MAX, encode_entry

LEASE_MS: Final = 2000
WINDOW: Final = 1  # Entries outstanding; more for stores that take long (rule 5).


class Round:
    """A WAL entry on its way."""

    def __init__(self, sequence: int, packed: Packed, began_ms: int) -> None:
        self.sequence = sequence
        self.packed = packed
        self.began_ms = began_ms
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
        self.next = 0  # The sequence of the next entry.
        self.confirmed = 0  # All entries below are confirmed.
        self.tombstone: int | None = None  # This incarnation is sealed there.
        self.ended = asyncio.Event()  # Sealed, and every entry is resolved: the process must end.
        self.lease_ms = 0  # Reads and deliveries are allowed until then, by the steady clock.
        self._store = store
        self._host = host
        self._clock = clock
        self._random = random
        self._spawn = spawn
        self._window = window
        self._rounds: deque[Round] = deque()
        self._moved: list[asyncio.Future[None]] = []  # Those who wait for ``confirmed``.

    def flush(self) -> None:
        """Something was appended: pack it, if another entry may be outstanding."""
        while self.tombstone is None and len(self._rounds) < self._window:
            packed = self._host.pack(ENTRY_BYTES_MAX)
            if packed is None:
                return
            entry = Round(self.next, packed, self._clock.steady_ms())
            data = encode_entry(f"{self._random.getrandbits(64):016x}", packed.parts)
            self.next += 1
            self._rounds.append(entry)
            self._spawn(self._commit(entry, data))

    async def _commit(self, entry: Round, data: bytes) -> None:
        entry.ours = await decide(self._store, wal_name(self.incarnation, entry.sequence), data)
        self._settle()

    def _settle(self) -> None:
        """Answer what is decided, in order (rule 6)."""
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
        self._host.confirm(entry.packed)

    def seal(self, tombstone: int | None) -> None:
        """A tombstone stands at that sequence: end when the entries below it are resolved (rules 7, 8)."""
        if tombstone is None or self.ended.is_set():
            return
        self.tombstone = tombstone
        if self.confirmed >= tombstone or not self._rounds:
            self._rounds.clear()
            self.ended.set()
            self._host.reject()
            self._wake()

    def _extend_lease(self, began_ms: int) -> None:
        self.lease_ms = max(self.lease_ms, began_ms + LEASE_MS)

    @property
    def leased(self) -> bool:
        """May this node answer reads and deliver messages (rule 25)?"""
        return not self.ended.is_set() and self._clock.steady_ms() < self.lease_ms

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
        elif sequence == self.next:  # We have not put anything there, so somebody has sealed us.
            self.seal(sequence)

    async def verify(self) -> bool:
        """Whether nobody had sealed this incarnation at some time after the call.

        For a refusal that follows from what this node has, such as a sequence number that is out of order: an
        owner that was replaced without knowing it has an old state, and must answer that it is not the owner.
        """
        began_ms = self._clock.steady_ms()
        while not self.ended.is_set() and self.lease_ms < began_ms + LEASE_MS:
            await self.renew()
            await asyncio.sleep(RETRY_S)
        return not self.ended.is_set()

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
