"""Translates the filters of a query into bounds, so that excluded offsets are not read.

    where partition = 3 and offset >= 700 and timestamp < '2026-11-16'
    where offset in (7, 8, 4000)

Filters on topic, partition, offset and timestamp narrow ``Bounds``; Spark evaluates
all others.  Applied filters are exact and need not be evaluated again, because these
columns are never null and timestamps are whole milliseconds.  Spark 4.3 tells a Python
source neither of ``or`` nor of limits and columns; ``regions.py`` is for queries whose plan is known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

T = TypeVar("T")

OFFSETS_MAX: Final = 100  # Of one IN; each may be a request of its own, so more are cheaper in one go.
INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers, from the lowest to the highest."""

    low: int = INT_MIN
    high: int = INT_MAX

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def both(self, other: "Interval") -> "Interval":
        """What lies in both; nothing if its lowest is above its highest."""
        return Interval(max(self.low, other.low), min(self.high, other.high))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the rows that a query can return."""

    topics: frozenset[str] | None = None  # None: any.
    partitions: frozenset[int] | None = None
    partition: Interval = Interval()
    offset: Interval = Interval()
    offsets: frozenset[int] | None = None  # None: any within the interval.
    time_us: Interval = Interval()

    def both(self, other: "Bounds") -> "Bounds":
        """The bounds of rows that are within both."""
        return Bounds(
            topics=_common(self.topics, other.topics),
            partitions=_common(self.partitions, other.partitions),
            partition=self.partition.both(other.partition),
            offset=self.offset.both(other.offset),
            offsets=_common(self.offsets, other.offsets),
            time_us=self.time_us.both(other.time_us),
        )

    def has(self, topic: str, partition: int) -> bool:
        """Whether a partition can have rows within the bounds."""
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and partition in self.partition
        )

    def runs(self) -> list[Interval]:
        """The offsets, as few intervals as possible, in order."""
        if self.offsets is None:
            return [self.offset]
        found: list[Interval] = []
        for number in sorted(number for number in self.offsets if number in self.offset):
            if found and found[-1].high == number - 1:
                found[-1] = Interval(found[-1].low, number)
            else:
                found.append(Interval(number, number))
        return found

    @property
    def from_ms(self) -> int | None:
        return None if self.time_us.low == INT_MIN else -(-self.time_us.low // 1000)

    @property
    def to_ms(self) -> int | None:
        """The first millisecond that is too late."""
        return None if self.time_us.high == INT_MAX else self.time_us.high // 1000 + 1


_INTERVALS: Final[dict[str, Callable[[int], Interval]]] = {
    "EqualTo": lambda number: Interval(number, number),
    "EqualNullSafe": lambda number: Interval(number, number),
    "GreaterThan": lambda number: Interval(low=number + 1),
    "GreaterThanOrEqual": lambda number: Interval(low=number),
    "LessThan": lambda number: Interval(high=number - 1),
    "LessThanOrEqual": lambda number: Interval(high=number),
}
_EQUAL: Final = ("EqualTo", "EqualNullSafe", "In")
_FIELDS: Final = {"partition": "partition", "offset": "offset", "timestamp": "time_us"}


def narrowed(bounds: Bounds, condition: Any) -> Bounds | None:
    """The bounds with one of Spark's filters; None: it is not one that can be expressed here."""
    kind = type(condition).__name__
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    if kind == "IsNotNull":
        return bounds if name == "topic" or name in _FIELDS else None
    if kind in _EQUAL and name in ("topic", "partition"):
        values = condition.value if kind == "In" else (condition.value,)
        return _chosen(bounds, name, frozenset(values))
    if kind == "In" and name == "offset":
        return _chosen_offsets(bounds, condition.value)
    if kind in _INTERVALS and name in _FIELDS:
        number = _number(condition.value)
        if number is not None:
            field = _FIELDS[name]
            return replace(bounds, **{field: getattr(bounds, field).both(_INTERVALS[kind](number))})
    return None


def _common(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    """The values that both allow; None: any."""
    return other if one is None else one if other is None else one & other


def _chosen(bounds: Bounds, name: str, values: frozenset[Any]) -> Bounds | None:
    if None in values:
        return None
    if name == "topic":
        return replace(bounds, topics=_common(bounds.topics, values))
    return replace(bounds, partitions=_common(bounds.partitions, values))


def _chosen_offsets(bounds: Bounds, values: Iterable[Any]) -> Bounds | None:
    numbers = frozenset(values)
    if len(numbers) > OFFSETS_MAX or None in numbers:
        return None
    return replace(bounds, offsets=_common(bounds.offsets, numbers))


def _number(value: Any) -> int | None:
    """A whole number, or a time in microseconds."""
    match value:
        case bool():
            return None
        case int():
            return value
        case datetime() if value.tzinfo is not None:
            return (value - _EPOCH) // _MICROSECOND
        case _:
            return None
