"""Rewrites sealed segments with fewer records.

The chain of offsets stays complete: a batch that loses some records keeps its
range of offsets, and a run of batches that lose all of theirs is replaced by
one empty batch over the same range.

    before   [0 a b c][3 d e][5 f][6 g h]
    keep     a, h
    after    [0 a . .][3 ........][6 . h]

An empty batch keeps the lane and the newest timestamp of what it replaces.
Batches of idempotent producers are emptied but not merged: their sequence
numbers tell duplicates after a restart.  Control batches stay as they are.

Neighbouring segments that fit into one are merged, so that a log that is compacted
for years does not consist of thousands of nearly empty files.

Crash-safe: the new segment is complete and synced under a temporary name
before a rename replaces the first old one.  The old index is durably removed before
that, so it can never be taken for the new segment's.  The other old segments are
removed afterwards; one that a crash leaves lies completely within the new one, and the
next open removes it.

Cost: one pass; a single segment that loses nothing is not written.  The work is split
into steps of about ``STEP_BYTES`` so that the caller can release the lock in between.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidBatch
from penstock.log.damage import Broken
from penstock.log.files import File
from penstock.log.recovery import scan_file
from penstock.log.scan import Scan
from penstock.log.segment import INDEX, LANES, REWRITE, Segment
from penstock.wire.records import (
    CONTROL,
    HEADER_BYTES,
    LANE_MASK,
    SPAN_MAX,
    Header,
    Record,
    check_batch,
    decode_batch,
    read_header,
    size_of,
)
from penstock.wire.rewriting import rewrite_batch

STEP_BYTES: Final = 1024 * 1024  # About 10,000 small records, a few milliseconds compiled.


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteReport:
    segments: int = 0  # Rewritten, or joined to one that was; the others are as they were.
    records_removed: int = 0
    bytes_removed: int = 0


class SegmentRewrite:
    """Neighbouring segments on their way into one: ``steps``, then maybe ``install``, then ``close``."""

    def __init__(self, segments: list[Segment], index_bytes: int, keep: Callable[[Record], bool]) -> None:
        self.removed = 0  # Records, so far.
        self.segments = segments
        self._first = segments[0]
        self._files = self._first.files
        self._index_bytes = index_bytes
        self._keep = keep
        self._path = self._first.path + REWRITE
        # Handles of its own: the log may close the others at any time.
        self._sources = [segment.open_file() for segment in segments]
        self._target: File | None = None  # None as long as nothing is to be changed.
        self._parts: list[bytes | bytearray] = []  # To be written.
        self._empty: Header | None = None  # The empty batch that is growing behind ``_parts``.

    @property
    def worthwhile(self) -> bool:
        """Is there anything to install?"""
        return self._target is not None

    def steps(self) -> Iterator[None]:
        """Go through the segments, a step at a time."""
        if len(self.segments) > 1:
            self._begin(0)
        for segment, source in zip(self.segments, self._sources, strict=True):
            yield from self._segment_steps(segment, source)
        self._end_empty()
        self._flush()

    def _segment_steps(self, segment: Segment, source: File) -> Iterator[None]:
        position = 0
        offset = segment.base_offset
        while position < segment.size:
            data = _chunk(segment, source, position, offset)
            at = 0
            while at + HEADER_BYTES <= len(data):
                try:
                    header = read_header(data, at)
                    if at + header.size > len(data) and at > 0:
                        break
                    header = check_batch(data, at)
                    if header.base_offset != offset:
                        raise InvalidBatch(why=f"the batch of offset {offset} is missing")
                except InvalidBatch as error:
                    raise Broken(segment, position + at, offset, error.why) from None
                self._batch(header, data, position, at)
                offset = header.next_offset
                at += header.size
            position += at
            self._flush()
            yield

    def _batch(self, header: Header, data: bytes, position: int, at: int) -> None:
        """Take over what is to be kept of the batch at ``at`` in the chunk from ``position`` on."""
        records: list[Record] = []
        kept = count = header.count
        if not header.attributes & CONTROL:
            try:
                records = [record for record in decode_batch(data, at) if self._keep(record)]
                kept = len(records)
            except InvalidBatch:  # Its content is unknown: it stays unchanged.
                kept = count
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
        self._target = self._files.open(self._path, create=True)
        self._target.truncate(0)
        copied = 0
        while copied < position:
            data = self._sources[0].read(copied, min(STEP_BYTES, position - copied))
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

    def prepare(self) -> Scan:
        """Check and sync the new segment; what it holds."""
        assert self._target is not None
        scan = Scan(self._first.base_offset, self._index_bytes, 0)
        scan_file(self._target, scan)
        assert not scan.why, scan.why
        assert scan.next_offset == self.segments[-1].next_offset, "the chain of offsets stays whole"
        self._target.sync()
        return scan

    def install(self) -> None:
        """Put the new segment in the place of the first old one."""
        directory = self._first.path.rpartition("/")[0]
        self._files.remove(self._first.path + INDEX)
        self._files.remove(self._first.path + LANES)
        self._files.sync_directory(directory)
        self._files.rename(self._path, self._first.log_path)

    def close(self) -> None:
        """Give the files back; what was not installed is removed."""
        for source in self._sources:
            source.close()
        if self._target is not None:
            self._target.close()
            self._files.remove(self._path)


def _chunk(segment: Segment, source: File, position: int, offset: int) -> bytes:
    """A step's worth of bytes, and at least one batch."""
    left = segment.size - position
    data = source.read(position, min(STEP_BYTES, left))
    if len(data) < HEADER_BYTES:
        raise Broken(segment, position, offset, "the segment ends within a batch")
    size = size_of(data)
    return source.read(position, size) if len(data) < size <= left else data
