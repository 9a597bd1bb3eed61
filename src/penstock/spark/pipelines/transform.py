"""``transform``: a pipeline of your own, in a few lines.

    topics ──> good rows ──> SQL, or your function ──> a topic and/or a table of the lake
          └──> bad and late ones ──> <name>.bad, with the reason

    [sources.orders]                                # a view called orders
    schema = "customer string, amount double, at timestamp"
    time = "at"
    watermark = "10m"

Each source is a view: the columns of a record, and with a ``schema`` those of
its JSON value, too.  ``tables`` are views of what does not stream.  The result
goes out as messages: key, headers, partition, timestamp, delay, priority and
ttl are taken from the columns of those names, and the others make the value,
as JSON, unless there is a column ``value``.

Each place that is written to has a query of its own, and gets each row once:
what a batch wrote is known by its number, in a topic as in a table, and a batch
that is repeated writes nothing.

*Late* is decided by the record alone: its own time is more than ``watermark``
before the time it was published.  So a rerun decides the same.  Spark's
watermark is set so that in a topic that is read in step nothing else is late;
what Spark leaves out all the same, because one partition was read far ahead of
another, is counted, and told.  A time that is ahead of the log is bad: it would
make everything after it late.

Cost: a topic, a table and the bad ones are three queries that each read the
sources; the last is there only if a source can have any.
"""

from contextlib import suppress
from functools import reduce
from inspect import signature
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.errors import InvalidValue, TopicExists
from penstock.spark import results
from penstock.spark.connect import register
from penstock.spark.functions import load_function, ship
from penstock.spark.pipelines import queries
from penstock.spark.pipelines.context import Context
from penstock.spark.pipelines.rejects import Source, split
from penstock.spark.pipelines.updates import Updates
from penstock.types import duration_ms

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MESSAGE: Final = ("key", "headers", "partition", "timestamp", "delay", "priority", "ttl")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, what to do with it, where to put it."""

    # By the name of the view.
    sources: dict[str, Source]
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
            raise InvalidValue(name="sources", value={}, why="there must be one, such as [sources.orders]")
        if bool(self.sql) == bool(self.function):
            raise InvalidValue(name="sql", value=self.sql, why="give it, or function")
        if not self.topic and not self.table:
            raise InvalidValue(name="topic", value="", why="the rows must go somewhere: give it, or table")
        if self.table and self.mode != "append":
            raise InvalidValue(name="mode", value=self.mode, why="a table only gets rows that are final")
        for name, source in self.sources.items():
            _check_source(name, source)


def _check_source(name: str, source: Source) -> None:
    if source.watermark:
        duration_ms(f"sources.{name}.watermark", source.watermark)
    if source.time and not (source.schema and source.watermark):
        why = "a time of its own is a field of the schema, and needs a watermark: how late it may come"
        raise InvalidValue(name=f"sources.{name}.time", value=source.time, why=why)


def run(settings: Settings, context: Context) -> None:
    """Run the queries until they have ended, or are stopped."""
    before = _files(settings, context)
    topics = [source.topic or name for name, source in settings.sources.items()]
    writers = [
        writer.option("checkpointLocation", f"{settings.checkpoint or context.checkpoint}/{name}")
        for name, writer in _writers(settings, context).items()
    ]
    dropped = queries.run_queries(
        writers, context, interval_ms=settings.interval_ms, group=context.name, topics=topics
    )
    context.progress.advance(files=_files(settings, context) - before)
    if dropped:
        context.tell(f"{dropped:,} rows were left out by Spark's watermark: partitions were read far apart")


def _writers(settings: Settings, context: Context) -> "dict[str, DataStreamWriter]":
    """What is written where; each becomes a query, with a checkpoint of this name."""
    writers = {}
    if settings.topic:
        rows = outgoing(_result(settings, context, context.name))
        writers["rows"] = _to_topic(rows, settings.topic, settings.mode, context)
    if settings.table:
        group = None if settings.topic else context.name  # Only one of them tells how far the run is.
        writers["table"] = _to_table(_result(settings, context, group), settings.table, context)
    if bad := _rejects(settings, context):
        side = settings.side or f"{context.name}.bad"
        writers["side"] = _to_topic(reduce(DataFrame.unionByName, bad), side, "append", context)
    return writers


# Reading.


def _read(name: str, settings: Settings, context: Context, group: str | None = None) -> DataFrame:
    source = settings.sources[name]
    options: dict[str, str | int] = {
        **context.address.options,
        "topic": source.topic or name,
        "starting": source.starting,
        "max_records_per_trigger": settings.max_records,
    }
    if group is not None:
        options["group"] = group
    return context.spark.readStream.format("penstock").options(**options).load()


def _result(settings: Settings, context: Context, group: str | None) -> DataFrame:
    """What the user makes of the good rows."""
    frames = {
        name: split(_read(name, settings, context, group), source)[0]
        for name, source in settings.sources.items()
    }
    frames |= {name: results.read(context.spark, path) for name, path in settings.tables.items()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return context.spark.sql(settings.sql) if settings.sql else _called(settings.function, frames)


def _rejects(settings: Settings, context: Context) -> list[DataFrame]:
    """The others, of those sources that can have any."""
    found = (split(_read(name, settings, context), source)[1] for name, source in settings.sources.items())
    return [rows for rows in found if rows is not None]


# The user's part.


def _called(target: str, frames: dict[str, DataFrame]) -> DataFrame:
    module, function = load_function("function", target)
    ship(module)
    wanted = list(signature(function).parameters)
    unknown = [name for name in wanted if name not in frames]
    if unknown:
        why = f"it asks for {', '.join(unknown)}, and there are {', '.join(frames)}"
        raise InvalidValue(name="function", value=target, why=why)
    result: DataFrame = function(**{name: frames[name] for name in wanted})
    return result


# Writing.


def _to_table(rows: DataFrame, table: str, context: Context) -> "DataStreamWriter":
    register(context.spark, results.ResultTable)
    return rows.writeStream.format(results.FORMAT).option("path", results.path_of(context.lake, table))


def _to_topic(rows: DataFrame, topic: str, mode: str, context: Context) -> "DataStreamWriter":
    with suppress(TopicExists):
        context.broker.create_topic(topic)
    if mode == "update":
        return rows.writeStream.outputMode(mode).foreachBatch(Updates(context.address, topic))
    return rows.writeStream.format("penstock").options(**context.address.options, topic=topic)


def _files(settings: Settings, context: Context) -> int:
    return results.file_count(results.path_of(context.lake, settings.table)) if settings.table else 0


def outgoing(rows: DataFrame) -> DataFrame:
    """Rows as messages: without a value, all columns that a message does not have make one, as JSON."""
    if "value" in rows.columns:
        return rows
    own = [name for name in rows.columns if name in MESSAGE]
    others = [f"`{name}`" for name in rows.columns if name not in MESSAGE]
    return rows.select(*map(F.col, own), F.to_json(F.struct(*others)).alias("value"))
