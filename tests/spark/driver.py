"""Programs for a cluster, run in a process of their own: ``python driver.py NAME MASTER SERVERS FOLDER``.

    everything    writes a table to a topic, reads it back, streams it on to another topic
    shipped       the same, and says where tasks find Penstock
    stream        streams topic "in" to topic "out" until it has all of it, whatever happens meanwhile

``SETTINGS`` in the environment has Spark's settings as JSON.
"""

import json
import os
import sys
from typing import TYPE_CHECKING

import penstock.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def everything(spark: "SparkSession", servers: str, folder: str) -> None:
    """A write, a read, a stream."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("cast(id as string) as key", "concat('v', id) as value")
    rows.write.format("penstock").options(servers=servers, topic="table").mode("append").save()
    table = spark.read.format("penstock").options(servers=servers, topic="table").load()
    [[total]] = table.selectExpr("sum(cast(key as string))").collect()
    say(table.count(), total)
    stream(spark, servers, folder, "table")


def shipped(spark: "SparkSession", servers: str, folder: str) -> None:
    """All of that, and the folder that Spark unpacked Penstock to."""
    everything(spark, servers, folder)
    say(*sorted(set(spark.sparkContext.parallelize(range(8), 8).map(where).collect())))


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
            .options(servers=servers, topic=source, starting="earliest", max_records_per_trigger="500")
            .load()
            .select("key", "value", "headers")
            .writeStream.format("penstock")
            .options(servers=servers, topic="out", checkpointLocation=f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next one goes on.
            say("again:", str(error).partition("\n")[0][:300])
        else:
            return


if __name__ == "__main__":
    program, master, servers, folder = sys.argv[1:]
    session = penstock.spark.session(master, config=json.loads(os.environ.get("SETTINGS", "{}")))
    {"everything": everything, "shipped": shipped, "stream": stream}[program](session, servers, folder)
    session.stop()
    say("done")
