"""Looking without touching: read from an offset or a time, peek at the end."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock import BrokerConfig, Message, StoredMessage
from penstock.testing import TestBroker

START = datetime(2026, 1, 1, tzinfo=UTC)


def fill(broker: TestBroker, partitions: int = 1) -> None:
    broker.create_topic("orders", partitions=partitions)
    for number in range(10):
        broker.publish("orders", b"%d" % number, partition=number % partitions)
        broker.advance("1s")


def numbers(messages: list[StoredMessage]) -> list[int]:
    return [int(message.value) for message in messages]


def test_reading_changes_nothing(penstock: TestBroker) -> None:
    fill(penstock)
    penstock.create_group("orders", "g")

    for _ in range(2):
        assert numbers(penstock.read("orders")) == list(range(10))
    assert penstock.depth("orders", "g") == 10


def test_read_from_an_offset(penstock: TestBroker) -> None:
    fill(penstock)

    assert numbers(penstock.read("orders", offset=7)) == [7, 8, 9]
    assert penstock.read("orders", offset=10) == []


def test_read_from_a_time_up_to_a_time_is_exact_to_the_message(penstock: TestBroker) -> None:
    fill(penstock)
    second = timedelta(seconds=1)

    assert numbers(penstock.read("orders", from_time=START + 7 * second)) == [7, 8, 9]
    between = penstock.read("orders", from_time=START + 2 * second, to_time=START + 5 * second)
    assert numbers(between) == [2, 3, 4]
    just_after = START + 2 * second + timedelta(milliseconds=1)
    assert numbers(penstock.read("orders", from_time=just_after, limit=1)) == [3]
    assert penstock.read("orders", from_time=START + timedelta(days=1)) == []
    assert penstock.read("orders", to_time=START) == []


def test_messages_of_one_batch_share_a_time_and_are_read_together(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1", b"2"])
    penstock.advance("1s")
    penstock.publish_batch("orders", [b"3", b"4"])

    later = penstock.read("orders", from_time=START + timedelta(seconds=1))

    assert numbers(later) == [3, 4]


def test_read_returns_at_most_its_limit(penstock: TestBroker) -> None:
    fill(penstock)

    assert numbers(penstock.read("orders", limit=3)) == [0, 1, 2]
    assert numbers(penstock.read("orders", offset=3, limit=3)) == [3, 4, 5]


def test_several_partitions_are_read_in_the_order_of_time(penstock: TestBroker) -> None:
    fill(penstock, partitions=3)

    assert numbers(penstock.read("orders")) == list(range(10))
    assert numbers(penstock.read("orders", limit=4)) == [0, 1, 2, 3]
    assert numbers(penstock.read("orders", partition=1)) == [1, 4, 7]


def test_peek_shows_the_end_oldest_first(penstock: TestBroker) -> None:
    fill(penstock)

    assert numbers(penstock.peek("orders", 3)) == [7, 8, 9]
    assert numbers(penstock.peek("orders")) == list(range(10))
    assert numbers(penstock.peek("orders", 1)) == [9]


def test_peek_goes_over_batches_and_partitions(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish_batch("orders", [Message(b"%d" % number, partition=0) for number in range(50)])
    penstock.advance("1s")
    penstock.publish_batch("orders", [Message(b"%d" % number, partition=1) for number in range(50, 60)])

    assert numbers(penstock.peek("orders", 12)) == list(range(48, 60))
    assert numbers(penstock.peek("orders", 3, partition=0)) == [47, 48, 49]


def test_an_empty_topic_has_nothing_to_show(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)

    assert penstock.read("orders") == []
    assert penstock.peek("orders") == []


def test_a_scheduled_message_is_not_in_the_log_before_it_is_due(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"later", delay="1m")

    assert penstock.read("orders") == []
    penstock.advance("1m")
    assert penstock.peek("orders")[0].value == b"later"


@pytest.mark.parametrize("count", [1, 99, 1000])
def test_a_large_topic_is_read_in_one_go(penstock: TestBroker, count: int) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"%d" % number for number in range(count)])

    assert numbers(penstock.read("orders", limit=100_000)) == list(range(count))


SMALL_ANSWERS = BrokerConfig(receive_bytes_max=10_000)


def test_an_answer_is_bounded_in_bytes_and_the_rest_is_there_for_the_asking() -> None:
    with TestBroker.open(config=SMALL_ANSWERS) as broker:
        broker.create_topic("large")
        broker.publish_batch("large", [b"%03d" % number + bytes(1000) for number in range(50)])

        seen: list[bytes] = []
        while messages := broker.read("large", partition=0, offset=len(seen), limit=100):
            assert sum(len(message.value) for message in messages) < 12_000
            seen += [message.value[:3] for message in messages]

        assert seen == [b"%03d" % number for number in range(50)]


def test_an_answer_has_one_message_however_large_it_is() -> None:
    with TestBroker.open(config=SMALL_ANSWERS) as broker:
        broker.create_topic("large")
        broker.publish("large", bytes(50_000))
        broker.publish("large", bytes(50_000))

        assert [message.offset for message in broker.read("large", limit=10)] == [0]
        assert [message.offset for message in broker.peek("large", 10)] == [1]


def test_partitions_are_cut_at_the_same_time() -> None:
    """The large messages of one partition do not hide behind the small ones of another."""
    with TestBroker.open(config=SMALL_ANSWERS) as broker:
        broker.create_topic("mixed", partitions=2)
        for number in range(20):
            broker.publish("mixed", b"%02d" % number + bytes(1000), partition=0)
            broker.publish("mixed", b"%02d" % number, partition=1)
            broker.advance("1s")

        messages = broker.read("mixed", limit=100)

        count = len(messages) // 2
        assert 0 < count < 20
        assert [message.value[:2] for message in messages] == [b"%02d" % (at // 2) for at in range(2 * count)]


def test_lists_of_dead_letters_and_schedules_are_bounded_in_bytes_too() -> None:
    with TestBroker.open(config=SMALL_ANSWERS) as broker:
        broker.create_topic("large")
        broker.publish_batch("large", [bytes(1000)] * 50)
        broker.publish_batch("large", [Message(bytes(1000), delay="1h")] * 50)
        for message in broker.consumer("large", max_in_flight=50).receive(50):
            message.reject("no")

        assert 5 <= len(broker.dead_letters("large")) <= 11
        assert 5 <= len(broker.scheduled("large")) <= 11
