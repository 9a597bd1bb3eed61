"""Seek: to an offset, a time, the beginning, the end; what was held is no longer held."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock import Message
from penstock.errors import AlreadySettled, LeaseLost
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker

START = datetime(2026, 1, 1, tzinfo=UTC)


def filled(broker: TestBroker, partitions: int = 1) -> None:
    """Ten messages a second apart on every partition, the group ``default`` through with all of them."""
    broker.create_topic("orders", partitions=partitions)
    for number in range(10):
        broker.publish_batch(
            "orders", [Message(b"%d" % number, partition=partition) for partition in range(partitions)]
        )
        broker.advance("1s")
    consumer = broker.consumer("orders")
    consumer.ack(consumer.receive(1000))
    consumer.close()


@pytest.mark.parametrize(
    ("to", "first"),
    [
        ("earliest", 0),
        ("latest", None),
        (0, 0),
        (7, 7),
        (10, None),
        (1000, None),
        (START + timedelta(seconds=4), 4),
        (START + timedelta(seconds=4, milliseconds=1), 5),
        (START - timedelta(days=1), 0),
        (START + timedelta(days=1), None),
        ("2026-01-01T00:00:06+00:00", 6),
        ("2026-01-01T01:00:06+01:00", 6),
        ((START + timedelta(seconds=8)).timestamp(), 8),
    ],
)
def test_a_group_goes_where_it_is_sent(penstock: TestBroker, to: object, first: int | None) -> None:
    filled(penstock)

    penstock.seek("orders", "default", to)  # type: ignore[arg-type]

    expected = [] if first is None else [b"%d" % number for number in range(first, 10)]
    assert [message.value for message in penstock.consumer("orders").receive(100)] == expected
    assert penstock.depth("orders", "default") == len(expected)


def test_everything_before_is_settled_and_everything_after_is_not(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"%d" % number for number in range(10)])
    consumer = penstock.consumer("orders")
    messages = consumer.receive(8)
    consumer.ack([messages[1], messages[6]])
    messages[3].nack(delay="1m")

    penstock.seek("orders", "default", 5)

    again = consumer.receive(100, wait="1h")
    assert [(m.value, m.attempt) for m in again] == [(b"%d" % number, 1) for number in range(5, 10)]


def test_what_was_held_before_a_seek_cannot_be_acked_any_more(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1"])
    consumer = penstock.consumer("orders")
    [first, second] = consumer.receive(2)

    penstock.seek("orders", "default", 1)

    with pytest.raises(AlreadySettled):
        first.ack()
    with pytest.raises(LeaseLost):
        second.ack()
    assert consumer.in_flight == 0
    assert penstock.describe_group("orders", "default").in_flight == 0


def test_one_partition_may_be_moved_alone(penstock: TestBroker) -> None:
    filled(penstock, partitions=2)

    penstock.seek("orders", "default", 8, partition=1)

    again = penstock.consumer("orders").receive(100)
    assert [(message.partition, message.offset) for message in again] == [(1, 8), (1, 9)]


def test_other_groups_stay_where_they_are(penstock: TestBroker) -> None:
    filled(penstock)
    penstock.create_group("orders", "other", start="latest")

    penstock.seek("orders", "default", "earliest")

    assert penstock.depth("orders", "other") == 0


def test_a_seek_wakes_who_waits(penstock: TestBroker) -> None:
    filled(penstock)
    penstock.publish("orders", b"later", delay="1h")
    penstock.seek("orders", "default", "earliest")

    assert penstock.consumer("orders").receive(wait="1m")[0].value == b"0"


def test_a_group_is_where_it_was_sent_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        filled(broker)
        broker.seek("orders", "default", 4)

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert broker.consumer("orders").receive()[0].value == b"4"


def test_a_replayed_message_has_its_attempts_again(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders", max_attempts=2, backoff=["1s"])
    for _ in range(2):
        consumer.receive(wait="1m")[0].nack(error="no")
    assert len(penstock.dead_letters("orders")) == 1

    penstock.seek("orders", "default", "earliest")

    assert [message.attempt for message in consumer.receive()] == [1]


def test_lanes_begin_again_after_a_seek(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"low", priority="low")
    penstock.publish("orders", b"high", priority="high")
    consumer = penstock.consumer("orders")
    consumer.ack(consumer.receive(2))

    penstock.seek("orders", "default", "earliest")

    assert [message.value for message in consumer.receive(10)] == [b"high", b"low"]


@pytest.mark.parametrize("answer", ["ack", "none"])
def test_a_dead_letter_tells_only_of_failures_since_the_seek(penstock: TestBroker, answer: str) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders", max_attempts=2, backoff=["1s"], visibility_timeout="1m")
    consumer.receive()[0].nack(error="long ago")
    if answer == "ack":
        consumer.receive(wait="1s")[0].ack()
    penstock.advance("1h")
    penstock.seek("orders", "default", "earliest")
    again_ms = penstock.clock.wall_ms()

    consumer.receive()
    penstock.advance("1m")
    consumer.receive()
    penstock.advance("1m")

    [letter] = penstock.dead_letters("orders")
    assert (letter.error, letter.first_failed_ms - again_ms) == ("visibility timeout", 60_000)
