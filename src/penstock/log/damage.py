"""Which parts of a log cannot be read.

A log stays usable around damage.  The unit of damage is one batch: everything
before it and everything from the next valid batch on is read as usual, and the
offsets in between are absent, like records that compaction has removed.

    file      [ batch ][ batch ][ ##### ][ batch ][ batch ]
    offsets     0-9      10-14    15-19    20-29    30-31
                                  DamagedRange(first_offset=15, end_offset=20)

``DamageMap`` holds the ranges that were found since the log was opened, so that
nobody tries to read the same bytes twice, and so that they can be reported.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

RANGES_MAX: Final = 10_000  # Known at a time; what is found beyond that is an error for whoever reads it.


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
    """The damaged ranges of one log."""

    def __init__(self) -> None:
        self.ranges: list[DamagedRange] = []  # All of them.
        self._holes: list[DamagedRange] = []  # Those with offsets, by rising offset.
        self._firsts: list[int] = []  # Their first offsets.

    def add(self, found: DamagedRange) -> bool:
        """Remember a range; False if it is known, or there are too many."""
        if found in self.ranges or len(self.ranges) >= RANGES_MAX:
            return False
        self._keep([*self.ranges, found])
        return True

    def skip(self, offset: int) -> int:
        """The first offset from ``offset`` on that lies in no damaged range."""
        place = bisect_right(self._firsts, offset) - 1
        while 0 <= place < len(self._holes):
            found = self._holes[place]
            if offset < found.first_offset:
                break
            offset = max(offset, found.end_offset)
            place += 1
        return offset

    def next_at(self, offset: int) -> DamagedRange | None:
        """The first range that begins at or above ``offset``."""
        place = bisect_left(self._firsts, offset)
        return self._holes[place] if place < len(self._holes) else None

    def drop_before(self, offset: int) -> None:
        """Forget the ranges that end at or below ``offset``: their segments are deleted."""
        self._keep([found for found in self.ranges if found.end_offset > offset])

    def drop_from(self, offset: int) -> None:
        """Forget the ranges that begin at or above ``offset``: the log was cut there."""
        self._keep([found for found in self.ranges if found.first_offset < offset])

    def _keep(self, ranges: list[DamagedRange]) -> None:
        self.ranges = sorted(ranges, key=lambda found: (found.first_offset, found.end_offset))
        self._holes = [found for found in self.ranges if found.offsets]
        self._firsts = [found.first_offset for found in self._holes]
