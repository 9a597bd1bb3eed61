"""Places of stream groups as Kafka's clients tell them: with notes, kept over restarts, forgotten."""

from collections.abc import Iterator
from random import Random

import pytest

from penstock import Message
from penstock.errors import GroupKindMismatch, InvalidName, InvalidValue, NotAssigned, PartitionNotFound
from penstock.groups.commits import Commit
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk

NOTED = Commit(3, 7, "half way")


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def broker(files: MemoryFiles) -> Iterator[TestBroker]:
    with TestBroker.open("data", files=files) as opened:
        opened.create_topic("orders", partitions=2)
        for number in range(5):
            opened.publish("orders", b"%d" % number, partition=0)
        yield opened


def commit(broker: TestBroker, commits: dict[int, Commit], group: str = "billing") -> None:
    broker._driver.run(broker._core.commits.commit("orders", group, commits))


def read(broker: TestBroker, group: str = "billing") -> dict[int, Commit]:
    return broker._core.commits.read("orders", group)


def forget(broker: TestBroker, *partitions: int, group: str = "billing") -> None:
    broker._driver.run(broker._core.commits.forget("orders", group, partitions))


def test_a_place_is_found_again_as_it_was_told(broker: TestBroker) -> None:
    commit(broker, {0: NOTED})

    assert read(broker) == {0: NOTED}
    assert broker.describe_group("orders", "billing").partitions[0].floor == 3


def test_a_group_without_a_place_has_none(broker: TestBroker) -> None:
    broker.create_group("orders", "fresh", kind="stream")
    broker.create_group("orders", "workers")
    broker.seek("orders", "workers", to=2)

    assert read(broker, "nobody") == read(broker, "fresh") == read(broker, "workers") == {}


def test_the_beginning_is_a_place_like_any_other(broker: TestBroker) -> None:
    commit(broker, {1: Commit(0)})

    assert read(broker) == {1: Commit(0)}


def test_only_the_note_may_change(broker: TestBroker) -> None:
    commit(broker, {0: NOTED})

    commit(broker, {0: Commit(3, 7, "still")})

    assert read(broker)[0].metadata == "still"


def places(broker: TestBroker) -> None:
    commit(broker, {0: NOTED, 1: Commit(0)})
    commit(broker, {1: Commit(0)}, "other")
    forget(broker, 1, group="other")


def test_places_outlive_the_broker(files: MemoryFiles, broker: TestBroker) -> None:
    places(broker)
    broker.close()

    with TestBroker.open("data", files=files) as again:
        assert read(again) == {0: NOTED, 1: Commit(0)}
        assert read(again, "other") == {}


@pytest.mark.parametrize("seed", range(5))
def test_places_outlive_a_power_cut(seed: int) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders", partitions=2)
    broker.publish_batch("orders", [Message(b"", partition=0)] * 5)
    places(broker)

    disk.power_cut(Random(seed))

    with TestBroker.open("data", files=disk) as again:
        assert read(again) == {0: NOTED, 1: Commit(0)}
        assert read(again, "other") == {}


def test_consumers_of_penstock_tell_places_too(broker: TestBroker) -> None:
    with broker.consumer("orders", group="readers", kind="stream") as consumer:
        messages = consumer.receive(max_messages=2)
        consumer.ack(messages)

    assert read(broker, "readers") == {0: Commit(2)}


def test_a_seek_is_a_place(broker: TestBroker) -> None:
    commit(broker, {0: NOTED})

    broker.seek("orders", "billing", to=1, partition=0)

    assert read(broker) == {0: Commit(1)}


def test_a_place_that_retention_has_overtaken_stays_as_it_was_told(broker: TestBroker) -> None:
    """Its reader is to notice that something is missing."""
    commit(broker, {0: Commit(1)})
    broker.alter_topic("orders", retention="1h")

    broker.advance("2h")

    assert read(broker) == {0: Commit(1)}
    assert broker.describe_group("orders", "billing").partitions[0].floor == 5


def test_a_place_may_lie_beyond_the_end(files: MemoryFiles, broker: TestBroker) -> None:
    """Operators set places of topics that are still empty; after a restart it is within the log."""
    commit(broker, {1: Commit(9, 0, "soon")})

    assert read(broker) == {1: Commit(9, 0, "soon")}
    assert broker.describe_group("orders", "billing").partitions[1].lag == 0
    broker.close()
    with TestBroker.open("data", files=files) as again:
        assert read(again) == {1: Commit(0, 0, "soon")}


@pytest.mark.parametrize(("offset", "floor"), [(-2, 0), (-1, 5)])
def test_kafkajs_commits_the_beginning_and_the_end_as_such(
    files: MemoryFiles, broker: TestBroker, offset: int, floor: int
) -> None:
    commit(broker, {0: NOTED})
    commit(broker, {0: Commit(offset)})

    assert read(broker) == {0: Commit(offset)}
    assert broker.describe_group("orders", "billing").partitions[0].floor == floor
    broker.close()
    with TestBroker.open("data", files=files) as again:
        assert read(again) == {0: Commit(offset)}
        assert again.describe_group("orders", "billing").partitions[0].floor == floor


def test_a_place_is_forgotten_and_the_group_begins_anew(broker: TestBroker) -> None:
    commit(broker, {0: NOTED, 1: Commit(0)})

    forget(broker, 0)

    assert read(broker) == {1: Commit(0)}
    assert broker.describe_group("orders", "billing").lag == 5


def test_what_was_forgotten_may_be_forgotten_again(broker: TestBroker) -> None:
    commit(broker, {0: NOTED})

    forget(broker, 0, 1)
    forget(broker, 0)

    assert read(broker) == {}


@pytest.mark.parametrize("group", ["", "__mine", "x" * 201])
def test_a_group_is_not_named_like_the_brokers_own(broker: TestBroker, group: str) -> None:
    with pytest.raises(InvalidName):
        commit(broker, {0: NOTED}, group)


def test_kafka_names_its_groups_as_it_likes(broker: TestBroker) -> None:
    commit(broker, {0: NOTED}, "Rechnungen / März")

    assert read(broker, "Rechnungen / März") == {0: NOTED}


def test_nonsense_changes_nothing(broker: TestBroker) -> None:
    with pytest.raises(PartitionNotFound):
        commit(broker, {0: NOTED, 2: NOTED})
    with pytest.raises(InvalidValue, match="4096"):
        commit(broker, {0: NOTED, 1: Commit(0, 0, "x" * 4097)})

    assert broker.groups("orders") == []


def test_a_queue_group_has_no_places(broker: TestBroker) -> None:
    broker.create_group("orders", "workers")

    with pytest.raises(GroupKindMismatch):
        commit(broker, {0: NOTED}, "workers")
    with pytest.raises(GroupKindMismatch):
        forget(broker, 0, group="workers")


def test_what_a_member_owns_is_committed_by_it_alone(broker: TestBroker) -> None:
    with broker.consumer("orders", group="readers", kind="stream") as consumer:
        consumer.receive()

        with pytest.raises(NotAssigned):
            commit(broker, {0: NOTED}, "readers")


def test_what_a_transaction_holds_is_unsettled_until_it_ends(broker: TestBroker) -> None:
    commits = broker._core.commits
    commits.hold("orders", "billing", [0, 1])
    commits.hold("orders", "billing", [0])

    commits.release("orders", "billing", [0, 1])
    assert [commits.unsettled("orders", "billing", number) for number in (0, 1)] == [True, False]
    commits.release("orders", "billing", [0])

    assert not commits.unsettled("orders", "billing", 0)
