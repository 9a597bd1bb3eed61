"""Consumers that are lent record batches: what front ends pass on to clients."""

import pytest

from penstock.broker.batches import BatchConsumer
from penstock.config.broker import GroupOptions
from penstock.errors import (
    AlreadySettled,
    Closed,
    InvalidValue,
    LeaseLost,
    MetadataStale,
    OffsetOutOfRange,
    PartitionNotFound,
    PenstockError,
)
from penstock.model.failure import Failure
from penstock.model.message import Message, Receipt
from penstock.operations.consumers import ConsumerOptions
from penstock.testing import TestBroker
from penstock.wire.native import LeasedBatch
from penstock.wire.records import BatchBuilder, Record, check_batch, decode_batch, encode_values

FAILURE = Failure("ValueError", "no", "abc")


def consumer_of(broker: TestBroker, topic: str = "orders", **options: object) -> BatchConsumer:
    given: GroupOptions = options  # type: ignore[assignment]
    return broker._driver.run(broker._local.batch_consumer(topic, "g", ConsumerOptions(group=given)))


def receive(broker: TestBroker, consumer: BatchConsumer, limit: int = 100) -> list[LeasedBatch]:
    return broker._driver.run(consumer.receive(limit, 0))


def records_of(lent: LeasedBatch) -> list[Record]:
    records: list[Record] = []
    at = 0
    while at < len(lent.data):
        header = check_batch(lent.data, at)
        records += decode_batch(lent.data, at, lent.start, lent.end)
        at += header.size
    return records


def values(batches: list[LeasedBatch]) -> list[bytes | None]:
    return [record.value for lent in batches for record in records_of(lent)]


def run_of(lent: LeasedBatch) -> tuple[int, int, int, int]:
    return lent.partition, lent.lease, lent.start, lent.end


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    penstock.create_topic("orders")
    return penstock


def test_a_whole_batch_goes_out_as_it_lies_in_the_log(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"%d" % number for number in range(100)])
    log = broker._core.state.topics["orders"].partitions[0].log

    [lent] = receive(broker, consumer_of(broker))

    assert lent.data == log.read(0, 1 << 20)
    assert values([lent]) == [b"%d" % number for number in range(100)]


def test_half_a_batch_goes_out_without_the_other_half(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"%03d" % number + bytes(1000) for number in range(100)])
    consumer = consumer_of(broker)

    [first], [second] = receive(broker, consumer, 60), receive(broker, consumer, 40)

    assert [record.value[:3] for record in records_of(first) if record.value] == [
        b"%03d" % n for n in range(60)
    ]
    assert [record.value[:3] for record in records_of(second) if record.value] == [
        b"%03d" % n for n in range(60, 100)
    ]
    assert len(first.data) + len(second.data) < 103_000


def test_half_a_compressed_batch_goes_out_right(penstock: TestBroker) -> None:
    penstock.create_topic("packed", compression="zstd")
    penstock.publish_batch("packed", [b"%d" % number for number in range(100)])
    consumer = consumer_of(penstock, "packed")

    parts = [*receive(penstock, consumer, 60), *receive(penstock, consumer, 60)]

    assert values(parts) == [b"%d" % number for number in range(100)]


def test_a_few_records_of_a_large_batch_go_out_alone(broker: TestBroker) -> None:
    broker.publish_batch("orders", [bytes(1000)] * 100)

    [lent] = receive(broker, consumer_of(broker), 10)

    assert (lent.start, lent.end) == (0, 10)
    assert len(lent.data) < 11_000


def test_keys_headers_lanes_and_times_survive(broker: TestBroker) -> None:
    broker.publish("orders", b"a", key="k", headers={"h": "1"}, priority="high")
    broker.advance("1s")
    broker.publish("orders", b"b", key="k", ttl="1h")

    batches = receive(broker, consumer_of(broker))

    received = [record for lent in batches for record in records_of(lent)]
    stored = broker.read("orders")
    assert [(record.key, record.value, record.headers, record.timestamp) for record in received] == [
        (message.key, message.value, message.raw_headers, message.timestamp) for message in stored
    ]


def test_an_expired_message_inside_a_range_is_left_out(broker: TestBroker) -> None:
    broker.publish_batch("orders", [Message(b"%d" % n, ttl="1s" if n == 5 else None) for n in range(10)])
    broker.advance("2s")

    assert values(receive(broker, consumer_of(broker))) == [b"%d" % n for n in range(10) if n != 5]


def test_a_limit_holds_over_leases_and_partitions(penstock: TestBroker) -> None:
    penstock.create_topic("wide", partitions=4)
    for partition in range(4):
        penstock.publish_batch("wide", [Message(b"x", partition=partition) for _ in range(10)])
    consumer = consumer_of(penstock, "wide")

    batches = receive(penstock, consumer, 25)

    assert sum(lent.end - lent.start for lent in batches) == 25
    assert consumer.in_flight == 25


def test_acked_runs_are_settled_and_the_rest_is_not(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 10)
    consumer = consumer_of(broker)
    [lent] = receive(broker, consumer)

    broker._driver.run(consumer.ack([(0, lent.lease, 0, 4), (0, lent.lease, 6, 10)]))

    assert consumer.in_flight == 2
    assert broker.depth("orders", "g") == 2
    with pytest.raises(AlreadySettled):
        broker._driver.run(consumer.ack([(0, lent.lease, 0, 1)]))


def test_overlapping_runs_are_refused_and_change_nothing(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 10)
    consumer = consumer_of(broker)
    [lent] = receive(broker, consumer)

    for answer in (consumer.ack, lambda runs: consumer.nack(runs, None, FAILURE)):
        with pytest.raises(InvalidValue):
            broker._driver.run(answer([(0, lent.lease, 0, 5), (0, lent.lease, 4, 8)]))

    assert consumer.in_flight == 10


def test_a_consumer_cannot_answer_for_another(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 10)
    first, second = consumer_of(broker), consumer_of(broker)
    [lent] = receive(broker, first)

    for answer in (
        second.ack([run_of(lent)]),
        second.nack([run_of(lent)], None, FAILURE),
        second.reject([run_of(lent)], "no"),
    ):
        with pytest.raises(LeaseLost):
            broker._driver.run(answer)
    assert broker._driver.run(second.extend([(0, lent.lease)], 60_000)) == [(0, lent.lease)]
    assert first.in_flight == 10


def test_a_partition_that_is_not_there_is_an_error(broker: TestBroker) -> None:
    consumer = consumer_of(broker)

    for answer in (consumer.ack([(9, 1, 0, 1)]), consumer.extend([(-1, 1)], 1000)):
        with pytest.raises(PartitionNotFound):
            broker._driver.run(answer)


def test_nacked_runs_come_again_with_their_error(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"%d" % number for number in range(10)])
    consumer = consumer_of(broker)
    [lent] = receive(broker, consumer)

    broker._driver.run(consumer.nack([(0, lent.lease, 2, 5)], 1000, FAILURE))

    assert receive(broker, consumer) == []
    broker.advance("1s")
    again = receive(broker, consumer)
    assert values(again) == [b"2", b"3", b"4"]
    assert [each.attempt for each in again] == [2] * len(again)
    assert "ValueError: no" in str(broker.trace("orders:0:2"))


def test_rejected_runs_are_dead_letters(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 3)
    consumer = consumer_of(broker)
    [lent] = receive(broker, consumer)

    broker._driver.run(consumer.reject([run_of(lent)], "no such card"))

    assert [letter.error for letter in broker.dead_letters("orders")] == ["no such card"] * 3


def test_an_extended_lease_outlives_its_timeout(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 3)
    consumer = consumer_of(broker, visibility_timeout="30s")
    [lent] = receive(broker, consumer)

    assert broker._driver.run(consumer.extend([(0, lent.lease)], 60_000)) == []

    broker.advance("59s")
    broker._driver.run(consumer.ack([run_of(lent)]))


def test_a_consumer_that_comes_back_keeps_what_it_has_and_no_more(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"%d" % number for number in range(10)])
    consumer = consumer_of(broker)
    [first] = receive(broker, consumer, 4)
    receive(broker, consumer, 6)  # Sent, and never arrived.

    broker._driver.run(consumer.keep([(0, first.lease)], {}))

    assert consumer.in_flight == 4
    again = receive(broker, consumer)
    assert values(again) == [b"%d" % number for number in range(4, 10)]
    assert {each.attempt for each in again} == {1}
    broker._driver.run(consumer.ack([run_of(first)]))


def test_at_most_once_batches_are_settled_when_they_go_out(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 10)
    consumer = consumer_of(broker, delivery="at-most-once")

    got = receive(broker, consumer)

    assert len(values(got)) == 10
    assert {each.lease for each in got} == {-1}
    assert broker.depth("orders", "g") == 0


def test_a_stream_consumer_reads_commits_and_resumes(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"%d" % number for number in range(10)])
    consumer = consumer_of(broker, kind="stream")

    assert values(receive(broker, consumer, 6)) == [b"%d" % number for number in range(6)]

    broker._driver.run(consumer.commit({0: 3}))
    broker._driver.run(consumer.keep([], {0: 3}))
    assert values(receive(broker, consumer)) == [b"%d" % number for number in range(3, 10)]
    assert consumer.heartbeat() == [0]
    assert broker.depth("orders", "g") == 7
    with pytest.raises(OffsetOutOfRange):
        broker._driver.run(consumer.commit({0: 11}))


def test_what_a_stream_consumer_never_saw_is_read_again_from_the_commit(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"%d" % number for number in range(10)])
    consumer = consumer_of(broker, kind="stream")
    receive(broker, consumer, 2)
    broker._driver.run(consumer.commit({0: 2}))
    receive(broker, consumer)  # Sent, and never arrived.

    broker._driver.run(consumer.keep([], {}))

    assert values(receive(broker, consumer)) == [b"%d" % number for number in range(2, 10)]


def test_a_stream_consumer_whose_group_is_gone_has_no_heart(broker: TestBroker) -> None:
    consumer = consumer_of(broker, kind="stream")
    broker.delete_group("orders", "g")

    with pytest.raises(Closed):
        consumer.heartbeat()


def test_closing_gives_back_what_was_lent(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"x"] * 10)
    consumer = consumer_of(broker)
    receive(broker, consumer)

    broker._driver.run(consumer.close())

    assert consumer.closed
    assert len(values(receive(broker, consumer_of(broker)))) == 10


# Batches in.


def append(
    broker: TestBroker, batches: list[tuple[int, bytes]], version: int | None = None
) -> list[Receipt | PenstockError]:
    if version is None:
        version = broker._core.state.topics["orders"].version
    return broker._driver.run(broker._core.publishing.append_batches("orders", version, batches, True))


def numbered(values: list[bytes], sequence: int) -> bytes:
    builder = BatchBuilder()
    builder.add_values(values)
    return bytes(builder.build(0, 0, 0, 7, 0, sequence))


def test_batches_are_appended_one_answer_each(broker: TestBroker) -> None:
    good = bytes(encode_values([b"a", b"b"], 0))
    damaged = good[:-1] + b"!"

    first, refused, unplaced, second = append(broker, [(0, good), (0, damaged), (5, good), (0, good)])

    assert isinstance(first, Receipt)
    assert isinstance(second, Receipt)
    assert (first.offset, second.offset) == (0, 2)
    assert getattr(refused, "code", "") == "BATCH_INVALID"
    assert getattr(unplaced, "code", "") == "PARTITION_NOT_FOUND"
    assert [message.value for message in broker.read("orders")] == [b"a", b"b", b"a", b"b"]


def test_a_repeated_batch_is_answered_with_where_the_first_one_is(broker: TestBroker) -> None:
    append(broker, [(0, numbered([b"a", b"b"], 0))])
    append(broker, [(0, numbered([b"c"], 2))])

    [repeat] = append(broker, [(0, numbered([b"a", b"b"], 0))])

    assert isinstance(repeat, Receipt)
    assert (repeat.offset, repeat.duplicate) == (0, True)
    assert len(broker.read("orders")) == 3


def test_a_repeated_batch_needs_no_room(broker: TestBroker) -> None:
    broker.alter_topic("orders", depth_max=2)
    append(broker, [(0, numbered([b"a", b"b"], 0))])

    [repeat] = append(broker, [(0, numbered([b"a", b"b"], 0))])
    [more] = append(broker, [(0, numbered([b"c"], 2))])

    assert isinstance(repeat, Receipt)
    assert repeat.duplicate
    assert getattr(more, "code", "") == "QUEUE_FULL"


def test_batches_for_older_settings_are_refused(broker: TestBroker) -> None:
    before = broker._core.state.topics["orders"].version
    broker.alter_topic("orders", message_bytes_max=10)

    with pytest.raises(MetadataStale):
        append(broker, [(0, bytes(encode_values([b"a"], 0)))], before)

    assert broker.read("orders") == []


def test_a_topic_made_again_has_another_version(broker: TestBroker) -> None:
    before = broker._core.state.topics["orders"].version
    broker.delete_topic("orders")
    broker.create_topic("orders")

    assert broker._core.state.topics["orders"].version != before


# Connections that are lost.


def test_a_lost_connection_counts_as_an_attempt_and_a_close_does_not(broker: TestBroker) -> None:
    broker.publish("orders", b"x")
    attempts = []
    for end in ("disconnect", "close", "disconnect"):
        consumer = consumer_of(broker)
        [lent] = receive(broker, consumer)
        attempts.append(lent.attempt)
        broker._driver.run(getattr(consumer, end)())

    assert attempts == [1, 2, 2]
    assert receive(broker, consumer_of(broker))[0].attempt == 3


def test_a_message_that_loses_every_connection_is_a_dead_letter_that_says_so(broker: TestBroker) -> None:
    receipt = broker.publish("orders", b"x")
    for _ in range(2):
        consumer = consumer_of(broker, max_attempts=2)
        assert receive(broker, consumer)
        broker._driver.run(consumer.disconnect())

    [letter] = broker.dead_letters("orders")
    assert (letter.attempts, letter.reason) == (2, "connection lost")
    assert letter.error == "the connection was lost while the message was being processed"
    assert receive(broker, consumer_of(broker)) == []
    told = [(event.event, event.detail) for event in broker.trace(receipt.id).events if event.group == "g"]
    assert told == [
        ("delivered", ""),
        ("connection lost", ""),
        ("redelivered", "after connection lost"),
        ("connection lost", ""),
        ("dead-lettered", "to orders.dlq"),
    ]


def test_what_was_settled_before_the_connection_was_lost_is_settled(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"a", b"b", b"c"])
    consumer = consumer_of(broker)
    [lent] = receive(broker, consumer)
    broker._driver.run(consumer.ack([(lent.partition, lent.lease, 1, 2)]))

    broker._driver.run(consumer.disconnect())

    again = receive(broker, consumer_of(broker))
    assert [(lent.start, lent.end, lent.attempt) for lent in again] == [(0, 1, 2), (2, 3, 2)]
