"""How far a group is, as the broker tells it: the oldest unacked message, rates, verdicts."""

import pytest

from penstock import GroupInfo, Message
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def info(broker: TestBroker, group: str = "default") -> GroupInfo:
    return broker.describe_group("orders", group)


# The oldest.


def test_what_was_never_delivered_is_not_unacked(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 3)
    consumer = penstock.consumer("orders")
    assert info(penstock).oldest_unacked is None

    consumer.ack(consumer.receive(2))

    assert info(penstock).oldest_unacked is None


def test_a_message_in_hand_says_whose_and_until_when(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 3)
    penstock.advance("5s")
    consumer = penstock.consumer("orders", consumer_id="worker-1", visibility_timeout="30s")
    messages = consumer.receive(3)
    penstock.advance("10s")
    consumer.ack(messages[:1])

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.id, oldest.age_seconds) == ("orders:0:1", 15)
    assert (oldest.consumer, oldest.due_seconds) == ("worker-1", 20)
    assert (oldest.attempts, oldest.failures, oldest.error, oldest.behind) == (1, 0, "", 0)


def test_a_message_that_failed_says_how_often_why_and_when_it_comes_again(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    consumer = penstock.consumer("orders", consumer_id="w", backoff=["10s", "60s"])
    consumer.receive()[0].nack(error=ValueError("one"))
    [again] = consumer.receive(wait="10s")
    tried = info(penstock).oldest_unacked
    again.nack(error=ValueError("two"))
    penstock.advance("20s")

    waiting = info(penstock).oldest_unacked

    assert tried is not None
    assert (tried.consumer, tried.attempts, tried.failures, tried.error) == ("w", 2, 1, "ValueError: one")
    assert waiting is not None
    assert (waiting.consumer, waiting.attempts, waiting.failures) == (None, 2, 2)
    assert (waiting.error, waiting.due_seconds) == ("ValueError: two", 40)


def test_a_timeout_is_told_in_words(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders", visibility_timeout="1s").receive()
    penstock.advance("2s")

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.attempts, oldest.failures, oldest.error, oldest.due_seconds) == (
        1,
        1,
        "visibility timeout",
        0,
    )


def test_a_message_given_back_unused_does_not_count_the_attempt(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    with penstock.consumer("orders") as consumer:
        consumer.receive()

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.consumer, oldest.attempts, oldest.failures, oldest.error) == (None, 0, 0, "")


def test_the_oldest_is_that_of_all_partitions(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    for partition in (2, 0, 1):
        penstock.publish("orders", b"x", partition=partition)
        penstock.advance("1s")
    penstock.consumer("orders").receive(3)

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.id, oldest.age_seconds) == ("orders:2:0", 3)


def test_the_oldest_is_found_whatever_was_lent_first(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"low", priority="low")
    penstock.publish_batch("orders", [b"x"] * 4)
    consumer = penstock.consumer("orders")
    first, second = consumer.receive(2), consumer.receive(2)
    [low] = consumer.receive()
    ids = []
    for message in (low, first[0], first[1]):
        oldest = info(penstock).oldest_unacked
        assert oldest is not None
        ids.append(oldest.id)
        message.ack()
    second[0].nack(delay="1h")
    oldest = info(penstock).oldest_unacked

    assert ids == ["orders:0:0", "orders:0:1", "orders:0:2"]
    assert oldest is not None
    assert (oldest.id, oldest.consumer) == ("orders:0:3", None)


def test_a_message_that_waits_is_compared_by_its_place(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 6)
    messages = penstock.consumer("orders", consumer_id="w").receive(6)
    for message in (messages[0], messages[1], messages[2]):
        message.ack()
    messages[5].nack(delay="1h")

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.id, oldest.consumer) == ("orders:0:3", "w")


def test_a_message_of_the_future_is_not_old(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders").receive()
    penstock.clock.step_wall("1h", back=True)

    told = info(penstock)

    assert told.oldest_unacked is not None
    assert (told.oldest_unacked.age_seconds, told.lag_seconds) == (0, 0)


def test_an_ordered_group_tells_how_many_wait_behind_a_key(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for key in ("red", "red", "blue", "red", "red"):
        penstock.publish("orders", b"x", key=key)
    consumer = penstock.consumer("orders", ordered=True)
    red, blue = consumer.receive(5)
    blue.ack()
    red.nack(delay="1m", error="bad paint")

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.id, oldest.behind, oldest.consumer) == ("orders:0:0", 3, None)


def test_what_is_about_to_be_buried_is_still_unacked(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 2)
    penstock.consumer("orders", max_attempts=3).receive(2)
    engine = penstock._core.state.topics["orders"].partitions[0].groups["default"].engine
    [lease] = engine.leases.values()
    engine.give_back(lease.number, 0, 1, 4, 0)  # As a nack does, and before its job has run.

    oldest = info(penstock).oldest_unacked

    assert oldest is not None
    assert (oldest.id, oldest.consumer, oldest.attempts, oldest.due_seconds) == ("orders:0:0", None, 3, 0)


def test_a_stream_group_has_read_what_it_has_not_committed(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 5)
    consumer = penstock.consumer("orders", group="s", kind="stream", consumer_id="reader")
    consumer.receive(2)
    consumer.commit()
    assert info(penstock, "s").oldest_unacked is None
    penstock.advance("3s")
    consumer.receive(2)

    oldest = info(penstock, "s").oldest_unacked

    assert oldest is not None
    assert (oldest.id, oldest.age_seconds, oldest.consumer) == ("orders:0:2", 3, "reader")
    assert (oldest.attempts, oldest.failures, oldest.due_seconds) == (1, 0, None)


def test_a_stream_group_that_nobody_reads_has_nothing_in_hand(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 5)
    penstock.create_group("orders", "s", kind="stream")
    assert info(penstock, "s").oldest_unacked is None

    penstock.consumer("orders", group="s")
    penstock.advance("2s")

    assert info(penstock, "s").oldest_unacked is None
    assert verdict(penstock, "s") == "working: 5 messages are waiting"


# Rates.


def flow(broker: TestBroker, seconds: int, published: int, acked: int, group: str = "default") -> None:
    """Each second, publish some messages and ack some."""
    consumer = broker.consumer("orders", group=group)
    for _ in range(seconds):
        broker.publish_batch("orders", [b"x"] * published)
        if acked:
            consumer.ack(consumer.receive(acked))
        broker.advance("1s")


def test_rates_are_those_of_the_last_ten_seconds(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    flow(penstock, 30, 50, 20)

    rates = info(penstock).rates

    assert rates.published == pytest.approx(50, rel=0.1)
    assert rates.delivered == rates.acked == pytest.approx(20, rel=0.1)
    assert rates.failed == rates.dead_lettered == 0
    penstock.advance("11s")
    rates = info(penstock).rates
    assert rates.published == rates.delivered == rates.acked == 0


def test_a_young_broker_does_not_spread_its_rates_over_time_it_was_not_there(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    flow(penstock, 2, 50, 20)

    rates = info(penstock).rates

    assert (rates.published, rates.acked) == (50, 20)


def test_rates_begin_anew_when_the_broker_is_opened() -> None:
    disk, clock = CrashDisk(), ManualClock()
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        broker.create_topic("orders")
        flow(broker, 5, 50, 20)
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        rates = info(broker).rates
        assert rates.published == rates.delivered == rates.acked == 0
        flow(broker, 2, 10, 5)
        rates = info(broker).rates
        assert (rates.published, rates.acked) == (10, 5)


def test_each_kind_of_failure_has_its_rate(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    consumer = penstock.consumer("orders", max_attempts=2, backoff=["100s"], visibility_timeout="5s")
    penstock.publish_batch("orders", [b"x"] * 20)
    messages = consumer.receive(20)
    for message in messages[:4]:
        message.nack()
    for message in messages[4:14]:
        message.reject("no")
    penstock.advance("5s")

    rates = info(penstock).rates

    assert (rates.failed, rates.dead_lettered, rates.delivered) == ((4 + 6) / 5, 2, 4)


def test_acks_with_outputs_and_commits_have_a_rate_too(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_topic("invoices")
    penstock.publish_batch("orders", [b"x"] * 5)
    consumer = penstock.consumer("orders", visibility_timeout="1m")
    stream = penstock.consumer("orders", group="s", kind="stream")
    messages = consumer.receive(5)
    stream.receive(5)
    penstock.advance("20s")
    consumer.ack(messages, publish=[("invoices", Message(b"y"))])
    stream.commit()

    for group in ("default", "s"):
        rates = info(penstock, group).rates
        assert (rates.delivered, rates.acked) == (0, 0.5)


def test_the_rate_of_publishing_survives_a_wall_clock_that_is_set_back(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    flow(penstock, 20, 10, 0)
    penstock.clock.step_wall("1h", back=True)
    flow(penstock, 20, 10, 0)

    assert info(penstock).rates.published == pytest.approx(10, rel=0.1)


def test_a_sample_just_taken_does_not_shorten_the_window(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.advance("1m")
    penstock.publish_batch("orders", [b"x"] * 99)
    penstock.advance("5s")
    penstock.publish("orders", b"x")
    penstock.create_group("orders", "default")

    assert info(penstock).rates.published == 10


def test_the_rate_of_publishing_survives_a_wall_clock_that_is_set_forward(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    flow(penstock, 20, 10, 0)
    penstock.clock.step_wall("1h")
    flow(penstock, 5, 10, 0)

    assert info(penstock).rates.published == pytest.approx(10, rel=0.1)


# Verdicts, as they come about.


def verdict(broker: TestBroker, group: str = "default") -> str:
    return str(info(broker, group).verdict)


def test_a_group_is_judged_through_its_life(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "default")
    assert verdict(penstock) == "idle: no messages are waiting"

    penstock.publish_batch("orders", [b"x"] * 1000)
    penstock.advance("20s")
    assert verdict(penstock) == "no consumers: 1,000 messages are waiting; no consumer is connected"

    consumer = penstock.consumer("orders", consumer_id="w", backoff=["1h"])
    assert verdict(penstock) == "working: 1,000 messages are waiting"
    penstock.advance("10s")
    assert verdict(penstock).startswith("stalled: 1,000 messages are waiting, 1 consumer is connected")

    for _ in range(10):
        consumer.ack(consumer.receive(50))
        penstock.advance("1s")
    assert verdict(penstock) == "draining: 500 messages are waiting; 0/s published, 50.0/s acked"
    assert info(penstock).drain_seconds == 10

    for word, left in (("working", "1,000"), ("falling behind", "1,500")):
        for _ in range(10):
            penstock.publish_batch("orders", [b"x"] * 100)
            consumer.ack(consumer.receive(50))
            penstock.advance("1s")
        assert verdict(penstock).startswith(f"{word}: {left} messages are waiting; 100/s published")
        assert info(penstock).drain_seconds is None

    consumer.ack(consumer.receive(1499))
    assert verdict(penstock).startswith("keeping up: 1 message is waiting;")
    consumer.receive()[0].nack(error=KeyError("price"))
    penstock.advance("12s")
    assert verdict(penstock) == (
        "blocked: orders:0:2999 failed once (KeyError: 'price') and will be redelivered in 60 min; "
        "everything else is settled"
    )
    assert info(penstock).verdict.message == "orders:0:2999"

    penstock.purge("orders", "default")
    assert verdict(penstock) == "idle: no messages are waiting"
    assert info(penstock).drain_seconds == 0


def test_a_poison_key_of_an_ordered_group_is_named_while_others_flow(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    consumer = penstock.consumer("orders", ordered=True, backoff=["5s"], max_attempts=10)
    for number in range(30):
        penstock.publish("orders", b"x", key="red")
        penstock.publish("orders", b"x", key=f"key-{number}")
        for message in consumer.receive(10):
            if message.key == b"red":
                message.nack(error="bad paint")
            else:
                message.ack()
        penstock.advance("1s")

    told = info(penstock).verdict

    assert (told.word, told.message) == ("blocked", "orders:0:0")
    assert "29 messages with its key are waiting behind it" in told.text


def test_a_consumer_that_fails_everything_is_failing(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 100)
    consumer = penstock.consumer("orders", backoff=["1s"], max_attempts=10)
    for _ in range(5):
        for message in consumer.receive(10):
            message.nack(error=OSError("no network"))
        penstock.advance("1s")

    assert verdict(penstock) == "failing: nothing acked, 10.0/s failed; orders:0:0: OSError: no network"


def test_a_consumer_that_hangs_with_everything_is_noticed(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 5)
    consumer = penstock.consumer("orders", consumer_id="w", visibility_timeout="30s")
    held = consumer.receive(5)
    consumer.ack(held[1:])
    for _ in range(4):
        penstock.advance("8s")
        held[0].extend("30s")

    assert (
        verdict(penstock)
        == "blocked: orders:0:0 is leased to w, which has not acked it; everything else is settled"
    )


def test_a_stream_that_reads_and_does_not_commit_is_noticed(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 12)
    consumer = penstock.consumer("orders", group="s", kind="stream", consumer_id="reader")
    consumer.receive(2)
    consumer.commit()
    penstock.advance("11s")
    consumer.receive(4)
    assert verdict(penstock, "s") == "working: 6 messages are waiting, 4 are in flight"
    for _ in range(4):
        penstock.advance("8s")
        consumer.receive(1)

    assert verdict(penstock, "s").startswith(
        "stalled: 2 messages are waiting, 8 are in flight, 1 consumer is connected"
    )


def test_somebody_who_has_just_come_does_not_end_a_stall(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 10)
    penstock.consumer("orders")
    penstock.advance("20s")
    penstock.consumer("orders")

    assert info(penstock).verdict.word == "stalled"


def test_an_ack_ends_a_stall_for_as_long_as_a_visibility_timeout(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 10)
    messages = penstock.consumer("orders", visibility_timeout="2m").receive(10)
    penstock.create_group("orders", "default", visibility_timeout="30s")
    penstock.advance("15s")
    messages[0].ack()
    penstock.advance("20s")
    assert info(penstock).verdict.word == "working"
    penstock.advance("11s")
    assert info(penstock).verdict.word == "stalled"


def test_a_message_that_came_after_a_long_silence_is_no_stall(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    consumer = penstock.consumer("orders")
    penstock.publish("orders", b"x")
    consumer.ack(consumer.receive())
    penstock.advance("1h")
    penstock.publish("orders", b"x")

    assert verdict(penstock) == "keeping up: 1 message arrived within the last second"
    penstock.advance("5s")
    assert verdict(penstock) == "working: 1 message is waiting"


def test_a_reader_that_commits_from_outside_now_and_then_is_no_trouble(penstock: TestBroker) -> None:
    """As the archive does: it is no member, and commits what it has copied every few seconds, or minutes."""
    penstock.create_topic("orders")
    words = set()
    for second in range(100):
        penstock.publish_batch("orders", [b"x"] * 10)
        if second % 7 == 0:
            penstock.commit_offsets("orders", "archive", {0: 10 * (second + 1)})
        words.add(info(penstock, "archive").verdict.word)
        penstock.advance("1s")
    penstock.commit_offsets("orders", "archive", {0: 1000})
    penstock.advance("10m")  # Nothing comes, so nothing is committed.
    penstock.publish("orders", b"x")
    words.add(info(penstock, "archive").verdict.word)

    assert words == {"keeping up"}
    penstock.advance("61s")
    assert verdict(penstock, "archive") == "no consumers: 1 message is waiting; no consumer is connected"
