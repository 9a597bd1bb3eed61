"""What is to be read from where, decided without asking anybody.

    offsets      0          first          log start              end
    lake         ┆          │■■■■■■■■■■■■■■■■■■■■■■■■■■■■│         ┆
    log          ┆          ┆          │■■■■■■■■■■■■■■■■■■■■■■■■■■■│
    wanted       │──────────────────────────────────────────────│
    is read as   │   gap    │   lake   │          log           │

The log is read as far back as it goes, and what lies before it from the lake.
What is in neither is a gap, and a gap is never passed over in silence.  An
offset without a record (of a compacted topic) inside the log or the lake's
range is no gap.

Invariant: the parts of a span, gaps among them, follow each other without
overlap and are the span.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple, TypeVar

Where = Literal["log", "lake", "gap"]
Reached = dict[str, dict[int, int]]  # By topic and partition: the next offset.
Piece = TypeVar("Piece", bound=Sized)  # Whose length is its offsets.


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, from ``start`` up to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int

    def part(self, start: int, end: int) -> "Span":
        """What it has in common with a range; empty if nothing."""
        begin = min(max(self.start, start), self.end)
        return Span(self.topic, self.partition, begin, max(begin, min(self.end, end)))

    def __len__(self) -> int:
        return self.end - self.start


class Part(NamedTuple):
    """A span, and where it is."""

    where: Where
    span: Span


def parts(span: Span, log_start: int, archived: Iterable[tuple[int, int]]) -> list[Part]:
    """Where the offsets of a span are; ``archived`` are the lake's ranges."""
    found: list[Part] = []
    reached = span.start
    below = span.part(0, log_start)
    for start, end in sorted(archived):
        known = below.part(max(start, reached), end)
        if len(known):
            found += _some("gap", span.part(reached, known.start))
            found.append(Part("lake", known))
            reached = known.end
    found += _some("gap", below.part(reached, log_start))
    return found + _some("log", span.part(log_start, span.end))


def _some(where: Where, span: Span) -> list[Part]:
    return [Part(where, span)] if len(span) else []


def archived(first: int, following: int, lost: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges of a partition that the lake has: from ``first`` to ``following``, without what was lost."""
    ranges = []
    reached = first
    for start, end in sorted(lost):
        ranges.append((reached, start))
        reached = max(reached, end)
    ranges.append((reached, following))
    return [(start, end) for start, end in ranges if start < end]


def split(span: Span, records: int) -> Iterator[Span]:
    """Equal pieces of at most so many offsets."""
    count = ceil(len(span) / records)
    for number in range(count):
        start = span.start + len(span) * number // count
        yield span.part(start, span.start + len(span) * (number + 1) // count)


def together(pieces: Iterable[Piece], records: int) -> Iterator[list[Piece]]:
    """Neighbours in groups of at most so many offsets; a piece that has more is by itself."""
    group: list[Piece] = []
    total = 0
    for piece in pieces:
        if group and total + len(piece) > records:
            yield group
            group, total = [], 0
        group.append(piece)
        total += len(piece)
    if group:
        yield group


def admitted(start: Reached, end: Reached, records: float) -> Reached:
    """How far a micro-batch of so many records goes: every partition by its share of what waits.

    At least one record of some partition, so that it gets on.
    """
    waiting = {
        (topic, partition): offset - start.get(topic, {}).get(partition, 0)
        for topic, offsets in end.items()
        for partition, offset in offsets.items()
    }
    total = sum(waiting.values())
    if total <= records:
        return end
    left = max(int(records), 1)
    reached: Reached = {topic: {} for topic in end}
    for (topic, partition), count in waiting.items():
        # Of what is left, the share in what still waits: so the last one gets all of the rest.
        share = left if total == count else round(left * count / total) if total else 0
        share = min(share, count)
        reached[topic][partition] = end[topic][partition] - count + share
        left -= share
        total -= count
    return reached


def records_for(bytes_max: int, sizes: Iterable[tuple[int, int]]) -> float:
    """How many records are about so many bytes, by the records and bytes that are stored."""
    stored = list(sizes)
    records = sum(each for each, _ in stored)
    size = sum(each for _, each in stored)
    return bytes_max * records / size if size else float("inf")


def spans(start: Mapping[str, Mapping[int, int]], end: Mapping[str, Mapping[int, int]]) -> list[Span]:
    """From one place to another; a partition that has no start is read from its beginning."""
    return [
        Span(topic, partition, start.get(topic, {}).get(partition, 0), offset)
        for topic, offsets in end.items()
        for partition, offset in offsets.items()
        if offset > start.get(topic, {}).get(partition, 0)
    ]
