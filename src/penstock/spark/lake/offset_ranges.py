"""Set operations on offset ranges: contiguous runs, overlaps, differences.

    offsets   0 1 2 3   5 6     8 9 10         as runs    [0, 4) [5, 7) [8, 11)

A file of an ordinary topic is one run, however many rows it has, so whole tables are
compared in little memory.  All ranges of one call belong to the same partition.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.ranges import OffsetRange


def runs_of(offsets: pa.Int64Array, topic: str, partition: int) -> list[OffsetRange]:
    """Ascending offsets as contiguous runs."""
    if not len(offsets):
        return []
    steps = pc.pairwise_diff(offsets)
    breaks = pc.indices_nonzero(pc.fill_null(pc.not_equal(steps, 1), True)).to_pylist()
    ends = [*breaks[1:], len(offsets)]
    return [
        OffsetRange(topic, partition, offsets[begin].as_py(), offsets[end - 1].as_py() + 1)
        for begin, end in zip(breaks, ends, strict=True)
    ]


def by_start(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    return sorted(ranges, key=lambda each: (each.start, each.end))


def merged(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Sorted ranges, with adjacent ones merged."""
    before: OffsetRange | None = None
    for each in ranges:
        if before is None:
            before = each
        elif before.end == each.start:
            before = OffsetRange(each.topic, each.partition, before.start, each.end)
        else:
            yield before
            before = each
    if before is not None:
        yield before


def overlaps(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """The offsets that are in more than one of the ranges, which are sorted by start."""
    end = 0
    for each in ranges:
        if each.start < end:
            yield each.intersection(each.start, end)
        end = max(end, each.end)


def difference(whole: OffsetRange, ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """The offsets of a range that are in none of the others, which are sorted by start."""
    start = whole.start
    for each in ranges:
        if each.start > start:
            yield whole.intersection(start, each.start)
        start = max(start, each.end)
        if start >= whole.end:
            return
    if start < whole.end:
        yield whole.intersection(start, whole.end)


def offsets_text(start: int, end: int) -> str:
    """A range in words, such as ``offsets 3 to 6``."""
    return f"offset {start}" if end - start == 1 else f"offsets {start} to {end - 1}"
