"""Rewriting a sealed segment with fewer records.

The chain of offsets stays whole: a batch that loses some records keeps its
range of offsets, and a run of batches that lose all of theirs is replaced by
one empty batch over the same range.

    before   [0 a b c][3 d e][5 f][6 g h]
    keep     a, h
    after    [0 a . .][3 ........][6 . h]

An empty batch keeps the lane and the newest timestamp of what it replaces.
Batches of idempotent producers are emptied but not merged: their sequence
numbers tell duplicates after a restart.  Control batches stay as they are.

Crash-safe: the new segment is complete and synced under a temporary name
before it takes the old one's place by a rename.  The old index is gone for
good before that, so it can never be taken for the new segment's.

Cost: one pass over the segment; a segment that loses nothing is not written.
Work is cut into steps of about ``STEP_BYTES`` so that the caller can let
others have the lock in between.  Left out: joining segments that became small.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidBatch
from penstock.log.files import File
from penstock.log.recovery import scan_file
from penstock.log.scan import Scan
from penstock.log.segment import INDEX, LANES, REWRITE, Segment, raise_corruption
from penstock.wire.records import (
    CONTROL,
    HEADER_BYTES,
    LANE_MASK,
    Header,
    Record,
    check_batch,
    decode_batch,
    read_header,
    rewrite_batch,
)

STEP_BYTES: Final = 1024 * 1024  # About 10,000 small records, a few milliseconds compiled.
SPAN_MAX: Final = (1 << 31) - 1  # The most offsets one batch can span.


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteReport:
    """What a rewrite did."""

    segments: int = 0  # Rewritten; those with nothing to remove are left as they are.
    records_removed: int = 0
    bytes_removed: int = 0


class SegmentRewrite:
    """One segment on its way to fewer records: ``steps``, then maybe ``install``, then ``close``."""

    def __init__(self, segment: Segment, index_bytes: int, keep: Callable[[Record], bool]) -> None:
        self.removed = 0  # Records, so far.
        self._segment = segment
        self._index_bytes = index_bytes
        self._keep = keep
        self._path = segment.path + REWRITE
        self._source = segment.files.open(
            segment.log_path, create=False
        )  # Its own: the log may close its one.
        self._target: File | None = None  # None as long as nothing was removed.
        self._parts: list[bytes | bytearray] = []  # To be written.
        self._empty: Header | None = None  # The empty batch that is growing behind ``_parts``.

    def steps(self) -> Iterator[None]:
        """Go through the segment, a step at a time."""
        position = 0
        offset = self._segment.base_offset
        while position < self._segment.size:
            data = self._chunk(position)
            at = 0
            while at + HEADER_BYTES <= len(data):
                try:
                    header = read_header(data, at)
                    if at + header.size > len(data) and at > 0:
                        break
                    header = check_batch(data, at)
                    if header.base_offset != offset:
                        raise InvalidBatch(why=f"the batch of offset {offset} is missing")
                    self._batch(header, data, position, at)
                except InvalidBatch as error:
                    raise_corruption(self._segment, position + at, str(error.facts["why"]))
                offset = header.next_offset
                at += header.size
            position += at
            self._flush()
            yield
        self._end_empty()
        self._flush()

    def _chunk(self, position: int) -> bytes:
        """A step's worth of bytes, and at least one batch."""
        left = self._segment.size - position
        data = self._source.read(position, min(STEP_BYTES, left))
        if len(data) < HEADER_BYTES:
            raise_corruption(self._segment, position, "the segment ends within a batch")
        size = 12 + int.from_bytes(data[8:12], "big")
        return self._source.read(position, size) if len(data) < size <= left else data

    def _batch(self, header: Header, data: bytes, position: int, at: int) -> None:
        """Take over what is to be kept of the batch at ``at`` in the chunk from ``position`` on."""
        if header.attributes & CONTROL:
            kept = count = header.count
            records: list[Record] = []
        else:
            records = [record for record in decode_batch(data, at) if self._keep(record)]
            kept = len(records)
            count = header.count
        if kept < count and self._target is None:
            self._begin(position + at)
        self.removed += count - kept
        if self._target is None:
            return
        if kept == 0 and header.producer_id < 0:
            self._grow_empty(header)
            return
        self._end_empty()
        if kept == count:
            self._parts.append(data[at : at + header.size])
        else:
            self._parts.append(rewrite_batch(header, records))

    def _begin(self, position: int) -> None:
        """Start the new file with all that comes before the first change."""
        self._target = self._segment.files.open(self._path, create=True)
        self._target.truncate(0)
        copied = 0
        while copied < position:
            data = self._source.read(copied, min(STEP_BYTES, position - copied))
            self._target.append((data,))
            copied += len(data)

    def _grow_empty(self, header: Header) -> None:
        lane = header.attributes & LANE_MASK
        empty = self._empty
        if empty is not None:
            span = header.next_offset - empty.base_offset
            if empty.attributes == lane and span <= SPAN_MAX:
                empty.last_offset_delta = span - 1
                empty.max_timestamp = empty.base_timestamp = header.max_timestamp
                return
            self._end_empty()
        newest = header.max_timestamp
        self._empty = Header(
            header.base_offset, HEADER_BYTES, header.leader_epoch, 0, lane, header.last_offset_delta,
            newest, newest, -1, -1, -1, 0,
        )  # fmt: skip

    def _end_empty(self) -> None:
        if self._empty is not None:
            self._parts.append(rewrite_batch(self._empty, []))
            self._empty = None

    def _flush(self) -> None:
        if self._target is not None and self._parts:
            self._target.append(self._parts)
        self._parts.clear()

    def install(self) -> None:
        """Put the new segment in the place of the old one, whose file is closed."""
        segment = self._segment
        files = segment.files
        target = self._target
        assert target is not None
        scan = Scan(segment.base_offset, self._index_bytes, 0)
        scan_file(target, scan)
        assert not scan.why, scan.why
        assert scan.next_offset == segment.next_offset, "the chain of offsets stays whole"
        target.sync()
        directory = segment.path.rpartition("/")[0]
        files.remove(segment.path + INDEX)
        files.remove(segment.path + LANES)
        files.sync_directory(directory)
        files.rename(self._path, segment.log_path)
        segment.size = scan.position
        files.sync_directory(directory)
        segment.store_index(scan.index, scan.lanes)

    def close(self) -> None:
        """Give the files back; what was not installed is removed."""
        self._source.close()
        if self._target is not None:
            self._target.close()
            self._segment.files.remove(self._path)
