"""Spark with its own Kafka connector: ``python kafka_connector.py SERVER KAFKA FOLDER`` says what it found.

The connector has to be there when the JVM starts, so this is a process of its own.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JARS = Path(__file__).parents[2] / ".tools" / "spark-kafka"  # Of scripts/install-spark-kafka.
SAME = ["topic", "partition", "offset", "timestamp", "key", "value"]  # What both formats have.


def session(master: str) -> "SparkSession":
    """A session that has the connector."""
    jars = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    return penstock.spark.session(master, config={"spark.jars": jars})


def found(spark: "SparkSession", server: str, kafka: str, folder: str) -> dict[str, Any]:
    """A topic read by both formats, copied by Kafka's as a table, and as a stream in pieces."""
    brokers = {"kafka.bootstrap.servers": kafka}

    def read(topic: str) -> "DataFrame":
        return spark.read.format("kafka").options(**brokers, subscribe=topic, includeHeaders="true").load()

    def ours(topic: str) -> "DataFrame":
        return spark.read.format("penstock").options(servers=server, topic=topic).load()

    theirs = read("orders")
    theirs.select("key", "value", "headers").write.format("kafka").options(
        **brokers, topic="copy", includeHeaders="true"
    ).save()
    stream = spark.readStream.format("kafka").options(
        **brokers, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="200"
    )
    writer = stream.load().select("key", "value").writeStream.format("kafka")
    writer = writer.options(**brokers, topic="streamed", checkpointLocation=f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    headers = "transform(headers, each -> each.key || cast(each.value as string)) as headers"
    return {
        "records": theirs.count(),
        "only theirs": theirs.select(SAME).exceptAll(ours("orders").select(SAME)).count(),
        "only ours": ours("orders").select(SAME).exceptAll(theirs.select(SAME)).count(),
        "headers": [row.headers for row in theirs.where("key = 'anna'").selectExpr(headers).collect()],
        "batches": [each["numInputRows"] for each in query.recentProgress],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(found(session("local[2]"), *sys.argv[1:4])) + "\n")
