"""Determines the extent of damage that a reader of a segment has found.

Skipping along headers is fast and trusts lengths, so a reader may notice damage far
after the place where it is.  A survey starts at an index entry before it, whose
position is known to be the beginning of a batch, and checks every batch from there on:

    entry                                       next entry
      v                                           v
      [ good ][ good ][ ######## ][ good ][ good ][ good ...
                      damaged      ^ the next valid batch, confirmed by what follows it

It ends at the first index entry behind the damage.  So it reads about
twice ``index_bytes`` and two batches, however long the segment is.

Bytes that look like a batch inside the damaged range may be part of a message.  So a
valid batch only counts if what follows matches its offsets: the next batch, the next
index entry, or the end of the segment.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from penstock.log.damage import DamagedRange
from penstock.log.files import File
from penstock.log.index import SegmentIndex
from penstock.log.scan import Damage, check_chain, find_batch
from penstock.log.segment import Segment
from penstock.wire.records import (
    HEADER_BYTES,
    base_offset_of,
    last_offset_delta_of,
    max_timestamp_of,
    read_header,
    size_of,
)

# What is tried behind damage, which bounds the work on hostile bytes: valid batches, ...
CANDIDATES_MAX: Final = 1000
SUM_BYTES_MAX: Final = 1 << 28  # ... and bytes that are summed to find the next one, some 20 ms.
_SIZE_MAX: Final = 1 << 31


class Broken(Exception):  # noqa: N818 - it never leaves the log
    """A segment is not as it should be at a position."""

    def __init__(
        self, segment: Segment, position: int, offset: int, why: str, unreadable: bool = False
    ) -> None:
        super().__init__(why)
        self.segment = segment
        self.position = position
        self.offset = offset  # What should begin there.
        self.why = why
        self.unreadable = unreadable  # One whole batch, whose checksum is right.


def broken_at(segment: Segment, position: int, damage: Damage) -> Broken:
    """What was found in a chunk that begins at ``position``."""
    return Broken(segment, position + damage.at, damage.offset, damage.why, damage.unreadable)


@dataclass(slots=True)
class Survey:
    damage: list[DamagedRange] = field(default_factory=list)
    entries: list[tuple[int, int, int]] = field(default_factory=list)  # For the index: see ``Index.insert``.
    index_wrong: bool = False  # It is about other bytes: the segment has to be scanned.


def survey(
    segment: Segment, file: File, index: SegmentIndex, position: int, offset: int, following: int
) -> Survey:
    """Look for the damage that a reader met at ``position``, where it expected ``offset``.

    ``following`` is where the next segment begins.
    """
    found = Survey()
    path = segment.log_path
    if offset >= segment.next_offset and position >= segment.size:
        why = f"offsets {segment.next_offset} to {following - 1} are missing"
        found.damage.append(
            DamagedRange(path, segment.size, segment.size, segment.next_offset, following, why)
        )
    elif not index.offsets or offset < index.offsets[0]:
        end, end_offset = _entry(segment, index, 0)
        why = f"the batch of offset {segment.base_offset} is missing"
        found.damage.append(DamagedRange(path, 0, end, segment.base_offset, end_offset, why))
    else:
        # A wrong length leads too far along the file, a wrong count too far along the offsets; and what
        # misleads is the batch before the one that was not there.
        numbers = (bisect_left(index.positions, position), bisect_left(index.offsets, offset))
        _walk(segment, file, index, max(min(numbers) - 1, 0), position, found)
    return found


def _entry(segment: Segment, index: SegmentIndex, number: int) -> tuple[int, int]:
    """Position and offset of an index entry; behind the last one, of the end of the segment."""
    if number < len(index.offsets):
        return index.positions[number], index.offsets[number]
    return segment.size, segment.next_offset


def _walk(segment: Segment, file: File, index: SegmentIndex, number: int, until: int, found: Survey) -> None:
    """Check the batches from an index entry on, up to the first entry behind damage, or behind ``until``."""
    position, offset = _entry(segment, index, number)
    before = index.befores[number]
    end, end_offset = _entry(segment, index, number + 1)
    while position < segment.size:
        if position >= end:
            if found.damage or position > until:
                return
            number += 1
            end, end_offset = _entry(segment, index, number + 1)
        size, newest, why = _batch(segment, file, position, offset)
        if not why and position + size > end:
            found.index_wrong = True
            return
        if not why:
            before = max(before, newest)
            position, offset = position + size, read_header(file.read(position, HEADER_BYTES)).next_offset
            continue
        goes_on, next_offset = _resume(file, position, offset, end, end_offset)
        found.damage.append(DamagedRange(segment.log_path, position, goes_on, offset, next_offset, why))
        if goes_on < segment.size:
            found.entries.append((next_offset, goes_on, before))
        position, offset = goes_on, next_offset


def _batch(segment: Segment, file: File, position: int, offset: int) -> tuple[int, int, str]:
    """Size and newest time of the batch that should be there, and what is wrong with it."""
    head = file.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return 0, 0, "the segment ends within a batch"
    size = size_of(head)
    if not HEADER_BYTES <= size <= segment.size - position:
        return 0, 0, f"a batch of {size} bytes, and {segment.size - position} are left"
    try:
        check_chain(file.read(position, size), offset)
    except Damage as damage:
        return 0, 0, damage.why
    return size, max_timestamp_of(head), ""


def _resume(file: File, position: int, offset: int, end: int, end_offset: int) -> tuple[int, int]:
    """Where the next valid batch behind the damage at ``position`` begins, at the latest at ``end``."""
    data = file.read(position, end - position)
    at = 1
    for _ in range(CANDIDATES_MAX):
        at = find_batch(data, offset, end_offset, begin=at, sum_max=SUM_BYTES_MAX)
        if at < 0:
            break
        header = read_header(data, at)
        following = at + header.size
        announced = header.next_offset
        if following == len(data):
            confirmed = announced == end_offset
        else:
            confirmed = base_offset_of(data, following) == announced
        if confirmed or _claimed(data, at, header.base_offset, offset):
            return position + at, header.base_offset
        at += 1
    return end, end_offset


def _claimed(data: bytes, at: int, base: int, offset: int) -> bool:
    """Whether the damaged batch itself says that the next one begins at ``at``."""
    size, delta = size_of(data), last_offset_delta_of(data)
    return at == size < _SIZE_MAX and delta >= 0 and base == offset + delta + 1
