"""Priority lanes: the highest first, or each its share; nothing is skipped."""

from collections import Counter

import pytest

from penstock import Message
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker

LANES = ["critical", "high", "normal", "low", "background"]


def test_the_highest_lane_comes_first_and_each_lane_keeps_its_order(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for number in range(3):
        for lane in ["low", "normal", "critical", "background", "high"]:
            penstock.publish("orders", f"{lane} {number}".encode(), priority=lane)
    consumer = penstock.consumer("orders")

    order = [consumer.receive()[0].value.decode() for _ in range(15)]

    assert order == [f"{lane} {number}" for lane in LANES for number in range(3)]
    assert consumer.receive() == []


def test_a_priority_may_be_a_number(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for number in range(-2, 3):
        penstock.publish("orders", str(number).encode(), priority=number)
    consumer = penstock.consumer("orders")

    messages = consumer.receive(5)

    assert [message.value for message in messages] == [b"2", b"1", b"0", b"-1", b"-2"]
    assert [message.priority for message in messages] == LANES


def test_an_urgent_message_overtakes_a_backlog(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"%d" % number for number in range(100)])
    consumer = penstock.consumer("orders")
    consumer.ack(consumer.receive(10))

    penstock.publish("orders", b"urgent", priority="high")

    assert [message.value for message in consumer.receive(2)] == [b"urgent", b"10"]


def test_lanes_hold_within_a_batch(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch(
        "orders",
        [Message(b"n0"), Message(b"h0", priority="high"), Message(b"n1"), Message(b"h1", priority=1)],
    )

    messages = penstock.consumer("orders").receive(4)

    assert [message.value for message in messages] == [b"h0", b"h1", b"n0", b"n1"]


def test_a_weighted_group_gives_every_lane_its_share(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for lane in LANES:
        penstock.publish_batch("orders", [Message(b"x", priority=lane) for _ in range(200)])
    consumer = penstock.consumer("orders", lanes="weighted")

    seen = Counter(consumer.receive()[0].priority for _ in range(100))

    assert [seen[lane] for lane in LANES] == pytest.approx([50, 25, 15, 7, 3], abs=2)


@pytest.mark.parametrize("lanes", ["strict", "weighted"])
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_nothing_is_skipped_and_nothing_comes_twice(penstock: TestBroker, lanes: str, at_once: int) -> None:
    penstock.create_topic("orders", partitions=2)
    for number in range(50):
        penstock.publish("orders", b"%d" % number, priority=LANES[number * 7 % 5])
    consumer = penstock.consumer("orders", lanes=lanes)  # type: ignore[arg-type]

    seen = []
    while messages := consumer.receive(at_once):
        seen += [int(message.value) for message in messages]
        consumer.ack(messages)

    assert sorted(seen) == list(range(50))
    assert penstock.depth("orders", "default") == 0


def test_lanes_are_there_after_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        for lane in reversed(LANES):
            broker.publish("orders", lane.encode(), priority=lane)
        assert broker.consumer("orders").receive()[0].value == b"critical"

    with TestBroker.open("data", files=files) as broker:
        messages = broker.consumer("orders").receive(5)
        assert [message.value.decode() for message in messages] == LANES


def test_a_retry_goes_before_fresh_messages_of_its_lane(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1"])
    consumer = penstock.consumer("orders")
    consumer.receive()[0].nack(delay=0)

    assert [consumer.receive()[0].value for _ in range(2)] == [b"0", b"1"]


def test_a_delayed_message_keeps_its_lane(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"late and urgent", priority="critical", delay="1s")
    penstock.publish("orders", b"early")
    penstock.advance("1s")

    assert [message.priority for message in penstock.consumer("orders").receive(2)] == ["critical", "normal"]


def test_browsing_and_streams_see_one_log_in_the_order_of_offsets(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for lane in LANES[::-1]:
        penstock.publish("orders", lane.encode(), priority=lane)

    assert [message.offset for message in penstock.read("orders")] == [0, 1, 2, 3, 4]
    stream = penstock.consumer("orders", group="s", kind="stream")
    assert [message.offset for message in stream.receive(10)] == [0, 1, 2, 3, 4]
