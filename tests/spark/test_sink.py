"""Writing DataFrames to topics, in batches and as streams: every row once, with all it says."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from penstock import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Write = Callable[..., None]


@pytest.fixture
def write(servers: str) -> Write:
    """Write a DataFrame to a topic."""

    def written(frame: "DataFrame", topic: str, mode: str = "append", **options: str) -> None:
        wanted = {"servers": servers, "topic": topic} | options
        frame.write.format("penstock").options(**wanted).mode(mode).save()

    return written


def sentence(error: PySparkException) -> str:
    """What our part of an error says."""
    return next(line for line in str(error).splitlines() if "penstock.errors." in line)


def test_rows_become_messages_with_all_that_their_columns_say(
    spark: "SparkSession", broker: Broker, write: Write
) -> None:
    broker.create_topic("columns", partitions=2, retention=None)  # Its times are long ago.
    frame = spark.sql(
        """
        select * from values
          ('k0', 'plain', map('h', 'one', 'g', 'two'), 0, timestamp '2026-01-01', null, null, null),
          ('k1', 'high',  map(), 0, timestamp '2026-01-02', null, 'high', null),
          (null, 'lives', null,  1, null, null, null, '1h'),
          ('k2', 'waits', null,  1, null, '10m', null, null),
          ('k3', null,    null,  1, null, null, null, null)
        as (key, value, headers, partition, timestamp, delay, priority, ttl)
        """
    )

    write(frame.coalesce(1), "columns")

    first, second = broker.read("columns", partition=0)
    moment = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert (first.key, first.value, first.headers) == (b"k0", b"plain", {"h": "one", "g": "two"})
    assert (first.timestamp, second.timestamp) == (moment, moment + 24 * 3600 * 1000)
    assert (second.value, second.priority) == (b"high", "high")
    lives, gone = sorted(broker.read("columns", partition=1), key=lambda message: message.key is not None)
    assert (lives.key, lives.value) == (None, b"lives")
    assert lives.expires_at is not None
    left_ms = lives.expires_at.timestamp() * 1000 - lives.timestamp  # It lives from when it is published on.
    assert 3600 * 1000 <= left_ms < 3700 * 1000
    assert (gone.key, gone.record.value) == (b"k3", None)
    [waits] = broker.scheduled("columns")
    assert (waits.key, waits.value, waits.partition) == (b"k2", b"waits", 1)


def test_the_other_types_of_the_columns_do_too(spark: "SparkSession", broker: Broker, write: Write) -> None:
    broker.create_topic("types", partitions=2)
    frame = spark.sql(
        """
        select cast('k' as binary) as key, cast('v' as binary) as value,
               map('h', cast('1' as binary)) as headers, cast(1 as bigint) as partition,
               2 as priority, interval 90 seconds as delay, 0.5 as ttl
        """
    )

    write(frame, "types")

    [waits] = broker.scheduled("types")
    assert (waits.key, waits.value, waits.partition, waits.priority) == (b"k", b"v", 1, "critical")
    assert waits.headers == {"h": "1"}


def test_many_rows_of_many_tasks_are_each_there_once_and_keys_stay_together(
    spark: "SparkSession", broker: Broker, write: Write
) -> None:
    broker.create_topic("many", partitions=3)
    frame = spark.range(0, 40_000, 1, 2).selectExpr(  # Two megabytes for each task, staged in pieces.
        "cast(id % 100 as string) as key", "concat(id, repeat('x', 90)) as value"
    )

    write(frame, "many")

    messages = [
        message
        for partition in range(3)
        for offset in range(0, broker.describe_topic("many").partitions[partition].end, 5000)
        for message in broker.read("many", partition=partition, offset=offset, limit=5000)
    ]
    assert sorted(int((message.value or b"").rstrip(b"x")) for message in messages) == list(range(40_000))
    places = {(message.key, message.partition) for message in messages}
    assert len(places) == 100
    by_task: dict[tuple[int, int], int] = {}
    for message in messages:
        number = int((message.value or b"").rstrip(b"x"))
        last = by_task.get((message.partition, number // 20_000), -1)
        assert number > last, "rows of a task keep their order in a partition"
        by_task[message.partition, number // 20_000] = number


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["'x' as value", "id as offset"], "drop or rename offset"),
        (["'x' as key"], "the column value is missing"),
        (["id as value"], "value is bigint, but must be binary or string"),
        (["'x' as value", "'two' as partition"], "partition is string, but must be int"),
        (["'x' as value", "map(1, 'a') as headers"], "must be map<string, binary>"),
        (["'x' as value", "'2026' as timestamp"], "timestamp is string, but must be timestamp"),
    ],
)
def test_columns_that_a_topic_does_not_take_are_told_at_once(
    spark: "SparkSession", broker: Broker, write: Write, columns: list[str], told: str
) -> None:
    if "strict" not in broker.topics():
        broker.create_topic("strict")
    with pytest.raises(PySparkException) as caught:
        write(spark.range(3).selectExpr(*columns), "strict")
    assert told in sentence(caught.value)
    assert broker.read("strict") == []


@pytest.mark.parametrize(
    ("topic", "options", "told"),
    [
        ("nowhere", {}, "there is no topic 'nowhere'"),
        ("strict", {"mode": "overwrite"}, "a topic can only be appended to"),
        ("strict", {"colour": "red"}, "the options are servers, key, user, password, topic, write_id"),
        ("strict", {"write_id": ""}, "it must have 1 to 150 characters"),
        ("strict", {"servers": "127.0.0.1:1"}, "127.0.0.1:1 cannot be reached"),
    ],
)
def test_options_that_cannot_be_are_told_at_once(
    spark: "SparkSession", broker: Broker, write: Write, topic: str, options: dict[str, Any], told: str
) -> None:
    if "strict" not in broker.topics():
        broker.create_topic("strict")
    with pytest.raises(PySparkException) as caught:
        write(spark.sql("select 'x' as value"), topic, **options)
    assert told in sentence(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_write_that_fails_half_way_leaves_nothing_and_may_be_run_again(
    spark: "SparkSession", broker: Broker, write: Write
) -> None:
    broker.create_topic("halves", partitions=2)
    rows = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as value")
    bad = rows.selectExpr("value", "if(value = '999', 7, 0) as partition")  # There is no partition 7.
    with pytest.raises(PySparkException) as caught:
        write(bad, "halves", write_id="w")
    assert "has partitions 0 to 1, not 7" in sentence(caught.value)
    assert broker.read("halves") == []

    for _ in range(2):  # The second time it is known.
        write(rows, "halves", write_id="w")
    write(spark.sql("select 'other' as value"), "halves", write_id="w2")

    found = sorted(message.value or b"" for message in broker.read("halves", limit=5000))
    assert found == sorted([b"other", *(b"%d" % number for number in range(1000))])


def run_once(spark: "SparkSession", source: Path, checkpoint: Path, servers: str, topic: str) -> str:
    """Everything that is new in the folder, to the topic; the query's id."""
    query = (
        spark.readStream.schema("value string")
        .option("maxFilesPerTrigger", 1)
        .text(str(source))
        .writeStream.format("penstock")
        .options(servers=servers, topic=topic, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return str(query.id)


def test_a_stream_that_repeats_its_last_batch_adds_nothing(
    spark: "SparkSession", broker: Broker, servers: str, tmp_path: Path
) -> None:
    """As after a driver that died when the broker had the batch and Spark's checkpoint had not."""
    broker.create_topic("streamed", partitions=2)
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.txt").write_text("".join(f"{number}-{row}\n" for row in range(50)))
        query = run_once(spark, source, checkpoint, servers, "streamed")
    assert broker.published_version("streamed", f"query:{query}") == 2
    for name in ("2", ".2.crc"):
        (checkpoint / "commits" / name).unlink()
    (source / "3.txt").write_text("3-0\n")

    assert run_once(spark, source, checkpoint, servers, "streamed") == query

    found = sorted((message.value or b"").decode() for message in broker.read("streamed", limit=5000))
    assert found == sorted(["3-0", *(f"{number}-{row}" for number in range(3) for row in range(50))])
    assert broker.published_version("streamed", f"query:{query}") == 3


def test_a_stream_to_nowhere_ends_with_one_sentence(
    spark: "SparkSession", broker: Broker, servers: str, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "0.txt").write_text("row\n")
    with pytest.raises(PySparkException) as caught:
        run_once(spark, tmp_path / "source", tmp_path / "checkpoint", servers, "nowhere")
    assert "there is no topic 'nowhere'" in sentence(caught.value)
