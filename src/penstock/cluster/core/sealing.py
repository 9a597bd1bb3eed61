"""Detects failed incarnations, and seals their WALs.

Every node sends heartbeats to its peers (the driver calls ``heard``), and reports its progress in an object
every ``BEAT_S``.  An incarnation is suspected when this node has not heard it for ``SUSPECT_MS`` by its own
steady clock, and its WAL has not advanced in that time (rule 13).  A node that hears none of several peers
is probably cut off itself: it relies only on the object, and waits for ``ISOLATED_MS``.

Sealing (rule 14) puts a tombstone at the first free name of the WAL, and then writes ``Fence``, whose
``apply`` gives the partitions to others (rule 15).  Any number of nodes may do so at once: they all find
the same first tombstone.  A wrong suspicion costs availability, never data: the conditional write decides
(rule 16).

Cost: one create and one metadata entry; a search from the last known sequence, one request per entry
beyond it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

import msgspec

from penstock.clock import Clock
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.metadata import Fence, State
from penstock.cluster.core.objects import UNKNOWN, Store, beat_name, unwrap, wal_name, wrap
from penstock.cluster.core.wal import decode_entry, encode_tombstone

BEAT_S: Final = 10.0
SUSPECT_MS: Final = 3000  # Of silence, if the machine is gone; ...
REFUSED_MS: Final = 500  # ... if it refuses connections, because the process is gone.
ISOLATED_MS: Final = 25_000
RETRY_S: Final = 0.1
LOOK_AHEAD: Final = 8  # Names of a WAL that are checked together.


class Beat(msgspec.Struct):
    """The progress report of an incarnation."""

    number: int
    confirmed: int


class _Watch:
    """The state of a peer as this node has observed it."""

    def __init__(self, now_ms: int) -> None:
        self.heard_ms = now_ms  # A heartbeat, or an entry in its WAL.
        self.direct_ms = now_ms  # A heartbeat.
        self.beat = Beat(0, 0)
        self.confirmed = 0
        self.refused = False

    def silent(self, now_ms: int) -> bool:
        return now_ms - self.heard_ms >= (REFUSED_MS if self.refused else SUSPECT_MS)


class Sealing:
    def __init__(
        self,
        incarnation: str,
        store: Store,
        metadata: MetadataLog,
        clock: Clock,
        random: Random,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.incarnation = incarnation
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._random = random
        self._spawn = spawn
        self._watches: dict[str, _Watch] = {}
        self._sealing: set[str] = set()

    # Suspicion.

    def heard(self, incarnation: str, confirmed: int) -> None:
        """Receive a heartbeat from a peer."""
        watch = self._watch(incarnation)
        watch.heard_ms = watch.direct_ms = self._clock.steady_ms()
        watch.refused = False
        watch.confirmed = max(watch.confirmed, confirmed)

    def refused(self, incarnation: str) -> None:
        """A connection to a peer broke, and it does not accept another one."""
        self._watch(incarnation).refused = True

    def _watch(self, incarnation: str) -> _Watch:
        if incarnation not in self._watches:
            self._watches[incarnation] = _Watch(self._clock.steady_ms())
        return self._watches[incarnation]

    async def beat(self, number: int, confirmed: int) -> None:
        """Write this incarnation's own report."""
        data = wrap("beat", msgspec.json.encode(Beat(number, confirmed)))
        await self._store.overwrite(beat_name(self.incarnation), data)

    async def look(self, connected: bool) -> None:
        """Seal failed peers; none if this node has not reached the store itself."""
        state, now_ms = self._metadata.state, self._clock.steady_ms()
        peers = [name for name in state.alive() if name != self.incarnation]
        for gone in self._watches.keys() - set(peers):
            del self._watches[gone]
        watches = {name: self._watch(name) for name in peers}
        if not connected:
            for watch in watches.values():
                watch.heard_ms = now_ms
        heard = any(now_ms - watch.direct_ms < SUSPECT_MS for watch in watches.values())
        patience_ms = 0 if heard or len(peers) < 2 else ISOLATED_MS
        for name, watch in watches.items():
            if watch.silent(now_ms) and now_ms - watch.heard_ms >= patience_ms:
                silent = not await self._advanced(name, watch)
                if silent and watch.silent(self._clock.steady_ms()):
                    self.seal_soon(name)

    async def _advanced(self, name: str, watch: _Watch) -> bool:
        """Whether a silent peer has reported or committed anything since the last check (rule 13)."""
        try:
            beat = await self._read_beat(name)
            before = sequence = max(watch.confirmed, beat.confirmed)
            while all(ahead := await self._are_committed(name, sequence)):
                sequence += LOOK_AHEAD
            sequence += ahead.index(False)
        except UNKNOWN:
            return True  # The store cannot be reached, which says nothing about the peer.
        # Counted apart: a heartbeat may have come during a request, and the end must not be looked for above
        # a free name.
        watch.confirmed = max(watch.confirmed, sequence)
        if sequence == before and beat.number == watch.beat.number:
            return False
        watch.beat = beat
        watch.heard_ms = self._clock.steady_ms()
        return True

    async def _are_committed(self, incarnation: str, sequence: int) -> list[bool]:
        """Whether the next ``LOOK_AHEAD`` names of a WAL have an entry that is not a tombstone."""
        names = [wal_name(incarnation, sequence + number) for number in range(LOOK_AHEAD)]
        found = await asyncio.gather(*[self._store.get(name) for name in names])
        pairs = zip(names, found, strict=True)
        return [data is not None and not decode_entry(name, data).tombstone for name, data in pairs]

    async def _read_beat(self, name: str) -> Beat:
        data = await self._store.get(beat_name(name))
        if data is None:
            return Beat(0, 0)
        return msgspec.json.decode(unwrap("beat", name, data), type=Beat)

    # Sealing.

    def seal_soon(self, incarnation: str) -> None:
        """Seal an incarnation, unless that is in progress."""
        if incarnation not in self._sealing and self._metadata.state.is_alive(incarnation):
            self._sealing.add(incarnation)
            self._spawn(self.seal(incarnation))

    async def seal(self, incarnation: str, clean: Callable[[State], bool] = lambda _: False) -> None:
        """Create the tombstone, then propose the fence; repeat if the floor has passed the tombstone."""
        while self._metadata.state.is_alive(incarnation):
            end = await self._put_tombstone(incarnation)

            def fence(state: State, end: int = end) -> Fence | None:
                if not state.is_alive(incarnation) or end < state.members[incarnation].floor:
                    return None
                return Fence(incarnation, end, clean(state))

            await self._metadata.propose(fence)
        self._sealing.discard(incarnation)

    async def _put_tombstone(self, incarnation: str) -> int:
        """The end of the WAL: the first tombstone at or above the floor (rule 14).

        Entries below the floor, and below the confirmed sequence that the incarnation reported, exist or
        existed.
        """
        data = encode_tombstone(f"{self.incarnation}-{self._random.getrandbits(64):016x}")
        sequence = self._watch(incarnation).confirmed
        while True:
            floor = self._metadata.state.members[incarnation].floor
            sequence = max(sequence, floor)
            name = wal_name(incarnation, sequence)
            try:
                if await self._store.create(name, data):
                    return sequence
                found = await self._store.get(name)
            except UNKNOWN:
                await asyncio.sleep(RETRY_S)
                continue
            if found is None:  # Collected: the floor is higher now.
                await self._catch_up()
            elif decode_entry(name, found).tombstone:
                return sequence
            else:
                sequence += 1

    async def _catch_up(self) -> None:
        try:
            await self._metadata.catch_up()
        except UNKNOWN:
            await asyncio.sleep(RETRY_S)
