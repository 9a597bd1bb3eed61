"""Programs for Spark, run in a process of their own: ``python driver.py NAME MASTER SERVERS FOLDER``.

    everything    writes a table to a topic, reads it back, streams it on to another topic
    shipped       the same, and says where tasks find Penstock and Python; then COMMANDS
    asked         a query over a topic and one over the table of a transform
    NAME,NAME     stages, one after the other, each until it has done all there is:
                  sink         a query of one's own: topic "in" to topic "out"
                  archive      the pipeline: topic "in" to the lake
                  replay       the pipeline: topic "in" to topic "again"
                  transform    the pipeline: topic "in" to topic "copy" and table "copy"
                  rollup       the pipeline: topic "in", minute by minute

``NAME+NAME`` runs programs one after the other.  A stage that fails is started again,
as an operator would.  One that is done is written down in the folder, so that a driver
that is killed and started again goes on with the next.

In the environment, ``COMMANDS`` has lists of words as JSON.  The stages work in
tiny pieces, so that wherever a kill comes there is something to break.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock.spark
from penstock.cli.main import main
from penstock.clock import Clock, SystemClock
from penstock.spark.lake import archiving
from penstock.spark.pipelines import load, maintenance, replay, rollup
from penstock.spark.pipelines.rejects import TransformSource
from penstock.spark.pipelines.run import runner
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.queries.engine import LocalEngine
from penstock.spark.queries.views import Tables
from penstock.spark.reports import result_tables, table_maintenance
from penstock.spark.runtime.connections import address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGE_BYTES = 5_000  # Archived by a task.
BATCH_RECORDS = 500  # Of a micro-batch, or a chunk of a replay.
STARTS_MAX = 60  # Of a stage: one that never ends well shall end all the same.
AGAIN_S = 1.0
LATER_MS = 10 * rollup.MINUTE_MS


def everything(spark: "SparkSession", servers: str, folder: str) -> None:
    """A write, a read, a stream."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("cast(id as string) as key", "concat('v', id) as value")
    rows.write.format("penstock").options(**broker(servers), topic="table").mode("append").save()
    table = spark.read.format("penstock").options(**broker(servers), topic="table").load()
    [[total]] = table.selectExpr("sum(cast(key as string))").collect()
    say(table.count(), total)
    stream(spark, servers, folder, "table")


def shipped(spark: "SparkSession", servers: str, folder: str) -> None:
    """All of that, the folder that Spark unpacked Penstock to, the Python of the tasks, and commands."""
    everything(spark, servers, folder)
    say(*sorted(set(spark.sparkContext.parallelize(range(8), 8).map(where).collect())))
    for words in json.loads(os.environ["COMMANDS"]):
        code = main([*words, "--master", sys.argv[2], "--server", servers])
        assert code == 0, words


def asked(spark: "SparkSession", servers: str, _folder: str) -> None:
    """What the stages have left in log and lake; the table has a topic's name, so it gets another one."""
    with penstock.connect(servers) as connected:
        path = result_tables.path_of(connected.stats().lake, "copy")
    result_tables.read(spark, path).createOrReplaceTempView("copied")
    engine = LocalEngine(Tables(spark, address_of(broker(servers))))
    for table in ("`in`", "copied"):
        query = f"select count(*), count(distinct value), max(length(value)) from {table}"
        say(table, *engine.ask(query, None).rows()[0])


def broker(servers: str) -> dict[str, str]:
    """The options that say where it is, and who asks."""
    key = os.environ.get("PENSTOCK_KEY")
    return {"servers": servers} | ({"key": key} if key else {})


def say(*words: object) -> None:
    """For the test to read."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def where(_: int) -> str:
    """Where a task finds Penstock, the folder that it was unpacked to, and where its Python is installed."""
    import penstock

    return f"{str(penstock.__file__).split(os.sep)[-3]} {sys.base_prefix}"


def stream(spark: "SparkSession", servers: str, folder: str, source: str = "in") -> None:
    """All of a topic to ``out``."""
    query = (
        spark.readStream.format("penstock")
        .options(**broker(servers), topic=source, starting="earliest", max_records_per_trigger=BATCH_RECORDS)
        .load()
        .select("key", "value", "headers")
        .writeStream.format("penstock")
        .options(**broker(servers), topic="out", checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


# Pipelines.


def archive(spark: "SparkSession", servers: str, _folder: str) -> None:
    """In many small commits."""
    setattr(archiving, "RANGE_BYTES", RANGE_BYTES)  # noqa: B010 - it is final for everybody else.
    piped("archive", spark, servers, topic=["in"], batch_bytes=2 * RANGE_BYTES)


def replayed(spark: "SparkSession", servers: str, _folder: str) -> None:
    """In many small chunks."""
    setattr(replay, "CHUNK_RECORDS", BATCH_RECORDS)  # noqa: B010
    piped("replay", spark, servers, topic="in", to="again")


def transformed(spark: "SparkSession", servers: str, _folder: str) -> None:
    """In many small batches, which three queries share, and with joins of a few files all the time."""
    setattr(maintenance, "JOIN_MS", 1000)  # noqa: B010
    setattr(table_maintenance, "FILES_MIN", 4)  # noqa: B010
    settings: dict[str, Any] = {
        "sources": {"lines": TransformSource(topic="in", starting="earliest", watermark="1h")},
        "sql": "select key, value from lines",
        "topic": "copy",
        "table": "copy",
    }
    piped("transform", spark, servers, None, max_records=2 * BATCH_RECORDS, **settings)


def rolled_up(spark: "SparkSession", servers: str, _folder: str) -> None:
    """A pass for each minute, up to some that are still to come."""
    setattr(rollup, "MINUTES_MAX", 1)  # noqa: B010
    piped("rollup", spark, servers, LaterClock(), topic=["in"], interval_ms=1000)


def piped(
    name: str, spark: "SparkSession", servers: str, clock: Clock | None = None, **settings: Any
) -> None:
    """Run a pipeline until it has done what there is."""
    module = load(name)
    told = RunSettings(name=name, master=spark.sparkContext.master or "")
    chosen = module.Settings(**settings)
    with penstock.connect(servers) as connected:
        runner.run(
            name, module, told, chosen, connected, servers=servers, once=True, clock=clock or SystemClock()
        )


class LaterClock(SystemClock):
    """The clock of a machine on which some minutes more are over."""

    def wall_ms(self) -> int:
        """Later than it is."""
        return super().wall_ms() + LATER_MS


# Stages.


def staged(names: str, spark: "SparkSession", servers: str, folder: str) -> None:
    """One after the other; those that are done are left out."""
    for name in names.split(","):
        done = Path(folder, f"{name}.done")
        if not done.exists():
            until_done(name, spark, servers, folder)
            done.touch()


def until_done(name: str, spark: "SparkSession", servers: str, folder: str) -> None:
    """Start a stage again and again, until nothing happens to it."""
    for _ in range(STARTS_MAX):
        try:
            STAGES[name](spark, servers, folder)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next one goes on.
            sys.stderr.write(f"again: {name}: {str(error).partition(chr(10))[0][:300]}\n")
            time.sleep(AGAIN_S)
        else:
            return
    raise RuntimeError(f"{name} has failed {STARTS_MAX} times")


Program = Callable[["SparkSession", str, str], None]
PROGRAMS: dict[str, Program] = {"everything": everything, "shipped": shipped, "asked": asked}
STAGES: dict[str, Program] = {
    "sink": stream,
    "archive": archive,
    "replay": replayed,
    "transform": transformed,
    "rollup": rolled_up,
}

if __name__ == "__main__":
    program, master, servers, folder = sys.argv[1:]
    session = penstock.spark.session(master)
    for each in program.split("+"):
        PROGRAMS.get(each, partial(staged, each))(session, servers, folder)
    session.stop()
    say("done")
