"""Damage in a log: how far it extends, and which parts cannot be read.

A log stays usable around damage.  The unit of damage is one batch: everything
before it and everything from the next valid batch on is read as usual, and the
offsets in between are absent, like records that compaction has removed.

    file      [ batch ][ batch ][ ##### ][ batch ][ batch ]
    offsets     0-9      10-14    15-19    20-29    30-31
                                  DamagedRange(first_offset=15, end_offset=20)

``DamageMap`` holds the ranges found since the log was opened, so that the same bytes
are not read twice, and so that they can be reported.

``survey`` determines the extent of damage that a reader has found.  Skipping
along headers is fast and trusts lengths, so a reader may notice damage far behind it.  A
survey starts at an index entry before it, whose position is known to be the beginning of
a batch, and checks every batch from there on:

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

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Final

from penstock.log.files import File
from penstock.log.index import SegmentIndex
from penstock.log.scan import OFFSET_END, Damage, check_chain, find_batch
from penstock.log.segment import Segment
from penstock.wire.records import (
    HEADER_BYTES,
    base_offset_of,
    last_offset_delta_of,
    max_timestamp_of,
    read_header,
    size_of,
)

RANGES_MAX: Final = 10_000  # Known at a time; what is found beyond that is an error for its readers.
# What is tried behind damage, which bounds the work on hostile bytes: valid batches, ...
CANDIDATES_MAX: Final = 1000
SUM_BYTES_MAX: Final = 1 << 28  # ... and bytes that are summed to find the next one, some 20 ms.
_SIZE_MAX: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of a segment that cannot be read, and the offsets that were in them."""

    path: str  # Of the segment.
    position: int
    end_position: int
    first_offset: int
    end_offset: int
    why: str

    @property
    def offsets(self) -> int:
        """How many offsets are affected."""
        return self.end_offset - self.first_offset


class DamageMap:
    """The damaged ranges of one log.

    A range may have no offsets: bytes between two batches that belong to neither.
    """

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []  # By rising offset.
        self._firsts: list[int] = []  # Their first offsets.
        self._ends: set[int] = set()  # Where they end.

    def add(self, found: DamagedRange) -> bool:
        """Remember a range; False if it is known, or there are too many."""
        known = any(
            found.path == other.path
            and (found.position, found.end_position) == (other.position, other.end_position)
            and (found.first_offset, found.end_offset) == (other.first_offset, other.end_offset)
            for other in self.ranges
        )
        if known or len(self.ranges) >= RANGES_MAX:
            return False
        self._keep([*self.ranges, found])
        return True

    def drop_segment(self, path: str) -> None:
        """Forget the ranges of a segment."""
        self._keep([found for found in self.ranges if found.path != path])

    def skip(self, offset: int) -> int:
        """The first offset from ``offset`` on that lies in no damaged range."""
        number = max(bisect_right(self._firsts, offset) - 1, 0)
        while number > 0 and self.ranges[number - 1].end_offset > offset:
            number -= 1
        while number < len(self.ranges) and self.ranges[number].first_offset <= offset:
            offset = max(offset, self.ranges[number].end_offset)
            number += 1
        return offset

    def sound_until(self, offset: int) -> int:
        """The end of the sound offsets that begin at ``offset``, which lies in no damaged range."""
        number = bisect_right(self._firsts, offset)
        return self._firsts[number] if number < len(self._firsts) else OFFSET_END

    def begins_in(self, path: str, offset: int) -> int:
        """The position in a segment of the first damage behind the batch of ``offset``."""
        for found in self.ranges[bisect_right(self._firsts, offset) :]:
            return found.position if found.path == path else OFFSET_END
        return OFFSET_END

    def is_seam(self, offset: int) -> bool:
        """Whether a damaged range ends there: the batch of the offset does not follow the one before."""
        return offset in self._ends

    def drop_before(self, offset: int) -> list[DamagedRange]:
        """Forget the ranges that end at or below ``offset``: their segments are deleted.  Returns them."""
        gone = [found for found in self.ranges if found.end_offset <= offset]
        if gone:
            self._keep([found for found in self.ranges if found.end_offset > offset])
        return gone

    def drop_from(self, offset: int) -> None:
        """Forget the ranges that begin at or above ``offset``: the log was cut there."""
        self._keep([found for found in self.ranges if found.first_offset < offset])

    def _keep(self, ranges: list[DamagedRange]) -> None:
        self.ranges = sorted(ranges, key=lambda found: (found.first_offset, found.end_offset))
        self._firsts = [found.first_offset for found in self.ranges]
        self._ends = {found.end_offset for found in self.ranges}


class Broken(Exception):  # noqa: N818 - it never leaves the log
    """A segment is damaged at a position."""

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
    """The damage that was found in a chunk that begins at ``position``."""
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
