"""What retention deleted, back for a group: and everything that hangs on a log's start stays right."""

from typing import Any

import pytest

from penstock import Message
from penstock.errors import GroupNotFound, InvalidBatch, OffsetOutOfRange, RestoreRefused
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker
from penstock.wire.records import encode_values, place_batch


def trimmed(
    files: MemoryFiles | None = None, clock: ManualClock | None = None, **options: Any
) -> tuple[TestBroker, bytes]:
    """A topic whose first 20 messages were deleted, 20 left; and the record batches of those."""
    broker = TestBroker.open("data" if files else None, files=files, clock=clock)
    broker.create_topic("orders", **{"retention": "1h", **options})
    publish(broker, 0, 20)
    gone = all_batches(broker)
    broker.advance("2h")
    publish(broker, 20, 40)
    assert start_of(broker) == 20
    return broker, gone


def publish(broker: TestBroker, start: int, end: int, **options: Any) -> None:
    for number in range(start, end, 2):
        broker.publish_batch("orders", [Message(b"%d" % each, **options) for each in (number, number + 1)])


def all_batches(broker: TestBroker) -> bytes:
    info = broker.describe_topic("orders").partitions[0]
    data, offset = b"", info.start
    while offset < info.end:
        fetched = broker.fetch("orders", 0, offset)
        data, offset = data + fetched.batches, fetched.next_offset
    return data


def until(data: bytes, offset: int) -> bytes:
    at = 0
    while int.from_bytes(data[at : at + 8], "big") < offset:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return data[:at]


def start_of(broker: TestBroker) -> int:
    return broker.describe_topic("orders").partitions[0].start


def restore(broker: TestBroker, gone: bytes, group: str = "audit", start: int = 0, **options: Any) -> None:
    begun = broker.begin_restore("orders", 0, start)
    broker.restore("orders", 0, begun.restore, gone)
    broker.finish_restore("orders", 0, begun.restore, group, **options)


def values(messages: Any) -> list[int]:
    return [int(message.value) for message in messages]


def test_a_group_gets_what_was_deleted_and_goes_on_with_the_rest() -> None:
    broker, gone = trimmed()
    broker.create_group("orders", "audit", start="latest")

    restore(broker, gone)

    consumer = broker.consumer("orders", group="audit")
    received = consumer.receive(100)
    assert values(received) == list(range(40))
    consumer.ack(received)
    publish(broker, 40, 42)
    assert values(consumer.receive(100)) == [40, 41]
    assert broker.describe_group("orders", "audit").lost == 0
    assert values(broker.read("orders", offset=0, limit=100)) == list(range(42))


def test_retention_waits_until_the_group_is_past_what_the_log_had() -> None:
    """Also for the live messages: they are older than the retention by the time the group gets there."""
    broker, gone = trimmed()
    broker.create_group("orders", "audit")
    restore(broker, gone)
    consumer = broker.consumer("orders", group="audit", visibility_timeout="12h")

    broker.advance("5h")

    assert start_of(broker) == 0
    received = consumer.receive(100)
    assert values(received) == list(range(40))
    consumer.ack(received[:39])
    broker.advance("2h")
    assert start_of(broker) == 20  # What the group is past has gone; one message of the rest is not settled.
    consumer.ack(received[39:])
    broker.advance("2m")
    assert start_of(broker) == 40
    assert broker.describe_group("orders", "audit").lost == 0


def test_a_hold_ends_with_its_time() -> None:
    broker, gone = trimmed()
    broker.create_group("orders", "audit")
    restore(broker, gone, hold="3h")

    broker.advance("170m")
    assert start_of(broker) == 0
    broker.advance("20m")

    assert start_of(broker) == 40
    assert broker.describe_group("orders", "audit").lost == 40


def test_a_hold_ends_with_its_group() -> None:
    broker, gone = trimmed()
    broker.create_group("orders", "audit")
    restore(broker, gone)

    broker.delete_group("orders", "audit")
    broker.advance("2m")

    assert start_of(broker) == 20


def test_a_hold_outlives_a_restart_with_and_without_a_snapshot() -> None:
    for clean in (True, False):
        files, clock = MemoryFiles(), ManualClock()
        broker, gone = trimmed(files, clock)
        broker.create_group("orders", "audit")
        restore(broker, gone, hold="10h")
        if clean:
            broker.close()
        else:
            broker._core.state.commit.close()
            broker._core.catalogue.close()

        with TestBroker.open("data", files=files, clock=clock) as broker:
            broker.advance("5h")
            assert start_of(broker) == 0
            assert values(broker.consumer("orders", group="audit").receive(100)) == list(range(40))
            broker.advance("6h")
            assert start_of(broker) == 40


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_the_lag_leaves_out_offsets_that_nobody_had(kind: Any) -> None:
    files, clock = MemoryFiles(), ManualClock()
    broker, gone = trimmed(files, clock)
    broker.create_group("orders", "audit", kind=kind)
    begun = broker.begin_restore("orders", 0, 0)
    broker.restore("orders", 0, begun.restore, until(gone, 6))
    broker.restore("orders", 0, begun.restore, gone[len(until(gone, 10)) : len(until(gone, 16))])
    broker.finish_restore("orders", 0, begun.restore, "audit", hold="10h")

    def lag() -> int:
        return broker.describe_group("orders", "audit").lag

    assert lag() == 40 - 4 - 4, "6 to 9 and 16 to 19 are missing"
    consumer = broker.consumer("orders", group="audit")
    first = [*consumer.receive(6), *consumer.receive(2)]
    if kind == "stream":
        consumer.commit()
    else:
        for message in first:
            message.ack()
    consumer.close()
    assert values(first) == [0, 1, 2, 3, 4, 5, 10, 11]
    assert lag() == 40 - 4 - 4 - 8
    broker.close()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert broker.describe_group("orders", "audit").lag == 40 - 4 - 4 - 8


def test_other_groups_stay_where_they_are() -> None:
    """A queue group in the middle, one with leases and retries, a stream group and its running consumer."""
    broker, gone = trimmed()
    queue = broker.consumer("orders", group="queue", visibility_timeout="10h")
    held = queue.receive(4)
    queue.ack(held[1:2])
    held[2].nack(delay="1h")
    stream = broker.consumer("orders", group="stream", kind="stream")
    stream.ack(stream.receive(5)[-1])
    broker.create_group("orders", "audit")
    before = [broker.describe_group("orders", group).partitions for group in ("queue", "stream")]

    restore(broker, gone)

    assert before == [broker.describe_group("orders", group).partitions for group in ("queue", "stream")]
    assert values(stream.receive(100)) == list(range(25, 40))
    assert values(queue.receive(100)) == list(range(24, 40))
    queue.ack([held[0], held[3]])
    broker.advance("30m")
    assert values(queue.receive(100, wait="40m")) == [22]


def test_a_stream_consumer_that_slept_through_retention_is_not_taken_back() -> None:
    broker = TestBroker.open()
    broker.create_topic("orders", retention="1h")
    publish(broker, 0, 20)
    gone = all_batches(broker)
    stream = broker.consumer("orders", group="stream", kind="stream", session_timeout="10h")
    assert values(stream.receive(4)) == [0, 1, 2, 3]
    broker.advance("2h")
    publish(broker, 20, 40)
    broker.create_group("orders", "audit")

    restore(broker, gone)

    assert values(stream.receive(100)) == list(range(20, 40))


def test_a_stream_group_can_be_the_one() -> None:
    broker, gone = trimmed()
    stream = broker.consumer("orders", group="audit", kind="stream", start="latest", session_timeout="12h")
    assert stream.receive(1) == []

    restore(broker, gone)

    received = stream.receive(100)
    assert values(received) == list(range(40))
    broker.advance("5h")
    assert start_of(broker) == 0
    stream.ack(received[-1])
    broker.advance("2m")
    assert start_of(broker) == 40


def test_lanes_are_as_they_were() -> None:
    broker = TestBroker.open()
    broker.create_topic("orders", retention="1h")
    publish(broker, 0, 10)
    publish(broker, 10, 20, priority="high")
    gone = all_batches(broker)
    broker.advance("2h")
    publish(broker, 20, 30, priority="high")
    publish(broker, 30, 40)
    broker.create_group("orders", "audit")

    restore(broker, gone)

    received = broker.consumer("orders", group="audit").receive(100)
    assert values(received) == [*range(10, 30), *range(10), *range(30, 40)]


def test_an_ordered_group_gets_its_keys_in_order() -> None:
    broker = TestBroker.open()
    broker.create_topic("orders", retention="1h")
    publish(broker, 0, 10, key="same")
    gone = all_batches(broker)
    broker.advance("2h")
    publish(broker, 10, 20, key="same")
    consumer = broker.consumer("orders", group="audit", ordered=True)
    consumer.ack(consumer.receive(1))

    restore(broker, gone)

    got = []
    while received := consumer.receive(10):
        got += values(received)
        consumer.ack(received)
    assert got == list(range(20))


def test_producers_and_dedup_ids_are_known_as_before() -> None:
    """The window is longer than the retention: ids come back with their messages, also after a restart."""
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", retention="1h", dedup_window="1d")
        producer = broker.producer()
        broker.publish("orders", b"0", dedup_id="first")
        broker.publish("orders", b"1")
        gone = all_batches(broker)
        producer.publish("orders", b"2")
        broker.advance("2h")
        producer.publish("orders", b"3")
        assert start_of(broker) == 3
    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert not broker.publish("orders", b"4", dedup_id="second").duplicate
        broker.create_group("orders", "audit")
        restore(broker, gone)
        again = broker.publish("orders", b"0", dedup_id="first")
        assert (again.duplicate, again.offset) == (True, 0)
    with TestBroker.open("data", files=files, clock=clock) as broker:
        again = broker.publish("orders", b"0", dedup_id="first")
        assert (again.duplicate, again.offset) == (True, 0)
        received = broker.consumer("orders", group="audit").receive(10)
        assert values(received) == [0, 1, 3, 4]  # 2 was not in what was handed over: a hole.


def test_dedup_ids_that_came_back_are_known_after_a_restart_that_nothing_was_published_before() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", retention="1h", dedup_window="1d")
        broker.create_group("orders", "audit")
        broker.publish("orders", b"0", dedup_id="first")
        gone = all_batches(broker)
        broker.advance("2h")
        broker.publish("orders", b"1")
        digest = f"{broker._core.state.topics['orders'].partitions[0].directory}/digest"
    files.remove(digest)
    with TestBroker.open("data", files=files, clock=clock):
        pass  # The digest is made anew, of a log without ids.
    with TestBroker.open("data", files=files, clock=clock) as broker:
        restore(broker, gone)
    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert broker.publish("orders", b"0", dedup_id="first").duplicate


def test_the_journal_is_kept_as_long_as_what_it_speaks_of() -> None:
    broker, gone = trimmed()
    consumer = broker.consumer("orders", group="audit")
    restore(broker, gone)

    consumer.ack(consumer.receive(1))

    broker.advance("2h")
    told = [event.event for event in broker.trace("orders", 0, 0).events]
    assert told[:3] == ["published", "delivered", "acked"]


def test_what_was_delayed_fires_once() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", retention="1h")
        broker.publish("orders", b"0", delay="1m")
        broker.publish("orders", b"1", delay="12h")
        broker.advance("2m")
        gone = all_batches(broker)
        broker.advance("3h")
        assert start_of(broker) == 1
        broker.create_group("orders", "audit")
        restore(broker, gone, hold="2d")
    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert broker.scheduled_count("orders") == 1
        broker.advance("10h")
        assert values(broker.read("orders")) == [0, 1]


def test_a_part_of_the_past_will_do_and_an_older_part_comes_later() -> None:
    broker, gone = trimmed()
    broker.create_group("orders", "audit")
    broker.create_group("orders", "elders")

    restore(broker, gone, start=10)
    assert start_of(broker) == 10
    restore(broker, until(gone, 10), "elders")

    assert values(broker.consumer("orders", group="audit").receive(100)) == list(range(10, 40))
    assert values(broker.consumer("orders", group="elders").receive(100)) == list(range(40))


def test_where_nothing_is_missing_the_group_is_moved_and_held_all_the_same() -> None:
    broker, _ = trimmed()
    broker.create_group("orders", "audit")
    begun = broker.begin_restore("orders", 0, 30)
    assert (begun.start, begun.end) == (20, 20)

    broker.finish_restore("orders", 0, begun.restore, "audit")

    broker.advance("5h")
    assert values(broker.consumer("orders", group="audit").receive(100)) == list(range(30, 40))


def test_retention_rests_while_messages_are_put_back_but_not_for_ever() -> None:
    broker, gone = trimmed()
    begun = broker.begin_restore("orders", 0, 0)
    for _ in range(9):
        broker.advance("9m")
        broker.restore("orders", 0, begun.restore, gone)
    assert start_of(broker) == 20

    broker.advance("12m")

    assert start_of(broker) == 40
    with pytest.raises(RestoreRefused, match="took too long"):
        broker.restore("orders", 0, begun.restore, gone)


def test_of_two_the_last_one_goes_on() -> None:
    broker, gone = trimmed()
    broker.create_group("orders", "audit")
    first = broker.begin_restore("orders", 0, 0)
    broker.restore("orders", 0, first.restore, gone)
    second = broker.begin_restore("orders", 0, 0)

    with pytest.raises(RestoreRefused, match="begin again"):
        broker.finish_restore("orders", 0, first.restore, "audit")
    assert broker.restore("orders", 0, second.restore, gone) == 20
    broker.finish_restore("orders", 0, second.restore, "audit")

    assert start_of(broker) == 0
    with pytest.raises(RestoreRefused, match="is done"):
        broker.finish_restore("orders", 0, second.restore, "audit")


def test_what_does_not_fit_is_refused_with_the_facts() -> None:
    broker, gone = trimmed()
    begun = broker.begin_restore("orders", 0, 0)
    beyond = encode_values([b"x"] * 3, 1)
    place_batch(beyond, 19, 0)

    with pytest.raises(InvalidBatch, match="offsets 19 to 21 do not fit between 0 and 20"):
        broker.restore("orders", 0, begun.restore, bytes(beyond))
    with pytest.raises(GroupNotFound):
        broker.finish_restore("orders", 0, begun.restore, "nobody")
    with pytest.raises(OffsetOutOfRange):
        broker.read("orders", offset=0)
    broker.restore("orders", 0, begun.restore, gone)  # None of it did any harm.


def test_the_past_of_a_compacted_topic_stays_past() -> None:
    broker = TestBroker.open()
    broker.create_topic("orders", compact=True)

    with pytest.raises(RestoreRefused, match="compacted"):
        broker.begin_restore("orders", 0, 0)


def test_a_topic_that_is_compacted_later_takes_what_came_back_into_account() -> None:
    """The map of keys begins anew: the old values go like any others that have newer ones."""
    broker = TestBroker.open()
    broker.create_topic("orders", retention="1h")
    publish(broker, 0, 10, key="k")
    gone = all_batches(broker)
    broker.advance("2h")
    publish(broker, 10, 12, key="k")
    broker.create_group("orders", "audit")
    restore(broker, gone)
    broker.alter_topic("orders", compact=True, retention=None)
    broker.advance("2m")
    consumer = broker.consumer("orders", group="audit")
    received = consumer.receive(100)
    assert values(received) == list(range(12))  # Held: also from compaction.

    consumer.ack(received)
    broker.advance("2m")

    assert values(broker.read("orders")) == [11]


def test_a_topic_can_be_deleted_and_a_broker_closed_in_the_middle() -> None:
    files, clock = MemoryFiles(), ManualClock()
    broker, gone = trimmed(files, clock)
    begun = broker.begin_restore("orders", 0, 0)
    broker.restore("orders", 0, begun.restore, gone)
    broker.close()

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert start_of(broker) == 20
        begun = broker.begin_restore("orders", 0, 0)
        broker.restore("orders", 0, begun.restore, gone)
        broker.delete_topic("orders")
        assert broker.topics() == []
