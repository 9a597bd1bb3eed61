"""Answers a few small questions from the broker, without starting Spark.

    select * from __groups [limit N]
    select * from __schedules [limit N]
    select max(offset) from TOPIC
    select count(*) from TOPIC [where CONDITIONS]          up to 256 MiB of the log, and all of the lake
    select * from TOPIC [where CONDITIONS] [order by offset [asc|desc]] limit N         up to 1,000 rows

CONDITIONS compare ``partition`` and ``offset`` with numbers, joined with ``and``.

The answer has the same rows, names and types as Spark's.  All other queries, and cases in which that is not
certain (the newest offset has no record; messages may be only in the lake; a topic has the name of a view,
or a schema, which a message may not match), are left to Spark: the result is None.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa

from penstock.api.broker import Broker
from penstock.errors import OffsetOutOfRange
from penstock.model.ranges import OffsetRange
from penstock.model.schemas import value_subject
from penstock.spark.queries.broker_state import GROUPS, SCHEDULES, group_rows, schedule_rows
from penstock.spark.queries.counting import count_records
from penstock.spark.queries.query_result import QueryResult
from penstock.spark.records.arrow import decode_rows
from penstock.spark.records.schema import ROW

Rows = Callable[[Broker], Iterator[dict[str, Any]]]
VIEWS: Final[dict[str, tuple[Rows, pa.Schema]]] = {
    "__groups": (group_rows, GROUPS),
    "__schedules": (schedule_rows, SCHEDULES),
}

_VIEW: Final = re.compile(
    r"select\s+\*\s+from\s+(__groups|__schedules)(?:\s+limit\s+(\d{1,9}))?", re.IGNORECASE
)
ROWS_MAX: Final = 1000
FETCH_BYTES: Final = 1 << 20
SEARCHED_MAX: Final = 64  # Offsets per requested row: compaction may have removed most of them.

_TOPIC: Final = r"(?:`(?P<quoted>[^`]+)`|(?P<topic>\w+))"
_CONDITION: Final = r"(partition|offset)\s*(<=|>=|=|<|>)\s*(\d{1,18})"
_WHERE: Final = rf"(?:\s+where\s+(?P<where>{_CONDITION}(?:\s+and\s+{_CONDITION})*))?"
_ORDER: Final = r"(?:\s+order\s+by\s+(?P<order>offset)(?:\s+(?:asc|(?P<newest>desc)))?)?"
_NEWEST: Final = re.compile(rf"select\s+max\(\s*offset\s*\)\s+from\s+{_TOPIC}", re.IGNORECASE)
_COUNT: Final = re.compile(rf"select\s+count\(\s*[*1]\s*\)\s+from\s+{_TOPIC}{_WHERE}", re.IGNORECASE)
_FIRST: Final = re.compile(
    rf"select\s+\*\s+from\s+{_TOPIC}{_WHERE}{_ORDER}\s+limit\s+(?P<limit>\d{{1,4}})", re.IGNORECASE
)


def quick_answer(broker: Broker, query: str) -> QueryResult | None:
    """The answer to a query, if it is one of the above."""
    text = query.strip().removesuffix(";").rstrip()
    if match := _VIEW.fullmatch(text):
        return _view(broker, match[1].lower(), None if match[2] is None else int(match[2]))
    match = _NEWEST.fullmatch(text) or _COUNT.fullmatch(text) or _FIRST.fullmatch(text)
    topic = None if match is None else match["quoted"] or match["topic"]
    if match is None or topic is None or not _is_plain(broker, topic):
        return None
    with suppress(OffsetOutOfRange):  # Retention has just deleted some of it.
        return _answer(broker, topic, match)
    return None


def _answer(broker: Broker, topic: str, match: re.Match[str]) -> QueryResult | None:
    """The answer to a query on the messages of a topic."""
    if match.re is _NEWEST:
        return _newest(broker, topic)
    wanted = _wanted(broker, topic, match["where"] or "")
    if match.re is _COUNT:
        return _count(broker, topic, wanted)
    limit = int(match["limit"])
    if limit > ROWS_MAX:
        return None
    if match["order"]:
        return _ordered(broker, wanted, limit, newest=match["newest"] is not None)
    return _first(broker, wanted, limit)


def _view(broker: Broker, name: str, limit: int | None) -> QueryResult | None:
    if any(topic.lower() == name for topic in broker.topics()):
        return None
    rows, schema = VIEWS[name]
    return QueryResult(pa.Table.from_pylist(list(rows(broker)), schema).slice(0, limit))


def _is_plain(broker: Broker, topic: str) -> bool:
    """Whether there is such a topic, no other one of that name in SQL, and no schema."""
    if [each for each in broker.topics() if each.lower() == topic.lower()] != [topic]:
        return False
    return all(each.subject != value_subject(topic) for each in broker.schemas())


def _newest(broker: Broker, topic: str) -> QueryResult | None:
    """The highest offset, if the last one of every partition is that of a message in the log."""
    found: list[int] = []
    for partition, end in broker.offsets(topic, "latest").items():
        last = broker.peek(topic, 1, partition=partition)
        if end and [message.offset for message in last] != [end - 1]:
            return None
        found += [message.offset for message in last]
    newest = pa.array([max(found, default=None)], pa.int64())
    return QueryResult(pa.Table.from_arrays([newest], ["max(offset)"]))


def _bounds(where: str, column: str) -> range:
    """The values of a column that conditions allow."""
    low, end = 0, 1 << 63
    for name, comparison, text in re.findall(_CONDITION, where, re.IGNORECASE):
        if name.lower() == column:
            number = int(text)
            if comparison in ("=", ">=", ">"):
                low = max(low, number + (comparison == ">"))
            if comparison in ("=", "<=", "<"):
                end = min(end, number + (comparison != "<"))
    return range(low, end)


class Wanted(NamedTuple):
    """The requested offsets, and the start of their partition's log."""

    range: OffsetRange
    log_start: int

    @property
    def is_in_log(self) -> bool:
        """Whether none of them can be only in the lake."""
        return self.range.start >= self.log_start or not len(self.range)

    @property
    def logged(self) -> OffsetRange:
        """The offsets that the log may have."""
        return self.range.intersection(self.log_start, self.range.end)


def _wanted(broker: Broker, topic: str, where: str) -> list[Wanted]:
    """The offsets of each partition that the conditions allow."""
    starts = broker.offsets(topic, "earliest")
    partitions, offsets = _bounds(where, "partition"), _bounds(where, "offset")
    return [
        Wanted(
            OffsetRange(topic, partition, 0, end).intersection(offsets.start, offsets.stop), starts[partition]
        )
        for partition, end in sorted(broker.offsets(topic, "latest").items())
        if partition in partitions
    ]


def _count(broker: Broker, topic: str, wanted: list[Wanted]) -> QueryResult | None:
    """The number of messages, if it can be determined quickly."""
    count = count_records(broker, topic, [each.range for each in wanted])
    if count is None:
        return None
    return QueryResult(pa.table({"count(1)": pa.array([count], pa.int64())}))


def _first(broker: Broker, wanted: list[Wanted], limit: int) -> QueryResult | None:
    """The requested number of messages, if the log has them, or all there are."""
    batches: list[pa.RecordBatch] = []
    missing = limit
    logged = (rows for each in wanted for rows in _rows(broker, each.logged, ROW.names))
    while missing > 0 and (rows := next(logged, None)) is not None:
        batches.append(rows)
        missing -= rows.num_rows
    if missing > 0 and not all(each.is_in_log for each in wanted):
        return None
    return QueryResult(pa.Table.from_batches(batches, ROW).slice(0, limit))


def _ordered(broker: Broker, wanted: list[Wanted], limit: int, *, newest: bool) -> QueryResult | None:
    """The messages with the lowest or highest offsets, if the log has them."""
    found: list[pa.Table] = []
    for each in wanted:
        if not newest and not each.is_in_log:
            return None
        rows = _edge(broker, each, limit, newest=newest)
        if rows is None:
            return None
        found.append(rows)
    order = [("offset", "descending" if newest else "ascending"), ("partition", "ascending")]
    return QueryResult(pa.concat_tables([ROW.empty_table(), *found]).sort_by(order).slice(0, limit))


def _edge(broker: Broker, wanted: Wanted, limit: int, *, newest: bool) -> pa.Table | None:
    """The first or last messages of a partition; None: too few of its offsets have messages."""
    span = wanted.logged
    for offsets in (limit, limit * SEARCHED_MAX):
        part = span.intersection(max(span.end - offsets, 0), span.end)
        if not newest:
            part = span.intersection(span.start, span.start + offsets)
        rows = pa.Table.from_batches(_rows(broker, part, ROW.names), ROW)
        if rows.num_rows >= limit or (part == span and wanted.is_in_log):
            return rows.slice(max(rows.num_rows - limit, 0) if newest else 0, limit)
    return None


def _rows(broker: Broker, span: OffsetRange, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part of the log."""
    offset = span.start
    while offset < span.end:
        fetched = broker.fetch(span.topic, span.partition, offset, max_bytes=FETCH_BYTES)
        if fetched.next_offset <= offset:
            raise OffsetOutOfRange(offset=offset, start=fetched.start, end=fetched.end)
        yield from decode_rows(fetched.batches, span, names)
        offset = fetched.next_offset
