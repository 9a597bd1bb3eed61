"""The data source in a real session: tables, streams, SQL, and errors as a program sees them."""

import json
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.server.process import until
from tests.spark.archived import archive

import penstock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def table(
    spark: "SparkSession", servers: str, topic: str, schema: str | None = None, **options: str
) -> "DataFrame":
    reader = spark.read.format("penstock").options(servers=servers, topic=topic, **options)
    return (reader if schema is None else reader.schema(schema)).load()


def test_a_topic_is_a_table(spark: "SparkSession", broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("table", partitions=2)
    for number in range(10):
        value = json.dumps({"id": number * 100, "name": "n"}).encode()
        broker.publish("table", value, key="k", headers={"h": "1"}, partition=number % 2)
    broker.publish_batch("table", [b"not json"] * 990)

    whole = table(spark, servers, "table")
    decoded = table(spark, servers, "table", value_format="json", value_schema="id long, name string")
    few = table(spark, servers, "table", "value string, id string", partition_records="300")

    assert whole.columns == ["topic", "partition", "offset", "timestamp", "key", "value", "headers", "lane"]
    assert whole.count() == 1000
    first = whole.where("key is not null").orderBy("partition", "offset").first()
    assert first is not None
    assert (bytes(first.key), dict(first.headers)) == (b"k", {"h": bytearray(b"1")})
    assert decoded.where("value.id >= 500").count() == 5
    assert decoded.where("value is null").count() == 990
    ends = broker.offsets("table", "latest").values()
    # What is left over of several partitions may be one task.
    assert ceil(1000 / 300) <= few.rdd.getNumPartitions() <= sum(ceil(end / 300) for end in ends)
    assert few.where("value = 'not json'").count() == 990
    assert few.where("id = 'table:0:3'").count() == 1
    assert [row.offset for row in whole.where("partition = 1 and offset in (3, 4)").collect()] == [3, 4]
    assert whole.where("timestamp > '2999-01-01'").count() == 0
    whole.createOrReplaceTempView("by_sql")
    assert spark.sql("select count(*) from by_sql where value = 'not json'").first()[0] == 990  # type: ignore[index]


def test_a_session_that_pushes_conditions_reads_only_what_they_leave(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("narrow", partitions=2)
    broker.publish_batch("narrow", [penstock.Message(b"%d" % number, partition=1) for number in range(10)])
    spark.conf.set(PUSHDOWN, "true")
    try:
        narrow = table(spark, servers, "narrow").where("partition = 1 and offset >= 3 and offset < 5")
        assert [row.offset for row in narrow.collect()] == [3, 4]
        assert "Filter (" not in str(narrow._jdf.queryExecution().executedPlan())
        listed = table(spark, servers, "narrow").where("partition = 1 and offset in (7, 2)")
        assert [row.offset for row in listed.collect()] == [2, 7]
        assert "Filter (" not in str(listed._jdf.queryExecution().executedPlan())
    finally:
        spark.conf.set(PUSHDOWN, "false")


def test_a_table_that_is_asked_twice_has_forgotten_the_first_question(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("twice", partitions=1)
    broker.publish_batch("twice", [b"%d" % number for number in range(10)])
    twice = table(spark, servers, "twice")
    assert twice.where("offset >= 7").count() == 3
    assert twice.count() == 10


def test_errors_of_a_table_are_sentences(spark: "SparkSession", servers: str) -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda: table(spark, servers, "x", starting="first"), "starting cannot be 'first'"),
        (
            lambda: table(spark, servers, "x", value_format="json"),
            "value_schema cannot be None: value_format=json needs a schema",
        ),
        (lambda: table(spark, servers, "nowhere").count(), "there is no topic 'nowhere'"),
        (lambda: table(spark, servers, "x", "ofset long").count(), "column cannot be 'ofset'"),
        (lambda: table(spark, "127.0.0.1:1", "x").count(), "127.0.0.1:1"),
    ]
    for act, words in wrong:
        with pytest.raises(PySparkException) as raised:
            act()
        assert words in str(raised.value)
        assert "Traceback" not in str(raised.value)
        assert len(str(raised.value).splitlines()) == 2, "the sentence, and Spark's SQLSTATE"


def test_a_running_stream_lives_through_retention_and_new_partitions(
    spark: "SparkSession", broker: penstock.Broker, servers: str, lake: Path, tmp_path: Path
) -> None:
    broker.create_topic("running", partitions=1, segment_bytes=4096)
    source = spark.readStream.format("penstock").option("servers", servers).option("topic", "running")
    source = (
        source.option("starting", "earliest").option("group", "watchers").schema("partition int, offset long")
    )
    seen: list[tuple[int, int]] = []

    def note(batch: "DataFrame", _: int) -> None:
        seen.extend((row.partition, row.offset) for row in batch.collect())

    def started() -> Any:
        writer = source.load().writeStream.foreachBatch(note)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def caught_up() -> bool:
        return query.exception() is not None or broker.describe_group("running", "watchers").lag == 0

    query = started()
    broker.publish_batch("running", [bytes(1000)] * 5)
    until(lambda: len(seen) == 5 or query.exception() is not None)
    broker.alter_topic("running", partitions=2)
    broker.publish("running", b"new", partition=1)
    until(lambda: len(seen) == 6 or query.exception() is not None)
    until(caught_up)
    query.stop()
    for _ in range(10):
        broker.publish("running", bytes(1000), partition=0)
    archive(broker, "running", str(lake))
    broker.alter_topic("running", retention_bytes=1000)
    query = started()
    until(lambda: len(seen) == 16 or query.exception() is not None)
    until(caught_up)
    query.stop()

    assert query.exception() is None
    assert sorted(seen) == [*((0, number) for number in range(15)), (1, 0)]
    assert broker.describe_group("running", "watchers").lag == 0
