"""Retries: how often, after what wait, and what survives a restart."""

import pytest

from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker


def waits(broker: TestBroker, retries: int) -> list[int]:
    """Nack one message again and again; how long it took to come back each time, in milliseconds."""
    consumer = broker.consumer("orders")
    [message] = consumer.receive()
    found = []
    for _ in range(retries):
        message.nack()
        began_ms = broker.clock.steady_ms()
        [message] = consumer.receive(wait="1d")
        found.append(broker.clock.steady_ms() - began_ms)
    return found


def test_max_attempts_is_the_total_of_deliveries_and_four_by_default(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"poison")
    consumer = penstock.consumer("orders")

    attempts = []
    while messages := consumer.receive(wait="1h"):
        attempts.append(messages[0].attempt)
        messages[0].nack()

    assert attempts == [1, 2, 3, 4]
    assert len(penstock.dead_letters("orders")) == 1


@pytest.mark.parametrize("max_attempts", [1, 2, 7])
def test_max_attempts_counts_timeouts_and_nacks_alike(penstock: TestBroker, max_attempts: int) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"poison")
    consumer = penstock.consumer("orders", max_attempts=max_attempts, visibility_timeout="10s")

    deliveries = 0
    while messages := consumer.receive(wait="1h"):
        deliveries += 1
        if deliveries % 2:
            messages[0].nack()

    assert deliveries == max_attempts
    [letter] = penstock.dead_letters("orders")
    assert letter.attempts == max_attempts
    assert letter.reason == ("nacked" if max_attempts % 2 else "visibility timeout")


def test_the_default_backoff_doubles_from_a_second_and_jitter_only_shortens(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.create_group("orders", "default", max_attempts=100)

    found = waits(penstock, 10)

    full = [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000, 60000]
    assert all(0.8 * limit <= wait <= limit for wait, limit in zip(found, full, strict=True))
    assert len(set(found[6:])) > 1, "at the cap the waits still differ"


def test_the_backoff_of_a_test_broker_is_the_same_every_time() -> None:
    found = []
    for _ in range(2):
        with TestBroker.open(seed=7) as broker:
            broker.create_topic("orders")
            broker.publish("orders", b"x")
            found.append(waits(broker, 3))

    assert found[0] == found[1]


def test_a_fixed_list_of_waits_repeats_its_last(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.create_group("orders", "default", max_attempts=10, backoff=["1s", 10, "5m"])

    assert waits(penstock, 5) == [1000, 10_000, 300_000, 300_000, 300_000]


def test_an_exponential_backoff_may_be_spelt_out(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.create_group("orders", "default", max_attempts=10, backoff="exponential:100:3:2000:0")

    assert waits(penstock, 5) == [100, 300, 900, 2000, 2000]


def test_a_nack_may_name_its_own_delay(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders")

    consumer.receive()[0].nack(delay="90s")
    assert consumer.receive(wait="89999ms") == []
    assert [message.attempt for message in consumer.receive(wait="1ms")] == [2]


def test_a_nack_without_delay_is_due_at_once(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders")

    consumer.receive()[0].nack(delay=0)

    assert [message.attempt for message in consumer.receive()] == [2]


def test_others_go_on_while_a_message_waits_for_its_retry(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"bad", b"good", b"fine"])
    consumer = penstock.consumer("orders")
    consumer.receive()[0].nack(delay="1h")

    assert [message.value for message in consumer.receive(10)] == [b"good", b"fine"]
    info = penstock.describe_group("orders", "default")
    assert (info.waiting_retry, info.in_flight, info.lag) == (1, 2, 3)


def test_a_rejected_message_is_never_tried_again(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"malformed")
    consumer = penstock.consumer("orders")

    consumer.receive()[0].reject("not JSON")

    assert consumer.receive(wait="1d") == []
    [letter] = penstock.dead_letters("orders")
    assert (letter.reason, letter.error, letter.attempts) == ("rejected", "not JSON", 1)


def test_raising_max_attempts_gives_a_failing_message_more(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders", max_attempts=2, backoff=["1s"])
    consumer.receive()[0].nack()
    penstock.create_group("orders", "default", max_attempts=3)

    [second] = consumer.receive(wait="1m")
    second.nack()
    [third] = consumer.receive(wait="1m")
    third.nack()

    assert third.attempt == 3
    assert len(penstock.dead_letters("orders")) == 1


def test_retries_of_a_group_are_not_seen_by_another(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    failing, calm = penstock.consumer("orders", group="a"), penstock.consumer("orders", group="b")
    failing.receive()[0].nack(delay=0)

    assert [message.attempt for message in failing.receive()] == [2]
    assert [message.attempt for message in calm.receive()] == [1]


def test_the_wall_clock_does_not_hold_a_retry(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders")
    consumer.receive()[0].nack(delay="10s")

    penstock.clock.step_wall("1d", back=True)

    assert [message.attempt for message in consumer.receive(wait="10s")] == [2]


def test_a_restart_keeps_the_error_of_an_earlier_attempt() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        consumer = broker.consumer("orders", max_attempts=2, backoff=["1s"], visibility_timeout="1m")
        consumer.receive()[0].nack(error=ValueError("first"))
        failed_ms = clock.wall_ms()

    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.consumer("orders").receive(wait="5s")
        broker.advance("10m")
        [letter] = broker.dead_letters("orders")

    assert letter.error == "ValueError: first"
    assert (letter.reason, letter.attempts) == ("visibility timeout", 2)
    assert (letter.first_failed_ms, letter.last_failed_ms) == (failed_ms, failed_ms + 61_000)


def test_nothing_is_kept_of_failures_that_are_over(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1", b"2"])
    consumer = penstock.consumer("orders", max_attempts=2, backoff=["1s"])
    for message in consumer.receive(3):
        message.nack(error="no")
    acked, dead, waiting = consumer.receive(3, wait="1s")
    acked.ack()
    dead.nack()

    member = penstock._core.state.topics["orders"].partitions[0].groups["default"]
    assert list(member.failures) == [waiting.offset]
