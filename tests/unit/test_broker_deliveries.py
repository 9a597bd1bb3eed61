"""What became of a range of messages in a group."""

import pytest

import penstock as package
from penstock.errors import GroupNotFound, InvalidValue, PartitionNotFound
from penstock.model.info import DeliveryState
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

Told = list[tuple[int, int, str, int]]


def told(broker: TestBroker, group: str = "g", start: int = 0, end: int = 100) -> Told:
    states = broker.delivery_states("orders", group, 0, start, end)
    return [(state.start, state.end, state.state, state.attempts) for state in states]


def filled(broker: TestBroker, count: int, **options: object) -> package.Consumer:
    broker.create_topic("orders", partitions=1)
    consumer = broker.consumer("orders", group="g", **options)  # type: ignore[arg-type]
    broker.publish_batch("orders", [b"%d" % number for number in range(count)])
    return consumer


def test_every_state_is_told_in_ranges(penstock: TestBroker) -> None:
    consumer = filled(penstock, 9, max_attempts=2, backoff=["1h"])
    messages = consumer.receive(7)
    consumer.ack(messages[:3])
    messages[3].nack(error="once")
    messages[4].reject("never")
    penstock.advance("1s")

    assert told(penstock) == [
        (0, 3, "acked", 1),
        (3, 4, "retrying", 1),
        (4, 5, "dead-lettered", 1),
        (5, 7, "in flight", 1),
        (7, 9, "waiting", 0),
    ]
    assert told(penstock, start=2, end=4) == [(2, 3, "acked", 1), (3, 4, "retrying", 1)]


def test_attempts_are_counted_and_those_given_back_unused_are_not(penstock: TestBroker) -> None:
    consumer = filled(penstock, 2, max_attempts=5, backoff=["1s"])
    for _ in range(2):
        consumer.receive()[0].nack()
        consumer.receive(2)[-1].nack()
        penstock.advance("1s")
    again = consumer.receive(2)
    consumer.close()

    assert len(again) == 2
    assert told(penstock) == [(0, 2, "retrying", 2)]
    fresh = penstock.consumer("orders", group="other")
    fresh.receive(2)
    fresh.close()
    assert told(penstock, "other") == [(0, 2, "retrying", 0)]


def test_what_expired_and_what_was_skipped_is_told(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=1)
    consumer = penstock.consumer("orders", group="g")
    penstock.publish("orders", b"short", ttl="1s")
    penstock.publish_batch("orders", [b"a", b"b", b"c"])
    penstock.advance("2s")
    consumer.ack(consumer.receive(1))

    penstock.seek("orders", "g", 3)
    assert told(penstock) == [
        (0, 1, "expired", 0),
        (1, 2, "acked", 1),
        (2, 3, "skipped", 0),
        (3, 4, "waiting", 0),
    ]

    penstock.seek("orders", "g", 1)
    assert told(penstock) == [(0, 1, "expired", 0), (1, 4, "waiting", 0)]


def test_what_was_there_before_a_group_is_just_settled(penstock: TestBroker) -> None:
    filled(penstock, 3)

    penstock.create_group("orders", "late", start="latest")
    penstock.publish("orders", b"new")

    assert told(penstock, "late") == [(0, 3, "settled", 0), (3, 4, "waiting", 0)]


def test_a_stream_group_has_committed_read_or_not_read(penstock: TestBroker) -> None:
    consumer = filled(penstock, 5, kind="stream")
    messages = consumer.receive(4)
    consumer.ack(messages[:3])

    assert told(penstock) == [(0, 3, "acked", 1), (3, 4, "in flight", 1), (4, 5, "waiting", 0)]


def test_states_are_the_same_after_a_restart() -> None:
    disk, clock = CrashDisk(), ManualClock()
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        consumer = filled(broker, 10, backoff=["1h"], max_attempts=9)
        messages = consumer.receive(6)
        consumer.ack(messages[1:4])
        messages[0].nack()
        consumer.close()
        before = told(broker)

    with TestBroker.open("data", files=disk, clock=clock) as broker:
        assert told(broker) == before
    assert [state[2] for state in before] == ["retrying", "acked", "retrying", "waiting"]


def test_only_what_the_log_keeps_is_told(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=1, retention="1h")
    consumer = penstock.consumer("orders", group="g")
    penstock.publish_batch("orders", [b"old"] * 3)
    consumer.ack(consumer.receive(2))
    penstock.advance("2h")
    penstock.publish("orders", b"new")

    assert told(penstock) == [(3, 4, "waiting", 0)]
    assert told(penstock, end=3) == []


def test_wrong_questions_are_refused(penstock: TestBroker) -> None:
    filled(penstock, 1)

    with pytest.raises(GroupNotFound):
        told(penstock, "nobody")
    with pytest.raises(PartitionNotFound):
        penstock.delivery_states("orders", "g", 1, 0, 1)
    with pytest.raises(InvalidValue):
        told(penstock, start=0, end=1_000_001)
    with pytest.raises(InvalidValue):
        told(penstock, start=-1)
    assert penstock.delivery_states("orders", "g", 0, 0, 1) == [DeliveryState(0, 1, "waiting", 0)]
