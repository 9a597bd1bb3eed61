"""Topics as tables, read in this process: what is planned, what comes out, and what is missing."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import datasource
from tests.server.process import Server, until
from tests.spark.archived import archive
from tests.spark.sources import Table, offsets_of, schema_of

import penstock
from penstock.clock import SystemClock
from penstock.errors import OffsetOutOfRange, OffsetsMissing, ServerUnreachable, TopicNotFound
from penstock.spark.runtime import connections
from penstock.spark.source import scan
from penstock.spark.source.filters import Bounds
from penstock.spark.source.source import PenstockSource
from penstock.wire.records import BatchBuilder

EVERYTHING = ("topic", "partition", "offset", "timestamp", "key", "value", "lane")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention does not wait for a minute."""
    settings = {"PENSTOCK_BROKER__MAINTENANCE": "50ms"}
    with Server(tmp_path_factory.mktemp("served"), settings=settings) as running:
        yield running
        connections.close_all()


def fill(broker: penstock.Broker, topic: str, count: int, partitions: int = 1) -> None:
    """Messages 0, 1, 2 ... in turn over the partitions, each a batch of its own."""
    for number in range(count):
        broker.publish(topic, b"%d" % number, key=f"k{number}", partition=number % partitions)


def delete(broker: penstock.Broker, topic: str) -> None:
    """Let retention delete all that is in the log."""
    broker.alter_topic(topic, retention="1ms")
    until(lambda: all(each.start == each.end for each in broker.describe_topic(topic).partitions))
    broker.alter_topic(topic, retention="7d")


def now_ms() -> int:
    """The server is on the same machine."""
    return SystemClock().wall_ms()


def gaps(broker: penstock.Broker, topic: str) -> list[tuple[int, int, int]]:
    """What is written down of a topic."""
    found = [json.loads(each.value) for each in broker.read("__gaps", limit=1000)]
    return [(each["partition"], each["start"], each["end"]) for each in found if each["topic"] == topic]


def test_a_table_has_a_row_for_every_message(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("all", partitions=2)
    broker.publish("all", b"one", key="a", partition=1, priority="high", headers={"h": "1"})
    broker.publish("all", b"two", partition=1)
    broker.publish("all", None, key="gone", partition=0)
    stored = sorted(broker.read("all"), key=lambda each: (each.partition, each.offset))

    rows = Table(*EVERYTHING, servers=servers, topic="all").rows()

    times = [datetime.fromtimestamp(each.timestamp / 1000, UTC) for each in stored]
    assert rows == [
        ("all", 0, 0, times[0], b"gone", None, 0),
        ("all", 1, 0, times[1], b"a", b"one", 1),
        ("all", 1, 1, times[2], None, b"two", 0),
    ]


def test_several_topics_are_one_table(broker: penstock.Broker, servers: str) -> None:
    for name in ("part-a", "part-b", "apart"):
        broker.create_topic(name, partitions=1)
        fill(broker, name, 2)

    by_name = Table("topic", "offset", servers=servers, topic="part-b,part-a").rows()
    by_pattern = Table("topic", "offset", servers=servers, topic_pattern="part-.*").rows()

    assert by_name == [("part-b", 0), ("part-b", 1), ("part-a", 0), ("part-a", 1)]
    assert sorted(by_pattern) == sorted(by_name)
    assert Table("offset", servers=servers, topic_pattern="nothing-.*").rows() == []


def test_large_partitions_are_several_tasks(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("large", partitions=2)
    fill(broker, "large", 30, 2)

    table = Table("offset", servers=servers, topic="large", partition_records=6)

    assert table.spans() == [
        ("log", 0, 0, 5), ("log", 0, 5, 10), ("log", 0, 10, 15),
        ("log", 1, 0, 5), ("log", 1, 5, 10), ("log", 1, 10, 15),
    ]  # fmt: skip
    assert offsets_of(table.rows()) == [*range(15), *range(15)]


def test_in_a_local_session_small_partitions_share_as_many_tasks_as_there_are_cores(
    broker: penstock.Broker, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("shared", partitions=6)
    fill(broker, "shared", 30, 6)
    monkeypatch.setattr(scan, "TOGETHER_RECORDS", 1)

    def tasks(cores: str, **options: int) -> int:
        monkeypatch.setenv(connections.LOCAL_CORES, cores)
        return len(Table("offset", servers=servers, topic="shared", **options).plan())

    assert [tasks("1"), tasks("2"), tasks("4"), tasks("40")] == [1, 2, 6, 6]  # Of 30, 15, 8 and 1 records.
    assert tasks("2", partition_records=5) == 6
    monkeypatch.delenv(connections.LOCAL_CORES)
    assert len(Table("offset", servers=servers, topic="shared").plan()) == 6


def test_a_table_begins_and_ends_where_it_is_told(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("cut", partitions=2)
    fill(broker, "cut", 20, 2)
    options = {"servers": servers, "topic": "cut"}

    assert Table("offset", **options, starting='{"0": 7}', ending='{"1": 2}').spans() == [
        ("log", 0, 7, 10),
        ("log", 1, 0, 2),
    ]
    assert Table("offset", **options, starting="latest").rows() == []
    assert Table("offset", **options, ending="earliest").rows() == []
    with pytest.raises(penstock.PenstockError, match="cut has partitions 0 to 1"):
        Table("offset", **options, starting='{"2": 0}').plan()


def test_a_table_can_be_of_a_time(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("timed", partitions=1)
    moments = []
    for number in range(3):
        receipt = broker.publish("timed", b"%d" % number)
        moments.append(datetime.fromtimestamp(receipt.timestamp / 1000, UTC))
        until(lambda after=receipt.timestamp: now_ms() > after)  # type: ignore[misc]
    options = {"servers": servers, "topic": "timed"}

    assert offsets_of(Table("offset", **options, from_time=moments[1].isoformat()).rows()) == [1, 2]
    assert offsets_of(Table("offset", **options, to_time=moments[1].isoformat()).rows()) == [0]
    assert Table("offset", **options, from_time="2999-01-01T00:00:00Z").rows() == []


def test_conditions_leave_out_what_need_not_be_read(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("narrow", partitions=3)
    fill(broker, "narrow", 30, 3)
    table = Table("offset", servers=servers, topic="narrow")
    late = datetime(2999, 1, 1, tzinfo=UTC)
    other = datasource.EqualTo(("key",), b"k1")

    left = table.reader.pushFilters([
        datasource.In(("partition",), (0, 2)), other, datasource.GreaterThan(("offset",), 6),
        datasource.LessThan(("timestamp",), late),
    ])  # fmt: skip

    assert list(left) == [other]
    assert table.spans() == [("log", 0, 7, 10), ("log", 2, 7, 10)]
    list(table.reader.pushFilters([datasource.GreaterThan(("timestamp",), late)]))
    assert table.spans() == []


def test_of_listed_offsets_nothing_between_them_is_read(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("listed", partitions=2)
    fill(broker, "listed", 40, 2)
    table = Table("offset", servers=servers, topic="listed")

    left = table.reader.pushFilters([
        datasource.EqualTo(("partition",), 1), datasource.In(("offset",), (2, 15, 3, 999)),
    ])  # fmt: skip

    assert list(left) == []
    assert table.spans() == [("log", 1, 2, 4), ("log", 1, 15, 16)]
    assert offsets_of(table.rows()) == [2, 3, 15]


def test_a_session_without_pushed_conditions_takes_the_reader_too(servers: str) -> None:
    reader = Table("offset", servers=servers, topic="any").reader

    assert reader.pushFilters.__func__ is datasource.DataSourceReader.pushFilters  # type: ignore[attr-defined]


def test_below_the_log_the_lake_goes_on(broker: penstock.Broker, servers: str, lake: Path) -> None:
    broker.create_topic("older", partitions=2)
    fill(broker, "older", 20, 2)
    before = Table(*EVERYTHING, servers=servers, topic="older").rows()
    archive(broker, "older", str(lake))
    delete(broker, "older")
    fill(broker, "older", 4, 2)

    table = Table(*EVERYTHING, servers=servers, topic="older", partition_records=8)

    assert table.spans() == [
        ("lake", 0, 0, 5), ("lake", 0, 5, 10), ("log", 0, 10, 12),
        ("lake", 1, 0, 5), ("lake", 1, 5, 10), ("log", 1, 10, 12),
    ]  # fmt: skip
    rows = table.rows()
    assert [row for row in rows if row[2] < 10] == before
    assert [row[2] for row in rows] == [*range(12), *range(12)]
    late = Table("offset", servers=servers, topic="older", starting='{"0": 7, "1": 12}')
    assert offsets_of(late.rows()) == [7, 8, 9, 10, 11]


def test_a_time_reaches_back_into_the_lake(broker: penstock.Broker, servers: str, lake: Path) -> None:
    broker.create_topic("past", partitions=1)
    moments = []
    for number in range(4):
        receipt = broker.publish("past", b"%d" % number)
        moments.append(datetime.fromtimestamp(receipt.timestamp / 1000, UTC).isoformat())
        until(lambda after=receipt.timestamp: now_ms() > after)  # type: ignore[misc]
        if number == 2:
            archive(broker, "past", str(lake))
            delete(broker, "past")
    options = {"servers": servers, "topic": "past"}

    assert offsets_of(Table("offset", **options, from_time=moments[1]).rows()) == [1, 2, 3]
    assert offsets_of(Table("offset", **options, from_time=moments[0], to_time=moments[2]).rows()) == [0, 1]
    assert offsets_of(Table("offset", **options, to_time=moments[3]).rows()) == [0, 1, 2]
    assert offsets_of(Table("offset", **options, from_time=moments[3]).rows()) == [3]


def test_a_limited_batch_of_a_stream_ends_at_one_publish_time_in_the_lake_too(
    broker: penstock.Broker, servers: str, lake: Path
) -> None:
    broker.create_topic("timed-lake", partitions=2)
    for number in range(200):  # First all of the one, then all of the other.
        broker.publish("timed-lake", b"x", partition=number // 100)
    archive(broker, "timed-lake", str(lake))
    delete(broker, "timed-lake")
    source = PenstockSource({"servers": servers, "topic": "timed-lake", "max_records_per_trigger": "80"})
    reader = source.streamReader(schema_of("offset"))
    place = {"timed-lake": {"0": 0, "1": 0}}
    ends = []

    while place != (end := reader.latestOffset(place, reader.getDefaultReadLimit())):
        ends.append((end["timed-lake"]["0"], end["timed-lake"]["1"]))
        place = end

    assert 76 <= ends[0][0] <= 80
    assert ends[0][1] == 0, "by their shares, both would have 40"
    assert ends[1][0] == 100
    assert 152 <= sum(ends[1]) <= 160
    assert ends[-1] == (100, 100)


def test_a_gap_is_an_error_that_names_it(broker: penstock.Broker, servers: str, lake: Path) -> None:
    broker.create_topic("gap", partitions=1)
    fill(broker, "gap", 5)
    archive(broker, "gap", str(lake))
    fill(broker, "gap", 5)
    delete(broker, "gap")
    fill(broker, "gap", 5)
    options = {"servers": servers, "topic": "gap"}

    with pytest.raises(OffsetsMissing, match="offsets 5 up to 10 of gap:0 are in neither"):
        Table("offset", **options).plan()
    assert offsets_of(Table("offset", **options, starting='{"0": 10}').rows()) == [10, 11, 12, 13, 14]
    assert offsets_of(Table("offset", **options, ending='{"0": 5}').rows()) == [0, 1, 2, 3, 4]
    skipping = Table("offset", **options, on_gap="skip")
    assert offsets_of(skipping.rows()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert offsets_of(skipping.rows()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert gaps(broker, "gap") == [(0, 5, 10)]


def test_a_gap_outside_of_the_time_that_is_asked_for_is_none(
    broker: penstock.Broker, servers: str, lake: Path
) -> None:
    broker.create_topic("aside", partitions=1)
    fill(broker, "aside", 3)
    archive(broker, "aside", str(lake))
    first, *_, last = broker.read("aside")
    fill(broker, "aside", 3)
    delete(broker, "aside")
    options = {"servers": servers, "topic": "aside"}
    early = datetime.fromtimestamp(last.timestamp / 1000, UTC).isoformat()

    rows = Table("timestamp", **options, to_time=early).rows()

    assert all(first.timestamp <= row[0].timestamp() * 1000 < last.timestamp for row in rows)
    with pytest.raises(OffsetsMissing):
        Table("offset", **options, from_time=early).plan()


def test_what_is_deleted_after_planning_is_found_in_the_lake(
    broker: penstock.Broker, servers: str, lake: Path
) -> None:
    broker.create_topic("overtaken", partitions=1)
    fill(broker, "overtaken", 20)
    table = Table("offset", "value", servers=servers, topic="overtaken", starting='{"0": 3}')
    plan = table.plan()
    archive(broker, "overtaken", str(lake))
    delete(broker, "overtaken")
    fill(broker, "overtaken", 5)

    rows = table.rows(plan)

    assert rows == [(number, b"%d" % number) for number in range(3, 20)]


def test_a_slice_of_which_a_part_is_deleted_is_read_from_both(
    broker: penstock.Broker, servers: str, lake: Path
) -> None:
    broker.create_topic("partly", partitions=1, segment_bytes=4096)
    for number in range(12):
        broker.publish("partly", b"%d" % number + bytes(1000))
    archive(broker, "partly", str(lake))
    for number in range(12, 24):
        broker.publish("partly", b"%d" % number + bytes(1000))
    table = Table("offset", servers=servers, topic="partly")
    plan = table.plan()
    broker.alter_topic("partly", retention_bytes=18_000)
    until(lambda: broker.offsets("partly", "earliest")[0] > 0)

    assert 0 < broker.offsets("partly", "earliest")[0] <= 12
    assert offsets_of(table.rows(plan)) == list(range(24))


def test_what_is_deleted_after_planning_and_nowhere_is_never_passed_over_in_silence(
    broker: penstock.Broker, servers: str, lake: Path
) -> None:
    broker.create_topic("vanished", partitions=1)
    fill(broker, "vanished", 4)
    archive(broker, "vanished", str(lake))
    fill(broker, "vanished", 4)
    table = Table("offset", servers=servers, topic="vanished")
    skipping = Table("offset", servers=servers, topic="vanished", on_gap="skip")
    plan = table.plan()
    delete(broker, "vanished")
    fill(broker, "vanished", 2)

    with pytest.raises(OffsetsMissing, match="offsets 4 up to 8 of vanished:0"):
        table.rows(plan)
    assert offsets_of(skipping.rows(plan)) == [0, 1, 2, 3]
    assert gaps(broker, "vanished") == [(0, 4, 8)]


def test_a_log_that_is_not_the_one_that_was_planned_for_is_an_error(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("again", partitions=1)
    fill(broker, "again", 5)
    table = Table("offset", servers=servers, topic="again")
    plan = table.plan()
    broker.delete_topic("again")
    broker.create_topic("again", partitions=1)
    fill(broker, "again", 2)

    with pytest.raises(OffsetOutOfRange, match="outside the log, which holds 0 up to 2"):
        table.rows(plan)


def test_columns_on_demand_tell_what_became_of_a_message(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("worked", partitions=1)
    fill(broker, "worked", 5)
    with broker.consumer("worked", group="crew") as consumer:
        first, second, third = consumer.receive(3)
        first.ack()
        second.nack(delay="1h")
        table = Table("id", "attempts", "state", servers=servers, topic="worked", group="crew")

        rows = table.rows()

        third.ack()
    assert rows == [
        ("worked:0:0", 1, "acked"),
        ("worked:0:1", 1, "retrying"),
        ("worked:0:2", 1, "in flight"),
        ("worked:0:3", 0, "waiting"),
        ("worked:0:4", 0, "waiting"),
    ]


def test_an_unknown_topic_and_a_dead_broker_are_told_in_one_sentence(servers: str) -> None:
    with pytest.raises(TopicNotFound, match="there is no topic 'nowhere'"):
        Table("offset", servers=servers, topic="nowhere").plan()
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1"):
        Table("offset", servers="127.0.0.1:1", topic="orders").plan()


def test_bounds_without_conditions_leave_everything() -> None:
    assert (Bounds().from_ms, Bounds().to_ms, Bounds().has("any", 7)) == (None, None, True)


def test_headers_with_the_same_name_are_all_there_in_a_list(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("headed", partitions=1)
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    builder = BatchBuilder()
    builder.add(None, b"x", headers, 0)
    builder.add(None, b"y", [], 0)
    broker.append("headed", 0, bytes(builder.build(1, 1)))

    rows = Table("offset", "header_list", "headers", servers=servers, topic="headed").rows()

    listed = [{"key": name, "value": value} for name, value in headers]
    assert rows == [(0, listed, [("a", b"2"), ("b", None)]), (1, [], [])]
    archive(broker, "headed", broker.stats().lake)
    delete(broker, "headed")
    [kept, _] = Table("header_list", servers=servers, topic="headed").rows()
    assert kept == ([{"key": "b", "value": None}, {"key": "a", "value": b"2"}],)  # One of each name.
