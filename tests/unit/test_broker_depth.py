"""Depth and lag, bounded depth, purge, counts."""

import pytest

from penstock import Message
from penstock.errors import QueueFull
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker


def test_depth_is_what_a_group_has_not_settled(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish_batch("orders", [Message(b"x", partition=number % 2) for number in range(10)])
    consumer = penstock.consumer("orders")

    consumer.ack(consumer.receive(3))
    consumer.receive()[0].nack(delay="1h")
    consumer.receive(2)

    info = penstock.describe_group("orders", "default")
    assert penstock.depth("orders", "default") == info.lag == 7
    assert (info.in_flight, info.waiting_retry) == (2, 1)
    assert sum(lag.lag for lag in info.partitions) == 7


def test_the_depth_of_a_topic_is_that_of_its_slowest_group(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 5)
    assert penstock.depth("orders") == 5
    quick, slow = penstock.consumer("orders", group="quick"), penstock.consumer("orders", group="slow")

    quick.ack(quick.receive(5))
    slow.ack(slow.receive(2))

    assert [penstock.depth("orders", name) for name in ("quick", "slow")] == [0, 3]
    assert penstock.depth("orders") == 3


def test_lag_in_seconds_is_the_age_of_the_oldest_unsettled_message(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    consumer = penstock.consumer("orders")
    assert penstock.describe_group("orders", "default").lag_seconds == 0
    penstock.publish("orders", b"old", partition=0)
    penstock.advance("10s")
    penstock.publish("orders", b"new", partition=1)
    penstock.advance("5500ms")

    assert penstock.describe_group("orders", "default").lag_seconds == 15.5
    for message in consumer.receive(10):
        if message.value == b"old":
            message.ack()
    assert penstock.describe_group("orders", "default").lag_seconds == 5.5


def test_an_acked_message_behind_an_open_one_does_not_count(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 4)
    messages = penstock.consumer("orders").receive(4)
    messages[1].ack()
    messages[3].ack()

    info = penstock.describe_group("orders", "default")

    assert (info.lag, info.partitions[0].floor, info.partitions[0].end) == (2, 0, 4)


def test_a_full_topic_refuses_at_once_with_a_retryable_error(penstock: TestBroker) -> None:
    penstock.create_topic("orders", depth_max=3)
    consumer = penstock.consumer("orders")
    penstock.publish_batch("orders", [b"0", b"1"])

    with pytest.raises(QueueFull) as caught:
        penstock.publish_batch("orders", [b"2", b"3"])
    assert caught.value.retryable
    penstock.publish("orders", b"2")
    with pytest.raises(QueueFull):
        penstock.publish("orders", b"3")
    consumer.ack(consumer.receive())

    assert penstock.publish("orders", b"3").offset == 3


def test_the_slowest_group_decides_whether_a_topic_is_full(penstock: TestBroker) -> None:
    penstock.create_topic("orders", depth_max=2)
    quick = penstock.consumer("orders", group="quick")
    penstock.create_group("orders", "slow")
    penstock.publish_batch("orders", [b"0", b"1"])
    quick.ack(quick.receive(2))

    with pytest.raises(QueueFull):
        penstock.publish("orders", b"2")
    penstock.delete_group("orders", "slow")

    assert penstock.publish("orders", b"2").offset == 2


def test_a_publish_that_may_wait_goes_through_as_soon_as_there_is_room(penstock: TestBroker) -> None:
    penstock.create_topic("orders", depth_max=1, depth_policy="wait", depth_wait="1m")
    consumer = penstock.consumer("orders", max_attempts=1, visibility_timeout="10s")
    penstock.publish("orders", b"0")
    consumer.receive()  # Never answered: a dead letter in ten seconds.
    began_ms = penstock.clock.steady_ms()

    receipt = penstock.publish("orders", b"1")

    assert receipt.offset == 1
    assert penstock.clock.steady_ms() - began_ms == 10_000


def test_a_publish_that_waited_in_vain_is_refused(penstock: TestBroker) -> None:
    penstock.create_topic("orders", depth_max=1, depth_policy="wait", depth_wait="7s")
    penstock.publish("orders", b"0")
    began_ms = penstock.clock.steady_ms()

    with pytest.raises(QueueFull, match="slow down"):
        penstock.publish("orders", b"1")

    assert penstock.clock.steady_ms() - began_ms == 7000
    assert len(penstock.read("orders")) == 1


def test_a_scheduled_message_that_is_due_is_never_refused(penstock: TestBroker) -> None:
    penstock.create_topic("orders", depth_max=2)
    penstock.publish("orders", b"later", delay="1m")
    penstock.publish_batch("orders", [b"0", b"1"])

    penstock.advance("1m")

    assert len(penstock.read("orders")) == 3


def test_purge_settles_everything_and_says_how_much_that_was(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish_batch("orders", [Message(b"x", partition=number % 2) for number in range(6)])
    penstock.create_group("orders", "other")
    consumer = penstock.consumer("orders")
    consumer.ack(consumer.receive())
    consumer.receive()
    consumer.receive()[0].nack(delay="1m")

    assert penstock.purge("orders", "default") == 5

    assert penstock.depth("orders", "default") == 0
    assert consumer.receive(10, wait="1h") == []
    assert penstock.depth("orders", "other") == 6
    assert len(penstock.read("orders")) == 6, "purging deletes nothing"
    assert penstock.purge("orders", "default") == 0


def test_purged_is_purged_after_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [b"x"] * 3)
        broker.create_group("orders", "default")
        broker.purge("orders", "default")

    with TestBroker.open("data", files=files) as broker:
        assert broker.depth("orders", "default") == 0
        assert broker.consumer("orders").receive() == []


def test_a_group_counts_what_it_did(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [Message(b"0"), Message(b"1"), Message(b"2"), Message(b"3", ttl="1s")])
    penstock.advance("1s")
    consumer = penstock.consumer("orders", consumer_id="c", visibility_timeout="10s", backoff=["1s"])
    messages = consumer.receive(10)
    messages[0].ack()
    messages[1].nack()
    messages[2].reject("no")
    consumer.receive(wait="1s")
    penstock.advance("10s")

    info = penstock.describe_group("orders", "default")
    assert (info.delivered, info.acked, info.nacked) == (4, 1, 1)
    assert (info.timed_out, info.dead_lettered, info.expired) == (1, 1, 1)
    assert (info.topic, info.group, info.kind, info.consumers) == ("orders", "default", "queue", ["c"])


def test_a_topic_describes_itself(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish("orders", b"x", partition=0)
    penstock.publish("orders", b"y", partition=1)
    penstock.publish("orders", b"z", partition=1, delay="1h")
    penstock.create_group("orders", "g")

    info = penstock.describe_topic("orders")

    assert (info.topic, info.messages, info.depth, info.scheduled) == ("orders", 2, 2, 1)
    assert (info.published, info.groups) == (2, ["g"])
    assert [(p.partition, p.start, p.end, p.scheduled) for p in info.partitions] == [
        (0, 0, 1, 0),
        (1, 0, 1, 1),
    ]
    assert info.bytes == sum(partition.bytes for partition in info.partitions) > 0


def test_lag_survives_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [b"x"] * 5)
        messages = broker.consumer("orders").receive(5)
        messages[0].ack()
        messages[2].ack()
        broker.advance("10s")

    with TestBroker.open("data", files=files, clock=clock) as broker:
        info = broker.describe_group("orders", "default")
        assert (info.lag, info.lag_seconds, info.partitions[0].floor) == (3, 10, 1)
