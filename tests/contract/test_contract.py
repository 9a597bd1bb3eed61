"""What every broker does, sync or async, in memory or on disk.

Each claim in one test, in few words; the corners of each are in tests/unit.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest
from tests.staged import batch, stage

from penstock import Message
from penstock.errors import (
    AlreadySettled,
    Closed,
    GroupKindMismatch,
    InvalidName,
    InvalidValue,
    LeaseLost,
    OffsetOutOfRange,
    QueueFull,
    QueueNotFound,
    RestoreRefused,
    StagedMissing,
    TopicExists,
    TopicNotFound,
    TransactionAborted,
    TransactionNotOpen,
)
from penstock.model.info import DeliveryState
from penstock.model.schemas import NewSchema
from penstock.testing import TestBroker
from penstock.wire.records import decode_batch


@dataclass
class Order:
    id: int
    lines: list[str]


class Opener(Protocol):
    """The fixture ``world``."""

    def open(self) -> TestBroker: ...


def test_what_is_published_is_received(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=2)
    receipt = broker.publish("orders", b"one", key="k", headers={"h": "v"}, priority="high", partition=1)

    [message] = broker.consumer("orders", group="g").receive()

    assert (receipt.topic, receipt.partition, receipt.offset) == ("orders", 1, 0)
    assert (message.id, message.key, message.value) == (receipt.id, b"k", b"one")
    assert (message.headers, message.priority, message.attempt) == ({"h": "v"}, "high", 1)


def test_a_batch_is_published_in_order(broker: TestBroker) -> None:
    broker.create_topic("orders")

    receipts = broker.publish_batch("orders", [b"0", Message(b"1"), Message(b"2", delay="1h")])

    assert [receipt.offset for receipt in receipts] == [0, 1, None]
    assert [message.value for message in broker.read("orders")] == [b"0", b"1"]


def test_objects_and_text_are_published_and_read(broker: TestBroker) -> None:
    broker.create_topic("orders")
    order = Order(7, ["a book"])

    broker.publish("orders", json=order)
    broker.publish("orders", text="zwei Bücher")
    broker.publish_batch("orders", [Message(json={"id": 8, "lines": []}), Message(text="x")])
    with pytest.raises(InvalidValue, match="exactly one"):
        broker.publish("orders", b"x", text="x")
    first, second, third, fourth = broker.consumer("orders").receive(4)

    assert (first.json(Order), first.json()) == (order, {"id": 7, "lines": ["a book"]})
    assert (second.text, third.json(Order), fourth.text) == ("zwei Bücher", Order(8, []), "x")
    with pytest.raises(InvalidValue, match="JSON is malformed"):
        second.json()
    assert broker.peek("orders", 4)[0].json(Order) == order


def test_acked_is_done(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"0", b"1", b"2"])
    consumer = broker.consumer("orders")
    first, second, third = consumer.receive(3)

    first.ack()
    consumer.ack([second, third])

    assert consumer.receive(wait="1h") == []
    assert broker.depth("orders", "default") == 0


def test_a_message_block_answers(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"good", b"bad"])
    consumer = broker.consumer("orders", max_attempts=1)
    good, bad = consumer.receive(2)

    with good:
        pass
    with pytest.raises(ValueError, match="no good"):
        with bad:
            raise ValueError("no good")

    assert [letter.error for letter in broker.dead_letters("orders")] == ["ValueError: no good"]
    assert broker.depth("orders", "default") == 0


def test_a_loop_over_a_consumer_ends_with_it(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"0", b"1"])
    consumer = broker.consumer("orders")
    seen = []

    for message in consumer:
        with message:
            seen.append(message.value)
        if len(seen) == 2:
            consumer.close()

    assert seen == [b"0", b"1"]


def test_an_unanswered_message_comes_again(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    consumer = broker.consumer("orders", visibility_timeout="30s")
    [message] = consumer.receive()
    message.extend("40s")

    assert consumer.receive(wait="39s") == []
    [again] = consumer.receive(wait="1s")
    with pytest.raises(LeaseLost):
        message.ack()

    assert again.attempt == 2


def test_a_failing_message_is_retried_and_then_buried(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"poison", key="k", headers={"own": "1"})
    consumer = broker.consumer("orders", backoff=["1s", "10s"])

    waits = []
    for _ in range(4):
        began_ms = broker.clock.steady_ms()
        [message] = consumer.receive(wait="1h")
        waits.append(broker.clock.steady_ms() - began_ms)
        message.nack(error=KeyError("x"))

    assert waits == [0, 1000, 10_000, 10_000]
    [letter] = broker.dead_letters("orders")
    assert (letter.attempts, letter.source, letter.reason) == (4, "orders:0:0", "nacked")
    assert (letter.message.key, letter.message.value) == (b"k", b"poison")
    assert letter.message.headers["own"] == "1"
    assert broker.redrive("orders", dry_run=True).matched == 1
    assert broker.redrive("orders").redriven == 1
    assert [message.value for message in consumer.receive()] == [b"poison"]


def test_a_rejected_message_is_buried_at_once(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    consumer = broker.consumer("orders")

    consumer.receive()[0].reject("not JSON")

    assert [letter.error for letter in broker.dead_letters("orders")] == ["not JSON"]


def test_a_second_answer_is_refused(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    [message] = broker.consumer("orders").receive()
    message.ack()

    with pytest.raises(AlreadySettled):
        message.ack()


def test_groups_are_independent(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"0", b"1"])
    one, other = broker.consumer("orders", group="a"), broker.consumer("orders", group="b", start="latest")
    one.ack(one.receive(2))
    broker.publish("orders", b"2")

    assert [message.value for message in other.receive(10)] == [b"2"]
    assert [broker.depth("orders", name) for name in broker.groups("orders")] == [1, 1]


def test_the_highest_lane_is_first(broker: TestBroker) -> None:
    broker.create_topic("orders")
    for lane in ("low", "normal", "high"):
        broker.publish("orders", lane.encode(), priority=lane)

    assert [message.value for message in broker.consumer("orders").receive(3)] == [b"high", b"normal", b"low"]


def test_equal_keys_of_an_ordered_group_wait_for_each_other(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [Message(value, key=value[:1]) for value in (b"r1", b"r2", b"b1")])
    consumer = broker.consumer("orders", ordered=True)

    first = consumer.receive(10)
    assert [message.value for message in first] == [b"r1", b"b1"]
    first[0].ack()
    assert [message.value for message in consumer.receive(10)] == [b"r2"]


def test_a_repeat_within_the_window_is_a_duplicate(broker: TestBroker) -> None:
    broker.create_topic("orders")
    first = broker.publish("orders", b"x", dedup_id="a")

    assert broker.publish("orders", b"x", dedup_id="a").offset == first.offset
    broker.advance("5m")
    assert not broker.publish("orders", b"x", dedup_id="a").duplicate


def test_a_message_has_the_key_and_the_headers_that_it_was_published_with(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x", key="anna", headers={"colour": "blue"})

    [message] = broker.consumer("orders").receive()

    assert (message.key, message.value, message.headers) == (b"anna", b"x", {"colour": "blue"})


def test_a_message_that_was_given_back_comes_again_after_its_delay(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    consumer = broker.consumer("orders")

    consumer.receive()[0].nack(delay="10s")

    assert consumer.receive(wait="9s") == []
    [again] = consumer.receive(wait="1s")
    assert (again.value, again.attempt) == (b"x", 2)
    again.ack()
    assert broker.depth("orders", "default") == 0


def test_a_message_goes_to_the_dead_letter_topic_after_its_last_attempt_and_back(broker: TestBroker) -> None:
    broker.create_topic("failed")
    broker.create_topic("orders", dead_letter_topic="failed")
    broker.publish("orders", b"poison", key="anna")
    consumer = broker.consumer("orders", max_attempts=2)

    for attempt in (1, 2):
        [message] = consumer.receive(wait="1m")
        assert message.attempt == attempt
        message.nack(delay="0s")

    assert consumer.receive(wait="1m") == []
    assert broker.depth("orders", "default") == 0
    letters = broker.consumer("failed", visibility_timeout="1s")
    assert [(letter.key, letter.value) for letter in letters.receive()] == [(b"anna", b"poison")]
    broker.advance("1s")
    assert broker.redrive("orders").redriven == 1
    assert [(message.value, message.attempt) for message in consumer.receive()] == [(b"poison", 1)]


def test_equal_keys_of_an_ordered_group_are_delivered_one_after_the_other(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [Message(value, key=value[:1]) for value in (b"r1", b"r2", b"b1")])
    consumer = broker.consumer("orders", ordered=True)

    [red], [blue] = consumer.receive(), consumer.receive()

    assert (red.value, blue.value, consumer.receive()) == (b"r1", b"b1", [])
    red.ack()
    assert [message.value for message in consumer.receive()] == [b"r2"]


def test_what_is_purged_is_not_delivered(broker: TestBroker) -> None:
    broker.create_topic("orders")
    consumer = broker.consumer("orders")
    broker.publish_batch("orders", [b"0", b"1", b"2"])

    assert broker.purge("orders", "default") == 3
    broker.publish("orders", b"3")

    assert [message.value for message in consumer.receive(10)] == [b"3"]


def test_what_outlived_its_time_is_not_delivered(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [Message(b"short", ttl="1s"), Message(b"long", ttl="1h")])
    broker.advance("1s")

    assert [message.value for message in broker.consumer("orders").receive(10)] == [b"long"]


def test_a_delayed_message_comes_when_it_is_due(broker: TestBroker) -> None:
    broker.create_topic("orders")
    kept = broker.publish("orders", b"kept", delay="30m")
    gone = broker.publish("orders", b"gone", delay="20m")
    moved = broker.publish("orders", b"moved", deliver_at=datetime(2026, 1, 1, 9, tzinfo=UTC))
    consumer = broker.consumer("orders", visibility_timeout="10h")

    assert broker.cancel(gone.id) == "cancelled"
    assert broker.reschedule(moved.id, delay="40m")
    assert broker.scheduled_count("orders") == len(broker.scheduled("orders")) == 2
    assert [message.value for message in consumer.receive(10, wait="1h")] == [b"kept"]
    assert broker.clock.steady_ms() - kept.timestamp == 1_800_000
    assert [message.value for message in consumer.receive(10, wait="1h")] == [b"moved"]
    assert broker.cancel(kept.id) == "delivered"


def test_a_message_with_a_delay_waits_for_its_time(broker: TestBroker) -> None:
    broker.create_topic("orders")
    consumer = broker.consumer("orders")
    broker.publish("orders", b"later", delay="15m")
    broker.publish("orders", b"now")

    consumer.receive(10)[0].ack()

    assert consumer.receive(10, wait="899s") == []
    assert [message.value for message in consumer.receive(10, wait="1s")] == [b"later"]


def test_a_recurring_message_comes_again_and_again(broker: TestBroker) -> None:
    broker.create_topic("orders")
    schedule_id = broker.schedule("orders", b"tick", cron="*/20 * * * *", timezone="Europe/Berlin")

    broker.advance("1h")
    assert broker.cancel(schedule_id) == "cancelled"
    broker.advance("1h")

    assert len(broker.read("orders")) == 3


def test_a_group_can_be_moved_and_purged(broker: TestBroker) -> None:
    broker.create_topic("orders")
    for number in range(4):
        broker.publish("orders", b"%d" % number)
        broker.advance("1s")
    consumer = broker.consumer("orders")
    consumer.ack(consumer.receive(4))

    broker.seek("orders", "default", 3)
    assert [message.value for message in consumer.receive(10)] == [b"3"]
    broker.seek("orders", "default", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=2))
    assert [message.value for message in consumer.receive(10)] == [b"2", b"3"]
    broker.seek("orders", "default", "earliest")
    assert broker.describe_group("orders", "default").lag_seconds == 4
    assert broker.purge("orders", "default") == 4
    assert consumer.receive() == []


def test_a_group_tells_how_it_is_getting_on(broker: TestBroker) -> None:
    broker.create_topic("orders")
    for number in range(20):
        broker.publish("orders", b"%d" % number)
    consumer = broker.consumer("orders", consumer_id="worker-1", backoff=["1m"])
    first, *others = consumer.receive(20)
    consumer.ack(others)
    first.nack(error=ValueError("no price"))
    broker.advance("20s")

    info = broker.describe_group("orders", "default")

    oldest = info.oldest_unacked
    assert oldest is not None
    assert (oldest.id, oldest.attempts, oldest.failures) == ("orders:0:0", 1, 1)
    assert (oldest.error, oldest.age_seconds, oldest.due_seconds) == ("ValueError: no price", 20, 40)
    assert (info.verdict.word, info.verdict.message) == ("blocked", "orders:0:0")
    assert "everything else is settled" in str(info.verdict)
    assert (info.rates.acked, info.drain_seconds) == (0, None)


def test_dead_letters_are_counted_by_error(broker: TestBroker) -> None:
    broker.create_topic("orders")
    for number in range(3):
        broker.publish("orders", b"%d" % number)
    for message in broker.consumer("orders", max_attempts=1).receive(3):
        message.nack(error=f"row {int(message.value) // 2} is bad" if message.value < b"2" else "no price")

    rows, price = broker.dead_letter_errors("orders")

    assert (rows.count, rows.error, rows.groups) == (2, "row 0 is bad", ["default"])
    assert (price.count, price.error, price.source) == (1, "no price", "orders:0:2")
    assert broker.redrive("orders", error=rows.fingerprint).redriven == 2
    assert broker.dead_letter_errors() == [price]


def test_a_broker_tells_its_size(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=3)
    broker.publish("orders", b"x")
    broker.publish("orders", b"x", delay="1h")
    broker.advance("5s")

    info = broker.stats()

    assert (info.topics, info.partitions, info.messages, info.scheduled) == (1, 3, 1, 1)
    assert (info.published, info.uptime_seconds) == (1, 5)


def test_a_message_that_is_not_due_has_a_trace(broker: TestBroker) -> None:
    broker.create_topic("orders")
    identity = broker.publish("orders", b"x", delay="1h").schedule_id
    assert identity is not None
    assert broker.cancel(identity) == "cancelled"

    trace = broker.trace(identity)

    assert (trace.id, [event.event for event in trace.events]) == (identity, ["scheduled", "cancelled"])


def test_a_full_topic_refuses(broker: TestBroker) -> None:
    broker.create_topic("orders", depth_max=1)
    consumer = broker.consumer("orders")
    broker.publish("orders", b"0")

    with pytest.raises(QueueFull):
        broker.publish("orders", b"1")
    consumer.ack(consumer.receive())
    assert broker.publish("orders", b"1").offset == 1


def test_an_ack_may_publish(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.create_topic("invoices")
    broker.publish("orders", b"x")
    consumer = broker.consumer("orders")
    [message] = consumer.receive()

    with pytest.raises(InvalidName):
        consumer.ack(message, publish=[("../invoices", Message(b"y"))])
    consumer.ack(message, publish=[("invoices", Message(b"y")), ("mails", Message(b"z"))])

    assert [stored.value for stored in broker.read("invoices")] == [b"y"]
    assert [stored.value for stored in broker.read("mails")] == [b"z"], "it was created by its first message"
    assert broker.depth("orders", "default") == 0


def test_at_most_once_is_settled_on_delivery(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    consumer = broker.consumer("orders", delivery="at-most-once")

    assert len(consumer.receive()) == 1
    assert consumer.receive(wait="1h") == []


def test_a_stream_group_reads_in_order_and_commits(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=2)
    broker.publish_batch("orders", [Message(b"%d" % n, partition=n % 2) for n in range(6)])
    first = broker.consumer("orders", group="s", kind="stream", consumer_id="a")
    messages = first.receive(10)
    first.commit()
    with pytest.raises(GroupKindMismatch):
        messages[0].nack()
    second = broker.consumer("orders", group="s", kind="stream", consumer_id="b")
    for _ in range(2):
        first.receive()
        second.receive()

    assert sorted(first.assignment + second.assignment) == [0, 1]
    assert broker.depth("orders", "s") == 0
    assert sorted(message.value for message in messages) == [b"%d" % n for n in range(6)]


def test_stream_consumers_that_wait_hear_of_a_rebalance_and_commit_what_is_left(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=2)
    broker.publish_batch("orders", [Message(b"%d" % n, partition=n % 2) for n in range(6)])
    first = broker.consumer("orders", group="s", kind="stream", consumer_id="a")
    assert len(first.receive(10, wait="1s")) == 6
    assert first.assignment == [0, 1]
    second = broker.consumer("orders", group="s", kind="stream", consumer_id="b")

    first.receive(wait="1s")
    assert len(first.assignment) == 1
    first.commit()  # Of the partition that it has kept.
    again = second.receive(10, wait="1s")

    assert sorted(first.assignment + second.assignment) == [0, 1]
    assert {message.partition for message in again} == set(second.assignment)
    second.commit()
    assert broker.depth("orders", "s") == 0


def test_a_producer_is_idempotent(broker: TestBroker) -> None:
    broker.create_topic("orders")
    producer = broker.producer(compression="zstd")

    assert [producer.publish("orders", b"x" * 100).offset for _ in range(3)] == [0, 1, 2]
    assert producer.producer_id != broker.producer().producer_id


def test_gomqs_words(broker: TestBroker) -> None:
    queue = broker.queue("orders")
    queue.publish(b"x")
    assert queue.depth() == queue.stats().messages == 1
    queue.subscribe().receive()[0].ack()
    assert queue.purge() == 0
    news = broker.topic("news")
    reader = news.subscribe("reader")
    news.publish(b"y")
    assert [message.value for message in reader.receive()] == [b"y"]
    assert news.subscriber_count() == 1
    news.unsubscribe("reader")
    assert news.subscriber_count() == 0


def test_a_trace_tells_the_journey(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"x", delay="1s")
    consumer = broker.consumer("orders", consumer_id="worker", backoff=["1s"])
    consumer.receive(wait="1s")[0].nack(error="no")
    consumer.receive(wait="1s")[0].ack()

    trace = broker.trace("orders", partition=0, offset=0)

    assert [event.event for event in trace.events] == [
        "scheduled", "published", "delivered", "nacked", "redelivered", "acked", "retained until",
    ]  # fmt: skip


def test_looking_changes_nothing(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"%d" % number for number in range(5)])
    broker.create_group("orders", "g")

    assert [message.value for message in broker.peek("orders", 2)] == [b"3", b"4"]
    assert [message.value for message in broker.read("orders", offset=1, limit=2)] == [b"1", b"2"]
    assert broker.depth("orders", "g") == 5


def test_topics_come_and_go(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.alter_topic("orders", partitions=3)
    assert (broker.topics(), len(broker.describe_topic("orders").partitions)) == (["orders"], 3)
    with pytest.raises(InvalidName):
        broker.create_topic("../orders")

    broker.delete_topic("orders")

    assert broker.topics() == []
    with pytest.raises(TopicNotFound):
        broker.read("orders")


def test_whoever_publishes_to_a_missing_topic_creates_it(broker: TestBroker) -> None:
    assert broker.publish("orders", b"x").id == "orders:0:0"
    assert [receipt.offset for receipt in broker.publish_batch("mails", [b"a", b"b"])] == [0, 1]
    broker.schedule("reports", b"r", cron="0 9 * * *")

    assert broker.topics() == ["mails", "orders", "reports"]


def test_whoever_consumes_a_missing_topic_creates_it(broker: TestBroker) -> None:
    consumer = broker.consumer("orders", group="g")
    broker.publish("orders", b"x")

    assert [message.value for message in consumer.receive(wait="1s")] == [b"x"]
    assert broker.groups("orders") == ["g"]


def test_a_topic_that_was_deleted_is_created_again_by_the_next_publish(broker: TestBroker) -> None:
    broker.publish("orders", b"old")
    broker.delete_topic("orders")

    broker.publish("orders", b"new")

    assert [message.value for message in broker.read("orders")] == [b"new"]


def test_looking_at_a_missing_topic_does_not_create_it(broker: TestBroker) -> None:
    with pytest.raises(TopicNotFound):
        broker.peek("orders")
    with pytest.raises(TopicNotFound):
        broker.describe_topic("orders")
    with pytest.raises(TopicNotFound):
        broker.create_group("orders", "g")

    assert broker.topics() == []


def test_a_topic_may_be_created_twice_if_that_is_said(broker: TestBroker) -> None:
    broker.create_topic("orders", exist_ok=True, partitions=2)
    broker.publish("orders", b"x", partition=1)

    broker.create_topic("orders", exist_ok=True, partitions=3)

    assert broker.describe_topic("orders").settings.partitions == 2, "it stays as it is"
    with pytest.raises(TopicExists):
        broker.create_topic("orders")


def test_internal_topics_are_topics_that_are_not_listed(broker: TestBroker) -> None:
    broker.create_topic("__pipelines", compact=True)

    broker.publish("__pipelines", b"x", key="archive")

    assert (broker.topics(), broker.stats().topics) == ([], 0)
    assert [message.value for message in broker.read("__pipelines")] == [b"x"]
    with pytest.raises(InvalidName):
        broker.create_topic("__others")


def test_a_closed_broker_says_so(broker: TestBroker) -> None:
    broker.create_topic("orders")
    consumer = broker.consumer("orders")
    broker.close()

    with pytest.raises(Closed):
        broker.publish("orders", b"x")
    with pytest.raises(Closed):
        consumer.receive()


# Only on disk.


def test_everything_is_there_after_a_restart(world: Opener) -> None:
    with world.open() as broker:
        broker.create_topic("orders", partitions=2)
        broker.publish_batch("orders", [Message(b"%d" % number, partition=0) for number in range(4)])
        broker.publish("orders", b"later", delay="1h", partition=1, dedup_id="later")
        consumer = broker.consumer("orders", max_attempts=2, backoff=["1m"], visibility_timeout="10h")
        messages = consumer.receive(4)
        messages[0].ack()
        messages[1].nack(error="no")
        messages[2].reject("never")

    with world.open() as broker:
        consumer = broker.consumer("orders")
        assert [(m.value, m.attempt) for m in consumer.receive(10)] == [(b"3", 1)]
        assert [(m.value, m.attempt) for m in consumer.receive(10, wait="1m")] == [(b"1", 2)]
        assert [letter.message.value for letter in broker.dead_letters("orders")] == [b"2"]
        assert broker.publish("orders", b"later", dedup_id="later").duplicate
        assert [m.value for m in consumer.receive(10, wait="1h")] == [b"later"]
        names = [event.event for event in broker.trace("orders", 0, 0).events]
        assert names[:3] == ["published", "delivered", "acked"]


def test_what_one_kind_of_broker_wrote_the_other_reads(tmp_path: object, world: Opener) -> None:
    with world.open() as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")

    with TestBroker.open(str(tmp_path)) as broker:
        assert [message.value for message in broker.read("orders")] == [b"x"]


def test_a_log_is_fetched_as_it_lies_and_a_reader_says_how_far_it_is(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=2)
    for number in range(3):
        broker.publish("orders", b"%d" % number, partition=1)

    found = broker.fetch("orders", 1, broker.offsets("orders", "earliest")[1])
    broker.commit_offsets("orders", "query", {1: 2})

    size = len(found.batches) // 3
    values = [decode_batch(found.batches, at, 0, 3)[0].value for at in (0, size, 2 * size)]
    assert values == [b"0", b"1", b"2"]
    assert (found.start, found.end, found.next_offset) == (0, 3, 3)
    assert broker.offsets("orders", "latest") == {0: 0, 1: 3}
    assert broker.describe_group("orders", "query").lag == 1
    assert broker.fetch("orders", 1, 0, journal=True).batches
    with pytest.raises(OffsetOutOfRange):
        broker.fetch("orders", 1, 4)


def test_what_retention_deleted_is_put_back_for_a_group(broker: TestBroker) -> None:
    broker.create_topic("orders", retention="1h")
    broker.publish_batch("orders", [b"0", b"1"])
    gone = broker.fetch("orders", 0, 0).batches
    broker.advance("2h")
    broker.publish("orders", b"2")
    broker.create_group("orders", "audit")

    begun = broker.begin_restore("orders", 0, 0)
    assert (begun.start, begun.end) == (0, 2)
    assert broker.restore("orders", 0, begun.restore, gone) == 2
    broker.finish_restore("orders", 0, begun.restore, "audit", hold="1d")

    broker.advance("2h")
    received = broker.consumer("orders", group="audit").receive(10)
    assert [message.value for message in received] == [b"0", b"1", b"2"]
    with pytest.raises(RestoreRefused, match="begin again"):
        broker.restore("orders", 0, begun.restore, gone)


def test_what_became_of_messages_is_told_in_ranges(broker: TestBroker) -> None:
    broker.create_topic("orders", partitions=1)
    consumer = broker.consumer("orders", group="g")
    broker.publish_batch("orders", [b"a", b"b", b"c"])
    consumer.ack(consumer.receive(2))

    assert broker.delivery_states("orders", "g", 0, 0, 10) == [
        DeliveryState(0, 2, "acked", 1),
        DeliveryState(2, 3, "waiting", 0),
    ]


def test_what_is_staged_is_published_once_by_version(world: Opener) -> None:
    with world.open() as broker:
        broker.create_topic("orders", partitions=2)
        staged = stage(broker, "task", (1, batch([b"a", b"b"])), (0, batch([b"c"])))
        assert broker.published_version("orders", "job") is None

        first = broker.publish_staged("orders", "job", 3, staged)
        again = broker.publish_staged("orders", "job", 3, staged)

        assert (first.published, first.duplicate) == (3, False)
        assert (again.published, again.duplicate) == (0, True)
        with pytest.raises(StagedMissing, match="run the job again"):
            broker.publish_staged("orders", "job", 4, {"other": [(0, 1)]})
    with world.open() as broker:
        assert broker.published_version("orders", "job") == 3
        assert [message.value for message in broker.read("orders", partition=1)] == [b"a", b"b"]
        assert [message.value for message in broker.read("orders", partition=0)] == [b"c"]


def test_messages_have_no_headers_but_those_they_were_published_with(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.publish("orders", b"ttl", headers={"own": "1"}, ttl="1h")
    broker.publish("orders", b"dedup", headers={"own": "1"}, dedup_id="a")
    broker.publish("orders", b"delay", headers={"own": "1"}, delay="1m")
    broker.publish("orders", b"named", headers={"x-expires-at": "mine"}, ttl="1h")
    assert [waiting.headers for waiting in broker.scheduled("orders")] == [{"own": "1"}]

    received = broker.consumer("orders", max_attempts=1).receive(3)
    for message in received[:2]:
        message.nack()
    received[2].ack()
    later = broker.consumer("orders").receive(1, wait="1m")

    assert [message.headers for message in received] == [{"own": "1"}] * 2 + [{"x-expires-at": "mine"}]
    assert [message.headers for message in later] == [{"own": "1"}]
    letters = [letter.message.headers for letter in broker.dead_letters("orders")]
    internal = {"x-expires-at", "x-dedup-id", "x-schedule-id", "x-redrive-group"}
    assert [internal & letter.keys() for letter in letters] == [set(), set()]
    assert [letter["own"] for letter in letters] == ["1", "1"]


def test_whether_a_topic_exists_is_known(broker: TestBroker) -> None:
    broker.create_topic("orders")

    assert broker.topic_exists("orders")
    assert not broker.topic_exists("invoices")
    broker.delete_topic("orders")
    assert not broker.topic_exists("orders")


def test_queues_are_listed_and_got_apart_from_topics(broker: TestBroker) -> None:
    broker.queue("jobs").publish(b"1")
    broker.topic("news")

    assert broker.queues() == ["jobs"]
    assert broker.topics() == ["jobs", "news"]
    assert broker.get_queue("jobs").depth() == 1
    assert broker.get_topic("news").name == "news"
    for name in ("news", "nothing"):
        with pytest.raises(QueueNotFound, match=name):
            broker.get_queue(name)
    with pytest.raises(TopicNotFound):
        broker.get_topic("nothing")
    with pytest.raises(QueueNotFound):
        broker.delete_queue("news")
    broker.delete_queue("jobs")
    assert (broker.queues(), broker.topics()) == ([], ["news"])


def test_the_dead_letters_of_a_queue_are_in_a_queue(broker: TestBroker) -> None:
    jobs = broker.queue("jobs", dead_letter_topic="failed-jobs")
    failed = broker.get_queue("failed-jobs")
    jobs.publish(b"1")

    jobs.subscribe().receive()[0].reject("damaged")

    with failed.subscribe() as consumer:
        [letter] = consumer.receive(wait="30s")
        assert (letter.value, letter.headers["x-error"]) == (b"1", "damaged")
        letter.ack()
    assert failed.depth() == 0


def test_one_consumer_takes_messages_of_several_topics_in_turn(broker: TestBroker) -> None:
    for topic in ("a", "b", "c"):
        broker.create_topic(topic)
        broker.publish_batch(topic, [b"%s%d" % (topic.encode(), number) for number in range(3)])

    with broker.consumer_of_topics(["a", "b"], group="g") as consumer:
        some = [consumer.receive()[0] for _ in range(4)]
        rest = [*consumer.receive(10), *consumer.receive(10)]
        consumer.ack([*some, *rest])
        broker.publish("b", b"late")
        [late] = consumer.receive(10)

        assert sorted(message.topic for message in some) == ["a", "a", "b", "b"]
        assert sorted(message.value for message in [*some, *rest]) == [
            b"a0",
            b"a1",
            b"a2",
            b"b0",
            b"b1",
            b"b2",
        ]
        assert (late.value, consumer.topics) == (b"late", ["a", "b"])
    assert (broker.depth("a", "g"), broker.depth("b", "g")) == (0, 1)
    for wrong in ("a", ()):
        with pytest.raises(InvalidValue, match="list of names"):
            broker.consumer_of_topics(wrong)


def test_messages_of_one_topic_are_settled_although_those_of_another_are_lost(broker: TestBroker) -> None:
    for topic in ("a", "b"):
        broker.create_topic(topic)
        broker.publish(topic, topic.encode())
    with broker.consumer_of_topics(["a", "b"], group="g", visibility_timeout="1s") as consumer:
        lost = consumer.receive()
        broker.advance("2s")
        held = consumer.receive()
        while held[0].topic == lost[0].topic:
            held = consumer.receive()

        with pytest.raises(LeaseLost):
            consumer.ack([*lost, *held])

        assert broker.depth(held[0].topic, "g") == 0


def test_a_list_is_not_the_name_of_a_topic(broker: TestBroker) -> None:
    broker.create_topic("a")

    with pytest.raises(InvalidName, match="name of one topic"):
        broker.consumer(["a", "b"])  # type: ignore[arg-type]


# Transactions.


def test_a_transaction_takes_effect_as_a_whole(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.create_topic("bills", partitions=2)
    broker.publish_batch("orders", [b"1", b"2", b"3"])
    consumer, reader = broker.consumer("orders"), broker.consumer("bills")
    first, second, third = consumer.receive(3)

    with broker.transaction("billing", timeout="5m") as transaction:
        receipt = transaction.publish("bills", b"a", key="k", headers={"h": "v"}, priority="high", ttl="1h")
        receipts = transaction.publish_batch("bills", [b"b", Message(b"c", partition=1)])
        transaction.ack(first)
        transaction.ack([second])

        assert (reader.receive(3), broker.read("bills")) == ([], [])
        assert broker.depth("orders", "default") == 3

    found = {message.id: message for message in reader.receive(3)}
    assert set(found) == {receipt.id, *(each.id for each in receipts)}
    assert (found[receipt.id].headers, found[receipt.id].priority) == ({"h": "v"}, "high")
    assert broker.depth("orders", "default") == 1
    assert [event.event for event in broker.trace(first.id).events].count("acked") == 1
    with pytest.raises(AlreadySettled):
        first.ack()
    third.ack()
    assert consumer.receive(wait="1h") == []


def test_an_aborted_transaction_leaves_nothing_and_its_messages_stay_held(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.create_topic("bills")
    broker.publish("orders", b"1")
    consumer = broker.consumer("orders")
    [message] = consumer.receive()

    with broker.transaction() as transaction:
        transaction.publish("bills", b"a")
        transaction.ack(message)
        transaction.abort()
    broker.publish("bills", b"b")

    assert [stored.value for stored in broker.read("bills")] == [b"b"]
    assert [received.value for received in broker.consumer("bills").receive(2)] == [b"b"]
    message.ack()
    assert broker.depth("orders", "default") == 0


def test_a_block_that_raises_aborts_its_transaction(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.create_topic("bills")
    broker.publish("orders", b"1")
    [message] = broker.consumer("orders").receive()

    with pytest.raises(ValueError, match="no good"), message, broker.transaction() as transaction:
        transaction.publish("bills", b"a")
        transaction.ack(message)
        raise ValueError("no good")
    with broker.transaction() as transaction:
        transaction.publish("bills", b"b")

    assert [stored.value for stored in broker.read("bills")] == [b"b"]
    assert broker.describe_group("orders", "default").nacked == 1
    with pytest.raises(TransactionNotOpen):
        transaction.publish("bills", b"c")


def test_a_transaction_that_takes_too_long_is_aborted(broker: TestBroker) -> None:
    broker.create_topic("bills")
    transaction = broker.transaction(timeout="10s")
    transaction.begin()
    transaction.publish("bills", b"a")
    broker.publish("bills", b"b")
    assert broker.read("bills") == []

    broker.advance("11s")

    assert [stored.value for stored in broker.read("bills")] == [b"b"]
    with pytest.raises(TransactionAborted):
        transaction.commit()


def test_a_second_transaction_of_an_id_aborts_the_first(broker: TestBroker) -> None:
    broker.create_topic("bills")
    first, second = broker.transaction("billing"), broker.transaction("billing")
    first.begin()
    first.publish("bills", b"a")

    with second:
        second.publish("bills", b"b")
        with pytest.raises(TransactionAborted):
            first.publish("bills", b"c")

    first.abort()
    assert [stored.value for stored in broker.read("bills")] == [b"b"]


def test_a_commit_fails_as_a_whole_if_an_acked_message_was_lost(broker: TestBroker) -> None:
    broker.create_topic("orders")
    broker.create_topic("bills")
    broker.publish_batch("orders", [b"1", b"2"])
    consumer = broker.consumer("orders", visibility_timeout="30s")
    [first] = consumer.receive()
    broker.advance("31s")
    [second] = consumer.receive()

    with pytest.raises(LeaseLost), broker.transaction() as transaction:
        transaction.publish("bills", b"a")
        transaction.ack([first, second])

    assert broker.read("bills") == []
    second.ack()
    assert broker.depth("orders", "default") == 1


def test_messages_of_a_transaction_have_no_delay(broker: TestBroker) -> None:
    broker.create_topic("bills")

    with broker.transaction() as transaction:
        with pytest.raises(InvalidValue, match="delay"):
            transaction.publish_batch("bills", [Message(b"a", delay="1h")])
        with pytest.raises(TransactionNotOpen):  # What failed may be there in part.
            transaction.commit()

    assert broker.read("bills") == []


def test_values_are_read_by_the_schema_of_their_topic(broker: TestBroker) -> None:
    broker.create_topic("orders")
    assert [value.json for value in broker.read_values("orders", [b"\0\0\0\0\1\x0e"])] == [None]
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    made = broker.register_schema("orders-value", NewSchema(schema=schema))
    head = b"\0" + made.id.to_bytes(4, "big")

    good, bad, plain = broker.read_values("orders", [head + b"\x0e", head, b"{}"])

    assert (good.version, good.type, good.json, good.problem) == (1, "AVRO", '{"id":7}', "")
    assert (bad.json, plain.json) == (None, None)
    assert "ends too early" in bad.problem
    assert "AVRO values begin with a zero byte" in plain.problem
    with pytest.raises(TopicNotFound):
        broker.read_values("payments", [b"x"])
