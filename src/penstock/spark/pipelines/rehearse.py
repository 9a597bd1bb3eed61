"""``rehearse``: runs a handler over past messages and compares the results with what happened.

    messages of a range ──> the handler, with its effects captured ──┐
                                                                     ├──> same, newly failing, newly passing,
    journals of the topic ──> the outcome of each message ───────────┘    changed output, changed error

    handler = "shop.tasks:handle"      # a function of a worker's app, or the app
    from_time = "7d"

A message that was acked and now fails is *newly failing*; a dead letter that now succeeds
is *newly passing*.  Outputs are those of ``message.ack(publish=[...])``, which the journal
contains.  Messages that the group has not settled, or whose journal was deleted, are
*not known*.

The broker is not changed, but side effects of the handler elsewhere are real; see
``penstock.spark.rehearsal.rehearsal``.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.errors import InvalidValue
from penstock.model.ranges import OffsetRange
from penstock.spark.pipelines.job_progress import watched
from penstock.spark.pipelines.maintenance import ResultTableMaintenance
from penstock.spark.pipelines.run.context import Context
from penstock.spark.queries.message_outcomes import read_outcomes
from penstock.spark.records.planning import ranges_between
from penstock.spark.rehearsal.rehearsal import ARGUMENTS, RESULT, Rehearsal
from penstock.spark.reports import result_tables
from penstock.spark.runtime.spark_connect import active, register
from penstock.spark.runtime.user_functions import load_named, ship
from penstock.workers.app import App
from penstock.workers.functions import WorkerFunction, declare

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import DataFrame, Row

DIFFERENT: Final = ("newly failing", "newly passing", "changed output", "changed error")
VERDICTS: Final = (*DIFFERENT, "not known", "same")
COMPARED: Final = ("outcome", "error_class", "error", "outputs")
VERDICT: Final = """case
    when then.outcome is null then 'not known'
    when then.outcome = 'acked' and now.outcome <> 'done' then 'newly failing'
    when then.outcome = 'dead-lettered' and now.outcome = 'done' then 'newly passing'
    when then.outcome = 'acked' and then.outputs <> now.outputs then 'changed output'
    when then.outcome = 'dead-lettered' and then.error_class <> now.error_class then 'changed error'
    else 'same' end"""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # "module:function" of a worker's function, or "module:app" of an app that has one.
    handler: str
    # What it works on; empty: as its app says.
    topic: str = ""
    group: str = ""
    # Messages from one time on and before another; None: all there are.
    from_time: datetime | None = None
    to_time: datetime | None = None
    # A table of the lake for every message's result; empty: they are only counted.
    table: str = ""
    # How many messages of each kind are shown.
    examples: int = 5
    # How many messages one task works on.
    task_records: int = 10_000


def run(settings: Settings, context: Context) -> None:
    """Rehearse, and print the differences."""
    handler = find_handler(settings)
    ranges = _ranges(handler, settings, context)
    total = sum(map(len, ranges))
    context.progress.expect(total)
    compared = _compared(handler, ranges, settings, context).persist()
    try:
        counts: dict[str, int] = {}
        with watched(context, total):
            counts = {row["verdict"]: row["count"] for row in compared.groupBy("verdict").count().collect()}
        if context.stopping.is_set():
            return
        if settings.table:
            register(context.spark, result_tables.ResultTable)
            path = result_tables.path_of(context.lake, settings.table)
            with active(context.spark):
                compared.write.format(result_tables.FORMAT).mode("append").save(path)
            ResultTableMaintenance(context, path).work()
        for line in _report(handler, counts, compared, settings.examples):
            context.tell(line)
    finally:
        compared.unpersist()


# What is rehearsed.


def find_handler(settings: Settings) -> WorkerFunction:
    """The function, with what its app declares of it, or else the settings."""
    module, found = load_named("handler", settings.handler)
    ship(module)
    declared = _declared(module, found, settings.handler)
    topic = settings.topic or (declared.topic if declared else "")
    group = settings.group or (declared.group if declared else "")
    if not topic or not group:
        why = "no app in its module declares it; set topic and group"
        raise InvalidValue(name="handler", value=settings.handler, why=why)
    if declared is not None:
        return replace(declared, topic=topic, group=group)
    return declare(found, name=None, topic=topic, group=group, concurrency=1, timeout=None, options={})


def _declared(module: "ModuleType", found: Any, target: str) -> WorkerFunction | None:
    """The declaration of the function in its app."""
    if isinstance(found, App):
        if len(found.functions) != 1:
            names = ", ".join(each.name for each in found.functions)
            why = f"the app has several functions ({names}); name one as module:function"
            raise InvalidValue(name="handler", value=target, why=why)
        return found.functions[0]
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    mine = [each for app in apps for each in app.functions if each.function is found]
    return mine[0] if mine else None


def _ranges(handler: WorkerFunction, settings: Settings, context: Context) -> list[OffsetRange]:
    """The offsets of the log that are rehearsed; what only the lake has is not in a journal any more."""
    starts = context.broker.offsets(handler.topic, settings.from_time or "earliest")
    ends = context.broker.offsets(handler.topic, settings.to_time or "latest")
    return ranges_between({handler.topic: starts}, {handler.topic: ends})


def _compared(
    handler: WorkerFunction, ranges: list[OffsetRange], settings: Settings, context: Context
) -> "DataFrame":
    """A row for each message: what happens now, what happened then, and the verdict."""
    spark = context.spark  # Before the first function of Spark's: making a UDF needs a session.
    rehearsal = Rehearsal(handler.function, handler.is_async, handler.group, handler.timeout_ms)
    called = F.udf(rehearsal, RESULT, useArrow=False).asNondeterministic()
    now = (
        _messages(handler.topic, settings, context)
        .select("topic", "partition", "offset", "key", called(*map(F.expr, ARGUMENTS)).alias("now"))
        .select("topic", "partition", "offset", "key", "now.*")
        .alias("now")
    )
    then = read_outcomes(spark, context.address, handler.topic, handler.group, ranges).alias("then")
    return now.join(then, ["partition", "offset"], "left").select(
        F.expr(VERDICT).alias("verdict"),
        *("topic", "partition", "offset", "key", "published", "milliseconds"),
        *(F.col(f"now.{name}").alias(name) for name in COMPARED),
        *(F.col(f"then.{name}").alias(f"then_{name}") for name in (*COMPARED, "attempts")),
    )


def _messages(topic: str, settings: Settings, context: Context) -> "DataFrame":
    reader = (
        context.spark.read.format("penstock")
        .options(**context.address.options)
        .option("topic", topic)
        .option("partition_records", settings.task_records)
    )
    for name in ("from_time", "to_time"):
        time = getattr(settings, name)
        if time is not None:
            reader = reader.option(name, time.isoformat())
    return reader.load()


# Output.


def _report(
    handler: WorkerFunction, counts: dict[str, int], compared: "DataFrame", examples: int
) -> Iterator[str]:
    """Print how many there are of each kind, with examples of those that differ."""
    total = sum(counts.values())
    yield f"{handler.name} over {total:,} messages of {handler.topic}, as group {handler.group}:"
    for verdict in VERDICTS:
        if counts.get(verdict):
            yield f"  {counts[verdict]:>10,}  {verdict}"
    for verdict in DIFFERENT:
        if counts.get(verdict):
            rows = compared.where(F.col("verdict") == verdict).orderBy("partition", "offset").limit(examples)
            yield from (f"{verdict}: {_words(row)}" for row in rows.collect())


def _words(row: "Row") -> str:
    """One message, on one line."""
    message_id = f"{row.topic}:{row.partition}:{row.offset}"
    if row.verdict == "changed output":
        return f"{message_id}: {row.then_outputs} is now {row.outputs}"
    now = f"{row.error_class}: {row.error}" if row.error_class else row.outcome
    then = f"{row.then_error_class}: {row.then_error}" if row.then_outcome != "acked" else row.then_outcome
    return f"{message_id}: was {then}, is now {now}"
