"""Partitions that open and close while the broker runs: who is refused, who goes on, what is kept."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.movable import Held, close, core_of, reopen
from tests.transactional import Producer

from penstock import Message
from penstock.broker.steps import Durable
from penstock.errors import InvalidValue, LeaseLost, NotOwner, PartitionNotFound, PenstockError
from penstock.model.message import Receipt
from penstock.testing import AsyncTestBroker, ManualClock, TestBroker
from penstock.testing.files import CrashDisk, Fault, FaultyFiles
from penstock.wire.records import encode_values


@pytest.fixture
def disk_broker() -> TestBroker:
    """On a disk, so that durability has to be waited for."""
    broker = TestBroker.open("data", files=CrashDisk())
    broker.create_topic("orders", partitions=2)
    return broker


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    penstock.create_topic("orders", partitions=2)
    return penstock


def test_a_lease_that_ends_while_its_partition_closes_is_left_to_the_next_owner() -> None:
    """Found by the simulator of a cluster: the error ended the task that keeps time."""
    broker = TestBroker.open("data", files=CrashDisk())
    broker.create_topic("jobs", partitions=1)
    broker.publish("jobs", b"a")
    consumer = broker.consumer("jobs", group="g", start="earliest", visibility_timeout="1s")
    assert len(consumer.receive()) == 1
    closing = Held(core_of(broker).close_partition("jobs", 0, 2, 9))
    assert not closing.ended

    broker.advance("2s")

    assert core_of(broker).state.topic("jobs").partitions.get(0) is None


# Refusals.


def test_every_request_for_a_partition_elsewhere_says_who_owns_it(broker: TestBroker) -> None:
    broker.publish("orders", b"a", partition=1)
    stream = broker.consumer("orders", group="s", kind="stream")
    stream.receive()
    close(broker, "orders", 1, owner=7, epoch=31)

    requests: list[Callable[[], object]] = [
        lambda: broker.publish("orders", b"b", partition=1),
        lambda: broker.publish_batch("orders", [Message(b"c", partition=0), Message(b"d", partition=1)]),
        lambda: broker.publish("orders", b"b", partition=1, delay="1h"),
        lambda: broker.fetch("orders", 1, 0),
        lambda: broker.read("orders", partition=1),
        lambda: broker.peek("orders", 1, partition=1),
        lambda: broker.seek("orders", "s", "earliest", partition=1),
        lambda: broker.commit_offsets("orders", "s", {1: 0}),
        stream.commit,
        lambda: broker.cancel("orders:1:s0"),
    ]
    for request in requests:
        with pytest.raises(NotOwner) as refused:
            request()
        facts = (refused.value.topic, refused.value.partition, refused.value.owner, refused.value.epoch)
        assert facts == ("orders", 1, 7, 31)
    assert broker.read("orders", partition=0) == []


def test_batches_for_several_partitions_are_written_where_they_can_be(broker: TestBroker) -> None:
    close(broker, "orders", 1)
    version = core_of(broker).state.topics["orders"].version
    batches = [(number, bytes(encode_values([b"a"], 0))) for number in (1, 0)]

    work = core_of(broker).publishing.append_batches("orders", version, batches, True)
    refused, taken = broker._driver.run(work)

    assert isinstance(refused, NotOwner)
    assert isinstance(taken, Receipt)
    assert taken.offset == 0


def test_messages_without_a_key_go_to_the_partitions_that_are_here(broker: TestBroker) -> None:
    close(broker, "orders", 0)

    assert {broker.publish("orders", b"a").partition for _ in range(4)} == {1}


def test_a_partition_that_is_open_is_not_opened_again(broker: TestBroker) -> None:
    with pytest.raises(InvalidValue):
        reopen(broker, "orders", 1)
    with pytest.raises(PartitionNotFound):
        close(broker, "orders", 2)


def test_the_owner_of_a_partition_elsewhere_may_change(broker: TestBroker) -> None:
    close(broker, "orders", 1, owner=2, epoch=9)
    core_of(broker).set_owner("orders", 1, 3, 12)

    with pytest.raises(NotOwner) as refused:
        broker.publish("orders", b"a", partition=1)
    assert (refused.value.owner, refused.value.epoch) == (3, 12)


# What is kept.


def test_what_was_published_leased_settled_and_delayed_is_there_when_it_comes_back(
    disk_broker: TestBroker,
) -> None:
    broker = disk_broker
    broker.publish_batch("orders", [Message(b"%d" % n, partition=1) for n in range(4)])
    broker.publish("orders", b"later", partition=1, delay="1h")
    consumer = broker.consumer("orders", group="workers")
    first, second = consumer.receive(2)
    first.ack()
    second.nack(delay="10s", error="no")

    close(broker, "orders", 1)
    broker.advance("2h")
    assert consumer.receive() == []
    reopen(broker, "orders", 1)

    broker.advance("1s")
    assert [m.value for m in consumer.receive(10)] == [b"1", b"2", b"3", b"later"]


def test_offsets_and_producer_numbers_go_on(disk_broker: TestBroker) -> None:
    producer = disk_broker.producer()
    producer.publish("orders", b"a", partition=1)
    close(disk_broker, "orders", 1)
    reopen(disk_broker, "orders", 1, epoch=10)
    second = producer.publish("orders", b"b", partition=1)

    assert second.offset == 1
    assert core_of(disk_broker).state.topics["orders"].partitions[1].log.leader_epoch == 10


def test_deduplication_ids_leave_and_come_back_with_their_partition(disk_broker: TestBroker) -> None:
    first = disk_broker.publish("orders", b"a", dedup_id="x", key="k")
    close(disk_broker, "orders", first.partition)
    assert len(core_of(disk_broker).state.topics["orders"].dedup) == 0
    with pytest.raises(NotOwner):
        disk_broker.publish("orders", b"a", dedup_id="x", key="k")

    reopen(disk_broker, "orders", first.partition)

    again = disk_broker.publish("orders", b"a", dedup_id="x", key="k")
    assert (again.duplicate, again.offset) == (True, first.offset)


def test_committed_offsets_of_stream_groups_are_kept(disk_broker: TestBroker) -> None:
    disk_broker.publish_batch("orders", [Message(b"a", partition=1), Message(b"b", partition=1)])
    disk_broker.commit_offsets("orders", "readers", {1: 1})
    close(disk_broker, "orders", 1)
    reopen(disk_broker, "orders", 1)

    consumer = disk_broker.consumer("orders", group="readers", kind="stream")

    assert [m.value for m in consumer.receive(10)] == [b"b"]


def test_a_transaction_that_is_open_is_ended_when_its_partition_is_back(disk_broker: TestBroker) -> None:
    producer = Producer(disk_broker)
    producer.write("orders", b"a", partition=1)
    close(disk_broker, "orders", 1)
    with pytest.raises(NotOwner):
        producer.end(commit=True)
    reopen(disk_broker, "orders", 1)

    producer.end(commit=True)

    assert [m.value for m in disk_broker.read("orders", partition=1)] == [b"a"]


def test_a_group_that_was_made_meanwhile_is_on_the_partition_that_comes_back(broker: TestBroker) -> None:
    close(broker, "orders", 1)
    broker.create_group("orders", "late", start="earliest")
    reopen(broker, "orders", 1)

    broker.publish("orders", b"a", partition=1)

    assert [m.value for m in broker.consumer("orders", group="late").receive()] == [b"a"]


def test_groups_are_found_in_the_first_partition_that_comes(disk_broker: TestBroker) -> None:
    disk_broker.create_group("orders", "workers", kind="stream")
    for number in (0, 1):
        close(disk_broker, "orders", number)
    assert core_of(disk_broker).state.topics["orders"].groups == {}

    reopen(disk_broker, "orders", 1)

    assert disk_broker.describe_group("orders", "workers").kind == "stream"


# Those who are under way.


def test_a_consumer_goes_on_with_the_partitions_that_stay(broker: TestBroker) -> None:
    consumer = broker.consumer("orders", group="workers", max_in_flight=1)
    broker.publish("orders", b"a", partition=1)
    [held] = consumer.receive()
    broker.publish("orders", b"b", partition=0)

    close(broker, "orders", 1)

    assert [m.value for m in consumer.receive()] == [b"b"], "what it held does not count any more"
    with pytest.raises(NotOwner):
        held.ack()


def test_an_ack_of_a_lease_from_before_the_move_is_refused(disk_broker: TestBroker) -> None:
    disk_broker.publish("orders", b"a", partition=1)
    consumer = disk_broker.consumer("orders", group="workers")
    [held] = consumer.receive()
    close(disk_broker, "orders", 1)
    reopen(disk_broker, "orders", 1, epoch=1 << 12)
    [again] = consumer.receive()

    with pytest.raises(LeaseLost):
        held.ack()
    again.ack()

    assert again.attempt == 2


def test_lease_numbers_begin_with_the_epoch(disk_broker: TestBroker) -> None:
    disk_broker.create_group("orders", "workers")
    close(disk_broker, "orders", 1)
    reopen(disk_broker, "orders", 1, epoch=1 << 12)
    disk_broker.create_group("orders", "late")

    cursors = core_of(disk_broker).state.topics["orders"].partitions[1].groups
    assert {cursor.engine.next_number >> 40 for cursor in cursors.values()} == {1 << 12}


def test_who_waits_for_messages_of_a_topic_that_goes_is_told() -> None:
    async def main() -> None:
        async with await AsyncTestBroker.open() as broker:
            await broker.create_topic("orders")
            queue = await broker.consumer("orders", group="q")
            stream = await broker.consumer("orders", group="s", kind="stream")
            waiting = [asyncio.ensure_future(consumer.receive(wait="1h")) for consumer in (queue, stream)]
            await broker.advance("1s")
            await broker._driver.run(broker._core.close_partition("orders", 0, 2, 9))
            for each in waiting:
                with pytest.raises(NotOwner):
                    await each

    asyncio.run(main())


def test_members_of_a_stream_group_share_the_partitions_that_are_here(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=4)
    members = [penstock.consumer("orders", group="s", kind="stream") for _ in range(2)]
    for _ in range(2):
        for member in members:
            member.receive()
    close(penstock, "orders", 0)
    close(penstock, "orders", 1)
    penstock.publish_batch("orders", [Message(b"%d" % n, partition=n) for n in (2, 3)])
    got = [[m.value for m in member.receive(10)] for _ in range(3) for member in members]

    assert sorted(got) == [[], [], [], [], [b"2"], [b"3"]]


def test_a_publish_under_way_is_answered_when_it_is_durable(disk_broker: TestBroker) -> None:
    core = core_of(disk_broker)
    publish = Held(core.publishing.publish("orders", Message(b"a", partition=1)))
    closing = Held(core.close_partition("orders", 1, 2, 9))
    assert [type(step) for step in publish.wanted + closing.wanted] == [Durable, Durable]

    for step in closing.wanted:
        assert isinstance(step, Durable)
        step.log.sync()
    closing.advance()
    publish.advance()

    assert closing.ended
    assert publish.error is None
    assert publish.result.offset == 0


def test_nothing_is_written_after_the_close() -> None:
    broker = TestBroker.open("data", files=CrashDisk())
    broker.create_topic("orders")
    partition = core_of(broker).state.topics["orders"].partitions[0]
    broker.publish("orders", b"a")
    close(broker, "orders", 0)

    with pytest.raises(NotOwner):
        core_of(broker).publishing.append_staged(partition, encode_values([b"b"], 0), own_times=True)


def test_due_messages_wait_for_the_next_owner(disk_broker: TestBroker) -> None:
    disk_broker.publish("orders", b"later", partition=1, delay="1m")
    close(disk_broker, "orders", 1)
    disk_broker.advance("1h")
    reopen(disk_broker, "orders", 1)
    disk_broker.advance("1s")

    assert [m.value for m in disk_broker.read("orders", partition=1)] == [b"later"]


def test_outputs_of_an_ack_wait_while_their_target_is_elsewhere(disk_broker: TestBroker) -> None:
    disk_broker.create_topic("out")
    disk_broker.publish("orders", b"a", partition=1)
    consumer = disk_broker.consumer("orders", group="workers")
    [message] = consumer.receive()
    close(disk_broker, "out", 0)

    consumer.ack(message, publish=[("out", Message(b"b"))])
    disk_broker.advance("5s")
    reopen(disk_broker, "out", 0)
    disk_broker.advance("5s")

    assert [m.value for m in disk_broker.read("out")] == [b"b"]


def test_outputs_are_published_once_by_the_next_owner(disk_broker: TestBroker) -> None:
    disk_broker.create_topic("out")
    disk_broker.publish("orders", b"a", partition=1)
    consumer = disk_broker.consumer("orders", group="workers")
    [message] = consumer.receive()
    close(disk_broker, "out", 0)
    consumer.ack(message, publish=[("out", Message(b"b"))])

    close(disk_broker, "orders", 1)
    reopen(disk_broker, "out", 0)
    disk_broker.advance("5s")
    assert disk_broker.read("out") == []
    reopen(disk_broker, "orders", 1)
    disk_broker.advance("5s")

    assert [m.value for m in disk_broker.read("out")] == [b"b"]
    assert consumer.receive() == []


def test_dead_letters_are_buried_by_the_next_owner(disk_broker: TestBroker) -> None:
    disk_broker.publish("orders", b"poison", partition=1)
    consumer = disk_broker.consumer("orders", group="workers", max_attempts=1, visibility_timeout="10s")
    consumer.receive()
    close(disk_broker, "orders", 1)
    disk_broker.advance("1m")
    reopen(disk_broker, "orders", 1)
    disk_broker.advance("1m")

    assert [letter.message.value for letter in disk_broker.dead_letters("orders")] == [b"poison"]


# Faults.


@pytest.mark.parametrize("at", range(1, 30))
def test_a_disk_that_fails_while_a_partition_is_closed_loses_nothing_acknowledged(at: int) -> None:
    disk = CrashDisk()
    files = FaultyFiles(disk)
    clock = ManualClock()
    broker = TestBroker.open("data", files=files, clock=clock)
    broker.create_topic("orders", partitions=2)
    broker.publish("orders", b"a", partition=1)
    broker.publish("orders", b"b", partition=1, delay="1h")
    broker.consumer("orders", group="workers").receive()[0].ack()
    files._at, files._fault = len(files.operations) + at, Fault.FAIL
    with suppress(PenstockError):
        close(broker, "orders", 1)
    files.heal()

    with pytest.raises(NotOwner):
        broker.publish("orders", b"c", partition=1)
    broker.publish("orders", b"d", partition=0)
    reopen(broker, "orders", 1)
    broker.advance("2h")
    assert [m.value for m in broker.read("orders", partition=1)] == [b"a", b"b"]
    assert [m.value for m in broker.consumer("orders", group="workers").receive(9)] in (
        [b"b", b"d"], [b"d", b"b"],
    )  # fmt: skip


def test_a_partition_that_cannot_be_opened_stays_elsewhere(disk_broker: TestBroker) -> None:
    disk = CrashDisk()
    files = FaultyFiles(disk)
    broker = TestBroker.open("data", files=files)
    broker.create_topic("orders", partitions=2)
    broker.publish("orders", b"a", partition=1)
    close(broker, "orders", 1)
    files.fail_next(Fault.FAIL)

    with pytest.raises(PenstockError):
        reopen(broker, "orders", 1)
    with pytest.raises(NotOwner):
        broker.publish("orders", b"b", partition=1)

    reopen(broker, "orders", 1)
    assert [m.value for m in broker.read("orders", partition=1)] == [b"a"]


def test_a_broker_closes_with_partitions_elsewhere(disk_broker: TestBroker) -> None:
    close(disk_broker, "orders", 0)
    disk_broker.publish("orders", b"a")

    disk_broker.close()

    assert core_of(disk_broker).state.closed
