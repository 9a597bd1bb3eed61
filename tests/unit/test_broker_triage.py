"""Dead letters counted by error."""

import pytest

from penstock import Message
from penstock.broker.queue import triage
from penstock.broker.steps import GiveWay
from penstock.errors import Closed, TopicNotFound
from penstock.model.info import OTHER_ERRORS
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.headers import DEAD_LETTER_HEADERS


def fail(broker: TestBroker, *errors: str, topic: str = "orders", group: str = "default") -> None:
    """Publish a message for each error, and let a group reject each with its own."""
    broker.publish_batch(topic, [error.encode() for error in errors])
    with broker.consumer(topic, group=group, start="latest") as consumer:
        for message in consumer.receive(10_000):
            message.reject(message.value.decode())


def test_dead_letters_with_one_error_are_counted_together(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "default")
    fail(penstock, "row 1 is bad", "no price", "row 2 is bad", "row 3 is bad")

    many, one = penstock.dead_letter_errors("orders")

    assert (many.count, many.error, many.reason, many.error_class) == (3, "row 3 is bad", "rejected", "")
    assert (one.count, one.error, one.groups) == (1, "no price", ["default"])
    assert many.fingerprint != one.fingerprint
    assert (many.topic, many.dead_letter, many.source) == ("orders", "orders.dlq:0:3", "orders:0:3")


def test_an_error_says_its_class_and_when_it_was_first_and_last_seen(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"a", b"b"])
    start_ms = penstock.clock.wall_ms()
    consumer = penstock.consumer("orders", max_attempts=2, backoff=["10s"])
    for message in consumer.receive(2):
        message.nack(error=KeyError("price"))
    penstock.advance("10s")
    first, second = consumer.receive(2)
    second.nack(error=KeyError("price"))
    penstock.advance("5s")
    first.nack(error=KeyError("price"))

    [error] = penstock.dead_letter_errors("orders")

    assert (error.error_class, error.error) == ("KeyError", "KeyError: 'price'")
    assert (error.first_seen_ms - start_ms, error.last_seen_ms - start_ms) == (0, 15_000)
    assert (error.count, error.source) == (2, "orders:0:0")


def test_the_groups_in_which_an_error_came_are_named(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for group in ("shipping", "billing"):
        penstock.create_group("orders", group)
    penstock.publish("orders", b"x")
    for group in ("shipping", "billing"):
        penstock.consumer("orders", group=group).receive()[0].reject("no")

    [error] = penstock.dead_letter_errors("orders")

    assert (error.count, error.groups) == (2, ["billing", "shipping"])


def test_what_was_redriven_is_not_counted(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "default")
    fail(penstock, "row 1", "no price", "row 2")
    rows, price = penstock.dead_letter_errors("orders")

    penstock.redrive("orders", error=rows.fingerprint)

    assert penstock.dead_letter_errors("orders") == [price]


def test_without_a_topic_all_topics_are_told(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_topic("invoices", dead_letter_topic="morgue")
    penstock.create_topic("gone")
    for topic in ("orders", "invoices", "gone"):
        penstock.create_group(topic, "default")
    fail(penstock, "a", topic="orders")
    fail(penstock, "b", "b", topic="invoices")
    fail(penstock, "c", "c", "c", topic="gone")
    penstock.delete_topic("gone")

    told = [(error.topic, error.count) for error in penstock.dead_letter_errors()]

    assert told == [("gone", 3), ("invoices", 2), ("orders", 1)]


def test_a_shared_dead_letter_topic_is_told_apart_by_source(penstock: TestBroker) -> None:
    for topic in ("orders", "invoices"):
        penstock.create_topic(topic, dead_letter_topic="morgue")
        penstock.create_group(topic, "default")
        fail(penstock, "same", topic=topic)

    assert [error.topic for error in penstock.dead_letter_errors("orders")] == ["orders"]
    assert sorted(error.topic for error in penstock.dead_letter_errors()) == ["invoices", "orders"]


def test_a_message_that_is_no_dead_letter_is_left_out(penstock: TestBroker) -> None:
    penstock.create_topic("morgue")
    penstock.create_topic("orders", dead_letter_topic="morgue")
    penstock.publish("morgue", b"by hand", headers={"x-source-topic": "orders", "x-attempts": "many"})
    penstock.publish("morgue", b"with care", headers=dict.fromkeys(DEAD_LETTER_HEADERS, "orders"))

    assert penstock.dead_letter_errors() == penstock.dead_letter_errors("orders") == []
    assert penstock.dead_letters("orders") == []
    assert penstock.redrive("orders").matched == 0


def test_a_topic_without_dead_letters_has_no_errors(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    assert penstock.dead_letter_errors("orders") == penstock.dead_letter_errors() == []
    with pytest.raises(TopicNotFound):
        penstock.dead_letter_errors("missing")


def test_errors_beyond_the_limit_are_counted_as_others(
    penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triage, "ERRORS_MAX", 2)
    penstock.create_topic("orders")
    penstock.create_group("orders", "default")
    fail(penstock, "a", "b", "c", "d", "a", "c")

    told = {error.error if error.fingerprint != OTHER_ERRORS else "others": error.count
            for error in penstock.dead_letter_errors("orders")}  # fmt: skip

    assert told == {"a": 2, "b": 1, "others": 3}


def test_others_have_a_turn_while_many_are_counted(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "default")
    fail(penstock, *["no"] * 450)
    steps = penstock._operations.dead_letter_errors("orders")

    turns = [type(step) for step in iter(lambda: next(steps, None), None)]

    assert turns == [GiveWay] * 3
    assert [error.count for error in penstock.dead_letter_errors("orders")] == [450]


def test_the_errors_are_the_same_after_a_restart() -> None:
    disk, clock = CrashDisk(), ManualClock()
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_group("orders", "default")
        fail(broker, "row 1", "no price", "row 2")
        before = broker.dead_letter_errors()
        assert len(before) == 2
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        assert broker.dead_letter_errors() == before


def test_a_broker_that_is_closed_in_the_middle_says_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.create_group("orders", "default")
    penstock.publish_batch("orders", [Message(b"x", partition=number) for number in (0, 1)])
    for message in penstock.consumer("orders").receive(2):
        message.reject("no")
    steps = penstock._operations.dead_letter_errors("orders")
    next(steps)

    penstock.close()

    with pytest.raises(Closed):
        next(steps)


def test_a_topic_that_is_deleted_in_the_middle_is_left(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.create_group("orders", "default")
    penstock.publish_batch("orders", [Message(b"x", partition=number) for number in (0, 1)])
    for message in penstock.consumer("orders").receive(2):
        message.reject("no")
    steps = penstock._operations.dead_letter_errors("orders")
    next(steps)

    penstock.delete_topic("orders.dlq")

    with pytest.raises(StopIteration) as end:
        next(steps)
    assert [error.count for error in end.value.value] == [1]
