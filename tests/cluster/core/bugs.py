"""Planted bugs: each is a small change of the core, or of the model, that the simulator has to find.

``BUGS`` says for each one what it replaces, and within how many seeds it is found (``seeds``).
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from tests.cluster.core.model import ModelHost, PackedSlices

from penstock.broker import core
from penstock.broker.journal.intents import Intents
from penstock.broker.journal.ledger import Ledger
from penstock.broker.kafka.participants import Participants
from penstock.broker.kafka.transactions import Transactions
from penstock.broker.maintenance.maintenance import Maintenance
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.staged import Placing
from penstock.broker.state import Partition, Topic
from penstock.broker.state import State as BrokerState
from penstock.broker.steps import Steps
from penstock.broker.stream.commits import OffsetCommits
from penstock.cluster import hosting
from penstock.cluster.core import commit, loading
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.checkpoints import Checkpoints
from penstock.cluster.core.collecting import Collecting
from penstock.cluster.core.commit import Commits, Round
from penstock.cluster.core.host import Part
from penstock.cluster.core.loading import Loading
from penstock.cluster.core.metadata import Assigned, Checkpoint, Covered, Fence, Key, Range, State
from penstock.cluster.core.node import Node
from penstock.cluster.core.objects import UNKNOWN, Store, number_of, wal_name
from penstock.cluster.core.sealing import Sealing
from penstock.cluster.core.wal import ENTRY_BYTES_MAX, decode_entry, encode_entries, encode_tombstone
from penstock.cluster.hosting import BrokerHost
from penstock.cluster.lease import ClusterLease
from penstock.cluster.registry import ClusterRegistry
from penstock.cluster.routing import router
from penstock.log.segment import SegmentInfo
from penstock.operations.call import IDEMPOTENT
from penstock.schedule import schedule
from penstock.schedule.recovery import Replay
from penstock.wire.records import number_batch


class Bug(NamedTuple):
    seeds: int  # It is found within so many.
    changes: list[tuple[Any, str, Any]]  # Where, which name, and by what it is replaced.
    real: bool = False  # It is in the broker, and not in the cluster core.
    programs: bool = False  # Programs find it.


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run with a bug; without one if there is no name."""
    changes = BUGS[name].changes if name is not None else []
    before = [(where, what, where.__dict__[what]) for where, what, _ in changes]
    for where, what, instead in changes:
        setattr(where, what, instead)
    try:
        yield
    finally:
        for where, what, original in before:
            setattr(where, what, original)


# Commit.


async def ack_before_create(self: Commits, entry: Round) -> None:
    if entry.packed is not None:
        self._host.confirm(entry.packed)
    await commit_round(self, entry)


commit_round = Commits._commit


async def next_after_unknown(self: Commits, entry: Round) -> None:
    """Gives up a name without an answer, and puts the same round under the next one."""
    try:
        entry.ours = await self._store.create(wal_name(self.incarnation, entry.sequence), entry.data)
    except UNKNOWN:
        again = Round(self.next, entry.data, entry.packed)
        self.next += 1
        self._rounds.append(again)
        entry.packed = PackedSlices()
        entry.ours = True
        self._settle()
        await next_after_unknown(self, again)
    else:
        if not entry.ours:
            await commit_round(self, entry)
        self._settle()


async def exists_is_success(store: Store, name: str, data: bytes) -> bool:
    while True:
        try:
            await store.create(name, data)
        except UNKNOWN:
            await asyncio.sleep(0.05)
        else:
            return True


async def unknown_is_success(store: Store, name: str, data: bytes) -> bool:
    try:
        return await store.create(name, data) or await store.get(name) == data
    except UNKNOWN:
        return True


def out_of_order(self: Commits) -> None:
    for entry in list(self._rounds):
        if entry.ours and entry.packed is not None:
            self._host.confirm(entry.packed)
    settle(self)


settle = Commits._settle


async def repack_on_retry(self: Commits, entry: Round) -> None:
    """Adds what came meanwhile to a round that is tried again, and takes any entry of ours for the answer."""
    name = wal_name(self.incarnation, entry.sequence)
    while entry.ours is None:
        try:
            if await self._store.create(name, entry.data):
                entry.ours = True
            else:
                found = await self._store.get(name)
                entry.ours = None if found is None else not decode_entry(name, found).tombstone
        except UNKNOWN:
            await asyncio.sleep(0.05)
            small = self._store.object_bytes_max < ENTRY_BYTES_MAX
            more = self._host.pack() if entry.packed is not None and not small else None
            if entry.packed is not None and more is not None:
                entry.packed.parts.extend(more.parts)
                entry.packed.ends.extend(more.ends)  # type: ignore[attr-defined]
                [entry.data] = encode_entries("nonce", entry.packed.parts, ENTRY_BYTES_MAX)
    self._settle()


def ignore_fence(self: Commits, tombstone: int | None) -> None:
    """Goes on until an entry of its own is refused."""
    if self._rounds and self._rounds[0].ours is False:
        seal(self, tombstone)


seal = Commits.seal


def confirm_first_part(self: Commits) -> None:
    """Acknowledges a round with its first entry."""
    before = len(self._packed)
    pack_round(self)
    entries = list(self._packed)[before:]
    if len(entries) > 1:
        entries[0].packed, entries[-1].packed = entries[-1].packed, None


pack_round = Commits._pack


def read_always(self: BrokerState, name: Any, number: Any = None) -> Any:
    return self.topic(name)


def answer_at_once(self: ClusterLease) -> Steps[bool]:
    """Lets a former owner refuse sequence numbers."""
    yield from ()
    return True


def deliver_always(self: Node, key: Key) -> bool:
    return key in self.opened


# Sealing.


async def no_tombstone(self: Sealing, incarnation: str) -> int:
    sequence = self._metadata.state.members[incarnation].floor
    while True:
        try:
            if await self._store.get(wal_name(incarnation, sequence)) is None:
                return sequence
            sequence += 1
        except UNKNOWN:
            await asyncio.sleep(0.05)


async def tombstone_above(self: Sealing, incarnation: str) -> int:
    """Begins above the first free name: another sealer, or the incarnation itself, may use that one."""
    self._watch(incarnation).confirmed += 1
    return await put_tombstone(self, incarnation)


put_tombstone = Sealing._put_tombstone


async def second_tombstone(self: Sealing, incarnation: str, start: int | None = None) -> int:
    """Walks over the tombstone of another sealer."""
    data = encode_tombstone(self.incarnation)
    sequence = self._metadata.state.members[incarnation].floor if start is None else start
    while True:
        try:
            if await self._store.create(wal_name(incarnation, sequence), data):
                return sequence
            sequence += 1
        except UNKNOWN:
            await asyncio.sleep(0.05)


async def seal_from_zero(self: Sealing, incarnation: str, clean: Any = None) -> None:
    """Takes a tombstone at a name that was deleted for the end."""
    if self._metadata.state.is_alive(incarnation):
        end = await second_tombstone(self, incarnation, 0)
        await self._metadata.propose(
            lambda state: Fence(incarnation, end) if state.is_alive(incarnation) else None
        )
    self._sealing.discard(incarnation)


def fence_anywhere(self: State, fence: Fence, number: int) -> bool:
    if self.is_alive(fence.incarnation):
        self.members[fence.incarnation].floor = 0
    return fence_(self, fence, number)


fence_ = State._fence


# Metadata.


def reused_epoch(self: State, key: Key, assigned: Assigned, number: int, to: str | None = None) -> None:
    assign(self, key, assigned, 1, to)


assign = State._assign


def any_checkpoint(self: State, checkpoint: Checkpoint) -> bool:
    """Takes a checkpoint of whoever was the owner once."""
    for each in checkpoint.covered:
        assigned = self.topics[each.topic].partitions[each.partition]
        if assigned.owner is not None:
            assigned.base = each.base
            assigned.history = [Range(assigned.owner, assigned.epoch, assigned.history[-1].start)]
    self._raise_floors(checkpoint.incarnation, checkpoint.confirmed)
    return True


# Loading.


async def no_history(self: Loading, key: Key, load: loading._Load, each: Range) -> None:
    """Serves before the ranges are loaded."""


# Checkpoints and deletions.


def uncommitted_cut(self: ModelHost, key: Key) -> list[Any]:
    """Has what is not packed yet, too."""
    partition = self.partitions[key]
    packed, partition.packed = partition.packed, {log: len(items) for log, items in partition.logs.items()}
    try:
        return cut(self, key)
    finally:
        partition.packed = packed


cut = ModelHost.cut


def late_checkpoint(
    self: Checkpoints, state: State, cut: int, partitions: dict[Key, int], bases: dict[Key, Any]
) -> Checkpoint:
    covered = [Covered(*key, epoch, cut, bases[key]) for key, epoch in partitions.items() if key in bases]
    return Checkpoint(self._commits.incarnation, cut, covered)


async def trim_early(self: Checkpoints, key: Key, parts: Any) -> Any:
    """Deletes the WAL before the metadata say that the checkpoint covers it."""
    for sequence in range(max(self._commits.confirmed - 20, 0), self._commits.confirmed):
        try:
            await self._store.delete(wal_name(self._commits.incarnation, sequence))
        except UNKNOWN:
            break
    return await upload(self, key, parts)


upload = Checkpoints._upload


async def delete_tombstone(self: Collecting, sealed: dict[str, tuple[int, int]], used: set[str]) -> None:
    await collect_sealed(self, sealed, used)
    for name, (floor, tombstone) in sealed.items():
        if floor == tombstone:
            await self._store.delete(wal_name(name, tombstone))


collect_sealed = Collecting._collect_sealed


async def delete_metadata(self: MetadataLog, written: int) -> int:
    """Deletes metadata entries that a snapshot covers."""
    newest = await write_snapshot(self, written)
    for name in list(await self._store.list("meta/")):
        if number_of(name) < newest:
            await self._store.delete(name)
    return newest


write_snapshot = MetadataLog.write_snapshot


async def no_drain(self: Node, moving: dict[Key, int]) -> bool:
    """Hands over without waiting for what is on its way."""
    for key in moving:
        self._host.stop(key)
    return True


# The broker.


def outbox_early(self: Publishing, partition: Partition) -> Steps[None]:
    """Publishes outputs before the journal that promises them is committed."""
    steps = drain_outbox(self, partition)
    if next(steps, None) is not None:
        yield from steps


drain_outbox = Publishing.drain_outbox


def forgetful_snapshot(self: Maintenance, partition: Partition) -> Steps[bool]:
    """Forgets outputs that are on their way."""
    waiting, partition.outbox = partition.outbox, deque()
    steps = snapshot(self, partition)
    wanted = next(steps, None)
    partition.outbox = waiting
    if wanted is None:
        return True
    yield wanted
    return (yield from steps)


snapshot = Maintenance._snapshot


def any_coordinator(self: ClusterRegistry, group: str, epoch: int) -> None:
    """Stores offsets of a coordinator that was replaced."""


# Schedules, deduplication and transactions.


def nothing_fired(*_: Any) -> list[Any]:
    """Has what was published when its time came wait again after a takeover."""
    return []


def ignore_fired(self: Replay, record: Any) -> None: ...


def forget_ids(*_: Any) -> None:
    """A new owner does not know the dedup ids of the one before."""


def ignore_decided(self: Transactions, partition: Partition) -> None:
    """A new coordinator does not go on with what was decided."""
    self._partitioned[partition.number] = Ledger(partition.log, self._state.clock), partition.epoch


def abort_decided(self: Transactions, partition: Partition) -> None:
    """A new coordinator aborts what was to be committed."""
    ignore_decided(self, partition)
    ledger, _ = self._partitioned[partition.number]
    for name, known in list(ledger.by_name.items()):
        if known.state == "committing":
            ledger.put(name, msgspec.structs.replace(known, state="aborting"))
    adopt(self, partition)


adopt = Transactions.adopt


def verify_nothing(
    self: Participants, topic: Topic, number: int, _: str, producer_id: int, epoch: int, *__: Any
) -> Steps[None]:
    """Takes every batch for one of an open transaction that has enlisted the partition."""
    yield from ()
    topic.partition(number).verified[producer_id] = epoch


def hold_nothing(*_: Any) -> Steps[None]:
    """Decides a commit although somebody else may have the messages that it acks."""
    yield from ()


def hold_no_offsets(*_: Any) -> None:
    """Calls offsets stable that an open transaction may replace."""


def commit_no_offsets(*_: Any) -> Steps[None]:
    """Ends a transaction without its offsets."""
    yield from ()


def place_again(self: Placing, partition: Partition, sequence: int, batch: bytes, header: Any) -> None:
    """A staged publish that goes on places also what is there."""
    self.logs[partition.log] = None
    ready = self._ready(partition.log.last_timestamp, batch, header)
    number_batch(ready, self._producer_id, sequence)
    self._publishing.append_staged(partition, ready, False)


def no_version(*_: Any) -> None:
    """Publishes a version of an application that was published before."""


# The cache.


def evict_early(self: BrokerHost, key: Key, partition: Partition) -> list[tuple[SegmentInfo, bool]]:
    """Takes every sealed segment for one that the store has."""
    return [(segment, True) for segment in partition.log.segments()[:-1]] if key in self._open else []


def no_growing_parts(*_: Any) -> list[Part]:
    """Uploads sealed segments only."""
    return []


BUGS: dict[str, Bug] = {
    "eviction before the upload": Bug(20, [(BrokerHost, "_uploaded", evict_early)], real=True),
    "checkpoint without the growing segment": Bug(
        20, [(hosting, "growing_parts", no_growing_parts)], real=True
    ),
    "snapshot that forgets an unconfirmed output": Bug(
        100, [(Maintenance, "_snapshot", forgetful_snapshot)], real=True
    ),
    "outbox before its commit": Bug(60, [(Publishing, "drain_outbox", outbox_early)], real=True),
    "commit of an old generation": Bug(
        40, [(ClusterRegistry, "check_coordinator", any_coordinator)], real=True
    ),
    "scheduled message fired again": Bug(
        40,
        [(schedule, "find_fired", nothing_fired), (Replay, "_fire", ignore_fired)],
        real=True,
        programs=True,
    ),
    "takeover without dedup ids": Bug(40, [(core, "load_dedup_ids", forget_ids)], real=True, programs=True),
    "publish repeated without numbers": Bug(
        80, [(router, "NOT_REPEATED", IDEMPOTENT)], real=True, programs=True
    ),
    "coordinator that does not go on": Bug(
        40, [(Transactions, "adopt", ignore_decided)], real=True, programs=True
    ),
    "coordinator that aborts what was decided": Bug(
        60, [(Transactions, "adopt", abort_decided)], real=True, programs=True
    ),
    "batch that is not verified": Bug(
        40, [(Participants, "verify", verify_nothing)], real=True, programs=True
    ),
    "acks that are not kept for the commit": Bug(
        40, [(Participants, "hold", hold_nothing)], real=True, programs=True
    ),
    "offsets called stable in a transaction": Bug(
        40, [(OffsetCommits, "hold", hold_no_offsets)], real=True, programs=True
    ),
    "transaction without its offsets": Bug(
        40, [(Participants, "commit", commit_no_offsets)], real=True, programs=True
    ),
    "staged batch placed again": Bug(40, [(Placing, "_append", place_again)], real=True, programs=True),
    "version published again": Bug(40, [(Intents, "version", no_version)], real=True, programs=True),
    "ack before create": Bug(40, [(Commits, "_commit", ack_before_create)]),
    "next sequence after an unknown outcome": Bug(10, [(Commits, "_commit", next_after_unknown)]),
    "exists is success": Bug(40, [(commit, "decide", exists_is_success)]),
    "unknown is success": Bug(20, [(commit, "decide", unknown_is_success)]),
    "out-of-order acknowledgements": Bug(40, [(Commits, "_settle", out_of_order)]),
    "repacking on retry": Bug(30, [(Commits, "_commit", repack_on_retry)]),
    "delivery without a lease": Bug(150, [(Node, "delivers", deliver_always)]),
    "reads without a lease": Bug(60, [(BrokerState, "readable", read_always)], real=True),
    "sequence errors of a former owner": Bug(40, [(ClusterLease, "verify", answer_at_once)], real=True),
    "round acknowledged with its first part": Bug(60, [(Commits, "_pack", confirm_first_part)]),
    "tombstone above a free name": Bug(10, [(Sealing, "_put_tombstone", tombstone_above)]),
    "tombstone deleted": Bug(160, [(Collecting, "_collect_sealed", delete_tombstone)]),
    "takeover without a tombstone": Bug(110, [(Sealing, "_put_tombstone", no_tombstone)]),
    "second tombstone": Bug(90, [(Sealing, "_put_tombstone", second_tombstone)]),
    "fence below the floor": Bug(10, [(State, "_fence", fence_anywhere), (Sealing, "seal", seal_from_zero)]),
    "epoch reuse": Bug(10, [(State, "_assign", reused_epoch)]),
    "late checkpoint of a fenced owner": Bug(
        80,
        [
            (State, "_checkpoint", any_checkpoint),
            (Checkpoints, "_entry", late_checkpoint),
            (Commits, "seal", ignore_fence),
        ],
    ),
    "serving before loading": Bug(10, [(Loading, "_replay", no_history)]),
    "checkpoint of what is not packed": Bug(110, [(ModelHost, "cut", uncommitted_cut)]),
    "WAL trimmed before the checkpoint": Bug(10, [(Checkpoints, "_upload", trim_early)]),
    "metadata deleted": Bug(10, [(MetadataLog, "write_snapshot", delete_metadata)]),
    "move without draining": Bug(130, [(Node, "_drain", no_drain)]),
}
