"""Testing your own code: a real broker in memory and in virtual time, by the ``penstock`` fixture.

Installing Penstock registers the fixture with pytest. ``penstock.advance("3d")`` lets three days pass in
a millisecond: schedules fire, leases time out, retries come due, retention deletes, always in the same way.

Run it with ``pytest examples/test_reminders.py``.
"""

import pytest

import penstock as p
from penstock.testing import TestBroker


def remind(broker: p.Broker, customer: str) -> None:
    """The code under test: remind a customer after three days."""
    broker.publish("mails", customer.encode(), delay="3d", dedup_id=f"reminder-{customer}")


def deliver(consumer: p.Consumer, outbox: list[str]) -> None:
    """The code under test: deliver what is due, to everyone but one whose mailbox is full."""
    for message in consumer.receive(max_messages=10):
        with message:
            if message.value == b"bert":
                raise OSError("the mailbox is full")
            outbox.append(message.value.decode())


@pytest.fixture
def mails(penstock: TestBroker) -> p.Consumer:
    penstock.create_topic("mails")
    return penstock.consumer("mails", group="mailer", max_attempts=2, backoff=["1h"])


def test_a_reminder_comes_after_three_days_and_once(penstock: TestBroker, mails: p.Consumer) -> None:
    outbox: list[str] = []
    remind(penstock, "anna")
    remind(penstock, "anna")

    penstock.advance("2d 23h 59m")
    deliver(mails, outbox)
    assert outbox == []

    penstock.advance("1m")
    deliver(mails, outbox)
    assert outbox == ["anna"]


def test_a_full_mailbox_is_tried_again_after_an_hour_and_then_given_up(
    penstock: TestBroker, mails: p.Consumer
) -> None:
    remind(penstock, "bert")
    penstock.advance("3d")

    for _ in range(2):
        with pytest.raises(OSError, match="mailbox is full"):
            deliver(mails, [])
        penstock.advance("1h")

    [letter] = penstock.dead_letters("mails")
    assert letter.error == "OSError: the mailbox is full"
    assert letter.attempts == 2


def test_a_worker_that_dies_with_a_message_in_hand_does_not_lose_it(
    penstock: TestBroker, mails: p.Consumer
) -> None:
    outbox: list[str] = []
    penstock.publish("mails", b"carl")
    mails.receive()  # And never answers.

    penstock.advance("30s")  # The visibility timeout.
    deliver(mails, outbox)

    assert outbox == ["carl"]
