"""Which parts of a log cannot be read.

A log stays usable around damage.  The unit of damage is one batch: everything
before it and everything from the next valid batch on is read as usual, and the
offsets in between are absent, like records that compaction has removed.

    file      [ batch ][ batch ][ ##### ][ batch ][ batch ]
    offsets     0-9      10-14    15-19    20-29    30-31
                                  DamagedRange(first_offset=15, end_offset=20)

``DamageMap`` holds the ranges found since the log was opened, so that the same bytes
are not read twice, and so that they can be reported.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

OFFSET_END: Final = 1 << 62  # Above all offsets.
RANGES_MAX: Final = 10_000  # Known at a time; what is found beyond that is an error for its readers.


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
        """Up to here one may read on from ``offset``, which lies in no damaged range."""
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
