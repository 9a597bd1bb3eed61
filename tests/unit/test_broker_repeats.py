"""Answers that come twice, late, or from an earlier life of the broker: what clients of a server send."""

from random import Random

import pytest

from penstock.broker.batches import BatchConsumer
from penstock.config.broker import BrokerConfig, GroupOptions
from penstock.errors import AlreadySettled, LeaseLost
from penstock.operations.consumers import ConsumerOptions
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.native import LeasedBatch, Run


class Lives:
    """A broker that is killed, or loses power, and is opened again."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self._config = config
        self._disk = CrashDisk()
        self.clock = ManualClock()
        self.broker = self._open()

    def _open(self) -> TestBroker:
        return TestBroker.open("data", config=self._config, files=self._disk, clock=self.clock)

    def kill(self) -> None:
        self._disk.kill()
        self.go_on()

    def cut_power(self, seed: int) -> None:
        self._disk.power_cut(Random(seed))
        self.go_on()

    def go_on(self) -> None:
        """Open it again, a moment later."""
        self.clock.move_to(self.clock.steady_ms() + 1)
        self.broker = self._open()

    def consumer(self, **options: object) -> BatchConsumer:
        given: GroupOptions = options  # type: ignore[assignment]
        operations = self.broker._local
        return self.broker._driver.run(operations.batch_consumer("orders", "g", ConsumerOptions(group=given)))

    def receive(self, consumer: BatchConsumer, limit: int = 100) -> list[LeasedBatch]:
        return self.broker._driver.run(consumer.receive(limit, 0))

    def ack(self, consumer: BatchConsumer, *runs: Run) -> None:
        self.broker._driver.run(consumer.ack(list(runs)))

    def commit(self, consumer: BatchConsumer, offset: int) -> None:
        self.broker._driver.run(consumer.commit({0: offset}))


def run_of(lent: LeasedBatch, start: int | None = None, end: int | None = None) -> Run:
    return (
        lent.partition,
        lent.lease,
        lent.start if start is None else start,
        lent.end if end is None else end,
    )


@pytest.fixture
def lives() -> Lives:
    made = Lives()
    made.broker.create_topic("orders")
    made.broker.publish_batch("orders", [b"%d" % number for number in range(10)])
    return made


def test_a_lease_of_an_earlier_life_is_good_for_nothing_though_its_messages_are_lent_again(
    lives: Lives,
) -> None:
    """Its number is not given again, though the journal may have forgotten that it was given."""
    [old] = lives.receive(lives.consumer())
    lives.kill()
    consumer = lives.consumer()
    [new] = lives.receive(consumer)
    assert (new.start, new.end) == (old.start, old.end)

    with pytest.raises(LeaseLost):
        lives.ack(consumer, run_of(old))

    lives.ack(consumer, run_of(new))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("end", ["kill", "power cut", "clock set back"])
def test_nor_is_one_of_any_life_before(lives: Lives, ordered: bool, end: str) -> None:
    """Each ends so soon that nothing of its leases is known afterwards."""
    lives.broker.create_group("orders", "g", ordered=ordered)
    old: list[Run] = []
    for seed in range(3):
        [lent] = lives.receive(lives.consumer(), 1)
        assert lent.attempt == 1
        old.append(run_of(lent))
        if end == "clock set back" and seed == 2:
            lives.clock.step_wall("1h", back=True)
        if end == "power cut":
            lives.cut_power(seed)
        else:
            lives.kill()

    consumer = lives.consumer()
    [new] = lives.receive(consumer, 1)

    assert {run[2:] for run in old} == {(new.start, new.end)}
    for run in old:
        with pytest.raises(LeaseLost):
            lives.ack(consumer, run)
    lives.ack(consumer, run_of(new))


@pytest.mark.parametrize("gone", ["topic", "group"])
def test_what_was_lent_by_a_topic_or_group_that_is_gone_is_not_by_another_of_its_name(
    lives: Lives, gone: str
) -> None:
    [old] = lives.receive(lives.consumer(), 1)
    if gone == "topic":
        lives.broker.delete_topic("orders")
        lives.broker.create_topic("orders")
        lives.broker.publish("orders", b"another")
    else:
        lives.broker.delete_group("orders", "g")
    lives.broker.advance("1ms")
    consumer = lives.consumer()
    [new] = lives.receive(consumer, 1)
    assert (new.start, new.end) == (old.start, old.end)

    with pytest.raises(LeaseLost):
        lives.ack(consumer, run_of(old))

    assert consumer.in_flight == 1


def test_settled_before_means_all_of_it(lives: Lives) -> None:
    """Or a client that repeats an ack would take it for an answer to the whole."""
    [old] = lives.receive(lives.consumer())
    lives.kill()
    consumer = lives.consumer()
    [new] = lives.receive(consumer)
    lives.ack(consumer, run_of(new, end=5))

    with pytest.raises(LeaseLost) as caught:
        lives.ack(consumer, run_of(old))
    assert caught.value.facts["offset"] == 5
    with pytest.raises(LeaseLost):
        lives.ack(consumer, run_of(old, end=5), run_of(old, start=5))
    with pytest.raises(LeaseLost):
        lives.ack(consumer, run_of(old, start=5), run_of(old, end=5))
    with pytest.raises(AlreadySettled):
        lives.ack(consumer, run_of(old, end=5))


def test_a_lease_of_somebody_else_in_a_list_does_not_keep_the_others_from_being_settled(lives: Lives) -> None:
    one, two = lives.consumer(), lives.consumer()
    [mine] = lives.receive(one, 5)
    [other] = lives.receive(two, 5)

    with pytest.raises(LeaseLost):
        lives.ack(one, run_of(other), run_of(mine))

    with pytest.raises(AlreadySettled):
        lives.ack(one, run_of(mine))
    lives.ack(two, run_of(other))


def test_what_was_read_before_a_restart_may_be_committed_after_it_and_is_not_read_again(lives: Lives) -> None:
    [read] = lives.receive(lives.consumer(kind="stream"), 5)
    assert (read.start, read.end) == (0, 5)
    lives.kill()
    consumer = lives.consumer(kind="stream")
    consumer.heartbeat()

    lives.commit(consumer, 5)

    [following] = lives.receive(consumer)
    assert (following.start, following.end) == (5, 10)


@pytest.mark.parametrize(("elsewhere", "attempt"), [(False, 2), (True, 1)])
def test_a_kill_counts_as_an_attempt_only_where_the_consumer_was_killed_too(
    elsewhere: bool, attempt: int
) -> None:
    lives = Lives(BrokerConfig(consumers_elsewhere=elsewhere))
    lives.broker.create_topic("orders")
    lives.broker.publish("orders", b"x")
    [lent] = lives.receive(lives.consumer())
    lives.broker.advance("1s")  # Until the journal has the lease.

    lives.kill()

    [again] = lives.receive(lives.consumer())
    assert (lent.attempt, again.attempt) == (1, attempt)
    lives.kill()  # Replays what the last start has written.
    [again] = lives.receive(lives.consumer())
    assert again.attempt == attempt


def test_a_server_that_is_killed_again_and_again_buries_nothing() -> None:
    lives = Lives(BrokerConfig(consumers_elsewhere=True))
    lives.broker.create_topic("orders")
    lives.broker.publish("orders", b"x")
    for _ in range(6):
        [lent] = lives.receive(lives.consumer(max_attempts=2))
        assert lent.attempt == 1
        lives.broker.advance("1s")
        lives.kill()

    assert list(lives.broker.topics()) == ["orders"]
