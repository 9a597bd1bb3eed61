"""Time to live: of a message, of a topic, with a delay; expired is settled or a dead letter."""

import pytest

from penstock import Message
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker


def test_a_message_that_outlived_its_time_is_settled_and_not_delivered(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch(
        "orders", [Message(b"short", ttl="1m"), Message(b"long", ttl="1h"), Message(b"ever")]
    )
    consumer = penstock.consumer("orders")

    penstock.advance("1m")

    assert [message.value for message in consumer.receive(10)] == [b"long", b"ever"]
    info = penstock.describe_group("orders", "default")
    assert (info.expired, info.lag) == (1, 2)
    assert penstock.topics() == ["orders"], "not a dead letter unless the topic asks for it"


def test_a_message_is_delivered_until_the_very_last_millisecond(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", ttl="1m")
    penstock.advance("59999ms")

    assert len(penstock.consumer("orders", group="a").receive()) == 1
    penstock.advance("1ms")
    assert penstock.consumer("orders", group="b").receive() == []


def test_a_topic_may_have_a_time_to_live_for_all_its_messages(penstock: TestBroker) -> None:
    penstock.create_topic("orders", ttl="1m")
    penstock.publish("orders", b"old")
    penstock.publish("orders", b"own", ttl="10s")
    penstock.advance("30s")
    penstock.publish("orders", b"new")
    consumer = penstock.consumer("orders")
    penstock.advance("30s")

    assert [message.value for message in consumer.receive(10)] == [b"new"]
    assert penstock.depth("orders", "default") == 1


def test_expired_messages_go_to_the_dead_letters_if_the_topic_says_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders", dead_letter_expired=True)
    penstock.publish("orders", b"x", key="k", headers={"own": "1"}, ttl="1m")
    consumer = penstock.consumer("orders", group="g")
    penstock.advance("1m")

    assert consumer.receive(10) == []
    [letter] = penstock.dead_letters("orders")
    assert (letter.reason, letter.group, letter.message.key) == ("expired", "g", b"k")
    assert letter.message.headers["own"] == "1"
    assert penstock.depth("orders", "g") == 0


def test_the_time_to_live_of_a_delayed_message_begins_when_it_is_due(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", delay="1h", ttl="1m")

    penstock.advance("1h")
    penstock.advance("59s")
    assert len(penstock.consumer("orders", group="in-time").receive()) == 1
    penstock.advance("1s")
    assert penstock.consumer("orders", group="late").receive() == []


def test_a_topics_time_to_live_counts_a_delayed_message_from_when_it_is_due(penstock: TestBroker) -> None:
    penstock.create_topic("orders", ttl="1m")
    penstock.publish("orders", b"x", delay="1h")
    penstock.advance("1h")

    assert len(penstock.consumer("orders").receive()) == 1


def test_a_message_may_expire_while_it_waits_for_a_retry(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", ttl="1m")
    consumer = penstock.consumer("orders")
    consumer.receive()[0].nack(delay="2m")

    assert consumer.receive(wait="1h") == []
    assert penstock.depth("orders", "default") == 0


def test_a_message_in_hand_may_be_acked_after_its_time(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", ttl="1s")
    [message] = penstock.consumer("orders").receive()
    penstock.advance("2s")

    message.ack()

    assert penstock.describe_group("orders", "default").acked == 1


def test_expired_stays_settled_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", ttl="1m")
        broker.publish("orders", b"y", ttl="1h")
        consumer = broker.consumer("orders")
        broker.advance("1m")
        assert [message.value for message in consumer.receive(10)] == [b"y"]

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert broker.depth("orders", "default") == 1
        broker.advance("59m")
        assert broker.consumer("orders").receive() == []


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_time_to_live_holds_in_every_lane(penstock: TestBroker, priority: str) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", priority=priority, ttl="1s")
    penstock.publish("orders", b"y", priority=priority)
    penstock.advance("1s")

    assert [message.value for message in penstock.consumer("orders").receive(10)] == [b"y"]


def test_browsing_shows_expired_messages_too(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", ttl="1s")
    penstock.advance("1m")

    assert [message.value for message in penstock.read("orders")] == [b"x"]


def test_a_header_of_the_users_own_does_not_make_a_message_expire(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", headers={"x-expires-at": "1"})
    penstock.publish("orders", b"y", headers={"x-expires-at": "1"}, ttl="1h")

    assert len(penstock.consumer("orders").receive(10)) == 2
