"""Dead letters: what they carry, where they go, how they come back."""

import asyncio

import pytest

from penstock import BrokerConfig, Message
from penstock.errors import InvalidValue
from penstock.log.files import MemoryFiles
from penstock.testing import AsyncTestBroker, ManualClock, TestBroker
from penstock.testing.files import CrashDisk

ADDED = {
    "x-error", "x-error-class", "x-error-message", "x-error-fingerprint", "x-death-reason",
    "x-source-topic", "x-source-partition", "x-source-offset", "x-group", "x-attempts",
    "x-first-failed-at", "x-last-failed-at",
}  # fmt: skip


def bury(broker: TestBroker, *values: bytes, group: str = "default", error: str = "no good") -> None:
    """Publish messages and let a group reject them."""
    broker.publish_batch("orders", list(values))
    consumer = broker.consumer("orders", group=group)
    for message in consumer.receive(100):
        if message.value in values:
            message.reject(error)
    consumer.close()


def test_a_dead_letter_has_the_message_unchanged_and_headers_for_why(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    headers: dict[str, str | bytes] = {"content-type": "text/plain", "raw": b"\xff"}
    receipt = penstock.publish("orders", b"poison", key="k", headers=headers, priority="low")
    consumer = penstock.consumer("orders", group="processors", max_attempts=2, backoff=["10s"])
    consumer.receive()[0].nack(error=ValueError("item 17 is missing"))
    first_ms = penstock.clock.wall_ms()
    [second] = consumer.receive(wait="10s")
    penstock.advance("1s")
    second.nack(error=KeyError("item"))

    [letter] = penstock.read("orders.dlq")
    assert (letter.key, letter.value, letter.priority) == (b"k", b"poison", "low")
    assert letter.raw_headers[:2] == [("content-type", b"text/plain"), ("raw", b"\xff")]
    added = {name: value for name, value in letter.headers.items() if name not in headers}
    assert added.pop("x-error-fingerprint")
    assert added == {
        "x-error": "KeyError: 'item'",
        "x-error-class": "KeyError",
        "x-error-message": "'item'",
        "x-death-reason": "nacked",
        "x-source-topic": "orders",
        "x-source-partition": str(receipt.partition),
        "x-source-offset": str(receipt.offset),
        "x-group": "processors",
        "x-attempts": "2",
        "x-first-failed-at": str(first_ms),
        "x-last-failed-at": str(first_ms + 11_000),
    }


def test_the_headers_of_why_are_exactly_these(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x")

    [letter] = penstock.read("orders.dlq")

    assert letter.headers.keys() == ADDED


def test_a_dead_letter_tells_its_story_in_short(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x", group="g", error="not JSON")

    [letter] = penstock.dead_letters("orders")

    assert letter.message.value == b"x"
    assert (letter.source, letter.group, letter.attempts) == ("orders:0:0", "g", 1)
    assert (letter.reason, letter.error) == ("rejected", "not JSON")
    assert letter.first_failed_ms == letter.last_failed_ms == penstock.clock.wall_ms()


def test_errors_that_differ_only_in_numbers_have_one_fingerprint(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1", b"2", b"3"])
    errors = [ValueError("row 17"), ValueError("row 18"), ValueError("column 18"), KeyError("row 17")]
    consumer = penstock.consumer("orders", max_attempts=1)
    for message, error in zip(consumer.receive(4), errors, strict=True):
        message.nack(error=error)

    prints = [letter.fingerprint for letter in penstock.dead_letters("orders")]

    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_a_message_that_only_timed_out_says_so(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders", max_attempts=1, visibility_timeout="1s").receive()
    penstock.advance("1s")

    [letter] = penstock.dead_letters("orders")

    assert (letter.reason, letter.error, letter.message.headers["x-error-class"]) == (
        "visibility timeout",
        "visibility timeout",
        "",
    )


def test_the_name_of_the_dead_letter_topic_may_be_chosen_and_shared(penstock: TestBroker) -> None:
    for name in ("orders", "invoices"):
        penstock.create_topic(name, dead_letter_topic="morgue")
        penstock.publish(name, name.encode())
        penstock.consumer(name).receive()[0].reject("no")

    assert [message.value for message in penstock.read("morgue")] == [b"orders", b"invoices"]
    assert [letter.message.value for letter in penstock.dead_letters("orders")] == [b"orders"]
    assert [letter.message.value for letter in penstock.dead_letters("invoices")] == [b"invoices"]
    assert penstock.topics() == ["invoices", "morgue", "orders"]


def test_a_group_without_dead_letters_just_settles(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders", dead_letter=False, max_attempts=1).receive()[0].nack()

    assert penstock.topics() == ["orders"]
    assert penstock.depth("orders", "default") == 0
    assert penstock.dead_letters("orders") == []


def test_a_dead_letter_that_fails_again_is_settled_and_makes_no_dlq_of_a_dlq(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x")

    penstock.consumer("orders.dlq").receive()[0].reject("still no good")

    assert penstock.topics() == ["orders", "orders.dlq"]
    assert penstock.depth("orders.dlq", "default") == 0


def test_a_dead_letter_topic_can_be_consumed_like_any_other(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x")

    [message] = penstock.consumer("orders.dlq").receive()
    message.ack()

    assert message.headers["x-source-topic"] == "orders"
    assert len(penstock.dead_letters("orders")) == 1, "looking does not redrive"


def test_a_message_is_buried_once_for_each_group_that_gave_up(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x", group="a")
    penstock.consumer("orders", group="b").receive()[0].reject("b does not like it either")
    penstock.consumer("orders", group="c").receive()[0].ack()

    assert [letter.group for letter in penstock.dead_letters("orders")] == ["a", "b"]


def test_dead_letters_survive_a_crash_and_are_buried_once() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders", partitions=2)
    bury(broker, b"0", b"1", b"2", b"3")
    before = [letter.source for letter in broker.dead_letters("orders")]

    for _ in range(3):
        disk.kill()
        broker = TestBroker.open("data", files=disk)

    assert [letter.source for letter in broker.dead_letters("orders")] == before
    assert len(broker.read("orders.dlq")) == 4
    broker.close()


def test_many_messages_may_give_up_at_once(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"%d" % number for number in range(1234)])
    penstock.consumer("orders", max_attempts=1, visibility_timeout="1s").receive(1234)

    penstock.advance("1s")

    letters = penstock.dead_letters("orders", limit=5000)
    assert [letter.source for letter in letters] == [f"orders:0:{number}" for number in range(1234)]


# Redrive.


def test_a_redrive_sends_everything_back_to_the_group_that_failed_and_to_no_other(
    penstock: TestBroker,
) -> None:
    penstock.create_topic("orders")
    calm = penstock.consumer("orders", group="calm")
    bury(penstock, b"0", b"1", group="failing")
    calm.ack(calm.receive(10))

    result = penstock.redrive("orders")

    assert (result.matched, result.redriven, result.dry_run) == (2, 2, False)
    assert penstock.dead_letters("orders") == []
    again = penstock.consumer("orders", group="failing").receive(10)
    assert [(message.value, message.attempt) for message in again] == [(b"0", 1), (b"1", 1)]
    assert calm.receive(10) == []
    assert penstock.depth("orders", "calm") == 0
    assert penstock.consumer("orders", group="new").receive(1)[0].offset == 0


def test_a_redriven_message_is_the_original_with_only_its_own_headers(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    given = {"content-type": "text/plain", "x-error": "a header of the user's own"}
    receipt = penstock.publish("orders", b"x", key="k", headers=given, priority="high")
    penstock.consumer("orders").receive()[0].reject("no")

    penstock.redrive("orders")
    [message] = penstock.consumer("orders").receive()

    assert (message.key, message.value, message.priority) == (b"k", b"x", "high")
    assert message.partition == receipt.partition
    assert message.headers == {**given, "x-redriven-from": receipt.id}


def test_a_message_may_die_and_be_redriven_again_and_again(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", headers={"own": "1"})
    consumer = penstock.consumer("orders")
    for _ in range(3):
        [message] = consumer.receive()
        message.reject("no")
        assert len(penstock.dead_letters("orders")) == 1
        assert penstock.redrive("orders").redriven == 1

    [message] = consumer.receive()
    assert [name for name, _ in message.raw_headers] == ["own", "x-redriven-from", "x-redrive-group"]
    assert message.headers["x-redriven-from"] == "orders:0:2"


def test_a_dry_run_only_counts(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"0", b"1")

    result = penstock.redrive("orders", dry_run=True)

    assert (result.matched, result.redriven, result.dry_run) == (2, 0, True)
    assert len(penstock.dead_letters("orders")) == 2
    assert penstock.consumer("orders").receive(10) == []


def test_a_redrive_may_have_a_limit(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"0", b"1", b"2", b"3", b"4")

    assert penstock.redrive("orders", limit=2).redriven == 2
    assert [letter.message.value for letter in penstock.dead_letters("orders")] == [b"2", b"3", b"4"]
    assert penstock.redrive("orders", limit=2, dry_run=True).matched == 2
    assert penstock.redrive("orders").redriven == 3
    assert [m.value for m in penstock.consumer("orders").receive(10)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_redrive_may_be_of_one_error_by_class_or_fingerprint(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"0", b"1", b"2"])
    consumer = penstock.consumer("orders", max_attempts=1)
    errors = [ValueError("row 1"), KeyError("name"), ValueError("other")]
    for message, error in zip(consumer.receive(3), errors, strict=True):
        message.nack(error=error)
    fingerprint = penstock.dead_letters("orders")[2].fingerprint

    assert penstock.redrive("orders", error=fingerprint, dry_run=True).matched == 1
    assert penstock.redrive("orders", error="ValueError").redriven == 2
    assert [letter.message.value for letter in penstock.dead_letters("orders")] == [b"1"]
    assert penstock.redrive("orders", error="TypeError").matched == 0


def test_a_redrive_may_be_of_one_message_by_either_of_its_ids(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"0", b"1", b"2")
    letters = penstock.dead_letters("orders")

    assert penstock.redrive("orders", error=letters[1].source).redriven == 1
    assert penstock.redrive("orders", error=letters[2].message.id).redriven == 1
    assert [letter.source for letter in penstock.dead_letters("orders")] == [letters[0].source]


def test_a_redrive_may_be_of_one_group(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x", group="a")
    penstock.consumer("orders", group="b").receive()[0].reject("no")

    assert penstock.redrive("orders", group="b").redriven == 1
    assert [letter.group for letter in penstock.dead_letters("orders")] == ["a"]


def test_a_redrive_may_have_a_rate(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"0", b"1", b"2", b"3", b"4")
    began_ms = penstock.clock.steady_ms()

    penstock.redrive("orders", rate=2)

    times = [m.timestamp - began_ms for m in penstock.read("orders", offset=5)]
    assert times == [0, 500, 1000, 1500, 2000]


def test_a_redrive_takes_all_however_large_they_are_together() -> None:
    config = BrokerConfig(receive_bytes_max=1 << 20)
    with TestBroker.open(config=config) as broker:
        broker.create_topic("orders")
        for number in range(4):
            bury(broker, *[b"%d" % number * 400_000])

        rehearsed = broker.redrive("orders", dry_run=True)
        redriven = broker.redrive("orders")

        assert len(broker.dead_letters("orders")) == 0
        assert (rehearsed.matched, redriven.redriven) == (4, 4)


async def test_what_dies_again_while_the_others_are_redriven_is_not_sent_back_once_more() -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("orders")
        await broker.publish_batch("orders", [b"0", b"1", b"2"])
        consumer = await broker.consumer("orders")

        async def reject_all() -> None:
            while True:
                for message in await consumer.receive(10, wait="1h"):
                    await message.reject("no good")

        async with asyncio.TaskGroup() as tasks:
            rejecting = tasks.create_task(reject_all())
            while len(await broker.dead_letters("orders")) < 3:
                await broker.advance("1s")
            redriving = tasks.create_task(broker.redrive("orders", limit=100, rate=1))
            while not redriving.done():
                await broker.advance("1s")
            rejecting.cancel()

        assert redriving.result().redriven == 3


def test_a_redrive_of_nothing_is_nothing(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    assert penstock.redrive("orders").matched == 0


def test_redriven_is_redriven_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        bury(broker, b"0", b"1", b"2")
        broker.redrive("orders", limit=1)

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert [letter.message.value for letter in broker.dead_letters("orders")] == [b"1", b"2"]
        assert broker.redrive("orders").redriven == 2
        assert [m.value for m in broker.consumer("orders").receive(10)] == [b"0", b"1", b"2"]


def test_the_internal_group_of_redrives_is_not_shown(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    bury(penstock, b"x")
    penstock.redrive("orders")

    assert penstock.groups("orders.dlq") == []


def test_an_expired_message_that_is_redriven_is_delivered(penstock: TestBroker) -> None:
    penstock.create_topic("orders", dead_letter_expired=True)
    penstock.publish("orders", b"x", ttl="1s")
    consumer = penstock.consumer("orders")
    penstock.advance("1s")
    assert consumer.receive() == []

    penstock.redrive("orders")

    assert [message.value for message in consumer.receive()] == [b"x"]


@pytest.mark.parametrize(("limit", "rate"), [(0, None), (-1, None), (10, 0), (10, -2.5)])
def test_a_senseless_limit_or_rate_is_refused(penstock: TestBroker, limit: int, rate: float | None) -> None:
    penstock.create_topic("orders")

    with pytest.raises(InvalidValue):
        penstock.redrive("orders", limit=limit, rate=rate)


def test_tombstones_die_and_come_back_as_tombstones(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [Message(None, key="k")])
    penstock.consumer("orders").receive()[0].reject("no")
    assert penstock.read("orders.dlq")[0].is_tombstone

    penstock.redrive("orders")

    [message] = penstock.consumer("orders").receive()
    assert (message.key, message.is_tombstone) == (b"k", True)
