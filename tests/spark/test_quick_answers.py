"""Small questions that the broker answers, without Spark; and what is left to Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.model.schemas import NewSchema
from penstock.spark.queries import counting, quick_answers
from penstock.spark.queries.engine import LocalEngine
from penstock.spark.queries.quick_answers import quick_answer
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import address_of
from penstock.testing import TestBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def quick() -> Iterator[TestBroker]:
    with TestBroker.open() as opened:
        opened.create_topic("web.clicks", partitions=2, retention="1h", segment_bytes=4096)
        opened.publish_batch("web.clicks", [penstock.Message(b"x", partition=n % 2) for n in range(5)])
        opened.publish("web.clicks", b"later", delay="1h")
        for group in ("a", "b"):
            with opened.consumer("web.clicks", group=group) as consumer:
                consumer.ack(consumer.receive(2))
        yield opened


def rows(broker: TestBroker, query: str) -> list[dict[str, object]] | None:
    answer = quick_answer(broker, query)
    return None if answer is None else [dict(zip(answer.columns, row, strict=True)) for row in answer.rows()]


def test_groups_and_schedules_are_what_the_broker_says(quick: TestBroker) -> None:
    groups = rows(quick, "select * from __groups;")
    assert groups is not None
    assert [(row["topic"], row["group"], row["acked"]) for row in groups] == [
        ("web.clicks", "a", 2),
        ("web.clicks", "b", 2),
    ]
    limited = rows(quick, " SELECT *\nFROM __GROUPS LIMIT 1 ")
    assert limited is not None
    assert [row["group"] for row in limited] == ["a"]
    [schedule] = rows(quick, "select * from __schedules") or []
    assert (schedule["topic"], schedule["value"]) == ("web.clicks", b"later")
    assert schedule["due"] == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=1)


def test_the_newest_offset_is_that_of_all_partitions(quick: TestBroker) -> None:
    assert rows(quick, "select max(offset) from `web.clicks`") == [{"max(offset)": 2}]
    quick.create_topic("empty", partitions=2)
    assert rows(quick, "select max(offset) from empty") == [{"max(offset)": None}]


@pytest.mark.parametrize(
    "query",
    [
        "select * from __groups where lag > 0",
        "select * from __gaps",
        "select topic from __groups",
        "select max(offset), 1 from `web.clicks`",
        "select max(offset) from nothing",
        "select max(offset) from `Web.Clicks`",
        "select max(offset) from `web.clicks` where partition = 0",
        "select count(key) from `web.clicks`",
        "select count(*) from `web.clicks` where lane = 0",
        "select count(*) from `web.clicks` where partition = 0 or offset = 1",
        "select count(*) from `web.clicks` limit 1",
        "select * from `web.clicks`",
        "select * from `web.clicks` limit 1001",
        "select * from `web.clicks` order by key limit 1",
        "select * from `web.clicks` order by offset, key limit 1",
        "select * from nothing limit 1",
    ],
)
def test_everything_else_is_left_to_spark(quick: TestBroker, query: str) -> None:
    assert quick_answer(quick, query) is None


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        ("", {0: [0, 1, 2], 1: [0, 1]}),
        ("where partition = 1", {1: [0, 1]}),
        ("where partition < 1 and offset >= 1", {0: [1, 2]}),
        ("where Offset > 0 AND offset <= 1", {0: [1], 1: [1]}),
        ("where offset = 2 and partition >= 0", {0: [2]}),
        ("where offset < 1 and partition > 0", {1: [0]}),
        ("where offset > 1 and offset < 1", {}),
        ("where partition = 7", {}),
    ],
)
def test_messages_are_counted_and_the_first_ones_shown(
    quick: TestBroker, where: str, offsets: dict[int, list[int]]
) -> None:
    shown = [(partition, each) for partition, found in offsets.items() for each in found]

    assert rows(quick, f"select count(*) from `web.clicks` {where}") == [{"count(1)": len(shown)}]
    for limit in (0, 1, 4, 1000):
        found = rows(quick, f"select * from `web.clicks` {where} limit {limit}")
        assert found is not None
        assert [(row["partition"], row["offset"]) for row in found] == shown[:limit]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("order by offset desc limit 1", [(0, 2)]),
        ("ORDER BY offset DESC LIMIT 4", [(0, 2), (0, 1), (1, 1), (0, 0)]),
        ("order by offset limit 3", [(0, 0), (1, 0), (0, 1)]),
        ("where partition = 1 order by offset asc limit 9", [(1, 0), (1, 1)]),
        ("where offset < 2 order by offset desc limit 1", [(0, 1)]),
        ("where partition = 7 order by offset limit 1", []),
    ],
)
def test_the_first_and_the_last_offsets_are_shown_in_order(
    quick: TestBroker, query: str, found: list[tuple[int, int]]
) -> None:
    answer = rows(quick, f"select * from `web.clicks` {query}")

    assert answer is not None
    assert [(row["partition"], row["offset"]) for row in answer] == found


def test_the_last_offsets_of_a_compacted_topic_are_looked_for(
    quick: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick.create_topic("states", partitions=1, compact=True, segment_bytes=4096)
    for number in range(40):
        quick.publish("states", b"kept", key=str(number))
        quick.publish_batch("states", [penstock.Message(bytes(1000), key="same")] * 4)
    quick.advance("1h")
    there = [message.offset for message in quick.read("states", partition=0, offset=0, limit=1000)]
    query = "select * from states order by offset desc limit 9"

    found = rows(quick, query)

    assert there[-1] - there[-9] > 9
    assert found is not None
    assert [row["offset"] for row in found] == there[:-10:-1]
    monkeypatch.setattr(quick_answers, "SEARCHED_MAX", 1)
    assert rows(quick, query) is None


def test_of_compacted_topics_only_what_is_there_is_counted(quick: TestBroker) -> None:
    quick.create_topic("states", partitions=1, compact=True, segment_bytes=4096)
    for number in range(3):
        quick.publish_batch("states", [penstock.Message(bytes(1000), key=f"{n % 5}") for n in range(20)])
        quick.publish("states", b"%d" % number, key="last")
    quick.advance("1h")
    found = quick.read("states", partition=0, offset=0, limit=1000)

    assert len(found) < 63
    assert rows(quick, "select count(*) from states") == [{"count(1)": len(found)}]


def test_what_only_the_lake_may_have_is_left_to_spark(quick: TestBroker) -> None:
    quick.advance("3h")
    quick.publish("web.clicks", b"new")
    [partition] = [
        each.partition for each in quick.describe_topic("web.clicks").partitions if each.end > each.start
    ]
    start = quick.offsets("web.clicks", "earliest")[partition]
    here = f"where partition = {partition}"

    assert rows(quick, "select count(*) from `web.clicks`") is None
    assert rows(quick, f"select count(*) from `web.clicks` {here} and offset >= {start}") == [{"count(1)": 1}]
    assert rows(quick, f"select * from `web.clicks` {here} limit 2") is None
    [row] = rows(quick, f"select * from `web.clicks` {here} limit 1") or []
    assert (row["offset"], row["value"]) == (start, b"new")


def test_large_topics_and_those_with_a_schema_are_left_to_spark(
    quick: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select count(*) from `web.clicks`"
    monkeypatch.setattr(counting, "COUNTED_BYTES_MAX", 10)
    assert rows(quick, query) is None
    monkeypatch.undo()
    assert rows(quick, query) == [{"count(1)": 5}]

    quick.register_schema("web.clicks-value", NewSchema(schema="{}", type="JSON"))
    assert rows(quick, query) is None
    assert rows(quick, "select * from `web.clicks` limit 1") is None


def test_a_newest_message_that_only_the_lake_may_have_is_left_to_spark(quick: TestBroker) -> None:
    quick.advance("3h")

    assert quick.offsets("web.clicks", "earliest") == quick.offsets("web.clicks", "latest")
    assert quick_answer(quick, "select max(offset) from `web.clicks`") is None


def test_spark_gives_the_same_answers_names_and_types(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("quick", partitions=2)
    broker.publish_batch("quick", [b"1", b"2", b"3"])
    broker.publish("quick", b"later", delay="1h", headers={"a": "b"}, key="k")
    engine = LocalEngine(Tables(spark.newSession(), address_of({"servers": servers})))

    for query in (
        "select max(offset) from quick",
        "select count(*) from quick",
        "select count(1) from quick where partition >= 0 and offset < 1",
        "select * from quick limit 10",
        "select * from quick where partition = 0 limit 10",
        "select * from quick limit 0",
        "select * from quick where partition = 0 order by offset desc limit 2",
        "select * from __schedules",
        "select * from __groups",
    ):
        answer = quick_answer(broker, query)
        assert answer is not None
        found = engine.ask(query, None)
        assert found.table.schema.types == answer.table.schema.types
        assert found.columns == answer.columns
        if "__groups" not in query:  # Its ages are those of two moments.
            assert sorted(map(str, found.rows())) == sorted(map(str, answer.rows()))
