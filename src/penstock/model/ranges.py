"""A contiguous range of offsets of one partition.

    offsets      0 1 2 [3 4 5 6) 7 8        OffsetRange("orders", 0, 3, 7), of length 4

Half-open, like Python's ranges: ``start`` belongs to it and ``end`` does not.  A
range may be empty; an empty one is false.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, from ``start`` up to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    def intersection(self, start: int, end: int) -> "OffsetRange":
        """The part of it that lies in ``[start, end)``; empty if there is none."""
        begin = min(max(self.start, start), self.end)
        return OffsetRange(self.topic, self.partition, begin, max(begin, min(self.end, end)))

    def __len__(self) -> int:
        return self.end - self.start
