"""Plans what to read from where.  Pure functions: no I/O.

    offsets      0          first          log start              end
    lake         ┆          │■■■■■■■■■■■■■■■■■■■■■■■■■■■■│         ┆
    log          ┆          ┆          │■■■■■■■■■■■■■■■■■■■■■■■■■■■│
    wanted       │──────────────────────────────────────────────│
    read from    │   gap    │   lake   │          log           │

Offsets are read from the log where it has them, and otherwise from the lake.  Offsets
in neither are a gap, which is always reported.  An offset without a record inside a
compacted log or the lake's range is not a gap.

Invariant: the located parts of a range, gaps included, are contiguous and cover it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from math import ceil
from typing import Final, Literal, NamedTuple, TypeVar

from penstock.model.ranges import OffsetRange

Where = Literal["log", "lake", "gap"]
Reached = dict[str, dict[int, int]]  # By topic and partition: the next offset.
Piece = TypeVar("Piece", bound=Sized)  # Whose length is its offsets.
At = Callable[[int], Reached]  # For a time in ms: by partition, the first offset that is not older.

ENOUGH: Final = 0.95  # Of the records that a batch may have: each probe for the rest costs the broker work.
TIME_MS_MAX: Final = 1 << 47  # Beyond every time that a broker accepts in a question.


class LocatedRange(NamedTuple):
    where: Where
    range: OffsetRange


def locate(wanted: OffsetRange, log_start: int, archived: Iterable[tuple[int, int]]) -> list[LocatedRange]:
    """Split a range by where its offsets are stored; ``archived`` are the ranges that the lake has."""
    found: list[LocatedRange] = []
    reached = wanted.start
    below = wanted.intersection(0, log_start)
    for start, end in sorted(archived):
        known = below.intersection(max(start, reached), end)
        if known:
            found += _nonempty("gap", wanted.intersection(reached, known.start))
            found.append(LocatedRange("lake", known))
            reached = known.end
    found += _nonempty("gap", below.intersection(reached, log_start))
    return found + _nonempty("log", wanted.intersection(log_start, wanted.end))


def _nonempty(where: Where, found: OffsetRange) -> list[LocatedRange]:
    return [LocatedRange(where, found)] if found else []


def archived(first: int, following: int, lost: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges of a partition that the lake has: from ``first`` to ``following``, without what was lost."""
    ranges = []
    reached = first
    for start, end in sorted(lost):
        ranges.append((reached, start))
        reached = max(reached, end)
    ranges.append((reached, following))
    return [(start, end) for start, end in ranges if start < end]


def united(pieces: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The offsets of some ranges of one partition, each once, in order."""
    found: list[OffsetRange] = []
    for piece in sorted(pieces, key=lambda each: each.start):
        if found and piece.start <= found[-1].end:
            found[-1] = replace(found[-1], end=max(found[-1].end, piece.end))
        elif piece:
            found.append(piece)
    return found


def split(whole: OffsetRange, records: int) -> Iterator[OffsetRange]:
    """Equal pieces of at most ``records`` offsets each."""
    count = ceil(len(whole) / records)
    for number in range(count):
        start = whole.start + len(whole) * number // count
        yield whole.intersection(start, whole.start + len(whole) * (number + 1) // count)


def together(pieces: Iterable[Piece], records: int) -> Iterator[list[Piece]]:
    """Group neighbours up to ``records`` offsets; a larger piece forms its own group."""
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
    """How far so many records go if every partition gets its share of what waits, by count.

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


class Cut(NamedTuple):
    """Where a batch ends that holds what was published before a time, and how many records that is."""

    time_ms: int
    place: Reached
    records: int


def aligned(start: Reached, end: Reached, records: float, guess: tuple[int, int], at: At) -> Cut:
    """The end of a micro-batch of at most ``records`` records: one publish time T in all partitions.

    T is the latest time before which at most ``records`` records were published (or nearly: ``ENOUGH``).  So
    no record of a later batch was published before one of this batch, and this batch's watermark does not
    exclude it.  If one more millisecond would exceed the limit, records of T itself are added by count, so
    there is always progress.

    ``guess`` are two times between which T may be; a good guess saves lookups.
    """

    def until(time_ms: int) -> Cut:
        place = within(start, at(time_ms), end)
        return Cut(time_ms, place, distance(start, place))

    records = max(int(records), 1)
    step = max(abs(guess[1] - guess[0]), 1)
    low, high = until(max(min(guess), 0)), until(min(max(*guess, 0) + 1, TIME_MS_MAX))
    while low.records > records and low.time_ms > 0:
        low, high, step = until(max(low.time_ms - step, 0)), low, step * 2
    while high.records <= records and high.time_ms < TIME_MS_MAX:
        low, high, step = high, until(min(high.time_ms + step, TIME_MS_MAX)), step * 2
    if low.records > records or high.records <= records:  # Times beyond all bounds: only the count is left.
        return Cut(low.time_ms, admitted(start, end, records), records)
    halving = False
    while high.time_ms - low.time_ms > 1 and low.records < records * ENOUGH:
        middle = until(_between(low, high, records, halving))
        halving = not halving  # In turns: guessing is quick if records come steadily, halving always ends.
        low, high = (middle, high) if middle.records <= records else (low, middle)
    if low.records < records * ENOUGH:
        return Cut(low.time_ms, admitted(low.place, high.place, records - low.records), records)
    return low


def _between(low: Cut, high: Cut, records: float, halving: bool) -> int:
    """The time to try next: the middle, or where the count would be right if records came steadily."""
    if halving:
        return (low.time_ms + high.time_ms) // 2
    share = (records - low.records) / (high.records - low.records)
    guess_ms = low.time_ms + int((high.time_ms - low.time_ms) * share)
    return min(max(guess_ms, low.time_ms + 1), high.time_ms - 1)


def newest(place: Reached, least_ms: int, at: At) -> int:
    """The latest publish time of the records before a place, which is ``least_ms`` or later."""

    def reaches(time_ms: int) -> bool:
        return within({}, at(time_ms), place) == place

    low, step = least_ms, 1
    while low + step < TIME_MS_MAX and not reaches(low + step):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return low


def distance(start: Reached, end: Reached) -> int:
    """How many offsets lie between two places."""
    return sum(map(len, ranges_between(start, end)))


def highest(one: Reached, other: Reached) -> Reached:
    """In each partition the place that is further on."""
    return {
        topic: {
            number: max(one.get(topic, {}).get(number, 0), other.get(topic, {}).get(number, 0))
            for number in one.get(topic, {}) | other.get(topic, {})
        }
        for topic in one | other
    }


def within(low: Reached, place: Reached, high: Reached) -> Reached:
    """A position in the partitions of ``high``, limited to between ``low`` and ``high``."""
    return {
        topic: {
            number: max(low.get(topic, {}).get(number, 0), min(place.get(topic, {}).get(number, 0), limit))
            for number, limit in limits.items()
        }
        for topic, limits in high.items()
    }


def records_for(bytes_max: int, sizes: Iterable[tuple[int, int]]) -> float:
    """How many records are about so many bytes, by the records and bytes that are stored."""
    stored = list(sizes)
    records = sum(each for each, _ in stored)
    size = sum(each for _, each in stored)
    return bytes_max * records / size if size else float("inf")


def ranges_between(
    start: Mapping[str, Mapping[int, int]], end: Mapping[str, Mapping[int, int]]
) -> list[OffsetRange]:
    """The non-empty ranges from one position to another; a partition without a start begins at 0."""
    return [
        OffsetRange(topic, partition, start.get(topic, {}).get(partition, 0), offset)
        for topic, offsets in end.items()
        for partition, offset in offsets.items()
        if offset > start.get(topic, {}).get(partition, 0)
    ]
