"""Broker state as tables: groups, schedules, gaps and journals.

    spark.read.format("penstock_facts").option("of", "groups").option("servers", ...).load()

An internal data source used by ``views.tables``; its options are not validated.  Rows are
requested when a query runs, so a view over it is always current.  Groups, schedules and
gaps are read by one task, a journal by one task per partition.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.api.broker import Broker
from penstock.errors import TopicNotFound
from penstock.model.message import StoredMessage
from penstock.spark.lake.history import GAPS_TOPIC, RecordedGap
from penstock.spark.queries import journal
from penstock.spark.queries.broker_state import GROUPS, SCHEDULES, group_rows, schedule_rows, time_of
from penstock.spark.records.schema import ddl
from penstock.spark.runtime import spark_connect
from penstock.spark.runtime.connections import address_of, broker_at
from penstock.spark.source.slices import arrow_schema

NAME: Final = "penstock_facts"
READ_MESSAGES: Final = 1000  # At once.

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


def gap_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Every gap that a reader has skipped and recorded."""
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
    return {"time": time_of(message.timestamp)} | msgspec.structs.asdict(gap)


SCHEMAS: Final = {
    "groups": ddl(GROUPS),
    "schedules": ddl(SCHEDULES),
    "gaps": GAPS,
    "journal": ddl(journal.SCHEMA),
}
_ROWS: Final[dict[str, Callable[[Broker], Iterator[dict[str, Any]]]]] = {
    "groups": group_rows,
    "schedules": schedule_rows,
    "gaps": gap_rows,
}


def register(spark: SparkSession) -> None:
    """Register this data source with a session."""
    spark_connect.register(spark, BrokerTable)
