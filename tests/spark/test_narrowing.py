"""Queries read what they need of a topic: columns, ranges joined with ``or``, each view by itself."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.process import Server
from tests.spark.archived import archive
from tests.spark.sources import Table
from tests.spark.test_source_reading import delete, fill

import penstock
from penstock.model.ranges import OffsetRange
from penstock.spark.queries import views
from penstock.spark.queries.engine import LocalEngine
from penstock.spark.queries.narrowing import ALL, MARGIN_US, NeededPart, needed_parts
from penstock.spark.queries.quick_answers import quick_answer
from penstock.spark.queries.views import Tables
from penstock.spark.records.planning import united
from penstock.spark.runtime.connections import Address
from penstock.spark.source.filters import Bounds, Interval
from penstock.spark.source.regions import EVERYWHERE, Region, both, decode, either, encode
from penstock.spark.source.source import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"PENSTOCK_BROKER__MAINTENANCE": "50ms"}
    with Server(tmp_path_factory.mktemp("served"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def address(served: Server) -> Address:
    servers = f"127.0.0.1:{served.ports['native']}"
    with penstock.connect(servers) as broker:
        for topic in ("many", "other"):
            broker.create_topic(topic, partitions=2)
            fill(broker, topic, 40, 2)
    return Address(servers)


@pytest.fixture
def tables(spark: "SparkSession", address: Address) -> Tables:
    """Its topics are small, so they are read as they are, unless a test says otherwise."""
    return Tables(spark.newSession(), address)


def needed(tables: Tables, query: str) -> dict[str, NeededPart]:
    return needed_parts(tables.sql(query)._jdf.queryExecution().optimizedPlan())


def columns_of(tables: Tables, query: str, topic: str = "many") -> list[str] | None:
    found = needed(tables, query).get(topic, ALL).columns
    return None if found is None else sorted(found)


def bounds_of(tables: Tables, condition: str) -> tuple[Bounds, ...]:
    return needed(tables, f"select key from many where {condition}")["many"].region


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select key, value from many where offset > 3", ["key", "offset", "value"]),
        ("select count(*) from many", []),
        ("select max(timestamp) from many where headers['a'] is null", ["headers", "timestamp"]),
        ("select * from many", None),
        (
            "select distinct * except (headers) from many",
            [
                "key",
                "lane",
                "offset",
                "partition",
                "timestamp",
                "topic",
                "value",
            ],
        ),
        ("select key from many order by offset desc limit 3", ["key", "offset"]),
        ("select a.key from many a join other b on a.offset = b.offset", ["key", "offset"]),
        ("select a.key, b.lane from many a, many b where a.offset = b.offset", ["key", "lane", "offset"]),
        ("select key from other where offset < (select max(partition) from many)", ["partition"]),
        ("with m as (select * from many) select sum(lane) from m where key is not null", ["key", "lane"]),
    ],
)
def test_columns_are_those_that_a_plan_names(tables: Tables, query: str, columns: list[str] | None) -> None:
    assert columns_of(tables, query) == columns


def test_conditions_become_bounds(tables: Tables) -> None:
    low, high = Bounds(offset=Interval(high=9)), Bounds(offset=Interval(low=701))
    first = Bounds(partitions=frozenset({0}))

    assert set(bounds_of(tables, "offset < 10 or offset > 700")) == {low, high}
    assert set(bounds_of(tables, "(10 > offset or offset > 700) and partition = 0")) == {
        low.both(first),
        high.both(first),
    }
    assert bounds_of(tables, "partition = 0 and offset between 5 and 8 and key = 'k1'") == (
        Bounds(partitions=frozenset({0}), offset=Interval(5, 8)),
    )
    assert bounds_of(tables, "`offset` in (3, 7)") == (Bounds(offsets=frozenset({3, 7})),)
    many = ", ".join(map(str, range(0, 60, 3)))  # A set, in Spark's plan.
    assert bounds_of(tables, f"`offset` in ({many})") == (Bounds(offsets=frozenset(range(0, 60, 3))),)


def test_what_cannot_be_said_is_everywhere(tables: Tables) -> None:
    for condition in (
        "offset < 10 or key = 'a'",
        "offset % 2 = 0",
        "not (offset <=> 3)",
        "offset < partition",
    ):
        assert bounds_of(tables, condition) == EVERYWHERE, condition


def test_an_upper_time_has_a_margin_because_now_is_later_when_the_query_runs(tables: Tables) -> None:
    [within] = bounds_of(
        tables, "timestamp >= '2026-01-01 00:00:00Z' and timestamp < timestamp '2026-01-02 00:00:00Z'"
    )

    begin_us = 1_767_225_600_000_000
    assert within.time_us == Interval(begin_us, begin_us + 24 * 3600 * 10**6 + MARGIN_US - 1)


def test_a_topic_that_is_read_twice_is_read_as_far_as_either_needs(tables: Tables) -> None:
    query = (
        "select a.key from many a join many b on a.partition = b.lane where a.offset < 3 and b.offset > 15"
    )
    once = "select (select count(*) from many) n, count(*) m from many where offset > 15"

    assert set(needed(tables, query)["many"].region) == {
        Bounds(offset=Interval(high=2)),
        Bounds(offset=Interval(low=16)),
    }
    assert needed(tables, once)["many"].region == EVERYWHERE


def test_small_topics_are_read_as_they_are(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning a query twice would take longer."""
    query = "select key from many where offset < 3"

    small = source_of(tables.sql(query))
    monkeypatch.setattr(views, "NARROWED_BYTES_MIN", 0)
    large = source_of(tables.sql(query))

    assert small.startswith("RelationV2[topic#")
    assert re.match(r"RelationV2\[offset#\w+, key#\w+\]", large)


def source_of(frame: "DataFrame") -> str:
    """What a plan reads."""
    plan: str = frame._jdf.queryExecution().analyzed().toString()
    return plan[plan.index("RelationV2[") :]


QUERIES = [
    "select count(*) from many",
    "select * from many where offset < 2 or offset > 18",
    "select key from many where (partition = 0 and offset in (1, 2, 5)) or (partition = 1 and offset = 7)",
    "select a.key, b.value from many a join many b on a.offset = b.offset and a.partition < b.partition"
    " where a.offset < 4 and b.offset > 1",
    "select (select count(*) from many) as n, count(*) as few from many where offset > 17",
    "select lane, min(timestamp) <= max(timestamp), count(distinct key) from many group by lane",
    "select offset, topic, headers, lane from many where timestamp > now() - interval 1 hour and offset < 3",
    "select offset from many where timestamp > now() - interval 1 hour and timestamp < now()",
    "select * from many where offset > 5 and offset < 3",
    "select key from many where offset in (3, 7)",
    "select o.key from other o left anti join many m on o.key = m.key and m.offset < 10",
]


def test_answers_are_the_same(
    tables: Tables, spark: "SparkSession", address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = [answer(LocalEngine(tables), query) for query in QUERIES]
    monkeypatch.setattr(views, "NARROWED_BYTES_MIN", 0)
    narrow = [answer(LocalEngine(Tables(spark.newSession(), address)), query) for query in QUERIES]

    assert narrow == wide
    assert [len(each) for each in narrow] == [1, 6, 4, 2, 1, 1, 6, 40, 0, 4, 20]


def answer(engine: LocalEngine, query: str) -> list[str]:
    return sorted(map(str, engine.ask(query, None).rows()))


# What the reader makes of it.


def spans(address: Address, topic: str, region: Region) -> list[tuple[str, int, int, int]]:
    return Table("offset", servers=address.servers, topic=topic, within=encode(region)).spans()


def test_only_offsets_within_some_bounds_are_read(address: Address) -> None:
    first = Bounds(partitions=frozenset({0}))
    region = (
        Bounds(offset=Interval(high=2)).both(first),
        Bounds(offset=Interval(2, 5)).both(first),
        Bounds(offsets=frozenset({9, 10, 400})).both(first),
        Bounds(partitions=frozenset({1}), offset=Interval(low=18)),
    )

    assert spans(address, "many", region) == [("log", 0, 0, 6), ("log", 0, 9, 11), ("log", 1, 18, 20)]
    assert spans(address, "many", ()) == []


def test_of_the_lake_only_files_of_the_times_are_read(address: Address, served: Server) -> None:
    with penstock.connect(address.servers) as broker:
        broker.create_topic("past", partitions=1)
        middle_ms = 0
        for number in range(3):
            fill(broker, "past", 10)
            archive(broker, "past", str(served.data / "lake"))
            if number == 0:
                middle_ms = broker.read("past")[-1].timestamp + 1
        delete(broker, "past")
        fill(broker, "past", 5)
    early = Bounds(time_us=Interval(high=middle_ms * 1000 - 1))
    late = Bounds(offset=Interval(low=28))

    assert spans(address, "past", (early,)) == [("lake", 0, 0, 10)]
    assert spans(address, "past", (early, late)) == [
        ("lake", 0, 0, 10), ("lake", 0, 28, 30), ("log", 0, 30, 35),
    ]  # fmt: skip


def test_archived_messages_are_counted_without_spark(address: Address, served: Server) -> None:
    """Whole files by the table's log, and a file that is cut by reading its offsets."""
    with penstock.connect(address.servers) as broker:
        broker.create_topic("counted", partitions=2)
        for _ in range(2):
            fill(broker, "counted", 20, 2)
            archive(broker, "counted", str(served.data / "lake"))
        delete(broker, "counted")
        fill(broker, "counted", 6, 2)

        for where, count in [
            ("", 46),
            ("where offset >= 5 and offset < 12", 14),
            ("where partition = 1 and offset > 18", 4),
            ("where partition = 1 and offset < 1", 1),
        ]:
            answer = quick_answer(broker, f"select count(*) from counted {where}")
            assert answer is not None
            assert answer.rows() == [[count]], where


def test_a_view_of_some_columns_has_the_others_as_nulls(tables: Tables) -> None:
    tables._needed = {"many": NeededPart(frozenset({"key", "lane"}))}

    frame = tables._messages("many")

    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == list(COLUMNS.items())
    assert source_of(frame).startswith("RelationV2[key#")
    assert sorted(
        str(row.key, "ascii") for row in frame.where("value is null and offset is null").collect()
    ) == (sorted(f"k{number}" for number in range(40)))


# Regions.

intervals = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda ends: Bounds(offset=Interval(*ends)))
chosen = st.frozensets(st.integers(0, 9), max_size=3).map(lambda offsets: Bounds(offsets=offsets))
regions = st.lists(intervals | chosen, max_size=4).map(tuple)


def offsets(region: tuple[Bounds, ...]) -> set[int]:
    return {number for each in region for run in each.runs() for number in range(10) if number in run}


@given(regions, regions)
def test_regions_are_joined_and_intersected(one: Any, other: Any) -> None:
    assert offsets(either((one, other))) == offsets(one) | offsets(other)
    assert offsets(both(one, other)) == offsets(one) & offsets(other)
    assert decode(encode(one)) == one


def test_regions_of_too_many_bounds_become_larger() -> None:
    many = tuple(Bounds(offset=Interval(number, number)) for number in range(60))
    few = many[:2]

    assert either((many, tuple(Bounds(partition=Interval(n, n)) for n in range(60)))) == EVERYWHERE
    assert both(many, few) == few


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=6))
def test_united_ranges_have_each_offset_once_in_order(pieces: list[tuple[int, int]]) -> None:
    ranges = [OffsetRange("orders", 0, start, start + size) for start, size in pieces]

    found = [offset for each in united(ranges) for offset in range(each.start, each.end)]

    assert found == sorted({offset for each in ranges for offset in range(each.start, each.end)})
