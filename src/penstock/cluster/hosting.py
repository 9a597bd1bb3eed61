"""Adapts the broker to the cluster core: its logs become WAL entries and checkpoints, and back.

    pack       the new bytes of every log of every open partition, between two steps of the broker
    cut        the same logs as far as they are packed, in pieces (``pieces.py``), and the journal's snapshot
    receive    fills the folder of a partition from pieces and slices; ``open`` runs crash recovery
    tend       evicts old segments that the store has (``cache.py``)

The local disk is only a cache: an incarnation begins with an empty directory, and a later one does not
trust it.

Cost: a round looks at all logs that are open, about 0.2 us each, and ``cut`` and ``tend`` at all segments,
some microseconds each.  A checkpoint has one new piece in memory at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.state import Partition
from penstock.broker.steps import fetched
from penstock.broker.storage.recovery import INTENTS, JOURNAL, SCHEDULE, log_config
from penstock.clock import stopwatch_ns
from penstock.cluster.cache import SegmentCache, Spawn
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.core.host import Part
from penstock.cluster.core.metadata import Key, Piece, State
from penstock.cluster.core.objects import Store
from penstock.cluster.core.wal import Slice
from penstock.cluster.following import Following
from penstock.cluster.pieces import (
    DATA,
    DIGEST,
    SMALL_FILES,
    PartitionFiles,
    SealedSegment,
    SegmentPiece,
    growing_parts,
    parse,
    remove_partition,
    small_identity,
)
from penstock.errors import NotCached, NotOwner, PenstockError, TopicNotFound
from penstock.log.log import Log, LogSlice
from penstock.log.segment import INDEX, LOG, SegmentInfo, segment_name

logger = logging.getLogger("penstock")

SEGMENT_BYTES_MAX: Final = 32 << 20  # Some hundred milliseconds to upload or to fetch.
GROWING_SHARE: Final = 4  # Segments that grow may take a quarter of the cache, ...
SEALED_BYTES_MIN: Final = 1 << 20  # ... but small ones are not worth an object.
TAKE_BYTES: Final = 1 << 40  # All logs: a round is consistent only as a whole.


class PackedLogs:
    def __init__(self) -> None:
        self.parts: list[tuple[Slice, bytes]] = []
        self.taken: list[tuple[Log, LogSlice]] = []
        self.began_ns = stopwatch_ns()


class BrokerHost:
    """The partitions of this node, as the protocol in ``cluster/core`` needs them."""

    def __init__(
        self,
        core: Core,
        driver: LoopDriver,
        commit: ClusterCommit,
        spawn: Spawn,
        incarnation: str,
        store: Store,
        on_lost: Callable[[str], None],
    ) -> None:
        self.state = State()
        self.committed_bytes = 0  # Since it was last set to zero.
        self._incarnation = incarnation
        self.cache = core.state.files.archive = SegmentCache(core.state.files, store, spawn, on_lost)
        self._core = core
        self._driver = driver
        self._commit = commit
        self._spawn = spawn
        self._open: dict[Key, Partition] = {}  # Also those that are closing.
        self._closing: dict[Key, Awaitable[None]] = {}
        self._reopening: dict[Key, bool] = {}  # False: close it again as soon as it is open.
        self._resumed: dict[Key, Awaitable[None]] = {}  # The same partitions.
        self._loading: set[Key] = set()
        self._received: dict[Key, str] = {}  # The directories of partitions that were loaded here.
        self.following = Following(core, driver.run, spawn, self.follow_owners)
        self.deliver_from_ms: Callable[[Key], int] = lambda _: 0  # The core's: see ``Node.deliver_from_ms``.

    # Commit rounds.

    def pack(self) -> PackedLogs | None:
        packed = PackedLogs()
        for name, topic in self._core.state.topics.items():
            for partition in topic.partitions.owned:  # Also those whose opening waits for a round.
                self._open[name, partition.number] = partition
        for key, partition in self._open.items():
            for kind, log in logs_of(partition):
                taken = self._slice_of(log)
                if taken is not None:
                    each = Slice(*key, partition.epoch, kind, taken.start, len(taken.data))
                    packed.parts.append((each, taken.data))
                    packed.taken.append((log, taken))
        self._commit.clear()
        return packed if packed.parts else None

    def _slice_of(self, log: Log) -> LogSlice | None:
        """The new bytes of a log; one that cannot be read accepts no more, and the others continue."""
        if log.failed is not None:
            return None
        try:
            return log.take_slice(TAKE_BYTES)
        except PenstockError as error:
            logger.error("what was written to %s cannot be committed: %s", log.path, error)  # noqa: TRY400 - it says why.
            log.reject(error)
            asyncio.get_running_loop().call_soon(self._commit.settled)  # Waiters get this error.
            return None

    def confirm(self, packed: PackedLogs) -> None:
        for log, taken in packed.taken:
            log.confirm(taken.written, taken.end)
            self.committed_bytes += len(taken.data)
        self._commit.took((stopwatch_ns() - packed.began_ns) // 1000)
        self._commit.settled()

    def reject(self) -> None:
        for (topic, number), partition in self._open.items():
            error = NotOwner(topic=topic, partition=number, owner=-1, epoch=partition.epoch)
            for _, log in logs_of(partition):
                log.reject(error)
        self._commit.settled()

    # Partitions.

    async def receive(self, key: Key, epoch: int) -> "IncomingPartition":
        while not self._knows(key):
            await self.following.changed.wait()
            self._check_owner(key, epoch)
        while (busy := self._closing.get(key) or self._resumed.get(key)) is not None:
            await busy
        self._check_owner(key, epoch)  # A later load may use the directory already.
        incoming = IncomingPartition(self, self._core, key, epoch)
        self._loading.add(key)
        self._received[key] = incoming.directory
        return incoming

    def _check_owner(self, key: Key, epoch: int) -> None:
        if not self.state.owns(self._incarnation, key, epoch):
            raise TopicNotFound(topic=key[0])  # The topic was deleted before it was created here.

    def _knows(self, key: Key) -> bool:
        """Whether the broker has a partition of the current topic, not of an earlier one of that name."""
        topic, wanted = self._core.state.topics.get(key[0]), self.state.topics.get(key[0])
        if topic is None or wanted is None or topic.id.hex() != wanted.id:
            return False
        return key[1] < len(topic.partitions)

    async def opened(self, key: Key, epoch: int) -> None:
        """Recover a partition whose files are complete, and serve it."""
        from_ms = self.deliver_from_ms(key)
        while True:
            try:
                await self._driver.run(self._core.open_partition(*key, epoch, from_ms))
                break
            except NotCached as missing:  # Restoring a group needs old messages.
                await self._driver.run(
                    fetched(self._core.state.files, self._core.state.clock.steady_ms(), missing)
                )
        self._loading.discard(key)
        partition = self._open[key] = self._core.state.any_topic(key[0]).partitions[key[1]]
        self._limit_segments(partition)
        self._commit.kick()
        wait_ms = from_ms - self._core.state.clock.steady_ms()
        if wait_ms > 0:
            asyncio.get_running_loop().call_later(wait_ms / 1000, partition.topic.wake)

    def _limit_segments(self, partition: Partition) -> None:
        """A segment becomes one object, and is fetched as a whole."""
        segment_bytes = min(partition.topic.settings.segment_bytes, SEGMENT_BYTES_MAX)
        for _, log in logs_of(partition):
            log.set_segment_bytes(segment_bytes)

    def loading_ended(self, key: Key) -> None:
        self._loading.discard(key)

    def _is_mine(self, key: Key) -> bool:
        """Whether a partition may be reopened here with its local files."""
        assigned = self.state.partition(key)
        return assigned is not None and assigned.owner == self._incarnation

    def close(self, key: Key) -> None:
        if key in self._reopening:
            self._reopening[key] = False
        elif key not in self._closing and key in self._open:
            self._closing[key] = self._spawn(self._close(key))

    async def _close(self, key: Key) -> None:
        try:
            await self._driver.run(self._core.close_partition(*key, *self.state.owner_of(key)))
        except PenstockError:
            pass  # Uncommitted data is lost: its waiters have got an error.
        finally:
            del self._open[key], self._closing[key]
        if self._knows(key) and not self._core.state.closed:
            self._core.set_owner(*key, *self.state.owner_of(key))

    def stop(self, key: Key) -> None:
        self.close(key)

    def resume(self, key: Key, epoch: int) -> None:
        self._reopening[key] = True
        self._resumed[key] = self._spawn(self._reopen(key, epoch))

    async def _reopen(self, key: Key, epoch: int) -> None:
        try:
            while key in self._closing:
                await self._closing[key]
            if self._reopening[key]:
                await self.opened(key, epoch)
        except PenstockError as error:
            if self._is_mine(key):  # No other node would serve it.
                logger.error("%s:%d cannot be opened again: %s", *key, error)  # noqa: TRY400 - it says why.
                self.cache.lost(f"{key[0]}:{key[1]}")
        finally:
            del self._resumed[key]
            if not self._reopening.pop(key):
                self.close(key)

    def serves(self, key: Key) -> bool:
        return key in self._open and key not in self._closing and key not in self._reopening

    def drained(self, key: Key) -> bool:
        return key not in self._closing and key not in self._reopening

    # Checkpoints.

    def cut(self, key: Key) -> list[Part] | None:
        partition = self._open.get(key)
        if partition is None or key in self._closing:
            return None
        journal = partition.journal
        if journal is not None and journal.snapshot_end > journal.log.taken:
            return None  # The snapshot contains data that is in no entry yet.
        assigned = self.state.partition(key)
        known = assigned.base if assigned is not None else []
        try:
            parts = _small_parts(partition, known)
            for kind, log in logs_of(partition):
                parts += self._log_parts(partition, kind, log, known)
        except PenstockError:  # A file is damaged: WAL entries have its contents.
            return None
        return parts

    def _log_parts(self, partition: Partition, kind: str, log: Log, known: list[Piece]) -> list[Part]:
        """One part for each sealed segment, and those of the growing one, up to the packed end."""
        files, pairs = partition.topic.files, {(piece.file, piece.identity) for piece in known}
        parts: list[Part] = []
        for segment in log.segments():
            if segment.sealed and segment.next_offset <= log.taken:
                parts += self._sealed(partition, kind, log, segment).parts(files, pairs)
            elif 0 < log.taken >= segment.base_offset:  # Else it is newer than the packed end.
                parts += growing_parts(kind, log, segment, known)
        return parts

    def _sealed(self, partition: Partition, kind: str, log: Log, segment: SegmentInfo) -> SealedSegment:
        path = f"{log.path}/{segment_name(segment.base_offset)}{LOG}"

        def identity() -> str:
            return self.cache.identity(path, segment.bytes, partition.epoch)

        now = identity()
        return SealedSegment(kind, log, segment, path, now, lambda: identity() == now)

    def has_stored(self, topic: str, number: int, end: int) -> bool:
        """Whether a checkpoint has all segments of a partition that begin below an offset."""
        partition = self._open.get((topic, number))
        if partition is None:
            return False
        if partition.log.config.durability == "memory":
            return True  # A log in memory is never in the store, and an append to it is never durable.
        stored = {segment.base_offset for segment, _ in self._uploaded((topic, number), partition)}
        return all(each.base_offset in stored for each in partition.log.segments() if each.base_offset < end)

    # The cache.

    def tend(self, cache_bytes: int) -> bool:
        """Evict segments if the logs take more than ``cache_bytes``; 0 means no limit.

        Returns whether a checkpoint would help, because segments that could be evicted are not in the store
        yet.
        """
        self._remove_others()
        excess = -cache_bytes
        cached: list[tuple[Log, SegmentInfo]] = []
        waiting = False  # For an upload.
        for key, partition in self._open.items():
            if partition.log.archive is None:
                continue  # It is in memory only.
            self._limit_segments(partition)  # The topic's settings may have changed.
            excess += sum(log.size_bytes for _, log in logs_of(partition))
            uploaded = self._uploaded(key, partition)
            waiting = waiting or len(uploaded) < partition.log.segment_count - 1
            cached += [(partition.log, segment) for segment, is_here in uploaded if is_here]
            excess -= sum(segment.bytes for segment, is_here in uploaded if not is_here)
        if not cache_bytes or excess <= 0:
            return False
        for log, segment in sorted(cached, key=lambda each: each[1].used):
            if excess > 0:
                log.evict(segment.base_offset)
                excess -= segment.bytes
        for partition in self._open.values():
            partition.log.forget_use()
        return excess > 0 and (self._seal_large(cache_bytes) or waiting)

    def _uploaded(self, key: Key, partition: Partition) -> list[tuple[SegmentInfo, bool]]:
        """The segments of the data log in the store, which are given to the cache, and those on disk."""
        assigned = self.state.partition(key)
        if assigned is None or key in self._closing:
            return []
        names = {(piece.file, piece.identity): piece.names for piece in assigned.base}
        found = []
        for segment in partition.log.segments()[:-1]:
            sealed = self._sealed(partition, DATA, partition.log, segment)
            found_names = names.get((f"{DATA}/{segment.base_offset}", sealed.identity))
            if found_names is not None:
                self.cache.add(sealed.path, sealed.identity, found_names, partition.topic.wake)
                found.append((segment, self.cache.is_cached(sealed.path)))
        return found

    def _seal_large(self, cache_bytes: int) -> bool:
        """Begin new segments where one has grown beyond its share, so that it can be evicted."""
        sealed = False
        share = max(cache_bytes // (GROWING_SHARE * max(len(self._open), 1)), SEALED_BYTES_MIN)
        for key, partition in self._open.items():
            log = partition.log
            if key in self._closing or log.archive is None or log.failed is not None:
                continue
            if log.segments()[-1].bytes >= share:
                log.roll()
                sealed = True
        return sealed

    def _remove_others(self) -> None:
        """Remove the files of partitions that this node no longer owns."""
        for key, directory in list(self._received.items()):
            topic = self._core.state.topics.get(key[0])
            here = key in self._open or key in self._closing or key in self._loading
            if (
                not here
                and (topic is None or topic.partitions.get(key[1]) is None)
                and not self._is_mine(key)
            ):
                del self._received[key]
                self.cache.forget_below(directory)
                remove_partition(self._core.state.files, directory, sync=False)

    # Metadata.

    @property
    def carried_out(self) -> int:
        return self.following.carried_out

    def follow(self, state: State) -> None:
        self.state = state
        self.following.follow(state)
        self.follow_owners()

    def follow_owners(self) -> None:
        """Update the broker's owners of remote partitions, and its coordinators of groups."""
        for name, topic in self.state.topics.items():
            known = self._core.state.topics.get(name)
            count = 0 if known is None else min(len(known.partitions), len(topic.partitions))
            for number in range(count):
                self._core.set_owner(name, number, *self.state.owner_of((name, number)))
        self._core.coordination.hand_over()


class IncomingPartition(PartitionFiles):
    """A partition that is being loaded."""

    def __init__(self, host: BrokerHost, core: Core, key: Key, epoch: int) -> None:
        topic = core.state.any_topic(key[0])
        super().__init__(topic.files, f"{topic.directory}/{key[1]}", log_config(topic.settings))
        self._host = host
        self._key = key
        self._epoch = epoch
        self._wake = topic.wake
        host.cache.forget_below(self.directory)

    def leaves(self, piece: Piece) -> bool:
        """Old segments stay in the store, if their index is local, because opening needs it (rule 17)."""
        segment = parse(piece.file)
        if segment is None or not segment.is_sealed_data:
            return False
        if not self._files.exists(SegmentPiece(DATA, segment.base, INDEX).path(self.directory)):
            return False
        self._host.cache.add(segment.path(self.directory), piece.identity, piece.names, self._wake)
        return True

    def restore(self, piece: Piece, data: bytes) -> None:
        super().restore(piece, data)
        segment = parse(piece.file)
        if segment is not None and segment.is_sealed_data:
            self._host.cache.add(segment.path(self.directory), piece.identity, piece.names, self._wake)

    async def open(self) -> None:
        self.close()
        await self._host.opened(self._key, self._epoch)

    def drop(self) -> None:
        self._host.loading_ended(self._key)
        self.abandon()


def logs_of(partition: Partition) -> list[tuple[str, Log]]:
    """The logs that are committed, by their kind."""
    logs = [(DATA, partition.log)]
    if partition.journal is not None:
        logs.append((JOURNAL, partition.journal.log))
    if partition.schedule is not None:
        logs.append((SCHEDULE, partition.schedule.log))
    if partition.number == 0 and partition.topic.intents is not None:
        logs.append((INTENTS, partition.topic.intents.log))
    return [(kind, log) for kind, log in logs if log.config.durability != "memory"]


def _small_parts(partition: Partition, known: list[Piece]) -> list[Part]:
    """The files beside the logs."""
    files, parts = partition.topic.files, []
    for name in SMALL_FILES:
        if name == DIGEST and partition.snapshot_end > partition.log.taken:
            # The current one covers data that is in no entry yet; the last one is still valid.
            parts += [
                Part(piece.file, piece.identity, lambda: None) for piece in known if piece.file == DIGEST
            ]
        elif files.exists(f"{partition.directory}/{name}"):
            data = files.read_file(f"{partition.directory}/{name}")
            parts.append(Part(name, small_identity(data), partial(bytes, data)))
    return parts
