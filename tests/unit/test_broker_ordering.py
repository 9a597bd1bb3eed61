"""Ordered queue groups: equal keys one after the other, different keys side by side."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from penstock import Message, ReceivedMessage, StoredMessage
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def texts(messages: Sequence[StoredMessage]) -> list[str]:
    return [message.value.decode() for message in messages]


def fill(broker: TestBroker, *values: str) -> None:
    """Publish values such as "red 1"; the first word is the key."""
    broker.publish_batch("orders", [Message(value.encode(), key=value.split()[0]) for value in values])


def test_equal_keys_are_never_in_flight_together(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    fill(penstock, "red 1", "red 2", "blue 1", "red 3", "green 1", "blue 2")
    consumer = penstock.consumer("orders", ordered=True)

    first = consumer.receive(10)
    assert texts(first) == ["red 1", "blue 1", "green 1"]
    assert consumer.receive(10) == []
    first[0].ack()
    second = consumer.receive(10)
    assert texts(second) == ["red 2"]
    consumer.ack([first[1], first[2], second[0]])
    assert sorted(texts(consumer.receive(10))) == ["blue 2", "red 3"]


def test_a_slow_key_does_not_stop_the_others(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    fill(penstock, "slow 1", *[f"k{number} x" for number in range(50)], "slow 2")
    consumer = penstock.consumer("orders", ordered=True, visibility_timeout="1h")
    [slow] = consumer.receive()

    seen: list[str] = []
    while messages := consumer.receive(10):
        seen += texts(list(messages))
        consumer.ack(messages)

    assert seen == [f"k{number} x" for number in range(50)]
    slow.ack()
    assert texts(consumer.receive(10)) == ["slow 2"]


def test_a_poison_message_stops_only_its_own_key_until_it_is_buried(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    fill(penstock, "bad 1", "bad 2", "good 1", "good 2")
    consumer = penstock.consumer("orders", ordered=True, max_attempts=3, backoff=["10s"])

    order = []
    while messages := consumer.receive(wait="1m"):
        [message] = messages
        order.append(message.value.decode())
        if message.value == b"bad 1":
            message.nack(error="poison")
        else:
            message.ack()

    assert order == ["bad 1", "good 1", "good 2", "bad 1", "bad 1", "bad 2"]
    assert texts([letter.message for letter in penstock.dead_letters("orders")]) == ["bad 1"]


def test_a_timed_out_message_still_holds_its_key(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    fill(penstock, "red 1", "red 2")
    penstock.consumer("orders", ordered=True, visibility_timeout="10s").receive()
    penstock.advance("10s")

    other = penstock.consumer("orders")
    assert texts(other.receive(10)) == ["red 1"]


def test_a_released_message_still_comes_before_its_followers(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    fill(penstock, "red 1", "red 2", "blue 1")
    with penstock.consumer("orders", ordered=True) as consumer:
        consumer.receive(2)

    again = penstock.consumer("orders").receive(10)

    assert sorted(texts(again)) == ["blue 1", "red 1"]


def test_messages_without_a_key_wait_for_nobody(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1", b"2"])

    assert len(penstock.consumer("orders", ordered=True).receive(10)) == 3


def test_a_rejected_and_an_expired_message_free_their_key(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch(
        "orders",
        [Message(b"1", key="k"), Message(b"2", key="k", ttl="5s"), Message(b"3", key="k")],
    )
    consumer = penstock.consumer("orders", ordered=True)
    [first] = consumer.receive(10)
    penstock.advance("5s")
    first.reject("no")

    assert texts(consumer.receive(10)) == ["3"]


def test_order_holds_over_a_restart_with_messages_in_flight() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        fill(broker, "red 1", "red 2", "blue 1", "red 3")
        consumer = broker.consumer("orders", ordered=True)
        messages = consumer.receive(10)
        assert texts(messages) == ["red 1", "blue 1"]
        messages[1].ack()

    with TestBroker.open("data", files=files, clock=clock) as broker:
        consumer = broker.consumer("orders")
        for expected in ("red 1", "red 2", "red 3"):
            [message] = consumer.receive(10)
            assert message.value.decode() == expected
            message.ack()
        assert broker.depth("orders", "default") == 0


def test_order_holds_over_a_crash_with_a_retry_waiting() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    fill(broker, "red 1", "red 2", "blue 1")
    consumer = broker.consumer("orders", ordered=True)
    consumer.receive()[0].nack(delay="1m")
    assert texts(consumer.receive(10)) == ["blue 1"]

    disk.kill()
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        consumer = broker.consumer("orders")
        [blue] = consumer.receive(10)
        assert blue.value == b"blue 1"
        blue.ack()
        [message] = consumer.receive(10, wait="1m")
        assert (message.value, message.attempt) == (b"red 1", 2)
        message.ack()
        assert texts(consumer.receive(10)) == ["red 2"]


def test_a_seek_lets_every_key_begin_again(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    fill(penstock, "red 1", "red 2", "blue 1")
    consumer = penstock.consumer("orders", ordered=True)
    consumer.receive(10)

    penstock.seek("orders", "default", "earliest")

    assert texts(consumer.receive(10)) == ["red 1", "blue 1"]


def test_under_random_answers_every_key_is_worked_in_order_and_alone(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    fill(penstock, *[f"k{number % 5} {number}" for number in range(60)])
    consumers = [
        penstock.consumer("orders", ordered=True, max_attempts=1000, backoff=["1s", "5s"]) for _ in range(3)
    ]
    chance = Random(1)
    held: dict[bytes | None, ReceivedMessage] = {}
    done: dict[bytes | None, list[int]] = defaultdict(list)

    while sum(map(len, done.values())) < 60:
        batch = consumers[chance.randrange(3)].receive(chance.randint(1, 4), wait="10s")
        for message in batch:
            assert message.key not in held, "equal keys are in flight together"
            held[message.key] = message
        for message in list(held.values()):
            if chance.random() < 0.7:
                del held[message.key]
                if chance.random() < 0.5:
                    message.nack()
                else:
                    done[message.key].append(int(message.value.split()[1]))
                    message.ack()

    assert all(numbers == sorted(numbers) for numbers in done.values())
