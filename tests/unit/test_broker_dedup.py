"""Dedup by the caller's id: within a window, over restarts, in batches, with the schedule."""

import pytest

from penstock import Message
from penstock.errors import QueueFull
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def test_a_repeat_within_the_window_is_answered_with_the_first_ones_place(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=4)
    first = penstock.publish("orders", b"one", key="a", dedup_id="order-1")

    repeat = penstock.publish("orders", b"other bytes", key="z", dedup_id="order-1")

    assert (repeat.partition, repeat.offset, repeat.duplicate) == (first.partition, first.offset, True)
    assert [message.value for message in penstock.read("orders")] == [b"one"]
    info = penstock.describe_topic("orders")
    assert (info.published, info.duplicates) == (1, 1)


def test_the_window_is_five_minutes_by_default_and_exact(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", dedup_id="a")

    penstock.advance("299999ms")
    assert penstock.publish("orders", b"x", dedup_id="a").duplicate
    penstock.advance("1ms")
    assert not penstock.publish("orders", b"x", dedup_id="a").duplicate
    assert penstock.publish("orders", b"x", dedup_id="a").duplicate


def test_the_window_may_be_chosen_and_changed(penstock: TestBroker) -> None:
    penstock.create_topic("orders", dedup_window="10s")
    penstock.publish("orders", b"x", dedup_id="a")
    penstock.advance("10s")
    assert not penstock.publish("orders", b"x", dedup_id="a").duplicate

    penstock.alter_topic("orders", dedup_window="1h")
    penstock.advance("30m")

    assert penstock.publish("orders", b"x", dedup_id="a").duplicate


def test_ids_of_different_topics_have_nothing_to_do_with_each_other(penstock: TestBroker) -> None:
    for name in ("orders", "invoices"):
        penstock.create_topic(name)
        assert not penstock.publish(name, b"x", dedup_id="a").duplicate


def test_repeats_within_one_batch_are_written_once(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    penstock.publish("orders", b"before", dedup_id="old")

    receipts = penstock.publish_batch(
        "orders",
        [
            Message(b"1", dedup_id="a"),
            Message(b"2"),
            Message(b"3", dedup_id="a", partition=2),
            Message(b"4", dedup_id="old"),
            Message(b"5", dedup_id="b", priority="high"),
            Message(b"6", dedup_id="b"),
        ],
    )

    assert [receipt.duplicate for receipt in receipts] == [False, False, True, True, False, True]
    assert receipts[2].id == receipts[0].id
    assert receipts[5].id == receipts[4].id
    assert sorted(message.value for message in penstock.read("orders")) == [b"1", b"2", b"5", b"before"]


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_ids_survive_a_restart_for_as_long_as_the_window(how: str) -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders", partitions=2)
    first = broker.publish("orders", b"x", dedup_id="a")
    broker.advance("4m")
    broker.publish_batch("orders", [Message(b"y", dedup_id="b"), Message(b"z", dedup_id="c", delay="1h")])
    if how == "closed":
        broker.close()
    else:
        disk.kill()

    with TestBroker.open("data", files=disk, clock=clock) as broker:
        repeat = broker.publish("orders", b"x", dedup_id="a")
        assert (repeat.duplicate, repeat.id) == (True, first.id)
        assert broker.publish("orders", b"z", dedup_id="c").duplicate
        broker.advance("1m")
        assert not broker.publish("orders", b"x", dedup_id="a").duplicate
        assert broker.publish("orders", b"y", dedup_id="b").duplicate


def test_a_repeat_of_a_scheduled_message_is_answered_with_its_schedule_id(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    first = penstock.publish("orders", b"x", delay="1m", dedup_id="a")

    repeat = penstock.publish("orders", b"x", delay="1m", dedup_id="a")
    at_once = penstock.publish("orders", b"x", dedup_id="a")

    assert (repeat.duplicate, repeat.schedule_id) == (True, first.schedule_id)
    assert (at_once.duplicate, at_once.schedule_id) == (True, first.schedule_id)
    assert penstock.scheduled_count("orders") == 1
    penstock.advance("1m")
    assert len(penstock.read("orders")) == 1


def test_a_scheduled_repeat_of_a_published_message_is_a_duplicate(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    first = penstock.publish("orders", b"x", dedup_id="a")

    repeat = penstock.publish("orders", b"x", delay="1m", dedup_id="a")

    assert (repeat.duplicate, repeat.offset, repeat.schedule_id) == (True, first.offset, None)
    assert penstock.scheduled_count("orders") == 0


def test_a_repeat_after_a_scheduled_message_was_delivered_is_still_one(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", delay="1m", dedup_id="a")
    penstock.advance("2m")

    assert penstock.publish("orders", b"x", dedup_id="a").duplicate
    assert len(penstock.read("orders")) == 1


def test_an_id_may_be_any_text(penstock: TestBroker) -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files, clock=penstock.clock) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", dedup_id="zażółć / \x00 ☃")

    with TestBroker.open("data", files=files, clock=penstock.clock) as broker:
        assert broker.publish("orders", b"x", dedup_id="zażółć / \x00 ☃").duplicate


def test_a_consumer_sees_the_id_as_a_header(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", dedup_id="a", headers={"own": "1"})

    [message] = penstock.consumer("orders").receive()

    assert message.headers == {"own": "1"}


def test_a_publish_that_fails_does_not_use_up_its_id(penstock: TestBroker) -> None:
    penstock.create_topic("orders", depth_max=1)
    penstock.publish("orders", b"first")

    with pytest.raises(QueueFull):
        penstock.publish("orders", b"x", dedup_id="a")
    consumer = penstock.consumer("orders")
    consumer.ack(consumer.receive())

    assert not penstock.publish("orders", b"x", dedup_id="a").duplicate


def test_an_id_in_the_batch_that_fills_a_segment_is_known_after_a_crash() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders", partitions=1, segment_bytes=4096)
    broker.publish("orders", bytes(3000))
    broker.publish("orders", bytes(3000), dedup_id="a")
    disk.kill()

    with TestBroker.open("data", files=disk, clock=clock) as again:
        assert again.publish("orders", b"x", dedup_id="a").duplicate


def test_a_repeat_is_answered_with_the_time_of_the_first(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    first = penstock.publish("orders", b"x", dedup_id="a")
    delayed = penstock.publish("orders", b"y", dedup_id="b", delay="1h")
    penstock.advance("10s")

    again = penstock.publish("orders", b"x", dedup_id="a")
    [in_a_batch] = penstock.publish_batch("orders", [Message(b"x", dedup_id="a")])
    delayed_again = penstock.publish("orders", b"y", dedup_id="b", delay="1h")

    assert (again.duplicate, again.timestamp) == (True, first.timestamp)
    assert (in_a_batch.duplicate, in_a_batch.timestamp) == (True, first.timestamp)
    assert (delayed_again.duplicate, delayed_again.timestamp) == (True, delayed.timestamp)


def test_a_message_without_a_key_is_placed_by_its_id(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=8, dedup_window="1m")
    first = {n: penstock.publish("orders", b"a", dedup_id=f"id-{n}").partition for n in range(40)}
    penstock.advance("2m")

    again = {n: penstock.publish("orders", b"a", dedup_id=f"id-{n}").partition for n in range(40)}

    assert first == again
    assert len(set(first.values())) > 4
    assert penstock.publish("orders", b"a", key="k", dedup_id="x").partition == (
        penstock.publish("orders", b"a", key="k", dedup_id="y").partition
    ), "a key comes first"
