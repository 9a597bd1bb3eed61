"""A log: one directory of segments that batches are appended to.

    start                                   high    safe        end
      |                                       |       |           |
      v                                       v       v           v
      [ segment, sealed ][ segment, sealed ][ segment, active .... ]
                                    readers <-|-------|-> not yet durable
                                              transactions that are open

Data, journal and schedule are all logs.  A batch is opaque here: it gets its base
offset and is written after the last one; its header has the number of offsets, the
highest timestamp and the lane.

Invariants:

    L1  start <= high <= safe <= end, and each of them only rises, with two exceptions: ``cut`` takes the
        end back, and ``adopt`` the start, when deleted segments are restored
    L2  batches are contiguous, even across segments: each begins at the offset where the last one ended
    L3  ``last_timestamp`` and those of the segments are the highest so far: batches may have any timestamps
    L4  everything below ``safe`` is as durable as ``config.durability`` promises
    L5  when a segment exists, all segments before it are complete and synced

A failed append changes nothing: the file is truncated and the state is updated only
after the write.  A failed sync stops the log permanently (``failed``): the kernel may
have dropped the pages, so a second sync that succeeds proves nothing.

Threads: one thread at a time appends, reads and changes (the caller holds a lock);
``sync`` may run in another thread meanwhile.  It reads ``written`` and ``end`` before
it requests the file, and both are set after the write, so what it declares durable was
in the file, or in an older one that was synced when the log rolled.  ``high`` is
computed from two numbers that each have one writer, and a transaction is open before
its first batch counts, so no reader sees a batch too early.

A log that never had a batch has neither a file nor a directory: it costs only memory.

In a cluster the files are a cache (``Files.cache``): the log syncs nothing, and what makes
its bytes durable is a commit round, which takes them as slices (``take_slice``), stores
them, and calls ``confirm``.  ``append_slice`` is the way back, for a log that is filled
before a broker opens it.

With durability ``fsync`` the file is preallocated ahead of its batches: a sync takes
half as long again if it must also write a new length.

Cost: ``append`` adds about 1.5 us of Python to the write.
"""

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

from penstock.errors import Closed, OffsetOutOfRange, PenstockError, StorageFailed
from penstock.log.archive import FetchedSegment
from penstock.log.damage import Broken, DamagedRange
from penstock.log.files import DELETED, File, Files
from penstock.log.index import LaneRange
from penstock.log.lanes import LaneIndex
from penstock.log.reader import LogReader
from penstock.log.recovery import (
    START,
    Recovery,
    begun_at,
    create_segment,
    empty_log,
    open_segments,
    start_file,
    sync_names,
)
from penstock.log.rewrite import RewriteReport, SegmentRewrite
from penstock.log.segment import INDEX, LANES, LOG, Segment, SegmentInfo, raise_corruption
from penstock.log.transactions import marker_batch
from penstock.wire.records import (
    CONTROL,
    LANE_MASK,
    SIZE_BEGIN,
    TRANSACTIONAL,
    Header,
    Record,
    check_batch,
    lane_of,
    place_batch,
    producer_id_of,
    size_of,
    unpack_extent,
)

_MARKED: Final = LANE_MASK | TRANSACTIONAL  # Batches that are kept in mind.


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How a log is kept."""

    # A segment is sealed before it outgrows this; deleting and compacting go by whole segments.
    segment_bytes: int = 256 * 1024 * 1024
    # The distance of index entries: one page, so a look-up reads about one page too much.
    index_bytes: int = 4096
    # fsync: readers see what a sync has covered.  os: what was written.  memory: likewise, and no syncs.
    durability: Literal["fsync", "os", "memory"] = "fsync"
    # What is missing must not be made up for: each open raises ``CorruptionError`` until it is repaired.
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """How far compaction has come; kept in memory only, since starting over is right, just slower."""

    upto: int = 0  # Below it no key has two values.
    at_ms: int = 0  # When the last pass was.
    oldest_tombstone_ms: int | None = None  # The timestamp of the oldest one that pass left.


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Whole batches that were appended to a log one after the other."""

    start: int  # The offset of the first record ...
    end: int  # ... and the one after the last.
    written: int  # ``Log.written`` after the last batch.
    data: bytes


class Log(LogReader):
    """One append-only log.  See the top of the module."""

    def __init__(
        self, files: Files, directory: str, config: LogConfig, base: int = 0, *, new: bool = False
    ) -> None:
        """``new``: nothing is on the disk, so nothing is read."""
        opened = (
            empty_log(files, directory, base)
            if new
            else open_segments(files, directory, config.index_bytes, base, strict=config.strict)
        )
        super().__init__(opened.segments, config.index_bytes)
        self.path = directory
        self.config = config
        self.recovery: Recovery = opened.recovery
        for found in opened.recovery.damage:
            self.damage.add(found)
        self.lanes = LaneIndex()
        for start, end, lane in opened.lanes:
            self.lanes.add(start, end, lane)
        self.last_timestamp = max(segment.max_timestamp for segment in opened.segments)
        begun = begun_at(files, directory) if self.end else 0
        if begun is None:
            why = "where the log begins cannot be read, so deleted records may be there again"
            self.damage.add(DamagedRange(f"{directory}/{START}", 0, 0, self.start, self.start, why))
        self.start = min(max(self.start, begun or 0), self.end)
        self.cleaned = Cleaned()
        self.leader_epoch = 0  # Stamped into every batch; a cluster sets it.
        self.written = 0  # Bytes appended since open ...
        self.durable = 0  # ... and how many of them a sync has covered.
        self.failed: PenstockError | None = None  # Never cleared: what every append raises from then on.
        self.on_trouble: Callable[[PenstockError], None] = _ignore  # Called when a write or a sync fails.
        # Directory above the log that its first file does not create: if it is missing, it was removed.
        self.home: str | None = None
        # Files that are a cache: called by ``sync``; a commit round is to take what was written.
        self.on_sync: Callable[[Log], None] = _ignore
        self._taken = LogSlice(
            start=self.end, end=self.end, written=0, data=b""
        )  # The last one, without its data.
        self.cached = files.cache and config.durability != "memory"  # Only ``confirm`` makes it durable.
        self.archive = files.archive if self.cached else None
        self._files = files
        self._active = opened.segments[-1]
        self._segment_bytes = config.segment_bytes
        self._seen_at_once = config.durability != "fsync"
        self._never_synced = config.durability == "memory"
        self._names_synced = True  # False: the log's directory is new, and may not be on the disk.
        self._rolling = False  # A new segment was begun, and may or may not be there.
        self._renaming = False  # A rewritten one has its name, perhaps not for good.
        self._averaged = -1  # How many segments _sealed_average was worked out for.
        self._sealed_average = 1
        # Held while a sync runs, and to change which file is the active one.
        self._syncing = threading.Lock()

    @classmethod
    def open(cls, files: Files, directory: str, config: LogConfig, base: int = 0) -> Self:
        """Open a log, recovering it if it was not closed; an empty directory is an empty log at ``base``."""
        return cls(files, directory, config, base)

    # --- writing -----------------------------------------------------------------------------------------

    def append(self, batch: bytearray) -> int:
        """Write a checked batch behind all others and return the offset of its first record.

        The batch is given its place (base offset, leader epoch) in passing.
        ``DiskFull``: nothing was written, try again later.  ``StorageFailed``: this log takes no more.
        """
        size = len(batch)
        active = self._active
        file = active.file
        position = active.size
        if (
            file is None
            or file.size != position
            or position + size > active.room
            or position + size > self._segment_bytes
            or self._rolling
            or self.failed
        ):
            active, file = self._make_ready(size)
            position = active.size
        length, attributes, delta, timestamp = unpack_extent(batch, 0)
        assert length + SIZE_BEGIN == size, "a batch is as long as it says"
        before = self.last_timestamp
        if timestamp < before:
            timestamp = before  # L3
        base = self.end
        end = base + delta + 1
        place_batch(batch, base, self.leader_epoch)
        try:
            file.append((batch,))
        except PenstockError as error:
            self.fail(error)
            raise
        if position >= active.indexed:
            assert active.index is not None
            active.index.add(base, position, before)
            active.indexed = position + self._index_bytes
        if attributes & _MARKED:
            self._keep_in_mind(batch, attributes, base, end)
        # From here on only plain stores: a signal handler cannot come between them.  If one struck
        # earlier, the file is longer than the segment, and _make_ready takes the batch back.
        active.size = position + size
        active.next_offset = end
        active.max_timestamp = timestamp
        self.last_timestamp = timestamp
        self.end = end
        if self._seen_at_once:
            self.safe = end
        self.written += size
        return base

    def _keep_in_mind(self, batch: bytearray, attributes: int, base: int, end: int) -> None:
        if attributes & LANE_MASK:
            self.lanes.add(base, end, lane_of(attributes))
        if attributes & TRANSACTIONAL and not attributes & CONTROL:
            self.transactions.begin(producer_id_of(batch), base)
            self.unstable = self.transactions.unstable()

    def end_transaction(self, producer_id: int, epoch: int, committed: bool, now_ms: int) -> int:
        """Write the marker that ends a producer's transaction; what it aborts is hidden from now on.

        If an interrupt strikes between, the transaction is still open, and a second marker does no harm.
        """
        offset = self.append(marker_batch(producer_id, epoch, committed, now_ms))
        if self.transactions.end(producer_id, offset, committed):
            self._forget()  # Some of it may have been read ahead.
        self.unstable = self.transactions.unstable()
        return offset

    def restore_transactions(self, snapshot: list[Any]) -> None:
        """Restore the transactions of a snapshot; then ``replay`` the batches since."""
        self.transactions.restore(snapshot)
        self.transactions.drop_before(self.start)
        self.unstable = self.transactions.unstable()

    def replay(self, header: Header) -> None:
        """Apply a batch of this log to the transactions, when the log is opened; in order."""
        if header.attributes & CONTROL:
            committed = self.is_commit(header)
            if committed is not None:  # Otherwise it is unknown: it stays open until the broker ends it.
                if not committed:
                    self._keep_before_damage(header.producer_id, header.base_offset)
                self.transactions.end(header.producer_id, header.base_offset, committed)
        elif header.attributes & TRANSACTIONAL:
            self.transactions.begin(header.producer_id, header.base_offset)
        self.unstable = self.transactions.unstable()

    def _keep_before_damage(self, producer_id: int, marker: int) -> None:
        """Let an abort hide only what follows the last damaged batch of its transaction.

        The damaged batch may have been the commit marker of an earlier transaction.  Then this abort would
        hide messages that were committed, so what lies before the damage counts.
        """
        first = self.transactions.open.get(producer_id, -1)
        inside = [
            each for each in self.damage.ranges if first <= each.first_offset and each.end_offset <= marker
        ]
        if first >= 0 and inside:
            self.transactions.open[producer_id] = max(each.end_offset for each in inside)

    def _make_ready(self, size: int) -> tuple[Segment, File]:
        """The rare cases of an append: failed, closed, last append interrupted, no room, segment full."""
        if self.failed is not None:
            self.on_trouble(self.failed)
            raise self.failed
        active = self._active
        if not active.made:
            self._begin()
        if active.file is None:
            raise Closed(what=f"log {self.path}")
        if active.file.size != active.size:
            self._take_back()
        if active.size and (active.size + size > self._segment_bytes or self._rolling):
            self.roll()
        active = self._active
        file = active.file
        assert file is not None
        end = active.size + size
        if end > active.room:
            if self._seen_at_once:  # No operation waits for its syncs.
                active.room = max(self._segment_bytes, end)
            else:
                active.make_room(file, end, self._segment_bytes)
        return active, file

    def _begin(self) -> None:
        """Create the file of the first batch; the next sync makes it and the directories above durable."""
        active = self._active
        if active.closed:
            raise Closed(what=f"log {self.path}")
        if self.home is not None and not self._files.exists(self.home):
            self.failed = StorageFailed(path=self.path, why=DELETED)
            self.on_trouble(self.failed)
            raise self.failed
        self._files.make_directory(self.path, sync=False)
        self._names_synced = False
        active.file = self._files.open(active.log_path, create=True)
        assert active.file.size == 0, "a new segment has a new name"
        active.made = True

    def _take_back(self) -> None:
        """Remove a batch whose append was interrupted."""
        active = self._active
        assert active.file is not None
        assert active.index is not None
        try:
            active.file.truncate(active.size)
        except PenstockError as error:
            self.failed = error
            self.on_trouble(error)
            raise
        active.room = 0
        active.index.drop_from(active.size)
        active.indexed = min(active.indexed, active.size)
        self.lanes.drop_from(self.end)
        self.transactions.drop_from(self.end)
        self.unstable = self.transactions.unstable()

    def sync(self) -> None:
        """Make durable, and visible, everything appended before the call.  May run in another thread.

        If the files are a cache, this only asks for a commit round.  The order of syncs is kept all the same,
        since a round takes all logs as they are at one time; who must know the outcome waits for ``Durable``.
        """
        with self._syncing:
            self._sync()

    def _sync(self) -> None:
        if self.failed is not None:
            raise self.failed
        if self.cached:
            if self.durable < self.written:
                self.on_sync(self)
            return
        written = self.written
        end = self.end
        file = self._active.file  # After the two: see the top of the module.
        if self.durable >= written:
            return
        if not self._never_synced:
            self._sync_file(file)
        self.durable = written
        if not self._seen_at_once:
            self.safe = max(self.safe, end)

    def _sync_file(self, file: File | None) -> None:
        if file is None:
            raise Closed(what=f"log {self.path}")
        try:
            file.sync()
            if not self._names_synced:
                sync_names(self._files, self.path)
                self._names_synced = True
        except PenstockError as error:
            if self.failed is None:  # Else it was given up meanwhile, and that is no news.
                self.failed = error
                self.on_trouble(error)
            raise

    # --- a commit round elsewhere ------------------------------------------------------------------------

    def take_slice(self, bytes_max: int) -> LogSlice | None:
        """The batches since the last slice, up to ``bytes_max`` but at least one; None if there are none.

        The caller holds the broker's lock, as for every read.
        """
        last = self._taken
        if last.written == self.written:
            return None
        parts: list[bytes] = []
        size, following = 0, last.end
        while following < self.end:
            data, after = self.fetch_all(following, bytes_max - size, self.end)
            if parts and size + len(data) > bytes_max:
                break
            parts.append(data)
            size += len(data)
            following = after
        taken = LogSlice(start=last.end, end=following, written=last.written + size, data=b"".join(parts))
        if following == self.end and taken.written != self.written:
            self.failed = StorageFailed(
                path=self.path, why="batches cannot be read back that were just written"
            )
            self.on_trouble(self.failed)
            raise self.failed
        self._taken = replace(taken, data=b"")
        return taken

    @property
    def taken(self) -> int:
        """Everything below this offset was taken as a slice, or was there when the log was opened."""
        return self._taken.end

    def confirm(self, written: int, end: int) -> None:
        """The store has everything up to a slice's ``written`` and ``end``: it is durable, and visible."""
        if written > self.durable:
            self.durable = written
        if not self._seen_at_once:
            self.safe = max(self.safe, end)

    def reject(self, error: PenstockError) -> None:
        """The store will never have the unconfirmed bytes: waits for them and later appends raise."""
        if self.failed is None:
            self.failed = error

    def append_slice(self, data: bytes) -> None:
        """Append batches of a slice as they are, offsets and leader epochs included; for a log to be opened.

        Batches that are here already are skipped; a gap is refused.
        """
        view = memoryview(data)
        position = 0
        while position < len(data):
            batch = bytearray(view[position : position + size_of(data, position)])
            header = check_batch(batch)
            position += len(batch)
            if header.next_offset <= self.end:
                continue
            if header.base_offset != self.end:
                raise OffsetOutOfRange(offset=header.base_offset, start=self.start, end=self.end)
            self.leader_epoch = header.leader_epoch
            self.append(batch)

    def taken_size(self, segment: SegmentInfo) -> int:
        """How many bytes of a segment are below ``taken``."""
        if segment.next_offset <= self.taken:
            return segment.bytes
        if segment.base_offset >= self.taken:
            return 0
        try:
            return self._locate(self.taken)[1]
        except Broken as broken:
            self._fetch_again(broken.segment)
            raise_corruption(broken.segment, broken.position, broken.why)

    def fail(self, error: PenstockError) -> None:
        """A write has failed: accept no more from now on, unless the disk was full."""
        if isinstance(error, StorageFailed) and self.failed is None:
            self.failed = error
            if self.archive is not None:
                self.archive.lost(self.path)
        self.on_trouble(error)

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Begin new segments at another size from now on."""
        self._segment_bytes = segment_bytes

    def roll(self) -> None:
        """Seal the active segment, synced and indexed, and start a new one; nothing if it is empty."""
        active = self._active
        if not active.size:
            return
        with self._syncing:
            if self.failed is not None:
                raise self.failed
            if active.file is None:
                raise Closed(what=f"log {self.path}")
            if active.file.size != active.size:
                self._take_back()
            try:
                active.file.truncate(active.size)  # Gives back the room, and the sync writes that down.
                self._sync()
                # A disk that is full may leave a new, empty segment behind: the next append must go on there,
                # or the next recovery would find it in the middle of the log.
                self._rolling = True
                self._store_index(active)
                segment = create_segment(self._files, self.path, self.end)
            except PenstockError as error:
                self.fail(error)
                raise
            self._rolling = False
            active.sealed = True
            self._segments.append(segment)
            self._bases.append(segment.base_offset)
            self._active = segment
        self._use(active)  # Counts among the open ones from now on.

    def close(self) -> None:
        """Sync, store the index as the mark of a clean end, close the files.  A second call does nothing."""
        with self._syncing:
            active = self._active
            if active.file is None:
                active.closed = True  # Also of a log that never had a batch.
                return
            try:
                if self.failed is None:
                    self._sync()
                    if active.vouched != active.size:
                        self._store_index(active)
            finally:
                for segment in self._segments:
                    segment.close()

    def give_up(self, error: PenstockError) -> None:
        """Write and sync nothing any more: the directory was removed, which is not a fault of the disk."""
        if self.failed is None:
            self.failed = error

    def abandon(self) -> None:
        """Close the files, as they are but for room: for an open that failed, or a topic that is deleted."""
        with self._syncing:
            if self.failed is None and self.durable < self.written:
                self.failed = Closed(what=f"log {self.path}")  # For those who wait for a sync.
            for segment in self._segments:
                segment.close()

    def _store_index(self, segment: Segment) -> None:
        assert segment.index is not None
        segment.store_index(segment.index, self.lanes.ranges(segment.base_offset, segment.next_offset))

    # --- removing ----------------------------------------------------------------------------------------

    def segments(self) -> list[SegmentInfo]:
        """All segments, the oldest first; the last one is active."""
        return [segment.info() for segment in self._segments]

    @property
    def segment_count(self) -> int:  # The active one included.
        return len(self._segments)

    @property
    def size_bytes(self) -> int:
        """Of all batches that are kept."""
        return sum(segment.size for segment in self._segments)

    @property
    def average_bytes(self) -> int:
        """Bytes a record takes, on the average of the segment where it takes most; at least 1."""
        if self._averaged != len(self._segments):
            self._averaged = len(self._segments)
            self._sealed_average = max(
                (segment.average_bytes() for segment in self._segments[:-1]), default=1
            )
        return max(self._sealed_average, self._active.average_bytes())

    def delete_before(self, offset: int) -> int:
        """Remove the sealed segments that lie wholly below ``offset``; returns the new start."""
        if self.cached:
            offset = min(offset, self._taken.end)
        while len(self._segments) > 1 and self._bases[1] <= offset:
            segment = self._segments[0]
            self._drop(segment)
            if self.archive is not None:
                self.archive.forget(segment.log_path)
            self._files.remove(segment.log_path)
            # From here on it is gone, whatever else fails: a stray index is removed by the next open.
            del self._segments[0], self._bases[0]
            self.start = max(self._bases[0], self.start)
            if self.safe < self.start:
                self.safe = self.start
            self._forget()
            segment.remove()
            # One at a time, so that no crash can leave an older segment before a gap.
            self._files.sync_directory(self.path)
        self.lanes.drop_before(self.start)
        for gone in self.damage.drop_before(self.start):
            self.on_deleted(gone)
        self.transactions.drop_before(self.start)
        self.unstable = self.transactions.unstable()
        return self.start

    def begin_at(self, offset: int) -> None:
        """Let the log begin at an offset: segments below it are removed, and what is left there is not seen.

        For someone who wants records gone that retention would keep; where the log begins is written down.
        """
        assert self.start <= offset <= self.safe, "L1"
        if offset == self.end:
            self.roll()
        else:
            self._files.write_file(f"{self.path}/{START}", start_file(offset))
        self.delete_before(offset)
        self.start = max(self.start, offset)
        self.lanes.drop_before(self.start)
        self.transactions.drop_before(self.start)
        self.unstable = self.transactions.unstable()
        self._forget()

    @property
    def begins_whole(self) -> bool:
        """Whether the first segment is seen from its first record on."""
        return self.start == self._bases[0]

    def parts(self) -> list[tuple[Segment, list[LaneRange]]]:
        """The segments and their lanes, the oldest first: for a log that is to adopt them."""
        return [
            (segment, self.lanes.ranges(segment.base_offset, segment.next_offset))
            for segment in self._segments
        ]

    def adopt(self, theirs: Segment, lanes: list[LaneRange]) -> None:
        """Take over a segment of a closed log that ends where this one starts.

        It is complete and synced, so L5 holds; a crash leaves it in the one log or in the other.
        """
        assert theirs.next_offset == self.start, "L2"
        segment = Segment(self._files, self.path, theirs.base_offset)
        segment.next_offset = theirs.next_offset
        segment.size = segment.stored = theirs.size
        segment.max_timestamp = theirs.max_timestamp
        segment.sealed = True
        self._files.remove(segment.path + INDEX)
        self._files.remove(segment.path + LANES)
        self._files.sync_directory(self.path)  # Of the segment that once had this name: they might fit.
        for ending in (INDEX, LANES, LOG):
            if self._files.exists(theirs.path + ending):
                self._files.rename(theirs.path + ending, segment.path + ending)
        # From here on it is there, whatever else fails.
        self._segments.insert(0, segment)
        self._bases.insert(0, segment.base_offset)
        self.lanes.put_before(lanes)
        self.start = segment.base_offset
        self.last_timestamp = max(self.last_timestamp, segment.max_timestamp)
        self.cleaned = Cleaned()  # Its keys may have newer values further up.
        self._files.sync_directory(self.path)

    def rewrite(
        self, keep: Callable[[Record], bool], upto: int
    ) -> Generator[FetchedSegment | None, None, RewriteReport]:
        """Rewrite the sealed segments below ``upto`` with only the records that ``keep`` wants.

        In steps of some milliseconds; between them the caller may use the log.
        Segments are rewritten from the oldest on, small neighbours together; ``keep`` sees every record
        once, in order.  Crash-safe: after any crash each segment is there as it was or as it was to be.
        """
        report = RewriteReport()
        if self._renaming:  # The disk was full last time.
            self._sync_names()
        for group in self._groups(upto):
            while (missing := self._missing(group)) is not None:
                yield missing
            if group[0] not in self._segments or self._is_damaged(group):
                continue  # Deleted meanwhile, as below; or an operator may have a copy to repair it with.
            work = SegmentRewrite(group, self._index_bytes, keep)
            try:
                for _ in work.steps():
                    yield None
                    if group[0] not in self._segments:
                        break
                else:
                    if work.worthwhile:
                        report = self._install(work, report)
            except Broken as broken:
                self._learn(broken)
            finally:
                work.close()
        return report

    def _missing(self, group: list[Segment]) -> FetchedSegment | None:
        """What to wait for before these segments can be read, if they are still there."""
        if group[0] not in self._segments:
            return None
        found = (self.fetching(segment.base_offset) for segment in group)
        return next((each for each in found if each is not None), None)

    def _is_damaged(self, group: list[Segment]) -> bool:
        paths = {segment.log_path for segment in group}
        return any(found.path in paths for found in self.damage.ranges)

    def _groups(self, upto: int) -> list[list[Segment]]:
        """The sealed segments below ``upto``: neighbours that fit into one segment together."""
        groups: list[list[Segment]] = []
        room = 0
        if self.cached:
            upto = min(upto, self._taken.end)
        for segment in self._segments[:-1]:
            if segment.next_offset > upto:
                break
            if groups and segment.size <= room:
                groups[-1].append(segment)
                room -= segment.size
            else:
                groups.append([segment])
                room = self._segment_bytes - segment.size
        return groups

    def _install(self, work: SegmentRewrite, report: RewriteReport) -> RewriteReport:
        """Replace segments by the one that they were rewritten to."""
        old = work.segments
        old_bytes = sum(segment.size for segment in old)
        scan = work.prepare()
        for segment in old:
            self._drop(segment)
            if self.archive is not None:
                self.archive.forget(segment.log_path)
        work.install()
        self._renaming = True
        self._forget()
        first = old[0]
        first.size = scan.position
        first.stored = 0  # It was summed just now.
        first.next_offset = scan.next_offset
        first.max_timestamp = max(segment.max_timestamp for segment in old)
        following = self._segments.index(first) + 1
        del (
            self._segments[following : following + len(old) - 1],
            self._bases[following : following + len(old) - 1],
        )
        self._sync_names()  # The new one is there for good before the others go.
        first.store_index(scan.index, scan.lanes)
        for segment in old[1:]:
            segment.remove()
        return RewriteReport(
            segments=report.segments + len(old),
            records_removed=report.records_removed + work.removed,
            bytes_removed=report.bytes_removed + old_bytes - first.size,
        )

    def _sync_names(self) -> None:
        self._files.sync_directory(self.path)
        self._renaming = False

    def cut(self, offset: int) -> None:
        """Remove everything at or above ``offset``, where a batch must begin.  Only for recovery.

        A failure half-way is for good (``failed``); the next open finds a log that is cut somewhere behind.
        """
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange(offset=offset, start=self.start, end=self.end)
        if offset == self.end:
            return
        segment, position, base = self._locate(offset)
        assert base == offset, "a log is cut between batches"
        self._index(segment)
        with self._syncing:
            try:
                while self._segments[-1] is not segment:  # The newest first: what is left has no gap.
                    self._drop(self._segments[-1])
                    self._segments[-1].remove()
                    self._files.sync_directory(self.path)
                    del self._segments[-1], self._bases[-1]
                self._cut_segment(segment, position, offset)
            except PenstockError as error:
                self.failed = error
                raise
        self._forget()

    def _cut_segment(self, segment: Segment, position: int, offset: int) -> None:
        index = self._index(segment)
        segment.vouched = -1
        self._files.remove(segment.path + INDEX)
        self._files.remove(segment.path + LANES)
        self._files.sync_directory(self.path)  # A stored index that came back could fit by accident.
        if segment in self._open:
            self._open.remove(segment)
        segment.sealed = False
        file = segment.opened()
        file.truncate(position)
        file.sync()
        index.drop_from(position)
        segment.indexed = (index.positions[-1] if index.positions else -self._index_bytes) + self._index_bytes
        segment.size = position
        segment.room = 0
        segment.next_offset = offset
        self._active = segment
        self.lanes.drop_from(offset)
        self.damage.drop_from(offset)
        self.end = offset
        self.safe = offset  # What is left was synced just now.
        self.durable = self.written
        self._taken = LogSlice(start=offset, end=offset, written=self.written, data=b"")


def _ignore(_: object) -> None: ...
