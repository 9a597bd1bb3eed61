"""Reads, filters, stages and publishes one chunk of a replay.

    without SQL    slices of lake and log ──> Arrow ──> __staging        no row passes the JVM
    with SQL       slices ──> Spark's rows ──> where ... ──> Arrow ──> __staging

The driver then publishes the staged records atomically under the replay's application and
the chunk's number, as the sink does for a batch of a stream (``sink/sink.py``), so a chunk
is published only once.

Headers added by the broker are removed: without its mark they have no meaning.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.model.ranges import OffsetRange
from penstock.spark.records.arrow import within
from penstock.spark.records.schema import ROW, row_columns
from penstock.spark.runtime.connections import address_of
from penstock.spark.runtime.jobs import run_tasks
from penstock.spark.runtime.spark_connect import active, register
from penstock.spark.sink.sink import SinkOptions, Staged, publish, stage
from penstock.spark.source.options import REGISTRY, SourceOptions
from penstock.spark.source.scan import TopicScan
from penstock.spark.source.slices import SliceReader, SourceSlice
from penstock.spark.typed.typed_topic import typed_topic
from penstock.wire.headers import BROKER_HEADERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.api.broker import Broker
    from penstock.client.sync import RemoteBroker

MESSAGE: Final = from_arrow_schema(row_columns("key", "value", "headers", "lane", "timestamp"))
SYSTEM_HEADERS: Final = tuple(name for _, name in BROKER_HEADERS)
FORMAT: Final = "penstock_chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChunk:
    """What is read and published together."""

    source: SourceOptions
    sink: SinkOptions
    application: str
    number: int
    ranges: tuple[OffsetRange, ...]
    key: bytes | None  # Only messages of this one.
    from_ms: int | None  # Only those from one time on ...
    to_ms: int | None  # ... and before another.


# Without SQL.


def replay_chunk(spark: "SparkSession", broker: "Broker", chunk: ReplayChunk) -> int:
    """Publish the messages of a chunk; returns how many they are."""
    slices = TopicScan(chunk.source, cast("RemoteBroker", broker)).slices(list(chunk.ranges))
    staged = run_tasks(spark, partial(_stage_slice, chunk), slices)
    publish(chunk.sink, staged, chunk.application, chunk.number)
    return sum(each.rows for each in staged)


def _stage_slice(chunk: ReplayChunk, work: SourceSlice) -> Staged:
    rows = SliceReader(chunk.source, MESSAGE).read(work)
    return stage(chunk.sink, chunk.application, _messages(rows, chunk))


def _messages(batches: Iterator[pa.RecordBatch], chunk: ReplayChunk) -> Iterator[pa.RecordBatch]:
    """The rows that are wanted, in the columns of a sink."""
    for rows in batches:
        if chunk.key is not None:
            rows = rows.filter(pc.equal(rows["key"], pa.scalar(chunk.key, pa.binary())))
        rows = within(rows, chunk.from_ms, chunk.to_ms)
        if rows.num_rows:
            columns = {"key": rows["key"], "value": rows["value"]}
            # Columns that are empty everywhere are left out.
            if rows["headers"].offsets[0] != rows["headers"].offsets[-1]:
                columns["headers"] = own_headers(rows["headers"])
            if pc.any(pc.not_equal(rows["lane"], 0)).as_py():
                columns["priority"] = rows["lane"]
            yield pa.RecordBatch.from_pydict(columns)


def own_headers(headers: pa.MapArray) -> pa.MapArray:
    """Without those of the broker."""
    if not pc.any(pc.is_in(headers.keys, pa.array(SYSTEM_HEADERS))).as_py():
        return headers
    kept = [[pair for pair in each or [] if pair[0] not in SYSTEM_HEADERS] for each in headers.to_pylist()]
    return pa.array(kept, headers.type)


# With SQL.


def replay_matching(spark: "SparkSession", broker: "Broker", chunk: ReplayChunk, where: str) -> int:
    """Publish the messages of a chunk for which a condition holds; returns how many they are."""
    observation = Observation()
    rows = matching_rows(spark, broker, chunk, where).select(
        "key",
        "value",
        F.map_filter("headers", lambda name, _: ~name.isin(*SYSTEM_HEADERS)).alias("headers"),
        F.col("lane").alias("priority"),
    )
    options = {"topic": chunk.sink.topic, "application": chunk.application, "number": str(chunk.number)}
    writer = rows.observe(observation, F.count(F.lit(1)).alias("rows")).write.format(FORMAT)
    with active(spark):
        writer.options(**chunk.sink.address.options, **options).mode("append").save()
    return int(observation.get["rows"])


def matching_rows(spark: "SparkSession", broker: "Broker", chunk: ReplayChunk, where: str) -> DataFrame:
    """The rows of a chunk that are wanted."""
    source, [topic] = chunk.source, chunk.source.topics
    # A partition that is not named would be read from its beginning to its end: name them all.
    nothing = dict.fromkeys(broker.offsets(topic, "earliest"), 0)
    starts = nothing | {each.partition: each.start for each in chunk.ranges}
    ends = nothing | {each.partition: each.end for each in chunk.ranges}
    options: dict[str, Any] = {
        **source.address.options, "topic": topic, "starting": json.dumps(starts), "ending": json.dumps(ends),
        "lake": source.lake, "on_gap": source.on_gap, "partition_records": source.partition_records,
    }  # fmt: skip
    if where and typed_topic(broker, topic) is not None:  # The condition may name fields.
        options["value_format"] = REGISTRY
    rows = spark.read.format("penstock").options(**options).load()
    rows = rows.where(F.col("partition").isin([each.partition for each in chunk.ranges]))
    if chunk.key is not None:
        rows = rows.where(F.col("key") == F.lit(chunk.key))
    for limit_ms, compare in ((chunk.from_ms, ">="), (chunk.to_ms, "<")):
        if limit_ms is not None:
            rows = rows.where(f"timestamp {compare} timestamp_millis({limit_ms})")
    return rows.where(where).select(*ROW.names) if where else rows


class ChunkTarget(DataSource):
    """Where Spark writes the rows of a chunk; the sink itself gives every write an id of its own."""

    @classmethod
    def name(cls) -> str:
        """The name of the format, internal to this module."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> "ChunkWriter":  # noqa: ARG002 - Spark's.
        return ChunkWriter(self.options)


class ChunkWriter(DataSourceArrowWriter):
    """Stages the rows of a chunk and publishes them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._sink = SinkOptions(address=address_of(options), topic=options["topic"], write_id=None)
        self._application = options["application"]
        self._number = int(options["number"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(self._sink, self._application, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """When all tasks are done."""
        publish(self._sink, messages, self._application, self._number)


Publish = Callable[["SparkSession", "Broker", ReplayChunk], int]


def publisher(spark: "SparkSession", where: str) -> Publish:
    """How the chunks of a replay are published."""
    if not where:
        return replay_chunk
    register(spark, ChunkTarget)
    return partial(replay_matching, where=where)
