"""Answers to messages: one by one, as a list, with outputs, by a block, by a loop."""

from collections.abc import Sequence

import pytest

from penstock import Message
from penstock.errors import AlreadySettled, InvalidName, LeaseLost
from penstock.model.message import Delivered
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk


def values(messages: Sequence[Delivered]) -> list[bytes]:
    return [message.value for message in messages]


def open_with(penstock: TestBroker, count: int, partitions: int = 1) -> None:
    penstock.create_topic("orders", partitions=partitions)
    penstock.publish_batch("orders", [Message(b"%d" % number) for number in range(count)])


def test_one_lease_may_be_answered_message_by_message(penstock: TestBroker) -> None:
    open_with(penstock, 6)
    consumer = penstock.consumer("orders", backoff=["1s"])
    messages = consumer.receive(6)

    messages[3].ack()
    messages[1].nack()
    messages[5].reject("broken")
    consumer.ack([messages[0], messages[4]])
    penstock.advance("30s")

    again = {message.value: message.attempt for message in consumer.receive(10)}
    assert again == {b"1": 2, b"2": 2}
    assert [letter.message.value for letter in penstock.dead_letters("orders")] == [b"5"]


def test_a_list_is_acked_at_once_whatever_its_order(penstock: TestBroker) -> None:
    open_with(penstock, 20, partitions=3)
    consumer = penstock.consumer("orders")
    messages = consumer.receive(20)

    consumer.ack(messages[::-2] + messages[-2::-2])

    assert penstock.depth("orders", "default") == 0
    assert consumer.in_flight == 0


def test_acking_nothing_is_nothing(penstock: TestBroker) -> None:
    open_with(penstock, 1)

    penstock.consumer("orders").ack([])

    assert penstock.depth("orders", "default") == 1


def test_what_is_still_held_is_settled_when_another_of_the_list_is_not(penstock: TestBroker) -> None:
    open_with(penstock, 2)
    consumer = penstock.consumer("orders", visibility_timeout="10s")
    lost = consumer.receive()
    penstock.advance("9s")
    held = consumer.receive()
    penstock.advance("2s")

    with pytest.raises(LeaseLost):
        consumer.ack(lost + held)

    assert penstock.depth("orders", "default") == 1
    assert values(consumer.receive(10)) == [b"0"]


def test_the_same_message_twice_in_one_ack_counts_once(penstock: TestBroker) -> None:
    open_with(penstock, 3)
    consumer = penstock.consumer("orders")
    messages = consumer.receive(2)

    with pytest.raises(AlreadySettled):
        consumer.ack([messages[0], messages[0]])

    assert consumer.in_flight == penstock.describe_group("orders", "default").in_flight
    consumer.receive()
    assert consumer.in_flight == penstock.describe_group("orders", "default").in_flight


def test_an_ack_with_publish_settles_and_publishes_together(penstock: TestBroker) -> None:
    open_with(penstock, 2)
    penstock.create_topic("invoices", partitions=2)
    consumer = penstock.consumer("orders")
    messages = consumer.receive(2)

    consumer.ack(
        messages,
        publish=[
            ("invoices", Message(b"a", key="k", headers={"h": "v"}, priority="high")),
            ("invoices", Message(b"b", partition=1)),
        ],
    )

    assert penstock.depth("orders", "default") == 0
    stored = {message.value: message for message in penstock.read("invoices")}
    assert stored.keys() == {b"a", b"b"}
    assert (stored[b"a"].key, stored[b"a"].headers, stored[b"a"].priority) == (b"k", {"h": "v"}, "high")
    assert stored[b"b"].partition == 1


def test_an_ack_that_fails_publishes_nothing(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    penstock.create_topic("invoices")
    consumer = penstock.consumer("orders")
    [message] = consumer.receive()
    penstock.advance("30s")

    with pytest.raises(LeaseLost):
        consumer.ack(message, publish=[("invoices", Message(b"a"))])

    assert penstock.read("invoices") == []


def test_an_output_that_cannot_be_published_leaves_the_input_unanswered(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders")
    [message] = consumer.receive()

    with pytest.raises(InvalidName):
        consumer.ack(message, publish=[("no/where", Message(b"a"))])
    assert penstock.depth("orders", "default") == 1
    message.ack()

    assert penstock.depth("orders", "default") == 0


@pytest.mark.parametrize("moment", ["after the ack", "after a restart"])
def test_outputs_of_an_ack_are_published_exactly_once(moment: str) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    broker.create_topic("invoices")
    for number in range(3):
        broker.publish("orders", b"%d" % number)
    consumer = broker.consumer("orders")
    for message in consumer.receive(3):
        consumer.ack(message, publish=[("invoices", Message(b"invoice " + message.value))])

    if moment == "after a restart":
        disk.kill()
        broker = TestBroker.open("data", files=disk)

    assert [m.value for m in broker.read("invoices")] == [b"invoice 0", b"invoice 1", b"invoice 2"]
    assert broker.depth("orders", "default") == 0
    broker.close()


def test_outputs_go_on_after_a_restart_with_their_numbering() -> None:
    disk = CrashDisk()
    for life in range(3):
        broker = TestBroker.open("data", files=disk)
        if life == 0:
            broker.create_topic("orders")
            broker.create_topic("invoices")
        broker.publish("orders", b"%d" % life)
        consumer = broker.consumer("orders")
        [message] = consumer.receive()
        consumer.ack(message, publish=[("invoices", Message(message.value))])
        if life == 1:
            broker.close()
        else:
            disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        assert [message.value for message in broker.read("invoices")] == [b"0", b"1", b"2"]


def test_outputs_respect_their_time_to_live(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    penstock.create_topic("invoices")
    consumer = penstock.consumer("orders")
    consumer.ack(consumer.receive(), publish=[("invoices", Message(b"a", ttl="1s"))])
    penstock.advance("1s")

    assert penstock.consumer("invoices").receive() == []


def test_a_message_block_acks_when_it_ends_well(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    [message] = penstock.consumer("orders").receive()

    with message as same:
        assert same is message
        assert not message.settled

    assert message.settled
    assert penstock.depth("orders", "default") == 0


def test_a_message_block_nacks_with_the_error_and_raises_it_again(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders", max_attempts=1)
    [message] = consumer.receive()

    with pytest.raises(ZeroDivisionError, match="by nought"):
        with message:
            raise ZeroDivisionError("by nought")

    [letter] = penstock.dead_letters("orders")
    assert letter.error == "ZeroDivisionError: by nought"


def test_a_message_block_respects_an_answer_that_was_given(penstock: TestBroker) -> None:
    open_with(penstock, 3)
    consumer = penstock.consumer("orders", backoff=["1s"])
    one, two, three = consumer.receive(3)

    with one:
        one.nack(delay="1m")
    with two:
        two.reject("no good")
    with pytest.raises(RuntimeError):
        with three:
            three.ack()
            raise RuntimeError("after the ack")
    penstock.advance("1m")

    assert values(consumer.receive(10)) == [b"0"]
    assert [letter.message.value for letter in penstock.dead_letters("orders")] == [b"1"]


def test_the_error_of_a_block_comes_through_when_the_lease_is_lost_meanwhile(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    [message] = penstock.consumer("orders").receive()

    with pytest.raises(ValueError, match="the work's own") as caught:
        with message:
            penstock.advance("30s")
            raise ValueError("the work's own")

    assert "LEASE_LOST" in caught.value.__notes__[0]


def test_a_loop_over_a_consumer_ends_when_the_consumer_is_closed_in_it(penstock: TestBroker) -> None:
    open_with(penstock, 3)
    consumer = penstock.consumer("orders")
    seen = []

    for message in consumer:
        with message:
            seen.append(message.value)
        if len(seen) == 3:
            consumer.close()

    assert seen == [b"0", b"1", b"2"]
