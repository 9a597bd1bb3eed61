"""Record batches as they lie in the log, for readers that keep their own place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.delivery import events
from penstock.errors import (
    GroupKindMismatch,
    InvalidValue,
    NotAssigned,
    OffsetOutOfRange,
    PartitionNotFound,
    TopicNotFound,
)
from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.model.info import Fetched
from penstock.testing import TestBroker
from penstock.wire.records import Record, decode_batch, encode_values, read_header


def records_of(batches: bytes) -> list[Record]:
    """All records; the chain of batches is checked."""
    records: list[Record] = []
    at = 0
    following = None
    while at < len(batches):
        header = read_header(batches, at)
        assert following in (None, header.base_offset)
        records += decode_batch(batches, at, header.base_offset, header.next_offset)
        following = header.next_offset
        at += header.size
    return records


def values(fetched: Fetched) -> list[bytes | None]:
    return [record.value for record in records_of(fetched.batches)]


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker.open() as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


def publish(broker: TestBroker, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        broker.publish("orders", b"%d" % number, partition=0)


# Fetching.


def test_batches_come_from_the_one_that_holds_the_offset_on(broker: TestBroker) -> None:
    broker.publish_batch("orders", [penstock.Message(b"%d" % number, partition=0) for number in range(5)])
    publish(broker, 2, first=5)

    found = broker.fetch("orders", 0, 3)

    assert values(found) == [b"%d" % number for number in range(7)]
    assert (found.start, found.end, found.next_offset) == (0, 7, 7)


def test_as_many_batches_as_fit_and_at_least_one(broker: TestBroker) -> None:
    publish(broker, 3)
    size = len(broker.fetch("orders", 0, 2).batches)

    assert values(broker.fetch("orders", 0, 0, max_bytes=1)) == [b"0"]
    assert values(broker.fetch("orders", 0, 0, max_bytes=2 * size - 1)) == [b"0"]
    assert values(broker.fetch("orders", 0, 0, max_bytes=2 * size)) == [b"0", b"1"]
    assert values(broker.fetch("orders", 0, 1, max_bytes=3 * size)) == [b"1", b"2"]


def test_at_the_end_there_is_nothing_and_beyond_it_an_error(broker: TestBroker) -> None:
    publish(broker, 2)

    assert broker.fetch("orders", 0, 2) == Fetched(start=0, end=2, next_offset=2, batches=b"")
    with pytest.raises(OffsetOutOfRange) as refused:
        broker.fetch("orders", 0, 3)
    assert refused.value.facts == {"offset": 3, "start": 0, "end": 2}


def test_what_retention_deleted_is_out_of_range(broker: TestBroker) -> None:
    broker.create_topic("short", retention="1h", partitions=1)
    broker.publish("short", b"old")
    broker.advance("2h")

    with pytest.raises(OffsetOutOfRange) as refused:
        broker.fetch("short", 0, 0)

    assert refused.value.facts == {"offset": 0, "start": 1, "end": 1}


def test_wrong_questions_are_refused(broker: TestBroker) -> None:
    with pytest.raises(TopicNotFound):
        broker.fetch("missing", 0, 0)
    with pytest.raises(PartitionNotFound):
        broker.fetch("orders", 2, 0)
    for partition, offset, max_bytes in ((-1, 0, 1), (0, -1, 1), (0, 0, 0), (0, "0", 1), (None, 0, 1)):
        with pytest.raises(InvalidValue):
            broker.fetch("orders", partition, offset, max_bytes=max_bytes)  # type: ignore[arg-type]


def test_one_fetch_is_bounded_like_every_look() -> None:
    with TestBroker.open(config=penstock.BrokerConfig(receive_bytes_max=1000)) as broker:
        broker.create_topic("orders", partitions=1)
        for _ in range(5):
            broker.publish("orders", b"x" * 400)

        assert len(values(broker.fetch("orders", 0, 0))) == 2


def log_of(sizes: list[int], segment_bytes: int = 1 << 20) -> Log:
    """A log with a batch for each number: that many records."""
    log = Log.open(MemoryFiles(), "log", LogConfig(segment_bytes=segment_bytes, durability="memory"))
    for size in sizes:
        log.append(bytearray(encode_values([b"x" * 50] * size, 0)))
    return log


@pytest.mark.parametrize("sizes", [[1] * 500, [100] * 20, [1, 300, 1, 1, 200, 2] * 10])
def test_every_fetch_from_every_batch_is_whole_and_as_long_as_it_may_be(sizes: list[int]) -> None:
    log = log_of(sizes)
    everything, end = log.fetch(0, 1 << 30)
    ends = []
    at = 0
    while at < len(everything):
        at += read_header(everything, at).size
        ends.append(at)

    assert end == sum(sizes)
    begin = 0
    offset = 0
    for size, first_end in zip(sizes, ends, strict=True):
        for max_bytes in (1, 5000, 20_000, first_end - begin, len(everything) - begin):
            data, following = log.fetch(offset + size - 1, max_bytes)

            assert everything[begin : begin + len(data)] == data
            whole = [each for each in ends if first_end <= each <= max(begin + max_bytes, first_end)]
            assert begin + len(data) == whole[-1]
            assert following == sum(sizes[: ends.index(whole[-1]) + 1])
        begin = first_end
        offset += size


def test_a_fetch_ends_with_its_segment_and_the_next_goes_on(tmp_path: Path) -> None:
    log = log_of([10] * 50, segment_bytes=4096)
    found = []
    offset = 0
    while offset < log.high:
        data, offset = log.fetch(offset, 1 << 20)
        found += [record.offset for record in records_of(data)]

    assert log.segment_count > 1
    assert found == list(range(500))


def test_what_is_not_on_disk_yet_is_not_fetched() -> None:
    log = Log.open(MemoryFiles(), "log", LogConfig(durability="fsync"))
    log.append(bytearray(encode_values([b"a"], 0)))
    log.sync()
    log.append(bytearray(encode_values([b"b"], 0)))

    assert [record.value for record in records_of(log.fetch(0, 1000)[0])] == [b"a"]
    assert log.fetch(1, 1000) == (b"", 1)
    with pytest.raises(OffsetOutOfRange):
        log.fetch(2, 1000)
    for _ in range(200):  # More than a page, so that the index has places that nobody may see yet.
        log.append(bytearray(encode_values([b"c"], 0)))
    assert log.fetch(0, 1 << 20)[1] == 1


def test_a_damaged_header_at_the_end_of_a_fetch_is_found_and_left_out() -> None:
    files = MemoryFiles()
    log = Log.open(files, "log", LogConfig(durability="memory"))
    for _ in range(3):
        log.append(bytearray(encode_values([b"a"], 0)))
    segment = log._segments[0]
    assert segment.file is not None
    size = len(log.fetch(0, 1)[0])
    segment.file._data[size + 7] ^= 1  # type: ignore[attr-defined]

    assert log.fetch(0, 1000)[1] == 1
    assert log.fetch(1, 1000) == (log.fetch(2, 1000)[0], 3)
    assert [(found.first_offset, found.end_offset) for found in log.damage.ranges] == [(1, 2)]


# The journal.


def test_the_journal_is_fetched_with_what_was_only_noted(broker: TestBroker) -> None:
    publish(broker, 1)
    consumer = broker.consumer("orders", group="g")
    [message] = consumer.receive()

    found = broker.fetch("orders", 0, 0, journal=True)

    kinds = [type(events.decode(record.value or b"")) for record in records_of(found.batches)]
    assert kinds == [events.GroupSet, events.Leased]
    message.ack()
    [settled] = records_of(broker.fetch("orders", 0, found.next_offset, journal=True).batches)
    assert type(events.decode(settled.value or b"")) is events.Settled


def test_a_journal_that_was_not_begun_is_empty(broker: TestBroker) -> None:
    assert broker.fetch("orders", 1, 0, journal=True) == Fetched(start=0, end=0, next_offset=0, batches=b"")
    with pytest.raises(OffsetOutOfRange):
        broker.fetch("orders", 1, 1, journal=True)


# Where a time is.


def test_offsets_of_the_ends_and_of_a_time(broker: TestBroker) -> None:
    publish(broker, 2)
    broker.advance("1h")
    late = broker.clock.wall_ms() / 1000
    publish(broker, 3)

    assert broker.offsets("orders", "earliest") == {0: 0, 1: 0}
    assert broker.offsets("orders", "latest") == {0: 5, 1: 0}
    assert broker.offsets("orders", late) == {0: 2, 1: 0}
    assert broker.offsets("orders", late + 1) == {0: 5, 1: 0}
    with pytest.raises(InvalidValue):
        broker.offsets("orders", "soon")


def test_offsets_of_a_journal(broker: TestBroker) -> None:
    publish(broker, 2)
    consumer = broker.consumer("orders", group="g")
    consumer.ack(consumer.receive())
    broker.advance("1h")
    late = broker.clock.wall_ms() / 1000
    consumer.ack(consumer.receive())
    broker.fetch("orders", 0, 0, journal=True)

    earlier = broker.offsets("orders", late, journal=True)[0]
    kinds = [
        type(events.decode(record.value or b"")).__name__
        for record in records_of(broker.fetch("orders", 0, earlier, journal=True).batches)
        if record.offset >= earlier
    ]
    assert kinds == ["Leased", "Settled"]
    assert broker.offsets("orders", "latest", journal=True) == {0: earlier + 2, 1: 1}


# Commits from outside.


def test_a_commit_from_outside_makes_a_stream_group_with_its_lag(broker: TestBroker) -> None:
    publish(broker, 5)

    broker.commit_offsets("orders", "query", {0: 3})

    group = broker.describe_group("orders", "query")
    assert (group.kind, group.lag, group.partitions[0].floor, group.acked) == ("stream", 2, 3, 3)


def test_a_commit_may_go_back(broker: TestBroker) -> None:
    publish(broker, 5)
    broker.commit_offsets("orders", "query", {0: 5})

    broker.commit_offsets("orders", "query", {0: 1})

    group = broker.describe_group("orders", "query")
    assert (group.lag, group.acked) == (4, 5)
    journal = records_of(broker.fetch("orders", 0, 0, journal=True).batches)
    last = [events.decode(each.value or b"") for each in journal]
    number = group.partitions[0].journal_group
    assert last[-2:] == [events.Committed(number, 5, 0), events.Committed(number, 1, 5)]


def test_a_commit_outlives_the_broker(tmp_path: Path) -> None:
    with TestBroker.open(str(tmp_path)) as broker:
        broker.create_topic("orders", partitions=2)
        publish(broker, 5)
        broker.commit_offsets("orders", "query", {0: 3, 1: 0})

    with TestBroker.open(str(tmp_path)) as broker:
        assert broker.describe_group("orders", "query").lag == 2


def test_a_wrong_commit_changes_nothing(broker: TestBroker) -> None:
    publish(broker, 5)

    with pytest.raises(OffsetOutOfRange):
        broker.commit_offsets("orders", "query", {0: 3, 1: 1})
    with pytest.raises(PartitionNotFound):
        broker.commit_offsets("orders", "query", {0: 3, 2: 0})
    with pytest.raises(InvalidValue):
        broker.commit_offsets("orders", "query", [3])  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        broker.commit_offsets("orders", "query", {0: "3"})  # type: ignore[dict-item]

    assert broker.groups("orders") == []


def test_a_queue_group_takes_no_commits(broker: TestBroker) -> None:
    broker.create_group("orders", "workers")

    with pytest.raises(GroupKindMismatch):
        broker.commit_offsets("orders", "workers", {0: 0})


def test_a_partition_that_a_member_owns_is_committed_by_it_alone(broker: TestBroker) -> None:
    publish(broker, 5)
    consumer = broker.consumer("orders", group="readers", kind="stream")
    consumer.receive()

    with pytest.raises(NotAssigned):
        broker.commit_offsets("orders", "readers", {0: 1})

    consumer.close()
    broker.commit_offsets("orders", "readers", {0: 1})
    assert broker.describe_group("orders", "readers").lag == 4


def test_a_reader_from_outside_is_somebody_as_long_as_it_commits(broker: TestBroker) -> None:
    publish(broker, 5)
    broker.commit_offsets("orders", "query", {0: 3})

    assert broker.describe_group("orders", "query").verdict.word == "keeping up"
    broker.advance("1m")
    assert (
        broker.describe_group("orders", "query").verdict.word == "keeping up"
    )  # Its next batch may be near.
    broker.advance("1s")
    assert broker.describe_group("orders", "query").verdict.word == "no consumers"
