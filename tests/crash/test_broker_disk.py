"""A disk without room, and a disk whose syncs fail: who is told what, and what goes on.

A full disk is a state that passes: publishing is refused with ``DiskFull``,
consumers go on receiving, an answer that found no room can just be given
again, and nothing is lost.  A sync that failed is the end of one log until the
broker is opened again: its publishers get ``StorageFailed`` and are never told
that a message is safe; every other partition goes on.
"""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.full_disk import publish_until_full

import penstock
from penstock.config.broker import BrokerConfig
from penstock.errors import AlreadySettled, DiskFull, StorageFailed
from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk, Fault, FaultyFiles

CONFIG = BrokerConfig(clock_check_ms=24 * 3600 * 1000)


class Setup:
    """A broker on a disk that a test can make fail."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.files = FaultyFiles(self.disk)
        self.clock = ManualClock()
        self.broker = self.open()

    def open(self) -> TestBroker:
        return TestBroker.open("data", config=CONFIG, files=self.files, clock=self.clock)

    def fill(self) -> None:
        """From now on there is no room."""
        self.files.fail_next(Fault.FULL, lasting=True)

    def reopen(self, *, power: int | None = None) -> TestBroker:
        """The process dies, or the power, and the next one begins on healthy files."""
        if power is None:
            self.disk.kill()
        else:
            self.disk.power_cut(Random(power))
        self.files = FaultyFiles(self.disk)
        self.broker = self.open()
        return self.broker

    def values(self, topic: str) -> list[bytes]:
        return [message.value for message in self.broker.read(topic, limit=10_000)]


@pytest.fixture
def setup() -> Setup:
    setup = Setup()
    setup.broker.create_topic("orders", partitions=2, retention=None)
    return setup


# No room.


def test_a_full_disk_is_one_problem_and_one_line_until_there_is_room(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    broker = setup.broker
    broker.publish("orders", b"before", delay="2s")  # Due while there is no room, again and again.
    setup.fill()
    with caplog.at_level("INFO", "penstock"):
        for _ in range(5):
            with pytest.raises(DiskFull):
                broker.publish("orders", b"refused")
            broker.advance("3s")
        assert [problem.kind for problem in broker.stats().problems] == ["disk_full"]
        assert [record.levelname for record in caplog.records] == ["WARNING"]

        setup.files.heal()
        broker.advance("2s")

    assert broker.stats().problems == []
    assert [record.message for record in caplog.records][1:] == ["there is room on the disk again"]
    assert [message.value for message in broker.read("orders")] == [b"before"]


def test_a_sync_that_fails_is_one_problem_of_its_partition(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    broker = setup.broker
    broker.publish("orders", b"before", partition=0)
    broker.publish("orders", b"before", partition=1)
    setup.files.fail_next(Fault.FAIL)
    for _ in range(3):
        with pytest.raises(StorageFailed):
            broker.publish("orders", b"refused", partition=0)
    broker.publish("orders", b"after", partition=1)
    broker.advance("10s")

    [problem] = broker.stats().problems
    assert (problem.kind, problem.topic, problem.partition) == ("storage_failed", "orders", 0)
    assert len(caplog.records) == 1


def test_without_room_publishing_is_refused_and_works_again_when_there_is_room(setup: Setup) -> None:
    broker = setup.broker
    broker.publish("orders", b"before", partition=0)
    setup.fill()

    for _ in range(3):
        with pytest.raises(DiskFull):
            broker.publish("orders", b"refused", partition=0)
        with pytest.raises(DiskFull):
            broker.publish("orders", b"refused", partition=0, delay="1s")
        with pytest.raises(DiskFull):
            broker.publish_batch(
                "orders", [Message(b"refused", partition=0), Message(b"refused", partition=0)]
            )
    setup.files.heal()
    broker.publish("orders", b"after", partition=0)

    assert setup.values("orders") == [b"before", b"after"]
    setup.reopen(power=1)
    setup.broker.advance("1h")
    assert setup.values("orders") == [b"before", b"after"]


def test_without_room_consumers_go_on_and_every_answer_can_be_given_again(setup: Setup) -> None:
    broker = setup.broker
    for number in range(6):
        broker.publish("orders", b"%d" % number, partition=0)
    consumer = broker.consumer("orders", group="work", visibility_timeout="1h")
    [first] = consumer.receive(1)
    setup.fill()

    rest = consumer.receive(10)
    assert [message.value for message in rest] == [b"1", b"2", b"3", b"4", b"5"]
    with pytest.raises(DiskFull):
        first.ack()
    with pytest.raises(DiskFull):
        rest[0].nack(delay=0)
    with pytest.raises(DiskFull):
        rest[1].reject("bad")
    with pytest.raises(DiskFull):
        consumer.ack(rest[2:4])
    with pytest.raises(DiskFull):
        consumer.ack(rest[4], publish=[("orders", Message(b"output", partition=1))])
    assert broker.describe_group("orders", "work").in_flight == 6
    setup.files.heal()
    first.ack()
    rest[0].nack(delay=0)
    rest[1].reject("bad")
    consumer.ack(rest[2:4])
    consumer.ack(rest[4], publish=[("orders", Message(b"output", partition=1))])

    with pytest.raises(AlreadySettled):
        first.ack()
    assert [letter.message.value for letter in broker.dead_letters("orders")] == [b"2"]
    setup.reopen(power=2)
    again = setup.broker.consumer("orders", group="work").receive(10)
    assert [(message.value, message.attempt) for message in again] in (
        [(b"1", 2), (b"output", 1)],
        [(b"output", 1), (b"1", 2)],
    )


def test_without_room_a_consumer_gets_so_much_and_no_more_and_nothing_is_forgotten(setup: Setup) -> None:
    """Leases wait in memory to be written; when they are many, no more are given until there is room."""
    broker = setup.broker
    count = 1700
    broker.publish_batch("orders", [Message(b"%d" % number, partition=0) for number in range(count)])
    consumer = broker.consumer("orders", group="work", visibility_timeout="12h")
    setup.fill()
    held = [consumer.receive(1)[0] for _ in range(1000)]
    for _ in range(3):
        with pytest.raises(DiskFull):
            consumer.receive(1)
    setup.files.heal()
    held += [consumer.receive(1)[0] for _ in range(count - 1000)]
    held[-1].ack()

    setup.reopen()
    again = setup.broker.consumer("orders", group="work").receive(count)
    assert [(int(message.value), message.attempt) for message in again] == [(n, 2) for n in range(count - 1)]


def test_a_message_that_dies_without_room_is_one_dead_letter_later(setup: Setup) -> None:
    broker = setup.broker
    broker.publish("orders", b"poison", partition=0)
    broker.create_group("orders", "work", max_attempts=1, visibility_timeout="10s")
    broker.consumer("orders", group="work").receive(1)
    setup.fill()

    broker.advance("30s")  # Its only delivery times out, and it cannot be buried.
    assert broker.dead_letters("orders") == []
    assert broker.depth("orders", "work") == 1
    setup.files.heal()
    broker.advance("5s")

    assert [letter.attempts for letter in broker.dead_letters("orders")] == [1]
    broker.close()
    setup.reopen()
    setup.broker.advance("1m")
    assert setup.values("orders.dlq") == [b"poison"]
    assert setup.broker.depth("orders", "work") == 0


def test_a_topic_that_found_no_room_can_be_made_when_there_is_room() -> None:
    """Whichever operation finds the disk full: the second try of the call works, and so does a restart."""
    files = FaultyFiles(CrashDisk())
    TestBroker.open("data", files=files).create_topic("orders", partitions=2)
    for at in range(1, len(files.operations) + 1):
        setup = Setup()
        setup.files._at = len(setup.files.operations) + at
        setup.files._fault = Fault.FULL
        try:
            setup.broker.create_topic("orders", partitions=2)
        except DiskFull:
            setup.broker.create_topic("orders", partitions=2)
        except StorageFailed:
            pass  # A sync, which is no matter of room.
        setup.files.heal()
        if "orders" in setup.broker.topics():
            setup.broker.publish("orders", b"x")
            setup.reopen(power=at)
            assert setup.values("orders") == [b"x"]


def test_a_delayed_message_that_found_no_room_comes_when_there_is_room(setup: Setup) -> None:
    setup.broker.publish("orders", b"later", partition=0, delay="5s")
    setup.fill()

    setup.broker.advance("10s")
    assert setup.values("orders") == []
    assert setup.broker.scheduled_count("orders") == 1
    setup.files.heal()
    setup.broker.advance("2s")

    assert setup.values("orders") == [b"later"]
    setup.reopen(power=3)
    setup.broker.advance("1h")
    assert setup.values("orders") == [b"later"]


def test_without_room_everything_else_that_is_due_still_happens(setup: Setup) -> None:
    """The schedule of one partition cannot write; leases of another time out all the same."""
    broker = setup.broker
    broker.publish("orders", b"held", partition=1)
    broker.consumer("orders", group="work", visibility_timeout="5s").receive(1)
    broker.publish("orders", b"later", partition=0, delay="5s")
    setup.fill()
    broker.advance("6s")

    assert broker.describe_group("orders", "work").in_flight == 0
    [again] = broker.consumer("orders", group="work").receive(1)
    assert again.attempt == 2


def test_closing_without_room_closes_and_loses_nothing(setup: Setup) -> None:
    broker = setup.broker
    for number in range(3):
        broker.publish("orders", b"%d" % number, partition=number % 2)
    consumer = broker.consumer("orders", group="work")
    consumer.receive(1)[0].ack()
    setup.fill()
    broker.close()

    setup.files.heal()
    setup.broker = setup.open()
    again = setup.broker.consumer("orders", group="work").receive(10)
    assert len(again) == 2
    assert sorted(setup.values("orders")) == [b"0", b"1", b"2"]


# A real disk without room.


def test_a_disk_that_is_really_full_refuses_until_there_is_room(tiny_disk: Path) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    with penstock.open(str(tiny_disk / "data")) as broker:
        broker.create_topic("orders", retention=None)
        broker.create_group("orders", "work")
        accepted = publish_until_full(broker)
        assert len(accepted) > 10
        consumer = broker.consumer("orders", group="work")
        received = consumer.receive(5)
        assert [message.value for message in received] == accepted[:5]
        for _ in range(3):
            with pytest.raises(DiskFull):
                broker.publish("orders", bytes(10_000))
        ballast.unlink()
        consumer.ack(received)
        accepted += publish_until_full(broker)
    with penstock.open(str(tiny_disk / "data")) as broker:
        assert [message.value for message in broker.read("orders", limit=1000)] == accepted
        rest = broker.consumer("orders", group="work").receive(1000)
        assert [message.value for message in rest] == accepted[5:]


# Syncs that fail.


def fail_syncs(setup: Setup, part: str) -> None:
    """From now on the syncs of files whose path has ``part`` fail."""
    perform = setup.files.perform

    def failing(name: str, path: str, *rest: object) -> object:
        if name == "sync" and part in path:
            raise StorageFailed(path=path, why="sync was made to fail")
        return perform(name, path, *rest)  # type: ignore[arg-type]

    setup.files.perform = failing  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("power", [None, 1, 2, 3, 4, 5])
def test_a_publish_whose_sync_failed_is_never_acknowledged(setup: Setup, power: int | None) -> None:
    broker = setup.broker
    for partition in range(2):
        broker.publish("orders", b"safe", partition=partition)
    fail_syncs(setup, "orders/0/0")

    with pytest.raises(StorageFailed):
        broker.publish("orders", b"unsure", partition=0)
    for _ in range(2):
        with pytest.raises(StorageFailed):
            broker.publish("orders", b"refused", partition=0)
        with pytest.raises(StorageFailed):
            broker.publish("orders", b"refused", partition=0, dedup_id="x")
    assert [message.value for message in broker.read("orders", partition=0)] == [b"safe"]  # Not b"unsure".
    broker.publish("orders", b"other", partition=1)
    received = broker.consumer("orders", group="work").receive(10)
    assert Counter(message.value for message in received) == {b"safe": 2, b"other": 1}
    for message in received:
        message.ack()  # The journals are other files, and go on.

    setup.reopen(power=power)
    assert [m.value for m in setup.broker.read("orders", partition=1)] == [b"safe", b"other"]
    assert [m.value for m in setup.broker.read("orders", partition=0)] in ([b"safe"], [b"safe", b"unsure"])
    setup.broker.publish("orders", b"again", partition=0)
    values = [message.value for message in setup.broker.consumer("orders", group="work").receive(10)]
    assert values in ([b"again"], [b"unsure", b"again"])


@pytest.mark.parametrize("power", [None, 1, 2, 3, 4, 5])
def test_an_ack_whose_sync_failed_is_not_answered_and_other_partitions_go_on(
    setup: Setup, power: int | None
) -> None:
    broker = setup.broker
    for partition in range(2):
        for number in range(2):
            broker.publish("orders", b"%d" % number, partition=partition)
    consumer = broker.consumer("orders", group="work")
    received = sorted(consumer.receive(10), key=lambda message: (message.partition, message.offset))
    received[0].ack()
    fail_syncs(setup, "orders/0/journal")

    with pytest.raises(StorageFailed):
        received[1].ack()
    received[2].ack()
    broker.publish("orders", b"2", partition=0)

    setup.reopen(power=power)
    again = {(m.partition, m.value) for m in setup.broker.consumer("orders", group="work").receive(10)}
    assert {(0, b"2"), (1, b"1")} <= again <= {(0, b"1"), (0, b"2"), (1, b"1")}


def test_a_delayed_message_whose_sync_failed_is_not_answered(setup: Setup) -> None:
    setup.broker.publish("orders", b"safe", partition=0, delay="1m")
    fail_syncs(setup, "orders/0/schedule")

    with pytest.raises(StorageFailed):
        setup.broker.publish("orders", b"unsure", partition=0, delay="1m")
    setup.broker.publish("orders", b"now", partition=0)
    setup.broker.publish("orders", b"other", partition=1, delay="1m")

    setup.reopen()
    setup.broker.advance("2m")
    values = Counter(setup.values("orders"))
    assert values - Counter([b"unsure"]) == Counter([b"safe", b"now", b"other"])


@pytest.mark.parametrize("part", ["orders/0/0", "orders/0/journal", "orders/0/schedule", "orders/1/0"])
def test_a_broker_with_a_failed_log_closes_and_opens_again(setup: Setup, part: str) -> None:
    broker = setup.broker
    for partition in range(2):
        broker.publish("orders", b"safe", partition=partition)
        broker.publish("orders", b"later", partition=partition, delay="1m")
    consumer = broker.consumer("orders", group="work")
    fail_syncs(setup, part)
    for partition in range(2):
        for options in ({}, {"delay": "1m"}):
            try:
                broker.publish("orders", b"unsure", partition=partition, **options)  # type: ignore[arg-type]
            except StorageFailed:
                continue
    for message in consumer.receive(10):
        try:
            message.ack()
        except StorageFailed:
            continue
    broker.advance("2m")
    broker.close()

    setup.reopen()
    setup.broker.advance("5m")
    values = Counter(setup.values("orders"))
    assert (values[b"safe"], values[b"later"]) == (2, 2)
    assert values[b"unsure"] <= 4
