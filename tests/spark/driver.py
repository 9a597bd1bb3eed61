"""Programs for Spark, run in a process of their own: ``python driver.py NAME MASTER SERVERS FOLDER``.

    everything    writes a table to a topic, reads it back, streams it on to another topic
    shipped       the same, and says where tasks find Penstock
    stream        streams topic "in" to topic "out" until it has all of it, whatever happens meanwhile
    archive       the pipeline: topic "in" to the lake
    replay        the pipeline: topic "in" to topic "out"

``SETTINGS`` in the environment has Spark's settings as JSON, ``KEY`` a key for the
broker.  The pipelines work in tiny pieces, so that wherever a kill comes there is
something to break.
"""

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import penstock.spark
from penstock.spark.lake import archiving
from penstock.spark.pipelines import load, replay, running
from penstock.spark.pipelines.settings import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGE_BYTES = 20_000  # Archived by a task.
CHUNK_RECORDS = 500  # Replayed by a job.


def everything(spark: "SparkSession", servers: str, folder: str) -> None:
    """A write, a read, a stream."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("cast(id as string) as key", "concat('v', id) as value")
    rows.write.format("penstock").options(**broker(servers), topic="table").mode("append").save()
    table = spark.read.format("penstock").options(**broker(servers), topic="table").load()
    [[total]] = table.selectExpr("sum(cast(key as string))").collect()
    say(table.count(), total)
    stream(spark, servers, folder, "table")


def shipped(spark: "SparkSession", servers: str, folder: str) -> None:
    """All of that, and the folder that Spark unpacked Penstock to."""
    everything(spark, servers, folder)
    say(*sorted(set(spark.sparkContext.parallelize(range(8), 8).map(where).collect())))


def broker(servers: str) -> dict[str, str]:
    """The options that say where it is, and who asks."""
    return {"servers": servers} | ({"key": os.environ["KEY"]} if "KEY" in os.environ else {})


def say(*words: object) -> None:
    """For the test to read."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def where(_: int) -> str:
    """Where a task finds Penstock: the folder that it was unpacked to."""
    import penstock

    return str(penstock.__file__).split(os.sep)[-3]


def stream(spark: "SparkSession", servers: str, folder: str, source: str = "in") -> None:
    """All of a topic to ``out``; a query that fails is started again, as an operator would."""
    while True:
        query = (
            spark.readStream.format("penstock")
            .options(**broker(servers), topic=source, starting="earliest", max_records_per_trigger="500")
            .load()
            .select("key", "value", "headers")
            .writeStream.format("penstock")
            .options(**broker(servers), topic="out", checkpointLocation=f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next one goes on.
            say("again:", str(error).partition("\n")[0][:300])
        else:
            return


# Pipelines.


def archive(spark: "SparkSession", servers: str, _folder: str) -> None:
    """In many small commits."""
    setattr(archiving, "RANGE_BYTES", RANGE_BYTES)  # noqa: B010 - it is final for everybody else.
    piped("archive", spark, servers, topic=["in"], batch_bytes=4 * RANGE_BYTES)


def replayed(spark: "SparkSession", servers: str, _folder: str) -> None:
    """In many small chunks."""
    setattr(replay, "CHUNK_RECORDS", CHUNK_RECORDS)  # noqa: B010
    piped("replay", spark, servers, topic="in", to="out")


def piped(name: str, spark: "SparkSession", servers: str, **settings: Any) -> None:
    """Run a pipeline until it has done what there is."""
    module = load(name)
    told = RunSettings(name=name, master=spark.sparkContext.master or "")
    with penstock.connect(servers) as connected:
        running.run(name, module, told, module.Settings(**settings), connected, servers=servers, once=True)


PROGRAMS = {
    "everything": everything,
    "shipped": shipped,
    "stream": stream,
    "archive": archive,
    "replay": replayed,
}

if __name__ == "__main__":
    program, master, servers, folder = sys.argv[1:]
    session = penstock.spark.session(master, config=json.loads(os.environ.get("SETTINGS", "{}")))
    PROGRAMS[program](session, servers, folder)
    session.stop()
    say("done")
