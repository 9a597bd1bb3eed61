"""The sparse index of a segment: finds offsets and times, and is stored beside it.

There is one entry for about every ``index_bytes`` of the segment.

    entry      offset     of the first record of a batch
               position   of that batch in the segment, in bytes
               before     the highest timestamp of all records before that batch

    offset -> the last entry at or below it, then along the batch headers
    time   -> the last entry with ``before`` below it, then along the headers

One list serves both, because ``before`` never falls along a log, whatever the times of the records.

The stored form (``.index``) contains the length of its segment.  So it also marks a
clean shutdown: a segment that is exactly as long as a valid index says needs no scan
when it is opened.  The lanes (``.lanes``) are stored in the same way if the segment has
records outside the normal lane.  Both files are checksummed and derived: if one is
missing, torn or damaged, the segment is scanned and both are rebuilt.  So they are
written without a sync.

Cost: 24 bytes an entry, that is 1.5 MB for a segment of 256 MiB; a look-up is
a binary search in a C array.  ``docs/format/log.md`` describes the format.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

INDEX_MAGIC: Final = b"PsIx"
LANES_MAGIC: Final = b"PsLn"
VERSION: Final = 1

# magic, version, 0, base and next offset, segment bytes, max timestamp, entries, lane ranges, two checksums
_INDEX_HEAD: Final = Struct("<4sHHqqqqqqII")
# magic, version, 0, base offset, segment bytes, ranges, body crc, head crc
_LANES_HEAD: Final = Struct("<4sHHqqqII")
_CRC_BYTES: Final = 4  # The head's own checksum is its last field and covers all before it.

INDEX_HEAD_BYTES: Final = _INDEX_HEAD.size
LaneRange = tuple[int, int, int]


class SegmentIndex:
    """The entries of one segment, in memory."""

    __slots__ = ("befores", "offsets", "positions")

    def __init__(self) -> None:
        self.offsets: array[int] = array("q")
        self.positions: array[int] = array("q")
        self.befores: array[int] = array("q")

    def add(self, offset: int, position: int, before: int) -> None:
        """Append an entry; all three rise."""
        self.offsets.append(offset)
        self.positions.append(position)
        self.befores.append(before)

    def insert(self, offset: int, position: int, before: int) -> bool:
        """Add an entry between others, where a batch begins behind damage; False if it is there."""
        number = bisect_left(self.positions, position)
        if number < len(self.positions) and self.positions[number] == position:
            return False
        self.offsets.insert(number, offset)
        self.positions.insert(number, position)
        self.befores.insert(number, before)
        return True

    def find_offset(self, offset: int) -> tuple[int, int]:
        """Offset and position of the last entry at or below ``offset``."""
        number = bisect_right(self.offsets, offset) - 1
        return self.offsets[number], self.positions[number]

    def find_mark(self, position: int, offset: int) -> tuple[int, int]:
        """Offset and position of the last entry neither behind ``position`` nor above ``offset``."""
        number = min(bisect_right(self.positions, position), bisect_right(self.offsets, offset)) - 1
        return self.offsets[number], self.positions[number]

    def find_time(self, timestamp: int) -> tuple[int, int]:
        """Offset and position of the last entry with only earlier records before it."""
        number = max(bisect_left(self.befores, timestamp) - 1, 0)
        return self.offsets[number], self.positions[number]

    def drop_from(self, position: int) -> None:
        """Forget the entries at or behind ``position``."""
        kept = bisect_left(self.positions, position)
        del self.offsets[kept:]
        del self.positions[kept:]
        del self.befores[kept:]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHead:
    """What an index file says of its segment, before the entries."""

    base_offset: int
    next_offset: int
    segment_bytes: int
    max_timestamp: int
    entries: int
    lane_ranges: int  # 0: there is no lanes file.
    body_crc: int


def encode_index(head: IndexHead, index: SegmentIndex) -> bytes:
    """An index file.  ``entries`` and ``body_crc`` of the head are filled in here."""
    body = b"".join(_little(column) for column in (index.offsets, index.positions, index.befores))
    packed = _INDEX_HEAD.pack(
        INDEX_MAGIC, VERSION, 0, head.base_offset, head.next_offset, head.segment_bytes, head.max_timestamp,
        len(index.offsets), head.lane_ranges, crc32c(body), 0,
    )  # fmt: skip
    return _sealed(packed) + body


def decode_index_head(data: bytes) -> IndexHead | None:
    """The head of an index file, or None if these bytes are none."""
    if len(data) < INDEX_HEAD_BYTES:
        return None
    (
        magic, version, _, base_offset, next_offset, segment_bytes, max_timestamp, entries, lane_ranges,
        body_crc, head_crc,
    ) = _INDEX_HEAD.unpack_from(data)  # fmt: skip
    if magic != INDEX_MAGIC or version != VERSION or head_crc != _head_crc(data, INDEX_HEAD_BYTES):
        return None
    return IndexHead(
        base_offset=base_offset,
        next_offset=next_offset,
        segment_bytes=segment_bytes,
        max_timestamp=max_timestamp,
        entries=entries,
        lane_ranges=lane_ranges,
        body_crc=body_crc,
    )


def decode_index(data: bytes) -> SegmentIndex | None:
    """The entries of an index file, or None if it is damaged."""
    head = decode_index_head(data)
    if head is None or len(data) != INDEX_HEAD_BYTES + head.entries * 24 or head.entries < 0:
        return None
    body = memoryview(data)[INDEX_HEAD_BYTES:]
    if crc32c(body) != head.body_crc:
        return None
    index = SegmentIndex()
    size = head.entries * 8
    for number, column in enumerate((index.offsets, index.positions, index.befores)):
        _load(column, body[number * size : (number + 1) * size])
    return index


def encode_lanes(base_offset: int, segment_bytes: int, ranges: list[LaneRange]) -> bytes:
    starts = array("q", [start for start, _, _ in ranges])
    ends = array("q", [end for _, end, _ in ranges])
    lanes = array("b", [lane for _, _, lane in ranges])
    body = _little(starts) + _little(ends) + lanes.tobytes()
    head = (LANES_MAGIC, VERSION, 0, base_offset, segment_bytes, len(ranges), crc32c(body), 0)
    return _sealed(_LANES_HEAD.pack(*head)) + body


def decode_lanes(data: bytes, base_offset: int, segment_bytes: int) -> list[LaneRange] | None:
    """The ranges of a lanes file, or None if it is damaged or of another state of the segment."""
    if len(data) < _LANES_HEAD.size:
        return None
    magic, version, _, base, size, count, body_crc, head_crc = _LANES_HEAD.unpack_from(data)
    if magic != LANES_MAGIC or version != VERSION or head_crc != _head_crc(data, _LANES_HEAD.size):
        return None
    body = memoryview(data)[_LANES_HEAD.size :]
    if (base, size, len(body)) != (base_offset, segment_bytes, count * 17) or crc32c(body) != body_crc:
        return None
    starts: array[int] = array("q")
    ends: array[int] = array("q")
    lanes: array[int] = array("b")
    _load(starts, body[: count * 8])
    _load(ends, body[count * 8 : count * 16])
    lanes.frombytes(body[count * 16 :])
    return list(zip(starts, ends, lanes, strict=True))


def _sealed(packed: bytes) -> bytes:
    head = packed[:-_CRC_BYTES]
    return head + crc32c(head).to_bytes(_CRC_BYTES, "little")


def _head_crc(data: bytes, size: int) -> int:
    return crc32c(memoryview(data)[: size - _CRC_BYTES])


def _little(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _load(column: "array[int]", data: memoryview) -> None:
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
