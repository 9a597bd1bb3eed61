"""Consuming: leases, answers, visibility timeouts, how many messages a consumer may hold."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from penstock import Message
from penstock import open as open_broker
from penstock.errors import AlreadySettled, Closed, LeaseLost, QueueFull
from penstock.log.files import MemoryFiles
from penstock.model.message import Delivered
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def values(messages: Sequence[Delivered]) -> list[bytes]:
    return [message.value for message in messages]


def open_with(penstock: TestBroker, count: int, partitions: int = 1) -> None:
    penstock.create_topic("orders", partitions=partitions)
    penstock.publish_batch("orders", [Message(b"%d" % number) for number in range(count)])


def test_a_message_is_acked_and_never_comes_again(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders")
    [message] = consumer.receive()

    message.ack()
    penstock.advance("1d")

    assert consumer.receive(wait="1h") == []
    assert penstock.depth("orders", "default") == 0


def test_a_held_message_is_not_given_to_another_consumer(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    first, second = penstock.consumer("orders"), penstock.consumer("orders")

    assert values(first.receive()) == [b"0"]
    assert second.receive(wait="29s") == []


def test_consumers_of_a_group_share_and_groups_do_not(penstock: TestBroker) -> None:
    open_with(penstock, 4)
    one, other = penstock.consumer("orders", group="a"), penstock.consumer("orders", group="a")
    alone = penstock.consumer("orders", group="b")

    assert values(one.receive(2)) == [b"0", b"1"]
    assert values(other.receive(10)) == [b"2", b"3"]
    assert values(alone.receive(10)) == [b"0", b"1", b"2", b"3"]


def test_the_visibility_timeout_gives_a_message_back_with_a_rising_attempt(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders", visibility_timeout="30s", max_attempts=10)

    attempts = []
    for _ in range(4):
        [message] = consumer.receive()
        attempts.append(message.attempt)
        penstock.advance("29999ms")
        assert consumer.receive() == []
        penstock.advance("1ms")

    assert attempts == [1, 2, 3, 4]
    assert penstock.describe_group("orders", "default").timed_out == 4


def test_a_timed_out_message_goes_to_whoever_waits(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    penstock.consumer("orders").receive()

    [message] = penstock.consumer("orders").receive(wait="1m")

    assert message.attempt == 2
    assert penstock.clock.steady_ms() == ManualClock().steady_ms() + 30_000


def test_the_late_ack_of_a_timed_out_message_is_refused(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders")
    [late] = consumer.receive()
    penstock.advance("30s")

    with pytest.raises(LeaseLost, match="visibility timeout"):
        late.ack()
    [again] = consumer.receive()
    with pytest.raises((LeaseLost, AlreadySettled)):
        late.ack()
    again.ack()

    assert penstock.depth("orders", "default") == 0


def test_each_consumer_has_its_own_visibility_timeout(penstock: TestBroker) -> None:
    open_with(penstock, 2)
    slow = penstock.consumer("orders", visibility_timeout="10m")
    quick = penstock.consumer("orders", visibility_timeout="5s")
    slow.receive()
    quick.receive()

    penstock.advance("5s")
    assert values(quick.receive(10)) == [b"1"]
    penstock.advance("9m")
    assert b"0" not in values(quick.receive(10))


def test_extend_keeps_a_message_for_that_long_from_now(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders", visibility_timeout="30s")
    [message] = consumer.receive()
    penstock.advance("20s")

    message.extend("60s")
    penstock.advance("59s")
    assert consumer.receive() == []
    message.ack()

    assert penstock.depth("orders", "default") == 0


def test_extend_can_shorten(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders", visibility_timeout="10m")
    [message] = consumer.receive()

    message.extend("1s")
    penstock.advance("1s")

    assert [again.attempt for again in consumer.receive()] == [2]


def test_an_expired_lease_cannot_be_extended(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    [message] = penstock.consumer("orders").receive()
    penstock.advance("30s")

    with pytest.raises(LeaseLost):
        message.extend("1m")


def test_receive_returns_at_most_what_was_asked_for(penstock: TestBroker) -> None:
    open_with(penstock, 10, partitions=2)
    consumer = penstock.consumer("orders")

    assert len(consumer.receive(3)) == 3
    assert len(consumer.receive(100)) == 7


def test_receive_waits_for_a_message_and_no_longer_than_told(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"later", delay="10s")
    consumer = penstock.consumer("orders")
    began_ms = penstock.clock.steady_ms()

    assert consumer.receive(wait="4s") == []
    assert penstock.clock.steady_ms() == began_ms + 4000
    assert values(consumer.receive(wait="1h")) == [b"later"]
    assert penstock.clock.steady_ms() == began_ms + 10_000


def test_max_in_flight_bounds_what_a_consumer_holds(penstock: TestBroker) -> None:
    open_with(penstock, 10)
    consumer = penstock.consumer("orders", max_in_flight=4)

    held = consumer.receive(10)
    assert len(held) == 4
    assert consumer.receive(10) == []
    held[0].ack()
    held[1].nack()
    assert values(consumer.receive(10)) == [b"4", b"5"]
    assert consumer.in_flight == 4


def test_max_in_flight_is_free_again_after_a_timeout_and_after_a_seek(penstock: TestBroker) -> None:
    open_with(penstock, 4)
    consumer = penstock.consumer("orders", max_in_flight=2)
    consumer.receive(10)

    penstock.advance("30s")
    assert (consumer.in_flight, len(consumer.receive(10))) == (0, 2)
    penstock.seek("orders", "default", "earliest")
    assert (consumer.in_flight, len(consumer.receive(10))) == (0, 2)


def test_in_flight_ends_where_expired_messages_are_left_out(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [Message(b"short", ttl="1s"), Message(b"long"), Message(b"s", ttl="1s")])
    consumer = penstock.consumer("orders", max_in_flight=5)
    penstock.advance("1s")

    [message] = consumer.receive(10)
    assert consumer.in_flight == 1
    message.ack()
    assert consumer.in_flight == 0


def test_at_most_once_settles_before_anyone_sees_the_message() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("pings")
        broker.publish_batch("pings", [b"0", b"1", b"2"])
        consumer = broker.consumer("pings", delivery="at-most-once")

        assert values(consumer.receive(2)) == [b"0", b"1"]
        assert broker.depth("pings", "default") == 1
        assert consumer.in_flight == 0
        broker.advance("1h")
        assert values(consumer.receive(10)) == [b"2"]

    with TestBroker.open("data", files=files) as broker:
        assert broker.consumer("pings").receive(10, wait="1h") == []


def test_at_most_once_survives_a_crash() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("pings")
    broker.publish("pings", b"0")
    assert values(broker.consumer("pings", delivery="at-most-once").receive()) == [b"0"]

    disk.kill()
    with TestBroker.open("data", files=disk) as broker:
        assert broker.consumer("pings").receive(wait="1h") == []


def test_at_most_once_messages_need_no_answer_and_refuse_a_nack(penstock: TestBroker) -> None:
    penstock.create_topic("pings")
    penstock.publish("pings", b"0")
    [message] = penstock.consumer("pings", delivery="at-most-once").receive()

    with pytest.raises(AlreadySettled):
        message.nack()


def test_closing_a_consumer_gives_back_at_once_without_counting_the_attempt(penstock: TestBroker) -> None:
    open_with(penstock, 3)
    with penstock.consumer("orders") as consumer:
        consumer.receive(3)[1].ack()

    again = penstock.consumer("orders").receive(10)

    assert [(message.value, message.attempt) for message in again] == [(b"0", 1), (b"2", 1)]


def test_closing_the_broker_gives_back_at_once() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [b"0", b"1"])
        broker.consumer("orders", visibility_timeout="12h").receive(2)[1].ack()

    with TestBroker.open("data", files=files) as broker:
        [message] = broker.consumer("orders").receive(10)
        assert (message.value, message.attempt) == (b"0", 1)


@pytest.mark.parametrize("crashes", [0, 1, 2])
def test_a_crash_gives_back_at_once_with_the_attempt_counted(crashes: int) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"0", b"1"])
    consumer = broker.consumer("orders", visibility_timeout="12h")
    messages = consumer.receive(2)
    messages[1].ack()

    for _ in range(crashes):
        disk.kill()
        broker = TestBroker.open("data", files=disk, clock=broker.clock)
    disk.kill()
    with TestBroker.open("data", files=disk, clock=broker.clock) as broker:
        [message] = broker.consumer("orders").receive(10)
        assert (message.value, message.attempt) == (b"0", 2)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", [b"0", b"1", b"2", b"3"]),
        ("latest", []),
        (2, [b"2", b"3"]),
        (0, [b"0", b"1", b"2", b"3"]),
        (99, []),
        (datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), [b"1", b"2", b"3"]),
        (datetime(2026, 1, 1, 0, 0, 1, 1000, tzinfo=UTC), [b"2", b"3"]),
        (datetime(2025, 1, 1, tzinfo=UTC), [b"0", b"1", b"2", b"3"]),
        (datetime(2027, 1, 1, tzinfo=UTC), []),
        ("2026-01-01T00:00:03Z", [b"3"]),
    ],
)
def test_a_new_group_begins_where_it_is_told(
    penstock: TestBroker, start: object, expected: list[bytes]
) -> None:
    penstock.create_topic("orders")
    for number in range(4):
        penstock.publish("orders", b"%d" % number)
        penstock.advance("1s")

    consumer = penstock.consumer("orders", group="late", start=start)  # type: ignore[arg-type]
    penstock.publish("orders", b"new")

    assert values(consumer.receive(10)) == [*expected, b"new"]


def test_the_start_of_a_group_counts_only_when_it_is_made(penstock: TestBroker) -> None:
    open_with(penstock, 2)
    penstock.consumer("orders", start="latest")

    assert penstock.consumer("orders", start="earliest").receive() == []


def test_nothing_settled_comes_again_after_any_number_of_restarts() -> None:
    files, clock = MemoryFiles(), ManualClock()
    settled: list[bytes] = []
    for life in range(4):
        with TestBroker.open("data", files=files, clock=clock) as broker:
            if life == 0:
                broker.create_topic("orders", partitions=2)
                broker.publish_batch("orders", [Message(b"%d" % number) for number in range(20)])
            consumer = broker.consumer("orders")
            for message in consumer.receive(7)[::2]:
                settled.append(message.value)
                message.ack()
            assert broker.depth("orders", "default") == 20 - len(settled)

    assert len(settled) == len(set(settled)) == 16


def test_attempts_survive_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    attempts = []
    for life in range(4):
        with TestBroker.open("data", files=files, clock=clock) as broker:
            if life == 0:
                broker.create_topic("orders")
                broker.publish("orders", b"poison")
            [message] = broker.consumer("orders", backoff=["1s"]).receive(wait="2s")
            attempts.append(message.attempt)
            message.nack(error=f"life {life}")

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert attempts == [1, 2, 3, 4]
        [letter] = broker.dead_letters("orders")
        assert (letter.attempts, letter.error) == (4, "life 3")


def test_a_retry_is_not_early_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        broker.consumer("orders").receive()[0].nack(delay="10m")

    with TestBroker.open("data", files=files, clock=clock) as broker:
        consumer = broker.consumer("orders")
        assert consumer.receive(wait="599s") == []
        assert [message.attempt for message in consumer.receive(wait="1s")] == [2]


def test_a_consumer_and_its_options_may_not_be_used_after_close(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders")
    [message] = consumer.receive()
    consumer.close()
    consumer.close()

    with pytest.raises(Closed, match="consumer is closed"):
        consumer.receive()
    with pytest.raises(Closed, match="consumer is closed"):
        message.ack()


def test_deleting_a_group_closes_its_consumers_and_forgets_its_place(penstock: TestBroker) -> None:
    open_with(penstock, 2)
    consumer = penstock.consumer("orders", group="g")
    [message] = consumer.receive()
    message.ack()

    penstock.delete_group("orders", "g")

    assert penstock.groups("orders") == []
    with pytest.raises(Closed):
        consumer.receive()
    assert values(penstock.consumer("orders", group="g").receive(10)) == [b"0", b"1"]


def test_a_deleted_group_stays_deleted_after_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        for name in ("one", "two"):
            broker.create_group("orders", name)
        broker.delete_group("orders", "one")
        assert broker.groups("orders") == ["two"]

    with TestBroker.open("data", files=files) as broker:
        assert broker.groups("orders") == ["two"]


def test_a_consumer_id_shows_in_the_group_and_its_trace(penstock: TestBroker) -> None:
    open_with(penstock, 1)
    consumer = penstock.consumer("orders", consumer_id="worker-7")
    consumer.receive()

    assert consumer.consumer_id == "worker-7"
    assert penstock.describe_group("orders", "default").consumers == ["worker-7"]
    assert "worker-7" in {event.consumer for event in penstock.trace("orders", 0, 0).events}


def test_a_bounded_topic_lets_many_threads_publish_as_room_comes() -> None:
    # Real threads on purpose: waiting for room must be ended by another thread's ack.
    with open_broker() as broker:
        broker.create_topic("orders", depth_max=2, depth_policy="wait", depth_wait="30s")
        consumer = broker.consumer("orders")
        refused: list[Exception] = []

        def publish(number: int) -> None:
            try:
                broker.publish("orders", b"%d" % number)
            except QueueFull as error:
                refused.append(error)

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        seen: list[bytes] = []
        while len(seen) < 10:
            for message in consumer.receive(10, wait="10s"):
                seen.append(message.value)
                message.ack()
        for thread in threads:
            thread.join()

    assert refused == []
    assert sorted(seen) == [b"%d" % number for number in range(10)]
