"""Broker state as tables: groups, schedules, gaps and journals.

    spark.read.format("penstock_facts").option("of", "groups").option("servers", ...).load()

An internal data source used by ``views.tables``; its options are not validated.  Rows are
requested when a query runs, so a view over it is always current.  Groups, schedules and
gaps are read by one task, a journal by one task per partition.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.api.broker import Broker
from penstock.errors import GroupNotFound, QueryFailed, TopicNotFound
from penstock.model.info import GroupInfo, ScheduledMessage
from penstock.model.message import StoredMessage
from penstock.spark.lake.history import GAPS_TOPIC, RecordedGap
from penstock.spark.queries import journal
from penstock.spark.records.schema import ddl
from penstock.spark.runtime import spark_connect
from penstock.spark.runtime.connections import address_of, broker_at
from penstock.spark.source.slices import arrow_schema

NAME: Final = "penstock_facts"
SCHEDULED_MAX: Final = 1_000_000  # Messages of one topic that a broker is asked for.
TRIES: Final = 3
READ_MESSAGES: Final = 1000  # At once.

GROUPS: Final = (
    "topic string, `group` string, kind string, verdict string, why string, lag long, lag_seconds double, "
    "drain_seconds double, in_flight long, waiting_retry long, oldest_unacked string, "
    "oldest_unacked_seconds double, consumers int, lost long, delivered long, acked long, nacked long, "
    "timed_out long, dead_lettered long, expired long"
)
SCHEDULES: Final = (
    "id string, topic string, partition int, due timestamp, key binary, value binary, "
    "headers map<string, binary>, priority string, cron string, timezone string"
)
GAPS: Final = "time timestamp, topic string, partition int, start long, end long, reader string"


class BrokerTable(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMAS[self.options["of"]]

    def reader(self, schema: StructType) -> DataSourceReader:
        return BrokerTableReader(dict(self.options), schema)


class BrokerTableReader(DataSourceReader):
    """Reads from the broker in its tasks."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._address = address_of(options)
        self._of = options["of"]
        self._topic = options["topic"]
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """One task, or one for each partition of a journal."""
        if self._of != "journal":
            return [InputPartition(None)]
        found = journal.ranges_of(broker_at(self._address), self._topic)
        return [InputPartition(each) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        schema = arrow_schema(self._schema)
        broker = broker_at(self._address)
        if self._of == "journal":
            for batch in journal.journal_rows(broker, partition.value):
                yield batch.cast(schema)
        else:
            yield pa.RecordBatch.from_pylist(list(_ROWS[self._of](broker)), schema=schema)


def group_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Every group of every topic; what is deleted meanwhile is passed over."""
    for topic in broker.topics():
        try:
            groups = broker.groups(topic)
        except TopicNotFound:
            continue
        for group in groups:
            try:
                yield _group_row(broker.describe_group(topic, group))
            except (TopicNotFound, GroupNotFound):
                continue


def _group_row(info: GroupInfo) -> dict[str, Any]:
    same = (
        "topic", "group", "kind", "lag", "lag_seconds", "drain_seconds", "in_flight", "waiting_retry", "lost",
        "delivered", "acked", "nacked", "timed_out", "dead_lettered", "expired",
    )  # fmt: skip
    oldest = info.oldest_unacked
    return {name: getattr(info, name) for name in same} | {
        "verdict": info.verdict.word,
        "why": info.verdict.text,
        "oldest_unacked": None if oldest is None else oldest.id,
        "oldest_unacked_seconds": None if oldest is None else oldest.age_seconds,
        "consumers": len(info.consumers),
    }


def schedule_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Every message that waits for its time."""
    for topic in broker.topics():
        try:
            yield from map(_schedule_row, _scheduled(broker, topic))
        except TopicNotFound:
            continue


def _scheduled(broker: Broker, topic: str) -> list[ScheduledMessage]:
    """All of a topic's: the broker bounds its answer, and a part of it must not pass for all."""
    for _ in range(TRIES):  # Between list and count one more may have come.
        found = broker.scheduled(topic, SCHEDULED_MAX)
        waiting = broker.scheduled_count(topic)
        if waiting <= len(found):
            return found
    raise QueryFailed(
        why=f"{topic} has {waiting:,} scheduled messages, but the broker lists at most {len(found):,}"
    )


def _schedule_row(message: ScheduledMessage) -> dict[str, Any]:
    same = ("id", "topic", "partition", "key", "value", "priority", "cron", "timezone")
    return {name: getattr(message, name) for name in same} | {
        "due": _time(message.due_ms),
        "headers": {name: text.encode("utf-8", "surrogateescape") for name, text in message.headers.items()},
    }


def gap_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Every gap that a reader has skipped and written down."""
    try:
        partitions = broker.describe_topic(GAPS_TOPIC).partitions
    except TopicNotFound:
        return
    for each in partitions:
        offset = each.start
        while found := broker.read(GAPS_TOPIC, partition=each.partition, offset=offset, limit=READ_MESSAGES):
            yield from map(_gap_row, found)
            offset = found[-1].offset + 1


def _gap_row(message: StoredMessage) -> dict[str, Any]:
    gap = msgspec.json.decode(message.value, type=RecordedGap)
    return {"time": _time(message.timestamp)} | msgspec.structs.asdict(gap)


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


SCHEMAS: Final = {"groups": GROUPS, "schedules": SCHEDULES, "gaps": GAPS, "journal": ddl(journal.SCHEMA)}
_ROWS: Final[dict[str, Callable[[Broker], Iterator[dict[str, Any]]]]] = {
    "groups": group_rows,
    "schedules": schedule_rows,
    "gaps": gap_rows,
}


def register(spark: SparkSession) -> None:
    """Let a session know this data source."""
    spark_connect.register(spark, BrokerTable)
