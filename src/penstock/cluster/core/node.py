"""One incarnation of a node: from the start of its process to its end, or to its tombstone.

    run          join (rule 4), seal the predecessor (rule 16), serve until this incarnation is sealed
    commit       commit bytes that were appended to a log
    heard        receive a heartbeat of a peer
    delivers     whether deliveries and reads of a partition are allowed (rule 25)
    move         hand partitions over (rule 20)
    leave        hand everything over and end
    propose      change topics, documents or other metadata

After every metadata entry the node compares the partitions that it owns with those that it has open: it
closes those of others and loads its own.  A partition is served only while the state assigns it to this
node, in the epoch in which it was loaded.

An incarnation is never resumed: when ``run`` returns, the process ends or restarts with another id.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from penstock.clock import Clock
from penstock.cluster.core import agreement, checkpoints, collecting, sealing
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.checkpoints import Checkpoints
from penstock.cluster.core.collecting import Collecting
from penstock.cluster.core.commit import LEASE_MS, RENEW_MS, WINDOW, Commits
from penstock.cluster.core.host import Host
from penstock.cluster.core.loading import Loading
from penstock.cluster.core.metadata import Change, Join, Key, Move, State, Transfer
from penstock.cluster.core.objects import UNKNOWN, Store
from penstock.cluster.core.sealing import Sealing

RETRY_S: Final = 0.1
DRAIN_S: Final = 0.005  # Between two checks whether a partition is drained.


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals and timeouts; a simulation uses shorter ones."""

    heartbeat_s: float = 0.5
    beat_s: float = sealing.BEAT_S
    poll_s: float = agreement.POLL_S
    checkpoint_s: float = checkpoints.INTERVAL_S
    collect_s: float = collecting.INTERVAL_S
    balance_s: float = 30.0  # Moves, not takeovers, wait until the members are stable.


class Heartbeat(msgspec.Struct, frozen=True):
    """The periodic message between nodes."""

    incarnation: str
    confirmed: int  # WAL entries.
    metadata: int  # The number of the next metadata entry, as far as the sender knows.
    carried_out: int = 0  # Its broker has applied the entries below this number.


class _Ended(Exception):  # noqa: N818 - it ends the tasks, and is not an error
    """This incarnation of the node was sealed by another one and must not write any more."""


class Node:
    def __init__(
        self,
        *,
        incarnation: str,
        number: int,
        address: str,
        store: Store,
        clock: Clock,
        random: Random,
        host: Host,
        broadcast: Callable[[Heartbeat], None],
        timing: Timing = Timing(),
        window: int = WINDOW,
        leaving: bool = False,
    ) -> None:
        """``leaving``: it joins only to turn the cluster into a plain data directory."""
        self.incarnation = incarnation
        self.opened: dict[Key, int] = {}  # Partitions that are served, and their epoch.
        self.metadata = MetadataLog(store, random, self._follow)
        self.commits = Commits(incarnation, store, host, clock, random, self._spawn, window)
        self.sealing = Sealing(incarnation, store, self.metadata, clock, random, self._spawn)
        self._number = number
        self._is_leaving = leaving
        self._address = address
        self._clock = clock
        self._host = host
        self._broadcast = broadcast
        self._timing = timing
        self._loading = Loading(incarnation, store, self.metadata, host)
        self._checkpoints = Checkpoints(store, self.metadata, self.commits, host)
        self._collecting = Collecting(incarnation, store)
        self._deliver_ms: dict[Key, int] = {}  # Not before: the previous owner's lease (rule 25).
        self._carried_out: dict[str, int] = {}  # By peer, from its last heartbeat.
        self._members: list[str] = []  # Those alive, and since when.
        self._members_ms = 0
        self.on_carried_out: Callable[[], None] = lambda: None  # When a peer has carried out more.
        self._news = asyncio.Event()  # Set when there are metadata entries to read.
        self._placement = 0  # The last entry of an operator that this node has followed ...
        self._placed = asyncio.Event()  # ... and there is a newer one.
        self._sealed = asyncio.Event()  # Set to write a checkpoint early.
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def state(self) -> State:
        return self.metadata.state

    async def run(self) -> None:
        """Join the cluster and serve until this incarnation is sealed."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    await self._serve()
                finally:
                    self._tasks = None
        except* _Ended:
            pass

    async def _serve(self) -> None:
        await self.metadata.start()
        await self.metadata.propose(self._join)
        for name in self.state.alive():
            if name != self.incarnation and self.state.members[name].node == self._number:
                self.sealing.seal_soon(name)
        for loop in (self._tail, self._beat, self._checkpoint, self._collect, self._balance):
            self._spawn(loop())
        await self.commits.ended.wait()
        raise _Ended

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is not None:
            self._tasks.create_task(work)
        else:
            work.close()  # The process is about to end.

    def _join(self, state: State) -> Join | None:
        if self.incarnation in state.members:
            return None
        return Join(self.incarnation, self._number, self._address, self.metadata.format, self._is_leaving)

    # For the driver and the broker.

    def commit(self) -> None:
        """Something was appended to a log."""
        self.commits.flush()

    def heard(self, beat: Heartbeat) -> None:
        self.sealing.heard(beat.incarnation, beat.confirmed)
        if beat.carried_out > self._carried_out.get(beat.incarnation, 0):
            self._carried_out[beat.incarnation] = beat.carried_out
            self.on_carried_out()
        if beat.metadata > self.state.next:
            self._news.set()

    def is_carried_out(self, number: int) -> bool:
        """Whether the brokers of all live nodes have applied the metadata entries below this number."""
        others = (name for name in self.state.alive() if name != self.incarnation)
        return all(self._carried_out.get(name, 0) >= number for name in others)

    def refresh(self) -> None:
        """Read the metadata log soon: there may be entries that this node has not applied."""
        self._news.set()

    def checkpoint_soon(self) -> None:
        """Write a checkpoint soon, to allow evictions or to shorten a takeover."""
        self._sealed.set()

    @property
    def uncovered(self) -> int:
        """How many WAL entries a takeover of this node would have to read."""
        return self.commits.next - self._checkpoints.cut

    def deliver_from_ms(self, key: Key) -> int:
        """The time until which the lease of the previous owner may last (rule 25)."""
        return self._deliver_ms.get(key, 0)

    def delivers(self, key: Key) -> bool:
        """Whether messages of a partition may be delivered, and reads answered (rule 25)."""
        return (
            key in self.opened
            and self.commits.leased
            and self._clock.steady_ms() >= self._deliver_ms.get(key, 0)
        )

    async def propose(self, make: Callable[[State], Change | None]) -> bool:
        """Append the metadata entry that ``make`` computes from the newest state; False if it was None."""
        made = await self.metadata.propose(make)
        self.tell()
        return made

    # Following the metadata.

    def _follow(self) -> None:
        """Close partitions of others, and load those of this node."""
        state, now_ms = self.state, self._clock.steady_ms()
        me = state.members.get(self.incarnation)
        if me is not None and me.tombstone is not None:
            self.commits.seal(me.tombstone)  # Rule 8.
        for key, epoch in list(self.opened.items()):
            if not state.owns(self.incarnation, key, epoch):
                del self.opened[key]
                self._host.close(key)
        self._host.follow(state)
        if state.alive() != self._members:
            self._members, self._members_ms = state.alive(), now_ms
        if me is None or self.commits.tombstone is not None:
            return
        if state.placement > self._placement:
            self._placement = state.placement
            self._placed.set()
        for key, assigned in state.partitions():
            epoch = assigned.epoch
            if assigned.owner != self.incarnation or self.opened.get(key) == epoch:
                continue
            if self._loading.begin(key, epoch):
                before = assigned.history[-2] if len(assigned.history) > 1 else None
                waits = before is not None and not before.clean
                self._deliver_ms[key] = now_ms + LEASE_MS if waits else 0
                self._spawn(self._load(key, epoch))

    async def _load(self, key: Key, epoch: int) -> None:
        def opened() -> None:
            self.opened[key] = epoch
            if self.state.placement > epoch:
                self._placed.set()  # An operator may have assigned another node in the meantime.
            if not self.state.owns(self.incarnation, key, epoch):
                self._follow()  # It was reassigned while it was being opened.

        await self._loading.load(key, epoch, opened)

    # Loops.

    async def _tail(self) -> None:
        while True:
            self._news.clear()
            try:
                await self.metadata.catch_up()
            except UNKNOWN:
                await asyncio.sleep(RETRY_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.poll_s):
                    await self._news.wait()

    def tell(self) -> None:
        self._broadcast(
            Heartbeat(self.incarnation, self.commits.confirmed, self.state.next, self._host.carried_out)
        )

    async def _beat(self) -> None:
        """Renew the lease, send heartbeats, and watch the peers.

        A node that cannot reach the store sends nothing, so that others take over; and it seals no peers.
        """
        number, beat_ms = 0, 0
        while True:
            now_ms = self._clock.steady_ms()
            if self.commits.lease_ms - now_ms <= RENEW_MS:
                await self.commits.renew()
            if self.commits.leased:
                self.tell()
            if now_ms - beat_ms >= self._timing.beat_s * 1000:
                number, beat_ms = number + 1, now_ms
                with suppress(*UNKNOWN):
                    await self.sealing.beat(number, self.commits.confirmed)
            await self.sealing.look(self.commits.leased)
            await asyncio.sleep(self._timing.heartbeat_s)

    async def _checkpoint(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.checkpoint_s):
                    await self._sealed.wait()
            sealed = self._sealed.is_set()
            self._sealed.clear()
            await self._checkpoints.write(dict(self.opened), sealed)
            self.tell()

    async def _collect(self) -> None:
        snapshot = self.state.next
        while True:
            await asyncio.sleep(self._timing.collect_s)
            with suppress(*UNKNOWN):
                await self._collecting.collect(self.state, self._checkpoints.uploading)
                if self.state.alive()[:1] == [self.incarnation]:
                    snapshot = await self.metadata.write_snapshot(snapshot)

    async def _balance(self) -> None:
        """Move partitions to their favourites: once the members are stable, or on an operator's request."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.balance_s):
                    await self._placed.wait()
            placed = self._placed.is_set()
            self._placed.clear()
            stable_ms = self._clock.steady_ms() - self._members_ms
            if placed or stable_ms >= self._timing.balance_s * 1000:
                wanted = {key: self.state.favourite(key) or self.incarnation for key in self.opened}
                await self.move({key: to for key, to in wanted.items() if to != self.incarnation})

    # Handing over.

    async def move(self, targets: dict[Key, str]) -> None:
        """Hand partitions that are open here over to their favourites, if these are unchanged (rule 20)."""
        moving = {key: self.opened[key] for key in targets if key in self.opened}
        if not moving or not await self._drain(moving):
            return

        def make(state: State) -> Move | None:
            transfers = [
                Transfer(*key, epoch, targets[key])
                for key, epoch in moving.items()
                if state.owns(self.incarnation, key, epoch) and state.favourite(key) == targets[key]
            ]
            ended = self.commits.tombstone is not None
            return (
                Move(self.incarnation, self.commits.confirmed, transfers) if transfers and not ended else None
            )

        await self.propose(make)
        for key, epoch in moving.items():
            if self.opened.get(key) == epoch:
                self._host.resume(key, epoch)

    async def leave(self) -> None:
        """Hand everything over and end this incarnation: one tombstone, one entry; ``run`` returns then.

        Appends after the drain, to a partition that was opened in the meantime, are rejected: behind a
        growing WAL the tombstone might never find a free name.
        """
        await self._drain(dict(self.opened))
        self.commits.closed = True
        await self.commits.reached(self.commits.next)
        self.sealing.heard(self.incarnation, self.commits.confirmed)  # Where the tombstone belongs.
        await self.sealing.seal(self.incarnation, self._has_stopped)
        self.tell()

    def _has_stopped(self, state: State) -> bool:
        """Whether no partition of this node is delivered any more, by it or by previous owners.

        A partition that is being loaded may be opened before this node knows that the entry was written.
        """
        now_ms = self._clock.steady_ms()
        return all(
            self._deliver_ms.get(key, 0) <= now_ms
            and not self._host.serves(key)
            and not self._loading.is_running(key)
            for key, assigned in state.partitions()
            if assigned.owner == self.incarnation
        )

    async def _drain(self, moving: dict[Key, int]) -> bool:
        """Accept nothing more for these partitions, and wait until all their data is confirmed.

        Also wait for the lease of their previous owner: the next one will not, since this one has stopped.
        """
        for key in moving:
            wait_ms = self._deliver_ms.get(key, 0) - self._clock.steady_ms()
            await asyncio.sleep(max(wait_ms, 0) / 1000)
        for key, epoch in moving.items():
            if self.opened.get(key) == epoch:
                self._host.stop(key)
        while not all(self._host.drained(key) for key in moving if self.opened.get(key) == moving[key]):
            self.commits.flush()
            if not await self.commits.reached(self.commits.next):
                return False
            await asyncio.sleep(DRAIN_S)
        return True
