"""What retention deleted comes back from the lake for a group; and positions that have a name."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.archived import archive

from penstock import Message
from penstock.errors import InvalidName, InvalidValue, OffsetsMissing
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.table import LakeTable
from penstock.spark.replay import snapshots
from penstock.spark.restoring import Restored, restore
from penstock.testing import TestBroker
from penstock.wire.records import Record, check_batch, decode_batch, lane_attributes
from penstock.wire.stored import BATCH_BYTES, StoredBatches


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake of its own, since nothing here needs a server."""
    return str(tmp_path / "lake")


def now_of(broker: TestBroker) -> datetime:
    return datetime.fromtimestamp(broker.clock.wall_ms() / 1000, UTC)


def values(messages: Any) -> list[int]:
    return [int(message.value) for message in messages]


def publish(broker: TestBroker, number: int, partitions: int = 1) -> None:
    """So large that four are a segment."""
    broker.publish("orders", (b"%d" % number).ljust(1000), partition=number % partitions)


def everything(broker: TestBroker, group: str = "audit", topic: str = "orders") -> list[int]:
    """What a consumer gets until there is no more, acked as it comes."""
    found: list[int] = []
    with broker.consumer(topic, group=group) as consumer:
        while received := consumer.receive(7):
            found += values(received)
            consumer.ack(received)
    return found


def hourly(broker: TestBroker, lake: str, hours: int = 6, **options: Any) -> datetime:
    """Ten messages an hour, archived as they come, of which the log keeps the last two hours or so."""
    broker.create_topic("orders", retention="2h", segment_bytes=4096, **options)
    begin = now_of(broker)
    for number in range(hours * 10):
        publish(broker, number, options.get("partitions") or 1)
        broker.advance("6m")
        if number % 10 == 9:
            archive(broker, "orders", lake)
    return begin


def test_a_consumer_reads_from_a_time_in_the_lake_into_the_live_log(lake: str) -> None:
    with TestBroker.open() as broker:
        begin = hourly(broker, lake)
        log_start = broker.describe_topic("orders").partitions[0].start
        assert log_start > 30

        seen: list[int] = []
        since = begin + timedelta(hours=1)
        [done] = restore(broker, "orders", "audit", from_time=since, lake=lake, advance=seen.append)

        assert done == Restored(partition=0, start=10, log_start=log_start, records=log_start - 10, missing=0)
        assert sum(seen) == log_start - 10
        broker.advance("3h")  # The hold: what came back and what is younger waits for the group.
        broker.publish("orders", b"60")
        assert everything(broker) == list(range(10, 61))
        assert broker.describe_group("orders", "audit").lost == 0
        broker.advance("3h")
        assert broker.describe_topic("orders").partitions[0].start > 60


def test_without_a_time_it_is_the_oldest_there_is_and_what_was_before_is_told(lake: str) -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders", retention="1h")
        broker.publish_batch("orders", [b"0", b"1", b"2"])
        broker.advance("2h")
        broker.publish_batch("orders", [b"3", b"4"])
        archive(broker, "orders", lake)
        broker.advance("2h")
        broker.publish_batch("orders", [b"5"])

        [done] = restore(broker, "orders", "audit", lake=lake)

        assert (done.start, done.records, done.missing) == (3, 2, 3)
        assert everything(broker) == [3, 4, 5]


def test_a_time_that_the_log_reaches_back_to_needs_no_lake(lake: str) -> None:
    with TestBroker.open() as broker:
        begin = hourly(broker, lake)

        [done] = restore(broker, "orders", "audit", from_time=begin + timedelta(hours=5), lake="/nowhere")

        assert (done.start, done.records) == (50, 0)
        assert everything(broker) == list(range(50, 60))


def test_every_partition_is_moved_by_itself(lake: str) -> None:
    with TestBroker.open() as broker:
        begin = hourly(broker, lake, partitions=3)

        done = restore(broker, "orders", "audit", from_time=begin + timedelta(minutes=90), lake=lake)

        assert [each.start for each in done] == [5, 5, 5]
        assert sorted(everything(broker)) == list(range(15, 60))


def test_a_gap_is_named_or_written_down_and_never_passed_over(lake: str) -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders", retention="1h")
        broker.publish_batch("orders", [b"0", b"1"])
        archive(broker, "orders", lake)
        broker.publish_batch("orders", [b"2", b"3"])
        broker.advance("2h")
        broker.publish_batch("orders", [b"4"])

        with pytest.raises(OffsetsMissing, match="offsets 2 up to 4 of orders:0"):
            restore(broker, "orders", "audit", lake=lake)
        assert broker.groups("orders") == []
        LakeTable.open(lake, "orders").lose(OffsetRange("orders", 0, 2, 4))
        archive(broker, "orders", lake)
        with pytest.raises(OffsetsMissing, match="offsets 2 up to 4 of orders:0"):
            restore(broker, "orders", "audit", offsets={0: 1}, lake=lake)
        restore(broker, "orders", "audit", lake=lake, on_gap="skip")

        assert everything(broker) == [0, 1, 4]
        [gap] = broker.read("__gaps")
        assert b'"start":2,"end":4' in gap.value


def test_what_a_record_had_comes_back_with_it(lake: str) -> None:
    """Key, headers, lane, time; and the marks, so that it expires and is meant for whom it was."""
    with TestBroker.open() as broker:
        broker.create_topic("orders", retention="1h")
        broker.publish("orders", b"0", key="k", headers={"a": "1"}, priority="high")
        broker.publish("orders", b"1", ttl="10m")
        broker.publish("orders", b"2", dedup_id="two", priority="low")
        broker.publish("orders", b"3", delay="1m")
        broker.publish("orders", b"4", ttl="10d")
        broker.publish_batch("orders", [Message(b"5", key="x"), Message(b"6")])
        broker.advance("2m")
        before = broker.read("orders")
        archive(broker, "orders", lake)
        broker.advance("2h")
        assert broker.read("orders") == []

        restore(broker, "orders", "audit", lake=lake)

        after = broker.read("orders")
        assert [message.record for message in after] == [message.record for message in before]
        assert sorted(everything(broker)) == [0, 2, 3, 4, 5, 6]
        assert broker.describe_group("orders", "audit").expired == 1


def test_records_that_compaction_took_are_holes_in_what_comes_back(lake: str) -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders", compact=True, retention=None)
        for number in range(20):
            broker.publish("orders", b"%d" % number, key=f"k{number % 2 or number}")
        broker.advance("2m")
        kept = values(broker.read("orders"))
        assert len(kept) < 20
        archive(broker, "orders", lake)
        broker.alter_topic("orders", compact=False, retention="1h")
        broker.advance("2h")

        [done] = restore(broker, "orders", "audit", lake=lake)

        assert (done.records, done.start) == (len(kept), 0)
        assert everything(broker) == kept


def test_it_can_be_done_again_and_for_others(lake: str) -> None:
    with TestBroker.open() as broker:
        begin = hourly(broker, lake)

        restore(broker, "orders", "audit", from_time=begin + timedelta(hours=2), lake=lake)
        restore(broker, "orders", "elders", from_time=begin, lake=lake)
        restore(broker, "orders", "audit", from_time=begin + timedelta(hours=1), lake=lake)

        assert everything(broker, "audit") == list(range(10, 60))
        assert everything(broker, "elders") == list(range(60))


def test_many_records_come_in_several_calls(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.restoring.CHUNK_BYTES", 5000)
    with TestBroker.open() as broker:
        broker.create_topic("orders", retention="1h", segment_bytes=20_000)
        for start in range(0, 2000, 100):
            broker.publish_batch("orders", [b"%d" % number for number in range(start, start + 100)])
        archive(broker, "orders", lake)
        broker.advance("2h")

        restore(broker, "orders", "audit", lake=lake)

        assert everything(broker) == list(range(2000))


def test_what_makes_no_sense_is_refused(lake: str) -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders")
        wrong: list[dict[str, Any]] = [
            {"offsets": {0: 1}, "from_time": 0},
            {"on_gap": "perhaps"},
            {"offsets": {0: 1}},
            {"offsets": {7: 0, 0: -1}},
        ]
        for options in wrong:
            with pytest.raises(InvalidValue):
                restore(broker, "orders", "audit", lake=lake, **options)


# Snapshots.


def test_a_snapshot_names_a_position_in_all_partitions(lake: str) -> None:
    with TestBroker.open() as broker:
        begin = hourly(broker, lake, partitions=2)
        broker.create_topic("others")
        broker.publish("others", b"0")

        taken = snapshots.take(broker, "before-upgrade", broker.clock.wall_ms())
        for number in range(60, 80):
            publish(broker, number, 2)
            broker.advance("20m")
            archive(broker, "orders", lake)

        assert taken.topics == {"orders": {0: 30, 1: 30}, "others": {0: 1}}
        assert snapshots.get(broker, "before-upgrade") == taken
        assert broker.describe_topic("orders").partitions[0].start > 30
        restore(broker, "orders", "audit", offsets=taken.offsets("orders"), lake=lake)
        assert sorted(everything(broker)) == list(range(60, 80))
        assert begin < datetime.fromtimestamp(taken.taken_ms / 1000, UTC)


def test_a_name_is_given_once_and_an_unknown_one_is_told_with_those_that_are() -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders")
        assert snapshots.known(broker) == {}
        with pytest.raises(InvalidValue, match="no snapshot was taken yet"):
            snapshots.get(broker, "first")
        snapshots.take(broker, "first", 1000)
        snapshots.take(broker, "second", 2000, ["orders"])

        assert list(snapshots.known(broker)) == ["first", "second"]
        with pytest.raises(InvalidValue, match="names cannot be reused"):
            snapshots.take(broker, "first", 3000)
        with pytest.raises(InvalidValue, match="the snapshots are first, second"):
            snapshots.get(broker, "third")
        with pytest.raises(InvalidValue, match="it has orders, but not others"):
            snapshots.get(broker, "second").offsets("others")
        with pytest.raises(InvalidName):
            snapshots.take(broker, "a/b", 0)
        assert broker.topics() == ["orders"]


# Rows as record batches.

row = st.tuples(
    st.integers(1, 3),  # The distance to the offset before.
    st.integers(-2, 5),  # In time.
    st.none() | st.binary(max_size=5),
    st.none() | st.binary(max_size=50),
    st.lists(st.tuples(st.sampled_from(["a", "x-dedup-id"]), st.none() | st.binary(max_size=3)), max_size=2),
    st.integers(-2, 2),
)


@given(rows=st.lists(row, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_batches_have_the_records_of_the_rows(rows: list[Any], cuts: list[int]) -> None:
    offsets, times, offset, time_ms = [], [], 10, 1000
    for step, later_ms, *_ in rows:
        offset, time_ms = offset + step, time_ms + later_ms
        offsets.append(offset)
        times.append(time_ms)
    stored = StoredBatches()
    data = b""
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for begin, end in pairwise(bounds):
        columns = list(zip(*rows[begin:end], strict=True))
        _, _, keys, contents, headers, lanes = (list(column) for column in columns)
        stored.add(offsets[begin:end], times[begin:end], keys, contents, headers, lanes)
        data += stored.take()
    data += stored.finish()

    found: list[Record] = []
    at, newest = 0, 0
    while at < len(data):
        header = check_batch(data, at)
        assert header.max_timestamp >= newest
        newest = header.max_timestamp
        found += decode_batch(data, at)
        at += header.size
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == [
        (offsets[at], times[at], key, value, headers)
        for at, (_, _, key, value, headers, _) in enumerate(rows)
    ]
    assert [r.attributes & 0x700 for r in found] == [lane_attributes(lane) for *_, lane in rows]


def test_a_batch_ends_when_it_is_large_or_spans_too_much() -> None:
    stored = StoredBatches()
    stored.add([0, 1, 2, 1 << 32], [1] * 4, None, [b"x" * BATCH_BYTES, b"x", b"x", b"x"], None, None)

    data = stored.finish()

    bases, at = [], 0
    while at < len(data):
        header = check_batch(data, at)
        bases.append(header.base_offset)
        at += header.size
    assert bases == [0, 1, 1 << 32]
