"""Which offsets are not in the normal lane.

A batch belongs to one lane, and nearly all batches belong to *normal* (0), so
the index lists only the others, as ranges of offsets.  Offsets 0 to 11:

    offset      0   1   2   3   4   5   6   7   8   9  10  11
    lane        0   0   1   1   0   2   2   1   0   0   0  -1
    lane  2                         [-----)
    lane  1             [-----)             [-)
    lane -1                                                 [-)
    others              [-----)     [---------)             [-)

``others`` is the union, so that the gaps of it are the normal lane.

Invariants: in each of these rows the ranges rise, are not empty, and neither
overlap nor touch (touching ones are merged), so "the first run from here on"
is one binary search, and a run is always maximal.

Cost: ``add`` O(1); ``next_range`` O(log ranges); ``put_before`` and ``drop_before``
O(ranges); 32 bytes a range that is merged with no neighbour.  A log that alternates lanes message by message
therefore costs 32 bytes a message: publish in batches.

Pure and compiled: no I/O; ``log/index.py`` stores the ranges with a segment.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

NORMAL: Final = 0


class Ranges:
    """Rising, disjoint, non-touching ranges of offsets."""

    def __init__(self) -> None:
        self.starts: array[int] = array("q")
        self.ends: array[int] = array("q")

    def add(self, start: int, end: int) -> None:
        """Append a range at or above all others; one that touches the last makes it longer."""
        if self.ends:
            last = self.ends[-1]
            assert start >= last, "ranges are added in rising order"
            if start == last:
                self.ends[-1] = end
                return
        self.starts.append(start)
        self.ends.append(end)

    def put_before(self, lower: "Ranges") -> None:
        """Add ranges that all lie at or below these."""
        starts, ends = lower.starts, lower.ends
        if starts and self.starts:
            assert ends[-1] <= self.starts[0], "lower ranges lie below"
            if ends[-1] == self.starts[0]:  # They touch: one range from now on.
                self.starts[0] = starts[-1]
                starts, ends = starts[:-1], ends[:-1]
        self.starts = starts + self.starts
        self.ends = ends + self.ends

    def drop_before(self, offset: int) -> None:
        gone = bisect_right(self.ends, offset)
        del self.starts[:gone]
        del self.ends[:gone]
        if self.starts and self.starts[0] < offset:
            self.starts[0] = offset

    def drop_from(self, offset: int) -> None:
        """Forget everything at or above ``offset``."""
        kept = bisect_left(self.starts, offset)
        del self.starts[kept:]
        del self.ends[kept:]
        if self.ends and self.ends[-1] > offset:
            self.ends[-1] = offset


class LaneIndex:
    """The lanes of all offsets of one log."""

    def __init__(self) -> None:
        self._lanes: dict[int, Ranges] = {}
        self._others = Ranges()

    def add(self, start: int, end: int, lane: int) -> None:
        """Offsets ``[start, end)``, above all added before, are in ``lane``."""
        if lane == NORMAL or start >= end:
            return
        self._others.add(start, end)
        ranges = self._lanes.get(lane)
        if ranges is None:
            ranges = Ranges()
            self._lanes[lane] = ranges
        ranges.add(start, end)

    def next_range(self, lane: int, cursor: int, high: int) -> tuple[int, int]:
        """The first maximal run of ``lane`` within ``[cursor, high)``; ``(high, high)`` if there is none."""
        if cursor >= high:
            return high, high
        if lane == NORMAL:
            return self._next_gap(cursor, high)
        ranges = self._lanes.get(lane)
        if ranges is None:
            return high, high
        number = bisect_right(ranges.ends, cursor)
        if number == len(ranges.ends):
            return high, high
        start = ranges.starts[number]
        if start >= high:
            return high, high
        return max(start, cursor), min(ranges.ends[number], high)

    def _next_gap(self, cursor: int, high: int) -> tuple[int, int]:
        starts = self._others.starts
        ends = self._others.ends
        number = bisect_right(ends, cursor)
        if number < len(starts) and starts[number] <= cursor:
            cursor = ends[number]
            number += 1
            if cursor >= high:
                return high, high
        if number < len(starts) and starts[number] < high:
            return cursor, starts[number]
        return cursor, high

    def lanes(self) -> list[int]:
        """The lanes that occur, highest first; the normal one always does."""
        return sorted({NORMAL, *self._lanes}, reverse=True)

    def ranges(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """All (start, end, lane) within ``[start, end)`` that are not normal, rising."""
        found: list[tuple[int, int, int]] = []
        for lane in self._lanes:
            first, last = self.next_range(lane, start, end)
            while first < end:
                found.append((first, last, lane))
                first, last = self.next_range(lane, last, end)
        found.sort()
        return found

    def put_before(self, ranges: list[tuple[int, int, int]]) -> None:
        """Offsets that were deleted are there again: rising (start, end, lane), below all known here."""
        others = Ranges()
        lanes: dict[int, Ranges] = {}
        for start, end, lane in ranges:
            others.add(start, end)
            lanes.setdefault(lane, Ranges()).add(start, end)
        self._others.put_before(others)
        for lane, lower in lanes.items():
            self._lanes.setdefault(lane, Ranges()).put_before(lower)

    def drop_before(self, offset: int) -> None:
        """Forget everything below ``offset``: those segments are deleted."""
        self._others.drop_before(offset)
        for lane, ranges in list(self._lanes.items()):
            ranges.drop_before(offset)
            if not ranges.starts:
                del self._lanes[lane]

    def drop_from(self, offset: int) -> None:
        """Forget everything at or above ``offset``: the log was cut there."""
        self._others.drop_from(offset)
        for lane, ranges in list(self._lanes.items()):
            ranges.drop_from(offset)
            if not ranges.starts:
                del self._lanes[lane]
