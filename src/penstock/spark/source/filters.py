"""Translates the filters of a query into bounds, so that excluded offsets are not read.

    where partition = 3 and offset >= 700 and timestamp < '2026-11-16'

Filters on topic, partition, offset and timestamp narrow ``Bounds``; Spark evaluates
all others.  Applied filters are exact and need not be evaluated again, because these
columns are never null and timestamps are whole milliseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

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
    """What a query can be about."""

    topics: frozenset[str] | None = None  # None: any.
    partitions: frozenset[int] | None = None
    partition: Interval = Interval()
    offset: Interval = Interval()
    time_us: Interval = Interval()

    def has(self, topic: str, partition: int) -> bool:
        """Can a partition have rows for it?"""
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and partition in self.partition
        )

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
    if kind in _INTERVALS and name in _FIELDS:
        number = _number(condition.value)
        if number is not None:
            field = _FIELDS[name]
            return replace(bounds, **{field: getattr(bounds, field).both(_INTERVALS[kind](number))})
    return None


def _chosen(bounds: Bounds, name: str, values: frozenset[Any]) -> Bounds | None:
    if None in values:
        return None
    if name == "topic":
        return replace(bounds, topics=values if bounds.topics is None else bounds.topics & values)
    return replace(bounds, partitions=values if bounds.partitions is None else bounds.partitions & values)


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
