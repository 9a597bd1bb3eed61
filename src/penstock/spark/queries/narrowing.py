"""Derives from Spark's plan of a query the columns and the bounds of rows that it needs of each topic.

    Project [key]                                            columns {key, offset}
      Filter ((offset < 10) or (offset > 700))               bounds  offset < 10, offset > 700
        DataSourceV2ScanRelation [topic, partition, ...]

Spark's optimizer has put the projections and conditions above each scan that belong to it.  An unknown node
needs all columns and rows below it.  If a topic is scanned several times, each scan reads what any of them
needs, because all scans of a query share one source.

Spark plans the query again afterwards.  ``now()`` is then later, so upper bounds of times have a margin.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import datasource as filters

from penstock.spark.source.filters import Bounds, narrowed
from penstock.spark.source.regions import EVERYWHERE, Region, both, either

SOURCE: Final = "penstock"
SCAN: Final = "DataSourceV2ScanRelation"
PRUNING: Final = ("Project", "Aggregate")  # They need the columns that they name.
MARGIN_US: Final = 60_000_000

# Spark's names of comparisons, and of those with swapped sides.
COMPARISONS: Final = {
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}
_UPPER: Final = ("LessThan", "LessThanOrEqual")


class NeededPart(NamedTuple):
    """The part of one topic that a query needs."""

    columns: frozenset[str] | None = None  # None: all.
    region: Region = EVERYWHERE

    def with_other(self, other: "NeededPart") -> "NeededPart":
        """The part that two scans need together."""
        columns = None if self.columns is None or other.columns is None else self.columns | other.columns
        return NeededPart(columns, either((self.region, other.region)))


ALL: Final = NeededPart()


def needed_parts(plan: Any) -> dict[str, NeededPart]:
    """The parts that an optimized plan needs, by topic, if they are less than everything."""
    found: dict[str, NeededPart] = {}
    waiting: list[tuple[Any, NeededPart]] = [(plan, ALL)]
    while waiting:
        node, needed = waiting.pop()
        waiting += [(each, ALL) for each in _items(node.subqueries())]
        kind = _kind(node)
        if kind == SCAN:
            topic = _topic_of(node.relation())
            if topic is not None:
                if needed.columns is not None and needed.columns >= {
                    each.name() for each in _items(node.output())
                }:
                    needed = NeededPart(None, needed.region)
                found[topic] = needed.with_other(found[topic]) if topic in found else needed
        elif kind == "Filter":
            columns = None if needed.columns is None else needed.columns | _names(node)
            region = both(needed.region, _region(node.condition()))
            waiting.append((node.child(), NeededPart(columns, region)))
        elif kind in PRUNING:
            waiting.append((node.child(), NeededPart(_names(node))))
        else:
            waiting += [(each, ALL) for each in _items(node.children())]
    return {topic: needed for topic, needed in found.items() if needed != ALL}


def _topic_of(relation: Any) -> str | None:
    if relation.table().name() != SOURCE:
        return None
    topic: str | None = relation.options().get("topic")
    return topic


def _names(node: Any) -> frozenset[str]:
    """The columns that a node names."""
    return frozenset(each.name() for each in _items(node.references().toSeq()))


def _region(condition: Any) -> Region:
    """The rows for which a condition can be true."""
    kind = _kind(condition)
    if kind == "And":
        return both(_region(condition.left()), _region(condition.right()))
    if kind == "Or":
        return either((_region(condition.left()), _region(condition.right())))
    if kind in COMPARISONS:
        found = _compared(kind, condition.left(), condition.right())
    elif kind == "In":
        found = _listed(condition.value(), [_literal(each) for each in _items(condition.list())])
    elif kind == "InSet":
        found = _listed(condition.child(), list(_items(condition.hset().toSeq())))
    else:
        found = None
    return EVERYWHERE if found is None else (found,)


def _compared(kind: str, left: Any, right: Any) -> Bounds | None:
    if _kind(left) == "Literal":
        return _compared(COMPARISONS[kind], right, left) if _kind(right) != "Literal" else None
    value = _literal(right)
    if _kind(left) != "AttributeReference" or value is None:
        return None
    name: str = left.name()
    if name == "timestamp" and kind in _UPPER:
        value += MARGIN_US
    return narrowed(Bounds(), getattr(filters, kind)((name,), value))


def _listed(column: Any, values: list[Any]) -> Bounds | None:
    if _kind(column) != "AttributeReference" or not all(_is_number(each) for each in values):
        return None
    name = column.name()
    return narrowed(Bounds(), filters.In((name,), tuple(values))) if name in ("partition", "offset") else None


def _literal(expression: Any) -> int | None:
    """The number of a literal; a time in microseconds."""
    if _kind(expression) != "Literal":
        return None
    value = expression.value()
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a sequence of Scala."""
    return (sequence.apply(number) for number in range(sequence.size()))
