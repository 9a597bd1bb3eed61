"""``transform``: a streaming pipeline defined by a few settings.

    topics ──> good rows ──> SQL, or a function ──> a topic and/or a table of the lake
          └──> bad and late ones ──> <name>.bad, with the reason

    [sources.orders]                                # a view called orders
    schema = "customer string, amount double, at timestamp"
    time = "at"
    watermark = "10m"

Each source is a view with the columns of a record and, with a ``schema``, the fields of
its JSON value, or with ``schema = "registry"`` those of the topic's schema.  ``tables`` are
static views.  Rows of the result become messages: the columns key, headers, partition,
timestamp, delay, priority and ttl are used as such, and the others form a JSON value,
unless there is a column ``value``.

Each target has its own query and gets each row exactly once: topics and tables recognise
repeated batches by their numbers.

A record is *late* if its own time is more than ``watermark`` before its publish time, or
before records of earlier batches (``rejects.py``).  Batches end at one publish time in all
partitions (``source/batch_times.py``) and are the same for all queries
(``source/shared_batches.py``), so reruns decide the same and catching up makes nothing
late.  Late records are counted and go to the side topic together with bad ones.  A time
ahead of the log is bad, because it would make everything after it late.

Cost: topic, table and side topic are three queries that each read the sources; the last
exists only if a source can have rejects.
"""

from contextlib import suppress
from functools import reduce
from inspect import signature
from typing import TYPE_CHECKING, Literal

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.errors import InvalidValue, LakeUnusable, TopicExists
from penstock.spark.lake import storage
from penstock.spark.pipelines.maintenance import ResultTableMaintenance
from penstock.spark.pipelines.rejects import HORIZON, TransformSource, split
from penstock.spark.pipelines.run.checkpoints import checkpoint_for
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.streaming_queries import run_queries
from penstock.spark.pipelines.update_sink import Updates
from penstock.spark.reports import result_tables
from penstock.spark.runtime.spark_connect import register
from penstock.spark.runtime.user_functions import load_function, ship
from penstock.spark.sink.columns import SINK_COLUMNS, TOPIC
from penstock.spark.source.options import REGISTRY
from penstock.spark.source.shared_batches import life_of
from penstock.types import duration_ms

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # By the name of the view.
    sources: dict[str, TransformSource]
    # Further views: paths or URIs of Parquet files or Delta tables.
    tables: dict[str, str] = {}
    # One of the two: a query over the views, or "module:function", called with the frames it names.
    sql: str = ""
    function: str = ""
    # One or both: where the rows go.
    topic: str = ""
    table: str = ""
    # Where bad and late records go; empty: <name>.bad
    side: str = ""
    # "append": rows that are final. "update": rows that have changed, to a topic.
    mode: Literal["append", "update"] = "append"
    # How long a batch is waited for.
    interval_ms: int = 1000
    # Records of a source that one batch reads at most.
    max_records: int = 1_000_000
    # Where the queries keep their place; empty: in the lake.
    checkpoint: str = ""

    def __post_init__(self) -> None:
        if not self.sources:
            raise InvalidValue(
                name="sources", value={}, why="at least one is required, such as [sources.orders]"
            )
        if bool(self.sql) == bool(self.function):
            raise InvalidValue(name="sql", value=self.sql, why="set either sql or function")
        if not self.topic and not self.table:
            raise InvalidValue(name="topic", value="", why="set topic or table, or both")
        if self.table and self.mode != "append":
            raise InvalidValue(name="mode", value=self.mode, why="a table only supports the mode append")
        for name, source in self.sources.items():
            _check_source(name, source)


def _check_source(name: str, source: TransformSource) -> None:
    if source.watermark:
        duration_ms(f"sources.{name}.watermark", source.watermark)
    if source.time and not (source.schema and source.watermark):
        why = "it must be a field of the schema, and requires a watermark"
        raise InvalidValue(name=f"sources.{name}.time", value=source.time, why=why)


def run(settings: Settings, context: Context) -> None:
    """Run the queries until they have ended, or are stopped."""
    path = result_tables.path_of(context.lake, settings.table) if settings.table else None
    before = result_tables.file_count(path) if path else 0
    topics = [
        topic for name, source in settings.sources.items() for topic in (source.topic or name).split(",")
    ]
    checkpoint = settings.checkpoint or context.checkpoint
    timed = any(source.watermark for source in settings.sources.values())
    life = life_of(context.broker, context.name, anew=_is_new(checkpoint)) if timed else ""
    upkeep = ResultTableMaintenance(context, path)
    with checkpoint_for(context.spark, checkpoint) as location:
        writers = {
            name: writer.option("checkpointLocation", f"{location}/{name}")
            for name, writer in _writers(settings, context, life).items()
        }
        run_queries(
            writers, context, interval_ms=settings.interval_ms, topics=topics, meanwhile=upkeep.maybe_work
        )
    context.progress.advance(files=max(result_tables.file_count(path) - before, 0) if path else 0)
    upkeep.work()


def _is_new(checkpoint: str) -> bool:
    """Is this the first run?  Where only Spark can look, every run is taken for a later one."""
    try:
        return not storage.folders_in(storage.located(checkpoint))
    except LakeUnusable:
        return False


def _writers(settings: Settings, context: Context, life: str) -> "dict[str, DataStreamWriter]":
    """What is written where; each becomes a query, with a checkpoint of this name."""
    writers = {}
    read = TransformInput(settings, context, life)
    if settings.topic:
        rows = outgoing(read.result(context.name))
        writers["rows"] = _to_topic(rows, settings.topic, settings.mode, context)
    if settings.table:
        group = None if settings.topic else context.name  # Only one query commits the progress of the run.
        writers["table"] = _to_table(read.result(group), settings.table, context)
    if bad := read.rejects():
        side = settings.side or f"{context.name}.bad"
        writers["side"] = _to_topic(reduce(DataFrame.unionByName, bad), side, "append", context)
    return writers


# Reading.


class TransformInput:
    """Creates the input DataFrames of each query."""

    def __init__(self, settings: Settings, context: Context, life: str) -> None:
        self._settings = settings
        self._context = context
        self._life = life

    def result(self, group: str | None) -> DataFrame:
        """The rows that the user's SQL or function makes of the good ones."""
        settings, spark = self._settings, self._context.spark
        frames = {name: self._split(name, group)[0] for name in settings.sources}
        frames |= {name: result_tables.read(spark, path) for name, path in settings.tables.items()}
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return spark.sql(settings.sql) if settings.sql else _called(settings.function, frames)

    def rejects(self) -> list[DataFrame]:
        """The rejected rows, of sources that can have any."""
        found = (self._split(name)[1] for name in self._settings.sources)
        return [rows for rows in found if rows is not None]

    def _split(self, name: str, group: str | None = None) -> tuple[DataFrame, DataFrame | None]:
        source, context = self._settings.sources[name], self._context
        options: dict[str, str | int] = {
            **context.address.options,
            "topic": source.topic or name,
            "starting": source.starting,
            "max_records_per_trigger": self._settings.max_records,
        }
        if group is not None:
            options["group"] = group
        if source.schema == REGISTRY:
            options["value_format"] = REGISTRY
        if source.watermark:  # Whether a record is late depends on the batches before its own.
            options |= {"columns": HORIZON, "in_step": f"{context.name}/{name}/{self._life}"}
        return split(context.spark.readStream.format("penstock").options(**options).load(), source)


# The user's part.


def _called(target: str, frames: dict[str, DataFrame]) -> DataFrame:
    module, function = load_function("function", target)
    ship(module)
    wanted = list(signature(function).parameters)
    unknown = [name for name in wanted if name not in frames]
    if unknown:
        why = f"it has parameters {', '.join(unknown)}, but the views are {', '.join(frames)}"
        raise InvalidValue(name="function", value=target, why=why)
    result: DataFrame = function(**{name: frames[name] for name in wanted})
    return result


# Writing.


def _to_table(rows: DataFrame, table: str, context: Context) -> "DataStreamWriter":
    register(context.spark, result_tables.ResultTable)
    return rows.writeStream.format(result_tables.FORMAT).option(
        "path", result_tables.path_of(context.lake, table)
    )


def _to_topic(rows: DataFrame, topic: str, mode: str, context: Context) -> "DataStreamWriter":
    with suppress(TopicExists):
        context.broker.create_topic(topic)
    if mode == "update":
        return rows.writeStream.outputMode(mode).foreachBatch(Updates(context.address, topic))
    return rows.writeStream.format("penstock").options(**context.address.options, topic=topic)


def outgoing(rows: DataFrame) -> DataFrame:
    """Rows as messages: without a value, all columns that a message does not have make one, as JSON."""
    if "value" in rows.columns:
        return rows
    # The settings say to which topic, so a column of that name belongs to the value.
    own = [name for name in rows.columns if name in SINK_COLUMNS and name != TOPIC]
    others = [f"`{name}`" for name in rows.columns if name not in own]
    return rows.select(*map(F.col, own), F.to_json(F.struct(*others)).alias("value"))
