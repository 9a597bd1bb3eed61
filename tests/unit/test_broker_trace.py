"""Trace: the whole journey of a message, from the journal and the log."""

import pytest

from penstock import Trace
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def names(trace: Trace) -> list[str]:
    return [event.event for event in trace.events]


def test_a_message_that_failed_and_was_acked_tells_it_all(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="7d")
    receipt = penstock.publish("orders", b"body", key="k", priority="high")
    published_ms = receipt.timestamp
    penstock.advance("1s")
    consumer = penstock.consumer("orders", group="g", consumer_id="worker-1", backoff=["10s"])
    consumer.receive()[0].nack(error=ValueError("bad"))
    [again] = consumer.receive(wait="10s")
    penstock.advance("2s")
    again.ack()

    trace = penstock.trace("orders", partition=0, offset=0)

    assert (trace.id, trace.key) == ("orders:0:0", b"k")
    story = [(e.event, e.time_ms - published_ms, e.group, e.consumer, e.attempt) for e in trace.events]
    assert story == [
        ("published", 0, "", "", 0),
        ("delivered", 1000, "g", "worker-1", 1),
        ("nacked", 1000, "g", "worker-1", 1),
        ("redelivered", 11_000, "g", "worker-1", 2),
        ("acked", 13_000, "g", "worker-1", 2),
        ("retained until", 7 * 86_400_000, "", "", 0),
    ]
    assert trace.events[2].detail == "ValueError: bad"
    assert "nacked" in trace.events[3].detail
    assert "4 bytes" in trace.events[0].detail
    assert "high" in trace.events[0].detail


def test_a_message_may_be_named_by_its_id(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    receipt = penstock.publish("orders", b"x", partition=2)

    assert penstock.trace(receipt.id) == penstock.trace("orders", 2, 0)


def test_a_delayed_message_tells_when_it_was_accepted(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", delay="1h")
    penstock.advance("1h")

    first, second, *_ = penstock.trace("orders", 0, 0).events

    assert (first.event, second.event) == ("scheduled", "published")
    assert second.time_ms - first.time_ms == 3_600_000


def test_a_timeout_and_a_release_say_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    with penstock.consumer("orders", consumer_id="slow", visibility_timeout="10s") as slow:
        slow.receive()
        penstock.advance("10s")
        slow.receive()
    penstock.consumer("orders", consumer_id="other").receive()

    trace = penstock.trace("orders", 0, 0)

    assert names(trace) == [
        "published", "delivered", "timed out", "redelivered", "released", "redelivered", "retained until",
    ]  # fmt: skip
    redeliveries = [event for event in trace.events if event.event == "redelivered"]
    assert [(event.consumer, event.attempt) for event in redeliveries] == [("slow", 2), ("other", 2)]
    assert ["visibility timeout" in redeliveries[0].detail, "closed" in redeliveries[1].detail] == [
        True,
        True,
    ]


def test_dead_letter_and_redrive_are_told_on_both_sides(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders", group="g").receive()[0].reject("no good")
    penstock.redrive("orders")

    origin = penstock.trace("orders", 0, 0)
    assert names(origin) == [
        "published", "delivered", "rejected", "dead-lettered", "redriven", "retained until",
    ]  # fmt: skip
    assert origin.events[2].detail == "no good"
    assert "orders.dlq" in origin.events[3].detail
    letter = penstock.trace("orders.dlq", 0, 0)
    assert "redriven" in names(letter)
    back = penstock.trace("orders", 0, 1)
    assert "redriven from orders:0:0" in back.events[0].detail


def test_every_group_tells_its_own_part(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders", group="a").receive()[0].ack()
    penstock.consumer("orders", group="b").receive()[0].nack(delay="1h")

    events = penstock.trace("orders", 0, 0).events

    assert [e.event for e in events if e.group == "a"] == ["delivered", "acked"]
    assert [e.event for e in events if e.group == "b"] == ["delivered", "nacked"]


def test_a_message_of_a_range_tells_only_its_own_story(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 5)
    messages = penstock.consumer("orders").receive(5)
    messages[2].nack(delay="1h")
    penstock.consumer("orders")
    messages[0].ack()

    assert names(penstock.trace("orders", 0, 0))[1:-1] == ["delivered", "acked"]
    assert names(penstock.trace("orders", 0, 1))[1:-1] == ["delivered"]
    assert names(penstock.trace("orders", 0, 2))[1:-1] == ["delivered", "nacked"]


def test_an_extended_and_an_expired_message_say_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.publish("orders", b"y", ttl="1s")
    penstock.consumer("orders").receive()[0].extend("5m")
    penstock.advance("1s")
    penstock.consumer("orders").receive()

    assert "extended" in names(penstock.trace("orders", 0, 0))
    assert "expired" in names(penstock.trace("orders", 0, 1))


def test_a_commit_of_a_stream_group_is_told(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 3)
    consumer = penstock.consumer("orders", kind="stream")
    consumer.receive(3)
    consumer.commit()

    assert "committed" in names(penstock.trace("orders", 0, 1))


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_trace_survives_a_restart(how: str) -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    consumer = broker.consumer("orders", backoff=["1s"])
    consumer.receive()[0].nack(error="no")
    consumer.receive(wait="1s")[0].ack()
    before = broker.trace("orders", 0, 0)
    broker.close() if how == "closed" else disk.kill()

    with TestBroker.open("data", files=disk, clock=clock) as broker:
        assert broker.trace("orders", 0, 0) == before


@pytest.mark.parametrize("back", [False, True])
def test_a_trace_is_complete_when_the_wall_clock_was_set(penstock: TestBroker, back: bool) -> None:
    penstock.create_topic("orders")
    consumer = penstock.consumer("orders")
    penstock.publish("orders", b"before")
    penstock.clock.step_wall("5h", back=back)
    penstock.publish("orders", b"after")

    for message in consumer.receive(10):
        message.ack()

    for offset in (0, 1):
        assert names(penstock.trace("orders", 0, offset))[:3] == ["published", "delivered", "acked"]


def test_a_trace_reads_well(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", key="k")
    penstock.consumer("orders", consumer_id="worker-1").receive()[0].ack()

    text = str(penstock.trace("orders", 0, 0))

    for part in ("orders:0:0", "published", "delivered", "worker-1", "acked", "2026-01-01"):
        assert part in text


def test_a_place_that_is_not_in_the_log_has_no_trace(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")

    for offset in (1, 99, -1):
        with pytest.raises(OffsetOutOfRange):
            penstock.trace("orders", 0, offset)


@pytest.mark.parametrize("name", ["orders", "orders:0", "orders:x:0", "orders:0:0:0", "orders:0:²", ""])
def test_what_is_no_id_is_refused(penstock: TestBroker, name: str) -> None:
    penstock.create_topic("orders")

    with pytest.raises(InvalidValue, match="orders:0:7"):
        penstock.trace(name)


# Scheduled messages, by their schedule ids.


def test_a_message_that_is_not_due_is_traced_by_its_schedule_id(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    receipt = penstock.publish("orders", b"x", key="k", delay="1h")
    start_ms = penstock.clock.wall_ms()
    assert receipt.schedule_id is not None
    penstock.advance("10m")
    penstock.reschedule(receipt.schedule_id, delay="30m")

    trace = penstock.trace(receipt.schedule_id)

    assert (trace.id, trace.offset, trace.key) == ("orders:0:s0", -1, b"k")
    assert [(event.event, event.time_ms - start_ms) for event in trace.events] == [
        ("scheduled", 0),
        ("rescheduled", 600_000),
        ("due", 2_400_000),
    ]
    assert trace.events[0].detail == "for 2026-01-01 01:00:00 UTC"
    assert trace.events[1].detail == "for 2026-01-01 00:40:00 UTC"


def test_a_cancelled_message_says_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    receipt = penstock.publish("orders", b"x", delay="1h")
    assert receipt.schedule_id is not None
    penstock.cancel(receipt.schedule_id)

    trace = penstock.trace(receipt.schedule_id)

    assert names(trace) == ["scheduled", "cancelled"]
    assert (
        str(trace)
        == """\
orders:0:s0  no key

2026-01-01, UTC
  00:00:00.000    +0.000 s  scheduled  for 2026-01-01 01:00:00 UTC
  00:00:00.000    +0.000 s  cancelled"""
    )


def test_a_scheduled_message_that_was_published_is_traced_as_the_message_it_is(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"first")
    receipt = penstock.publish("orders", b"x", delay="1h")
    assert receipt.schedule_id is not None
    penstock.advance("1h")

    assert penstock.trace(receipt.schedule_id) == penstock.trace("orders:0:1")


def test_a_scheduled_message_that_retention_has_deleted_still_tells_that_it_was_published(
    penstock: TestBroker,
) -> None:
    penstock.create_topic("orders", retention="1h")
    receipt = penstock.publish("orders", b"x", delay="1m")
    assert receipt.schedule_id is not None
    penstock.advance("3h")
    assert penstock.read("orders") == []

    trace = penstock.trace(receipt.schedule_id)

    assert names(trace) == ["scheduled", "published"]
    assert trace.events[1].detail == "as orders:0:0"


def test_a_recurring_message_tells_every_time_it_came(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    identity = penstock.schedule("orders", b"tick", cron="0 * * * *", timezone="Europe/Berlin")
    penstock.advance("2h")

    trace = penstock.trace(identity)

    assert names(trace) == ["scheduled", "published", "published", "due"]
    assert trace.events[0].detail == "by cron 0 * * * *, Europe/Berlin"
    assert [event.detail for event in trace.events[1:3]] == ["as orders:0:0", "as orders:0:1"]
    assert str(trace).endswith("due 2026-01-01 03:00:00 UTC")


@pytest.mark.parametrize("partition", [0, 1])
def test_a_schedule_id_that_nobody_knows_is_refused(penstock: TestBroker, partition: int) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish("orders", b"x", delay="1h", partition=0)

    with pytest.raises(InvalidValue, match="nothing is scheduled"):
        penstock.trace(f"orders:{partition}:s7")


def test_a_message_that_expired_before_anybody_got_it_was_not_delivered(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", ttl="1s")
    consumer = penstock.consumer("orders", consumer_id="c")
    penstock.advance("2s")

    assert consumer.receive() == []

    trace = penstock.trace("orders", 0, 0)
    assert [(event.event, event.consumer) for event in trace.events[1:-1]] == [("expired", "")]
    assert "expired 2.000 s after publish; 0 deliveries" in str(trace)


def test_a_message_that_expired_after_a_nack_was_delivered_once(penstock: TestBroker) -> None:
    penstock.create_topic("orders", dead_letter_expired=True)
    penstock.publish("orders", b"x", ttl="10s")
    consumer = penstock.consumer("orders", backoff=["1m"])
    consumer.receive()[0].nack(error="no")
    penstock.advance("2m")

    assert consumer.receive() == []

    told = names(penstock.trace("orders", 0, 0))
    assert told[1:-1] == ["delivered", "nacked", "expired", "dead-lettered"]


def test_a_message_that_waits_for_its_key_was_not_delivered_yet(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", key="k")
    penstock.publish("orders", b"y", key="k")
    consumer = penstock.consumer("orders", ordered=True)
    [first] = consumer.receive(10)

    assert names(penstock.trace("orders", 0, 1))[1:-1] == ["set aside"]

    first.ack()
    consumer.receive(10)
    assert names(penstock.trace("orders", 0, 1))[1:-1] == ["set aside", "delivered"]


def test_in_a_cluster_a_message_is_replicated_in_the_epoch_of_its_batch(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"before it was a cluster")
    log = penstock._core.state.topics["orders"].partitions[0].log
    log.leader_epoch = 7  # As opening the partition on an owner sets it.
    penstock.publish("orders", b"x")
    log.leader_epoch = 8

    alone, stored = penstock.trace("orders", 0, 0).events, penstock.trace("orders", 0, 1).events

    assert [event.event for event in alone] == ["published", "retained until"]
    assert [event.event for event in stored] == ["published", "replicated", "retained until"]
    assert stored[1].detail == "in the store, committed in epoch 7"
