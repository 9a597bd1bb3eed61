"""Offsets in spans: which there are, which are there twice, and which are not.

    offsets   0 1 2 3   5 6     8 9 10         as spans   [0, 4) [5, 7) [8, 11)

A file of an ordinary topic is one span, however many rows it has, so whole
tables are compared in little memory.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class Span(NamedTuple):
    """Offsets from ``start`` up to before ``end``."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"offset {self.start}" if len(self) == 1 else f"offsets {self.start} to {self.end - 1}"

    def __len__(self) -> int:
        return self.end - self.start


def spans_of(offsets: pa.Int64Array) -> list[Span]:
    """Rising offsets as spans; a span ends where an offset does not follow the one before it."""
    if not len(offsets):
        return []
    steps = pc.pairwise_diff(offsets)
    breaks = pc.indices_nonzero(pc.fill_null(pc.not_equal(steps, 1), True)).to_pylist()
    ends = [*breaks[1:], len(offsets)]
    return [
        Span(offsets[begin].as_py(), offsets[end - 1].as_py() + 1)
        for begin, end in zip(breaks, ends, strict=True)
    ]


def joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Spans in order, with those that touch as one."""
    before: Span | None = None
    for span in spans:
        if before is None:
            before = span
        elif before.end == span.start:
            before = Span(before.start, span.end)
        else:
            yield before
            before = span
    if before is not None:
        yield before


def overlaps(spans: Iterable[Span]) -> Iterator[Span]:
    """What is in more than one of some spans, which come by their starts."""
    end = 0
    for span in spans:
        if span.start < end:
            yield Span(span.start, min(span.end, end))
        end = max(end, span.end)


def without(whole: Span, spans: Iterable[Span]) -> Iterator[Span]:
    """What is left of a span without others, which come by their starts."""
    start = whole.start
    for span in spans:
        if span.start > start:
            yield Span(start, min(span.start, whole.end))
        start = max(start, span.end)
        if start >= whole.end:
            return
    if start < whole.end:
        yield Span(start, whole.end)
