"""GoMQ's words: a queue is a topic with one group, a topic gives every subscriber every message."""

import pytest

from penstock import Message
from penstock.errors import Closed, GroupNotFound
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker


def test_a_queue_is_made_on_first_use_and_found_again(penstock: TestBroker) -> None:
    penstock.queue("orders", partitions=2).publish(b"x")

    again = penstock.queue("orders")

    assert again.name == "orders"
    assert again.depth() == 1
    assert penstock.topics() == ["orders"]
    assert len(penstock.describe_topic("orders").partitions) == 2


def test_subscribers_of_a_queue_share_its_messages(penstock: TestBroker) -> None:
    queue = penstock.queue("orders")
    queue.publish(b"0", key="k", priority="high")
    queue.publish_batch([b"1", Message(b"2")])
    one, other = queue.subscribe("one"), queue.subscribe("other", visibility_timeout="1m")

    assert [message.value for message in one.receive()] == [b"0"]
    assert [message.value for message in other.receive(10)] == [b"1", b"2"]
    assert (one.consumer_id, other.consumer_id) == ("one", "other")


def test_a_queue_knows_its_depth_purges_and_counts(penstock: TestBroker) -> None:
    queue = penstock.queue("orders")
    queue.publish_batch([b"x"] * 5)
    consumer = queue.subscribe()
    consumer.ack(consumer.receive(2))

    assert queue.depth() == 3
    assert queue.purge() == 3
    assert queue.depth() == 0
    stats = queue.stats()
    assert (stats.topic, stats.messages, stats.published, stats.depth) == ("orders", 5, 5, 0)


def test_a_queue_may_delay(penstock: TestBroker) -> None:
    queue = penstock.queue("orders")
    queue.publish(b"x", delay="1m")

    assert queue.subscribe().receive(wait="1m")[0].value == b"x"


def test_every_subscriber_of_a_topic_gets_every_message(penstock: TestBroker) -> None:
    topic = penstock.topic("news")
    a, b = topic.subscribe("a"), topic.subscribe("b")

    topic.publish(b"1")
    topic.publish(b"2", headers={"h": "v"})

    assert [message.value for message in a.receive(10)] == [b"1", b"2"]
    assert [message.value for message in b.receive(10)] == [b"1", b"2"]
    assert topic.subscriber_count() == 2
    assert topic.stats().messages == 2


def test_a_subscription_begins_now_and_stays_while_its_subscriber_is_away(penstock: TestBroker) -> None:
    topic = penstock.topic("news")
    topic.publish(b"before")
    with topic.subscribe("a") as subscriber:
        assert subscriber.receive() == []
    topic.publish(b"while away")

    assert [message.value for message in topic.subscribe("a").receive(10)] == [b"while away"]
    assert topic.subscriber_count() == 1


def test_a_subscription_may_begin_at_the_beginning(penstock: TestBroker) -> None:
    topic = penstock.topic("news")
    topic.publish(b"before")

    assert [message.value for message in topic.subscribe("a", start="earliest").receive()] == [b"before"]


def test_unsubscribe_ends_and_forgets_a_subscription(penstock: TestBroker) -> None:
    topic = penstock.topic("news")
    subscriber = topic.subscribe("a")
    topic.unsubscribe("a")
    topic.publish(b"x")

    assert topic.subscriber_count() == 0
    with pytest.raises(Closed):
        subscriber.receive()
    assert topic.subscribe("a").receive() == []
    with pytest.raises(GroupNotFound):
        topic.unsubscribe("nobody")


def test_a_subscription_survives_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        topic = broker.topic("news")
        topic.subscribe("a")
        topic.publish(b"x")

    with TestBroker.open("data", files=files) as broker:
        topic = broker.topic("news")
        assert topic.subscriber_count() == 1
        assert [message.value for message in topic.subscribe("a").receive()] == [b"x"]
