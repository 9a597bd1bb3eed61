"""A broker whose node may have been replaced: what it answers with and without the lease (rule 25)."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.movable import close, core_of

from penstock.broker.steps import Steps
from penstock.errors import NotOwner, SequenceOutOfOrder, SequenceReused
from penstock.testing import TestBroker
from penstock.wire.records import encode_values, number_batch, seal_batch


class Lease:
    limited = True
    node = 1
    lease_ms = 1 << 62
    is_owner = True

    def verify(self) -> Steps[bool]:
        yield from ()
        return self.is_owner


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    penstock.create_topic("orders", partitions=1)
    penstock.publish("orders", b"a")
    return penstock


@pytest.fixture
def lease(broker: TestBroker) -> Lease:
    state = core_of(broker).state
    lease = state.lease = Lease()
    state.topic("orders").partitions.node = lease.node  # A node has its number before it has topics.
    return lease


def numbered(value: bytes, sequence: int) -> bytes:
    batch = encode_values([value], 0)
    number_batch(batch, 7, sequence)
    seal_batch(batch)
    return bytes(batch)


def reads(broker: TestBroker) -> list[Callable[[], Any]]:
    core = core_of(broker)
    return [
        lambda: broker.fetch("orders", 0, 0),
        lambda: core.fetching.fetch_raw("orders", 0, 0, 1000, True),
        lambda: broker.read("orders"),
        lambda: broker.read("orders", partition=0),
        lambda: broker.peek("orders", 1),
        lambda: broker.offsets("orders", "latest"),
        lambda: core.fetching.position("orders", 0, "latest", True),
        lambda: broker.trace("orders", partition=0, offset=0),
    ]


def test_reads_are_answered_only_while_the_lease_lasts(broker: TestBroker, lease: Lease) -> None:
    for read in reads(broker):
        assert read()

    lease.lease_ms = broker.clock.steady_ms()

    for read in reads(broker):
        with pytest.raises(NotOwner):
            read()


def test_reads_of_all_partitions_wait_until_all_of_this_node_are_loaded(
    broker: TestBroker, lease: Lease
) -> None:
    """A Kafka client that is told of no committed offset begins anew, and would skip messages."""
    broker.alter_topic("orders", partitions=2)
    broker.create_group("orders", "s", kind="stream")
    broker.commit_offsets("orders", "s", {1: 0})
    core = core_of(broker)
    requests: list[Callable[[], Any]] = [
        lambda: broker.read("orders"),
        lambda: broker.peek("orders", 1),
        lambda: broker.offsets("orders", "latest"),
        lambda: broker.describe_topic("orders"),
        lambda: broker.describe_group("orders", "s"),
        lambda: core.facts.lanes("orders"),
        lambda: core.commits.read("orders", "s"),
    ]
    close(broker, "orders", 1, owner=2)
    for request in requests[:-1]:
        assert request()
    assert core.commits.read("orders", "s") == {}

    core.set_owner("orders", 1, lease.node, 12)  # It comes, and is being loaded.

    for request in requests:
        with pytest.raises(NotOwner):
            request()
    assert broker.read("orders", partition=0)


def test_groups_dead_letters_and_schedules_are_listed_once_all_of_this_node_is_loaded(
    broker: TestBroker, lease: Lease
) -> None:
    """Who is told that there are none would take it that there never were."""
    broker.create_topic("orders.dlq")
    local = broker._local
    requests: list[Callable[[], Any]] = [
        lambda: broker.scheduled("orders"),
        lambda: broker.scheduled_count("orders"),
        lambda: broker.dead_letters("orders"),
        lambda: broker.dead_letter_errors("orders"),
        lambda: broker.queues(),
        lambda: broker._driver.run(local.topics_with_offsets("g")),
        lambda: broker._driver.run(local.queued_topics("g")),
        lambda: broker._driver.run(local.member_groups()),
        lambda: broker._driver.run(local.member_group("g")),
        lambda: broker._driver.run(local.check_delete_group("g")),
    ]
    for request in requests:
        request()

    close(broker, "orders", 0, owner=lease.node)
    close(broker, "orders.dlq", 0, owner=lease.node)

    for request in requests:
        with pytest.raises(NotOwner):
            request()


def test_the_version_of_an_application_is_known_once_partition_0_is_loaded(
    broker: TestBroker, lease: Lease
) -> None:
    """A job that is told of no version would publish again what it has published."""
    assert broker.published_version("orders", "job") is None

    close(broker, "orders", 0, owner=lease.node)

    with pytest.raises(NotOwner):
        broker.published_version("orders", "job")


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_messages_are_delivered_only_while_the_lease_lasts(
    broker: TestBroker, lease: Lease, kind: Any
) -> None:
    consumer = broker.consumer("orders", group="g", kind=kind, start="earliest")
    lease.lease_ms = broker.clock.steady_ms()

    assert consumer.receive() == []

    lease.lease_ms = 1 << 62
    assert [message.value for message in consumer.receive()] == [b"a"]


def test_a_publish_needs_no_lease(broker: TestBroker, lease: Lease) -> None:
    lease.lease_ms = 0

    assert broker.publish("orders", b"b").offset == 1


def test_a_partition_that_was_taken_over_delivers_when_the_lease_of_its_owner_has_ended(
    broker: TestBroker,
) -> None:
    consumer = broker.consumer("orders", group="g", start="earliest")
    close(broker, "orders", 0)
    until_ms = broker.clock.steady_ms() + 2000
    broker._driver.run(core_of(broker).open_partition("orders", 0, 10, until_ms))

    consumer = broker.consumer("orders", group="g")
    assert consumer.receive() == []

    broker.advance("2s")
    assert [message.value for message in consumer.receive()] == [b"a"]


@pytest.mark.parametrize(("sequence", "error"), [(2, SequenceOutOfOrder), (0, SequenceReused)])
def test_a_sequence_number_is_refused_only_by_the_owner(
    broker: TestBroker, lease: Lease, sequence: int, error: type[Exception]
) -> None:
    """A former owner lacks what its successor took, and may have what was never written."""
    core = core_of(broker)
    version = core.state.topic("orders").version
    broker.append("orders", 0, numbered(b"b", 0))
    batches = [(0, numbered(b"c", sequence)), (0, numbered(b"b", 0))]

    def answers() -> list[Any]:
        found = broker._driver.run(core.publishing.append_batches("orders", version, batches, True))
        return [*found, *broker._driver.run(core.publishing.append_records("orders", batches, True))]

    refused, repeat, *others = answers()
    assert isinstance(refused, error)
    assert isinstance(others[0], error)
    assert repeat.duplicate

    lease.is_owner = False

    refused, repeat, *others = answers()
    assert isinstance(refused, NotOwner)
    assert isinstance(others[0], NotOwner)
    assert repeat.duplicate
