"""Places that Kafka's groups left behind are forgotten in time, and those of others are not."""

from collections.abc import Iterator

import pytest
from tests.transactional import Producer, run

from penstock.config.broker import BrokerConfig
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer, JoinRequest, JoinResult, SyncRequest
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker

KEPT = "10h"  # And an hour more, at which the broker looks.
CONFIG = BrokerConfig(
    offsets_retention_ms=10 * 3600_000, maintenance_ms=600_000, clock_check_ms=24 * 3600_000
)


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker.open(config=CONFIG) as made:
        made.create_topic("orders", partitions=2)
        made.publish_batch("orders", [b"x"] * 10)  # To one partition, and to the other.
        made.publish_batch("orders", [b"x"] * 10)
        yield made


def commit(broker: TestBroker, group: str = "billing", offset: int = 3, partition: int = 0) -> None:
    """As a Kafka consumer does that is in no group."""
    run(broker, "commit_group_offsets", "orders", group, {partition: Commit(offset, 0, "note")}, Committer())


def places(broker: TestBroker, group: str = "billing") -> dict[int, int]:
    found: dict[int, Commit] = run(broker, "committed_offsets", "orders", group)
    return {number: commit.offset for number, commit in found.items()}


def join(broker: TestBroker) -> JoinResult:
    """A member that need not say much."""
    told = JoinRequest(
        member="",
        new_member="",
        session_timeout_ms=30 * 60_000,
        rebalance_timeout_ms=60_000,
        protocols=(("range", b""),),
        id_first=False,
    )
    joined: JoinResult = run(broker, "join_group", "billing", told)
    run(broker, "sync_group", "billing", SyncRequest(member=joined.member, generation=joined.generation))
    return joined


def test_seven_days_are_the_default_as_in_kafka() -> None:
    assert BrokerConfig().offsets_retention_ms == 7 * 24 * 3600 * 1000


def test_a_place_is_kept_for_its_time_and_then_forgotten_with_its_group(broker: TestBroker) -> None:
    commit(broker)

    broker.advance(KEPT)
    assert places(broker) == {0: 3}
    broker.advance("2h")

    assert places(broker) == {}
    assert broker.describe_topic("orders").groups == []
    assert run(broker, "member_groups") == []


def test_each_place_of_a_reader_without_a_group_has_its_own_time(broker: TestBroker) -> None:
    commit(broker, partition=0)
    broker.advance("6h")
    commit(broker, partition=1)
    broker.advance("6h")

    assert places(broker) == {1: 3}
    assert broker.describe_topic("orders").groups == ["billing"]


def test_the_same_place_told_again_counts_anew(broker: TestBroker) -> None:
    for _ in range(4):
        commit(broker)
        broker.advance("6h")

    assert places(broker) == {0: 3}


def test_the_time_begins_when_the_last_member_has_left(broker: TestBroker) -> None:
    commit(broker)
    member = join(broker)
    for _ in range(15 * 3):
        broker.advance("20m")
        assert not run(broker, "heartbeat_group", "billing", member.member, None, member.generation)
    assert places(broker) == {0: 3}
    run(broker, "leave_group", "billing", [(member.member, None)])

    broker.advance("9h")
    assert places(broker) == {0: 3}
    broker.advance("3h")

    assert places(broker) == {}


def test_what_was_told_by_others_is_kept(broker: TestBroker) -> None:
    broker.commit_offsets("orders", "spark", {0: 4})
    with broker.consumer("orders", group="own", kind="stream") as consumer:
        consumer.receive(10)
        consumer.commit()
    commit(broker, "moved")
    broker.seek("orders", "moved", to=2, partition=0)
    broker.create_group("orders", "workers")
    commit(broker, "taken")
    broker.commit_offsets("orders", "taken", {0: 3})

    broker.advance("2d")

    assert broker.describe_topic("orders").groups == ["moved", "own", "spark", "taken", "workers"]
    assert places(broker, "spark") == {0: 4}
    assert places(broker, "own")
    assert places(broker, "moved")[0] == 2
    assert places(broker, "taken") == {0: 3}


def test_a_group_that_was_made_by_hand_stays_without_its_place(broker: TestBroker) -> None:
    broker.create_group("orders", "billing", kind="stream", start="latest")
    commit(broker)

    broker.advance("1d")

    assert places(broker) == {}
    assert broker.describe_topic("orders").groups == ["billing"]


def test_a_place_that_a_transaction_is_about_to_move_is_kept(broker: TestBroker) -> None:
    commit(broker)
    broker.advance("10h 59m")
    producer = Producer(broker, timeout_ms=15 * 60_000)
    producer.commit_place("orders", "billing", 5)

    broker.advance("10m")
    assert places(broker) == {0: 3}
    producer.commit()

    broker.advance("9h")
    assert places(broker) == {0: 5}


def test_the_time_is_kept_over_restarts_and_nothing_is_forgotten_in_the_first_hour() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", config=CONFIG, files=files, clock=clock) as broker:
        broker.create_topic("orders", partitions=2)
        commit(broker, offset=0)
        broker.advance("5h")
    clock.move_to(clock.steady_ms() + 100 * 3600_000)

    with TestBroker.open("data", config=CONFIG, files=files, clock=clock) as broker:
        broker.advance("59m")
        assert places(broker) == {0: 0}
        broker.advance("30m")
        assert places(broker) == {}
