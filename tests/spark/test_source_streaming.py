"""Topics as streams, in this process: where a query begins, how far a batch goes, what the broker is told."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from tests.server.process import Server
from tests.spark.sources import schema_of

import penstock
from penstock.clock import SystemClock
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.spark.runtime import connections
from penstock.spark.source.slices import ReadTask
from penstock.spark.source.source import PenstockSource
from penstock.spark.source.stream import StreamReader
from penstock.testing import ManualClock


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    connections.close_all()


def stream(servers: str, **options: object) -> StreamReader:
    texts = {name: str(value) for name, value in options.items()}
    return PenstockSource({"servers": servers} | texts).streamReader(
        schema_of("topic", "partition", "offset")
    )


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int]]:
    """The rows of a micro-batch."""
    found: list[tuple[str, int, int]] = []
    for work in reader.partitions(start, end):
        for batch in reader.read(work):
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


def fill(broker: penstock.Broker, topic: str, *counts: int) -> None:
    """So many messages into each partition."""
    for partition, count in enumerate(counts):
        for number in range(count):
            broker.publish(topic, b"%d" % number, partition=partition)


def test_a_query_begins_where_the_options_say(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("begun", partitions=2)
    fill(broker, "begun", 3, 2)

    assert stream(servers, topic="begun").initialOffset() == {"begun": {"0": 3, "1": 2}}
    assert stream(servers, topic="begun", starting="earliest").initialOffset() == {"begun": {"0": 0, "1": 0}}
    told = stream(servers, topic="begun", starting='{"1": 1}').initialOffset()
    assert told == {"begun": {"0": 0, "1": 1}}
    ends = stream(servers, topic="begun", startingOffsets='{"begun": {"0": -1, "1": -2}}').initialOffset()
    assert ends == {"begun": {"0": 3, "1": 0}}
    times = '{"begun": {"1": "2999-01-01T00:00:00Z"}}'  # Partition 0 has none: all of it.
    assert stream(servers, topic="begun", from_time=times).initialOffset() == {"begun": {"0": 0, "1": 2}}
    late = stream(servers, topic="begun", from_time="2999-01-01T00:00:00Z").initialOffset()
    assert late == {"begun": {"0": 3, "1": 2}}


def test_batches_follow_each_other_without_overlap(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("steps", partitions=2)
    fill(broker, "steps", 8, 4)
    reader = stream(servers, topic="steps", starting="earliest", max_records_per_trigger=3)
    limit = reader.getDefaultReadLimit()

    place = reader.initialOffset()
    rows: list[tuple[str, int, int]] = []
    sizes = []
    while (end := reader.latestOffset(place, limit)) != place:
        batch = read(reader, place, end)
        sizes.append(len(batch))
        rows += batch
        place = end

    assert limit == ReadMaxRows(3)
    assert sizes == [3, 3, 3, 3]
    assert sorted(rows) == [("steps", p, o) for p, n in ((0, 8), (1, 4)) for o in range(n)]


def test_a_few_records_are_one_task_however_many_partitions_they_are_in(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("few", partitions=8)
    fill(broker, "few", *[2] * 8)
    reader = stream(servers, topic="few", starting="earliest")
    end = reader.reportLatestOffset()

    [task] = reader.partitions(reader.initialOffset(), end)
    cautious = stream(servers, topic="few", partition_records=4)

    assert isinstance(task, ReadTask)
    assert [each.range.partition for each in task.slices] == list(range(8))
    assert len(read(reader, reader.initialOffset(), end)) == 16
    assert len(cautious.partitions(reader.initialOffset(), end)) == 4


def test_all_that_waits_is_one_batch_if_spark_says_so(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("whole", partitions=1)
    fill(broker, "whole", 5)
    reader = stream(servers, topic="whole", starting="earliest", max_records_per_trigger=2)

    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"whole": {"0": 5}}
    assert stream(servers, topic="whole").getDefaultReadLimit() == ReadAllAvailable()


def test_a_batch_can_be_limited_in_bytes(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("heavy", partitions=1)
    for _ in range(10):
        broker.publish("heavy", bytes(1000))
    reader = stream(servers, topic="heavy", starting="earliest", max_bytes_per_trigger=3500)

    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

    assert reader.getDefaultReadLimit() == ReadMaxBytes(3500)
    assert end == {"heavy": {"0": 3}}


def test_pyspark_4_1_gives_neither_start_nor_limit(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("former", partitions=1)
    fill(broker, "former", 5)
    reader = stream(servers, topic="former", starting="earliest", max_records_per_trigger=2, group="old")

    first = reader.latestOffset()  # It is called before initialOffset, and nothing is known yet.
    start = reader.initialOffset()
    rows = read(reader, start, first)
    fill(broker, "former", 5)
    ends = [reader.latestOffset()["former"]["0"] for _ in range(4)]

    assert (start, first, len(rows)) == ({"former": {"0": 0}}, {"former": {"0": 5}}, 5)
    assert ends == [7, 9, 10, 10]
    assert broker.describe_group("former", "old").lag == 0


def test_pyspark_4_1_goes_on_behind_a_batch_that_it_repeats(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("repeated", partitions=1)
    fill(broker, "repeated", 9)
    restarted = stream(servers, topic="repeated", starting="earliest", max_records_per_trigger=2)

    read(restarted, {"repeated": {"0": 3}}, {"repeated": {"0": 5}})

    assert [restarted.latestOffset()["repeated"]["0"] for _ in range(3)] == [7, 9, 9]


def test_an_available_now_query_ends_where_the_topic_did_when_it_began(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("now", partitions=1)
    fill(broker, "now", 5)
    reader = stream(servers, topic="now", starting="earliest", max_records_per_trigger=3)
    reader.prepareForTriggerAvailableNow()
    fill(broker, "now", 5)

    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
    second = reader.latestOffset(first, ReadMaxRows(3))

    assert (first, second) == ({"now": {"0": 3}}, {"now": {"0": 5}})
    assert reader.latestOffset(second, ReadMaxRows(3)) == second
    assert reader.reportLatestOffset() == {"now": {"0": 10}}


def test_progress_is_a_group_whose_lag_is_seen(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("seen", partitions=1)
    fill(broker, "seen", 5)
    reader = stream(servers, topic="seen", starting="earliest", max_records_per_trigger=3, group="analytics")

    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(3))
    before = broker.describe_group("seen", "analytics")
    second = reader.latestOffset(first, ReadMaxRows(3))
    between = broker.describe_group("seen", "analytics")
    reader.latestOffset(second, ReadMaxRows(3))
    after = broker.describe_group("seen", "analytics")

    assert (before.kind, before.lag, between.lag, after.lag) == ("stream", 5, 2, 0)
    reader.commit(first)
    assert broker.describe_group("seen", "analytics").lag == 0


def test_new_partitions_and_topics_are_read_from_their_beginning(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("grow-a", partitions=1)
    fill(broker, "grow-a", 2)
    reader = stream(servers, topic_pattern="grow-.*")
    start = reader.initialOffset()
    broker.alter_topic("grow-a", partitions=3)
    broker.create_topic("grow-b", partitions=1)
    broker.publish("grow-a", b"new", partition=2)
    fill(broker, "grow-b", 2)

    end = reader.latestOffset(start, ReadAllAvailable())

    assert start == {"grow-a": {"0": 2}}
    assert end == {"grow-a": {"0": 2, "1": 0, "2": 1}, "grow-b": {"0": 2}}
    assert read(reader, start, end) == [("grow-a", 2, 0), ("grow-b", 0, 0), ("grow-b", 0, 1)]
    broker.delete_topic("grow-b")
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_place_that_the_log_does_not_have_is_an_error(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("short", partitions=1)
    fill(broker, "short", 2)
    reader = stream(servers, topic="short")

    with pytest.raises(OffsetOutOfRange, match="offset 7 is outside the log"):
        reader.latestOffset({"short": {"0": 7}}, ReadAllAvailable())


BEGIN_MS = SystemClock().wall_ms() - 3_600_000


def kafka(served: Server, topic: str, partition: int, *times_ms: int) -> None:
    """Records that bring their publish times along: milliseconds of the last hour."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{served.ports['kafka']}"})
    for time_ms in times_ms:
        producer.produce(topic, b"x", partition=partition, timestamp=BEGIN_MS + time_ms)
    assert producer.flush(30) == 0


def ends(reader: StreamReader, place: dict[str, Any]) -> list[dict[str, Any]]:
    """Where the batches end, from a place on."""
    found = []
    while (end := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
        found.append(end)
        place = end
    return found


def test_a_limited_batch_ends_at_one_publish_time_in_all_topics_and_partitions(
    broker: penstock.Broker, served: Server, servers: str
) -> None:
    for topic in ("timed-a", "timed-b"):
        broker.create_topic(topic, partitions=2)
    kafka(served, "timed-a", 0, *range(1000, 1100))
    kafka(served, "timed-a", 1, *range(1100, 1200))
    kafka(served, "timed-b", 1, *range(1050, 1150))
    options = {"topic": "timed-a,timed-b", "starting": "earliest", "max_records_per_trigger": 100}
    reader = stream(servers, **options)

    found = ends(reader, reader.initialOffset())

    def before(time_ms: int) -> dict[str, Any]:
        """Where all records end that were published before a time."""
        first, second, third = (min(max(time_ms - begin, 0), 100) for begin in (1000, 1100, 1050))
        return {"timed-a": {"0": first, "1": second}, "timed-b": {"0": 0, "1": third}}

    cuts = [before(time_ms) for time_ms in range(1000, 1201)]
    sizes = [sum(sum(offsets.values()) for offsets in end.values()) for end in found]
    assert all(end in cuts for end in found)
    assert 95 <= sizes[0] <= 100
    assert 95 <= sizes[1] - sizes[0] <= 100
    assert found[-1] == cuts[-1]


def test_the_horizon_is_the_latest_time_that_earlier_batches_have_read(
    broker: penstock.Broker, served: Server, servers: str
) -> None:
    broker.create_topic("horizon", partitions=2)
    kafka(served, "horizon", 0, 5000, 9000, 2000)  # A producer's times need not rise.
    kafka(served, "horizon", 1, 7000)
    source = PenstockSource({"servers": servers, "topic": "horizon", "columns": "horizon"})
    reader = source.streamReader(schema_of("offset", "horizon"))

    def horizons(*start: int) -> set[int | None]:
        begin = {"horizon": {str(number): offset for number, offset in enumerate(start)}}
        tasks = reader.partitions(begin, {"horizon": {"0": 3, "1": 1}})
        times = [
            each for task in tasks for batch in reader.read(task) for each in batch["horizon"].to_pylist()
        ]
        return {None if each is None else round(each.timestamp() * 1000) - BEGIN_MS for each in times}

    assert horizons(0, 0) == {None}
    assert horizons(1, 0) == {5000}
    assert horizons(2, 0) == horizons(2, 1) == horizons(3, 0) == {9000}
    assert horizons(0, 1) == {7000}
    with pytest.raises(InvalidValue, match="only available for streams"):
        source.reader(schema_of("offset", "horizon"))


def test_streams_in_step_read_the_same_batches_whatever_their_own_limits(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("steps-shared", partitions=2)
    fill(broker, "steps-shared", 10, 10)
    first = stream(servers, topic="steps-shared", max_records_per_trigger=7, in_step="pair")
    second = stream(servers, topic="steps-shared", max_records_per_trigger=5, in_step="pair")
    alone = stream(servers, topic="steps-shared", max_records_per_trigger=5, in_step="other")
    start = {"steps-shared": {"0": 0, "1": 0}}

    planned = ends(first, start)
    fill(broker, "steps-shared", 3, 0)
    followed = ends(second, start)

    assert followed[: len(planned)] == planned
    assert followed[-1] == {"steps-shared": {"0": 13, "1": 10}}
    assert ends(first, planned[-1]) == followed[len(planned) :]
    assert len(ends(alone, start)) == 5
    behind = {"steps-shared": {"0": 1, "1": 0}}  # Where no planned batch begins.
    assert ends(first, behind)[0] in planned, "it meets the others where a batch of theirs ends"


def test_a_stream_in_step_that_ends_where_it_began_takes_a_batch_that_ends_later(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("steps-now", partitions=1)
    fill(broker, "steps-now", 5)
    first = stream(servers, topic="steps-now", in_step="now", max_records_per_trigger=100)
    first.prepareForTriggerAvailableNow()
    fill(broker, "steps-now", 5)
    second = stream(servers, topic="steps-now", in_step="now", max_records_per_trigger=100)
    start = {"steps-now": {"0": 0}}

    assert ends(second, start) == [{"steps-now": {"0": 10}}]
    assert ends(first, start) == [{"steps-now": {"0": 10}}]


def test_a_batch_waits_for_enough_records_but_not_for_ever(
    broker: penstock.Broker, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("rare", partitions=2)
    clock = ManualClock()
    reader = stream(servers, topic="rare", min_records_per_trigger=5, max_trigger_delay="10s")
    monkeypatch.setattr(reader, "_clock", clock)
    monkeypatch.setattr(reader, "_planned_ms", clock.steady_ms())
    begin = reader.initialOffset()
    fill(broker, "rare", 2, 2)

    assert reader.latestOffset(begin, ReadAllAvailable()) == begin  # Four are too few ...
    fill(broker, "rare", 1)
    enough = reader.latestOffset(begin, ReadAllAvailable())
    assert enough == {"rare": {"0": 3, "1": 2}}  # ... five are not.
    fill(broker, "rare", 1)
    assert reader.latestOffset(enough, ReadAllAvailable()) == enough
    clock.move_to(clock.steady_ms() + 10_000)
    assert reader.latestOffset(enough, ReadAllAvailable()) == {"rare": {"0": 4, "1": 2}}


def test_a_query_that_reads_what_is_available_does_not_wait_for_more(
    broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("scarce", partitions=1)
    fill(broker, "scarce", 1)
    reader = stream(servers, topic="scarce", starting="earliest", min_records_per_trigger=5)
    begin = reader.initialOffset()
    reader.latestOffset(begin, ReadAllAvailable())

    reader.prepareForTriggerAvailableNow()

    assert reader.latestOffset(begin, ReadAllAvailable()) == {"scarce": {"0": 1}}
