"""A trace as people read it: one timeline for each group, aligned, with what it took."""

from penstock import Message
from penstock.delivery import events
from penstock.model.trace import SETTLED
from penstock.testing import TestBroker


def lines(broker: TestBroker, identity: str) -> list[str]:
    return str(broker.trace(identity)).splitlines()


def test_a_trace_tells_the_journey_of_a_message_group_by_group(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"hello", key="order-1", delay="3s")
    penstock.advance("3s")
    billing = penstock.consumer(
        "orders", group="billing", consumer_id="worker-1", max_attempts=3, backoff=["2s"]
    )
    audit = penstock.consumer("orders", group="audit", consumer_id="auditor")
    penstock.advance("1.3s")
    [message] = billing.receive()
    penstock.advance("500ms")
    message.nack(error=ValueError("card declined"))
    billing.receive(wait="10s")
    penstock.advance("40s")
    [message] = billing.receive()
    message.extend("1m")
    audit.ack(audit.receive())
    message.reject("no such card")
    penstock.redrive("orders")

    assert (
        lines(penstock, "orders:0:0")
        == """\
orders:0:0  key order-1

2026-01-01, UTC
  00:00:00.000    -3.000 s  scheduled      as s0
  00:00:03.000    +0.000 s  published      5 bytes, priority normal

billing: dead-lettered 43.800 s after publish; 3 deliveries
  00:00:04.300    +1.300 s  delivered      worker-1, attempt 1
  00:00:04.800    +1.800 s  nacked         worker-1, ValueError: card declined
  00:00:06.800    +3.800 s  redelivered    worker-1, attempt 2
  00:00:36.800   +33.800 s  timed out      worker-1
  00:00:46.800   +43.800 s  redelivered    worker-1, attempt 3
  00:00:46.800   +43.800 s  extended       worker-1
  00:00:46.800   +43.800 s  rejected       worker-1, no such card
  00:00:46.800   +43.800 s  dead-lettered  to orders.dlq
  00:00:46.800   +43.800 s  redriven       to orders

audit: acked 43.800 s after publish; 1 delivery
  00:00:46.800   +43.800 s  delivered      auditor, attempt 1
  00:00:46.800   +43.800 s  acked          auditor

retained until 2026-01-08 00:00:03 UTC""".splitlines()
    )


def test_a_dead_letter_and_what_was_redriven_name_where_they_come_from(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention=None)
    penstock.publish("orders", b"hello")
    [message] = penstock.consumer("orders", group="billing", consumer_id="worker-1").receive()
    message.reject("no such card")
    penstock.redrive("orders")

    assert (
        lines(penstock, "orders.dlq:0:0")
        == """\
orders.dlq:0:0  no key

2026-01-01, UTC
  00:00:00.000    +0.000 s  published  5 bytes, priority normal, dead letter of orders:0:0
  00:00:00.000    +0.000 s  redriven   to orders

retained until 2026-01-15 00:00:00 UTC""".splitlines()
    )
    assert (
        lines(penstock, "orders:0:1")
        == """\
orders:0:1  no key

2026-01-01, UTC
  00:00:00.000    +0.000 s  published  5 bytes, priority normal, redriven from orders:0:0""".splitlines()
    )


def test_outputs_of_an_ack_name_their_topics(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_topic("invoices")
    penstock.publish("orders", b"hello")
    consumer = penstock.consumer("orders", group="billing", consumer_id="worker-1")
    consumer.ack(consumer.receive(), publish=[("invoices", Message(b"an invoice"))])

    assert [(event.event, event.detail) for event in penstock.trace("orders:0:0").events[1:-1]] == [
        ("delivered", ""),
        ("acked", ""),
        ("sent", "to invoices"),
    ]


def test_the_reason_of_a_redelivery_is_told(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"hello")
    first = penstock.consumer("orders", consumer_id="first")
    first.receive()
    first.close()
    second = penstock.consumer("orders", consumer_id="second")
    second.receive()
    penstock.advance("30s")
    second.receive()

    told = [(event.event, event.consumer, event.detail) for event in penstock.trace("orders:0:0").events]

    assert told[1:-1] == [
        ("delivered", "first", ""),
        ("released", "first", "consumer closed"),
        ("redelivered", "second", "after consumer closed"),
        ("timed out", "second", ""),
        ("redelivered", "second", "after visibility timeout"),
    ]


def test_a_message_that_a_group_still_works_on_is_not_settled(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"hello")
    penstock.consumer("orders").receive()

    trace = penstock.trace("orders:0:0")

    assert trace.latency_ms("default") is None
    assert "default: not settled; 1 delivery" in str(trace)


def test_latency_is_from_publish_to_the_settlement(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"hello")
    consumer = penstock.consumer("orders")
    penstock.advance("36.012s")
    consumer.ack(consumer.receive())

    trace = penstock.trace("orders:0:0")

    assert trace.latency_ms("default") == 36_012
    assert "default: acked 36.012 s after publish; 1 delivery" in str(trace)


def test_moving_a_group_past_a_message_skips_it_and_moving_it_back_brings_it_again(
    penstock: TestBroker,
) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "billing")
    penstock.seek("orders", "billing", "earliest")
    penstock.publish("orders", b"hello")
    penstock.purge("orders", "billing")
    penstock.seek("orders", "billing", 0)

    trace = penstock.trace("orders:0:0")

    assert [(event.event, event.detail) for event in trace.events[1:-1]] == [
        ("skipped", "group moved to offset 1"),
        ("group moved", "to offset 0"),
    ]
    assert trace.latency_ms("billing") is None


def test_a_stream_groups_first_commit_past_a_message_settles_it(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"a", b"b", b"c"])
    consumer = penstock.consumer("orders", group="reader", kind="stream")
    consumer.receive(max_messages=3)
    consumer.commit()
    penstock.publish("orders", b"d")
    consumer.receive()
    consumer.commit()

    trace = penstock.trace("orders:0:0")

    assert [(event.event, event.detail) for event in trace.events[1:-1]] == [("committed", "up to offset 3")]


def test_a_journey_of_several_days_shows_the_day_of_each_event(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"hello")
    consumer = penstock.consumer("orders", consumer_id="worker-1")
    penstock.advance("30h")
    [message] = consumer.receive()
    message.extend("12h")
    penstock.advance("1h")
    message.nack(delay="2d")
    [message] = consumer.receive(wait="3d")
    message.ack()

    shown = lines(penstock, "orders:0:0")

    assert shown[5:10] == [
        "default: acked 3.3 d after publish; 2 deliveries",
        "  01-02 06:00:00.000     +30.0 h  delivered    worker-1, attempt 1",
        "  01-02 06:00:00.000     +30.0 h  extended     worker-1",
        "  01-02 07:00:00.000     +31.0 h  nacked       worker-1",
        "  01-04 07:00:00.000      +3.3 d  redelivered  worker-1, attempt 2",
    ]


def test_the_words_for_a_settlement_are_those_of_the_journal() -> None:
    assert (*events.HOW, "committed") == SETTLED
