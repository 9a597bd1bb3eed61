"""What happened in each minute, as a table of the lake."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock
from penstock.clock import SystemClock
from penstock.spark.pipelines import rollup
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.run.progress import RunProgress
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.reports import driver_tables, per_minute, result_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
MINUTE_MS = rollup.MINUTE_MS


class LaterClock:
    """The clock of a machine on which some minutes more are over."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self.later_ms = 0

    def wall_ms(self) -> int:
        return self._real.wall_ms() + self.later_ms

    def steady_ms(self) -> int:
        return self._real.steady_ms() + self.later_ms


def rolled_up(broker: penstock.Broker, servers: str, lake: Path, clock: LaterClock, topic: str) -> list[Row]:
    context = Context(
        RunSettings(name="rollup", lake=str(lake)), broker, servers, clock, RunProgress(clock), once=True
    )
    rollup.run(rollup.Settings(topic=[topic]), context)
    rows = driver_tables.read(result_tables.path_of(str(lake), rollup.TABLE)).to_pylist()
    return sorted(rows, key=lambda row: (row["minute"], row["group"] or ""))


def total(rows: list[Row], name: str, group: str | None) -> int:
    return sum(row[name] or 0 for row in rows if row["group"] == group)


def at(minute: int, seconds: float = 0.0) -> datetime:
    return datetime(2026, 11, 14, 10, minute, tzinfo=UTC) + timedelta(seconds=seconds)


def test_every_number_is_of_its_minute(spark: "SparkSession") -> None:
    journal = [
        # time, partition, group, event, start, end, why
        (at(0, 10), 0, "g", "delivered", 0, 4, None),
        (at(0, 11), 0, "g", "acked", 0, 2, None),
        (at(0, 20), 0, "g", "nacked", 2, 3, "nacked"),
        (at(1, 20), 0, "g", "redelivered", 2, 3, None),
        (at(1, 30), 0, "g", "dead-lettered", 2, 3, None),
        (at(2, 5), 0, "g", "acked", 3, 4, None),
        (at(1, 0), 1, "stream", "committed", 0, 3, None),
        (at(1, 1), 1, "stream", "committed", 3, 1, None),
        (at(0, 30), 0, "g", "expired", 9, 10, "expired"),
        (at(0, 30), 0, "__redrive", "acked", 0, 4, None),
        (at(0, 30), 0, "g", "group set", 0, None, None),
    ]
    happened = spark.createDataFrame(
        [(*row[:2], "t", *row[2:]) for row in journal],
        "time timestamp, partition int, topic string, `group` string, event string, start bigint, "
        "end bigint, why string",
    )
    messages = spark.createDataFrame(
        [("t", 0, offset, at(0, offset)) for offset in range(4)]
        + [("t", 1, offset, at(0, 30 + offset)) for offset in range(5)]
        + [("t", 1, 5, at(2, 59))],
        per_minute.MESSAGES,
    )
    floors = spark.createDataFrame([("t", "stream", at(0, 31))], per_minute.FLOORS)

    found = per_minute.rolled_up(
        happened, messages, floors, round(at(0).timestamp() * 1000), round(at(2).timestamp() * 1000)
    )
    rows = {(row.minute // 60_000_000 % 60, row.group): row.asDict() for row in found.collect()}

    def facts(minute: int, group: str | None, *names: str) -> list[Any]:
        return [rows[minute, group][name] for name in names]

    counts = ("delivered", "redelivered", "acked", "failed", "dead_lettered", "expired")
    times = ("ack_p50_ms", "ack_p99_ms", "ack_max_ms", "oldest_unacked_seconds")
    assert set(rows) == {(0, None), (0, "g"), (0, "stream"), (1, "g"), (1, "stream")}
    assert facts(0, None, "published", *counts) == [9, *[None] * 6]
    assert facts(0, "g", *counts) == [4, 0, 2, 1, 0, 0]
    assert facts(0, "g", *times) == [10_000, 11_000, 11_000, 58.0]  # Offset 2, of 10:00:02.
    assert facts(1, "g", *counts) == [1, 1, 0, 0, 1, 0]
    assert facts(1, "g", *times) == [None, None, None, 117.0]  # Offset 3, acked in the third minute.
    assert facts(0, "stream", *counts, *times) == [*[None] * 9, 30.0]
    assert facts(1, "stream", *counts) == [3, 0, 3, 0, 0, 0]
    assert facts(1, "stream", *times) == [29_000, 30_000, 30_000, 89.0]


def test_minutes_are_rolled_up_once_each(
    spark: "SparkSession", servers: str, broker: penstock.Broker, tmp_path: Path
) -> None:
    assert spark.version  # One session for all; the pipeline finds it.
    broker.create_topic("rolled", partitions=2)
    broker.publish_batch("rolled", [penstock.Message(b"x", key=b"%d" % number) for number in range(20)])
    broker.commit_offsets("rolled", "query", {0: 1, 1: 1})
    with broker.consumer("rolled", group="workers", max_attempts=1) as consumer:
        messages: list[penstock.ReceivedMessage] = []
        while len(messages) < 20:
            messages += consumer.receive(20, wait="1s")
        consumer.ack(messages[:15])
        messages[15].nack(error=ValueError("no"))
        clock = LaterClock()
        clock.later_ms = 2 * MINUTE_MS

        rows = rolled_up(broker, servers, tmp_path, clock, "rolled")

        assert total(rows, "published", None) == 20
        assert total(rows, "delivered", "workers") == 20
        assert total(rows, "acked", "workers") == 15
        assert total(rows, "failed", "workers") == 1
        assert total(rows, "dead_lettered", "workers") == 1
        assert total(rows, "acked", "query") == 2
        ages = [row["oldest_unacked_seconds"] for row in rows if row["group"] == "workers"]
        assert {round(later - age) for age, later in pairwise(ages)} <= {60}
        assert 0 < ages[0] <= 60

        clock.later_ms += MINUTE_MS
        again = rolled_up(broker, servers, tmp_path, clock, "rolled")

    places = [(row["minute"], row["topic"], row["group"]) for row in again]
    assert len(places) == len(set(places))
    assert len(again) > len(rows)
    assert again[: len(rows)] == rows
    assert total(again, "published", None) == 20
