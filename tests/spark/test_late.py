"""Late records of a transform with a watermark: none while it catches up, and those there are, are seen."""

import json
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.server.process import Server

import penstock
from penstock.clock import SystemClock
from penstock.model.info import PipelineRun
from penstock.spark.pipelines import transform
from penstock.spark.pipelines.run import runner, states
from penstock.spark.pipelines.run.settings import load
from penstock.spark.reports import result_tables
from penstock.spark.runtime import connections

MINUTE_MS = 60_000
RunTransform = Callable[[str], PipelineRun]


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    connections.close_all()


@pytest.fixture
def run(spark: SparkSession, broker: penstock.Broker, servers: str, tmp_path: Path) -> RunTransform:
    """Run a transform once, by its TOML."""

    def run_once(text: str) -> PipelineRun:
        given = {"checkpoint": str(tmp_path / "checkpoint"), "lake": str(tmp_path / "lake")}
        run_settings, settings = load(transform.Settings, text=text, file="x.toml", given=given, now_ms=0)
        return runner.run("transform", transform, run_settings, settings, broker, servers=servers, once=True)

    return run_once


def new_topic(broker: penstock.Broker, name: str = "late") -> str:
    topic = f"{name}_{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=2)
    return topic


def fill(
    spark: SparkSession, servers: str, topic: str, partition: int, times: tuple[int, int], count: int
) -> None:
    """So many records of a partition, published evenly over a time; their own time is a little earlier."""
    first_ms, last_ms = times
    published = f"{first_ms} + id * {last_ms - first_ms} div {count}"
    rows = spark.range(0, count, 1, 1).selectExpr(
        f"timestamp_millis({published}) as timestamp",
        f"{partition} as partition",
        f"""to_json(struct(timestamp_millis({published} - id % {MINUTE_MS}) as at)) as value""",
    )
    rows.write.format("penstock").options(servers=servers, topic=topic).mode("append").save()


def produce(served: Server, topic: str, partition: int, published_ms: int, own_ms: int) -> None:
    """As a Kafka producer does it, which brings its own publish time."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{served.ports['kafka']}"})
    own = datetime.fromtimestamp(own_ms / 1000, UTC).isoformat()
    producer.produce(topic, json.dumps({"at": own}), partition=partition, timestamp=published_ms)
    assert producer.flush(30) == 0


def windows(*sources: str, max_records: int = 4000, target: str, name: str) -> str:
    """Records in each minute, to a topic and a table."""
    union = " union all ".join(f"select at from s{n}" for n in range(len(sources)))
    text = f"""
        name = "{name}"
        topic = "{target}"
        table = "{target}"
        max_records = {max_records}
        sql = '''select window.start as start, count(*) as records from ({union})
                 group by window(at, '1 minute')'''
    """
    for number, source in enumerate(sources):
        text += f"""
        [sources.s{number}]
        topic = "{source}"
        schema = "at timestamp"
        time = "at"
        watermark = "1m"
        """
    return text


def published(broker: penstock.Broker, target: str) -> "Counter[Any]":
    """Records by window, as the topic has them; each window is there once."""
    found = [json.loads(message.value) for message in broker.read(target, limit=10_000)]
    assert len({each["start"] for each in found}) == len(found)
    return Counter({each["start"]: each["records"] for each in found})


def test_catching_up_with_partitions_that_were_busy_at_different_times_makes_nothing_late(
    run: RunTransform, spark: SparkSession, broker: penstock.Broker, servers: str, tmp_path: Path
) -> None:
    now_ms = SystemClock().wall_ms()
    topic, other = new_topic(broker), new_topic(broker)
    start_ms = now_ms - 100 * MINUTE_MS
    fill(spark, servers, topic, 0, (start_ms, start_ms + 30 * MINUTE_MS), 20_000)
    fill(spark, servers, topic, 0, (now_ms - 1000, now_ms - 900), 10)  # Makes all windows final.
    fill(spark, servers, topic, 1, (start_ms + 30 * MINUTE_MS, start_ms + 60 * MINUTE_MS), 30_000)
    fill(spark, servers, other, 0, (start_ms + 20 * MINUTE_MS, start_ms + 21 * MINUTE_MS), 5000)
    fill(spark, servers, other, 1, (now_ms - 1000, now_ms - 900), 10)
    text = windows(topic, other, max_records=4000, target=f"{topic}-out", name=topic)

    last = run(text)

    counts = published(broker, f"{topic}-out")
    in_table = DeltaTable(result_tables.path_of(str(tmp_path / "lake"), f"{topic}-out")).to_pyarrow_table()
    assert sum(counts.values()) == 55_000
    assert sum(in_table["records"].to_pylist()) == 55_000
    assert (last.records, last.late, last.batches > 13) == (55_020, 0, True)
    assert broker.read(f"{topic}.bad") == []


def test_a_late_record_is_counted_shown_logged_and_in_the_side_topic(
    run: RunTransform,
    spark: SparkSession,
    broker: penstock.Broker,
    served: Server,
    servers: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms = SystemClock().wall_ms()
    topic = new_topic(broker)
    fill(spark, servers, topic, 0, (now_ms - 60 * MINUTE_MS, now_ms - 30 * MINUTE_MS), 1000)
    text = windows(topic, target=f"{topic}-out", name=topic)
    run(text)
    produce(served, topic, 0, now_ms, now_ms - 10 * MINUTE_MS)  # Late by its own account.
    produce(served, topic, 1, now_ms - 50 * MINUTE_MS, now_ms - 50 * MINUTE_MS)  # Its window is over.
    produce(served, topic, 0, now_ms, now_ms)  # On time.

    with caplog.at_level(logging.WARNING, "penstock.spark"):
        last = run(text)

    late = broker.read(f"{topic}.bad")
    assert sorted(each.headers["x-reason"] for each in late) == [
        "late: it was published more than 1m after its at",
        "late: its at is more than 1m before records that were read earlier",
    ]
    assert {each.headers["x-source"] for each in late} == {f"{topic}:0:1000", f"{topic}:1:0"}
    assert (last.records, last.late) == (3, 2)
    assert states.runs(broker)[topic].late == 2
    assert "2 late records went to the side topic" in caplog.text
    assert "left out" not in caplog.text, "Spark itself drops nothing"
    assert sum(published(broker, f"{topic}-out").values()) == 1000


def test_the_queries_of_a_transform_read_the_same_batches(
    run: RunTransform, spark: SparkSession, broker: penstock.Broker, servers: str
) -> None:
    now_ms = SystemClock().wall_ms()
    topic = new_topic(broker)
    fill(spark, servers, topic, 0, (now_ms - 60 * MINUTE_MS, now_ms - 30 * MINUTE_MS), 1000)
    run(windows(topic, max_records=300, target=f"{topic}-out", name=topic))

    prefix = f"{topic}/s0/".encode()
    steps = [each for each in broker.read("__batches", limit=10_000) if (each.key or b"").startswith(prefix)]
    planned = [json.loads(each.value) for each in steps]
    assert len({json.dumps(each["start"]) for each in planned}) == 4
    assert planned[-1]["end"] == {topic: {"0": 1000, "1": 0}}
