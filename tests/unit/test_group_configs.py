"""Settings of Kafka's groups: kept, handed on to queue groups, and refused where they cannot be."""

from typing import Any

import pytest

from penstock.broker.operations import LocalOperations
from penstock.errors import DirectoryUnusable, InvalidName, InvalidValue
from penstock.groups.configs import GroupConfig
from penstock.groups.heartbeats import MemberHeartbeat
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker


def operations(broker: TestBroker) -> LocalOperations:
    return broker._local


def alter(broker: TestBroker, group: str, **said: Any) -> None:
    broker._driver.run(operations(broker).alter_group_config(group, GroupConfig(**said)))


def lock_ms(broker: TestBroker, group: str = "billing") -> int:
    return operations(broker).group_config(group)[1].share_lock_ms


def test_what_was_said_is_there_after_a_restart_and_a_damaged_file_is_told() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        alter(broker, "billing", share_lock_ms=5000)
    with TestBroker.open("data", files=files) as broker:
        assert lock_ms(broker) == 5000

    damaged = files.read_file("data/groups.json").replace(b"5000", b"6000")
    files.write_file("data/groups.json", damaged)

    with TestBroker.open("data", files=files) as broker:
        assert [problem.kind for problem in broker.stats().problems] == ["file_damaged"]
        assert lock_ms(broker) not in (5000, 6000)
        with pytest.raises(DirectoryUnusable, match=r"groups.json is damaged"):
            alter(broker, "billing", share_lock_ms=7000)
    assert files.read_file("data/groups.json") == damaged


def test_queue_groups_of_that_name_follow_on_all_topics_and_only_in_what_has_changed() -> None:
    with TestBroker.open() as broker:
        for topic in ("orders", "bills"):
            broker.create_topic(topic)
            broker.create_group(topic, "billing", max_attempts=7)
        broker.create_group("orders", "other")
        usual_ms = lock_ms(broker, "other")

        alter(broker, "billing", share_lock_ms=5000)

        groups = [broker._core.state.topics[topic].groups["billing"] for topic in ("orders", "bills")]
        assert [group.settings.visibility_timeout_ms for group in groups] == [5000, 5000]
        assert [group.settings.max_attempts for group in groups] == [7, 7]
        assert lock_ms(broker, "other") == usual_ms
        alter(broker, "billing")
        assert [group.settings.visibility_timeout_ms for group in groups] == [usual_ms, usual_ms]


def test_stream_groups_are_left_alone() -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders")
        broker.create_group("orders", "billing", kind="stream")
        before = broker._core.state.topics["orders"].groups["billing"].settings

        alter(broker, "billing", share_lock_ms=5000)

        assert broker._core.state.topics["orders"].groups["billing"].settings == before


@pytest.mark.parametrize(
    "said",
    [
        {"consumer_session_ms": 1},
        {"share_attempts": 0},
        {"share_lock_ms": 10**10},
        {"consumer_heartbeat_ms": 45_000},
        {"share_session_ms": 1000, "share_heartbeat_ms": 1000},
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        GroupConfig(**said)


def test_the_brokers_own_groups_have_no_settings() -> None:
    with TestBroker.open() as broker, pytest.raises(InvalidName):
        alter(broker, "__own", share_lock_ms=5000)


def test_members_of_a_consumer_group_keep_to_its_times() -> None:
    """They hear how often they are to be heard; one that is silent for longer than its session is gone."""
    with TestBroker.open() as broker:
        broker.create_topic("orders")
        alter(broker, "billing", consumer_session_ms=1000, consumer_heartbeat_ms=300)
        for group in ("billing", "usual"):
            joins = MemberHeartbeat(
                member="m", epoch=0, rebalance_timeout_ms=1000, topics=frozenset({"orders"})
            )
            told = broker._driver.run(operations(broker).consumer_group_heartbeat(group, joins))
            assert told.interval_ms == (300 if group == "billing" else 2000)

        broker.advance("1.5s")

        assert operations(broker).consumer_group("billing") is None
        assert operations(broker).consumer_group("usual") is not None
