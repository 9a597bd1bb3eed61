"""The client of programs on asyncio."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.served import VirtualServer

from penstock import aio
from penstock.errors import (
    Closed,
    GroupKindMismatch,
    InvalidName,
    InvalidValue,
    LeaseLost,
    PartitionNotFound,
    QueueFull,
    SequenceOutOfOrder,
)
from penstock.model.message import Message
from penstock.wire.records import BatchBuilder, encode_values


@pytest.fixture
def server() -> Iterator[VirtualServer]:
    with VirtualServer() as started:
        started.run(started.broker.create_topic("orders"))
        yield started


async def test_publishing_without_waiting(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        futures = [broker.publish_nowait("orders", b"%d" % number) for number in range(100)]
        missing = broker.publish_nowait("a/b", b"x")
        await broker.flush()

        assert [future.result().offset for future in futures] == list(range(100))
        assert isinstance(missing.exception(), InvalidName)


async def test_a_publish_that_is_cancelled_is_published_all_the_same(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        publish = asyncio.ensure_future(broker.publish("orders", b"x"))
        await asyncio.wait([publish], timeout=0)
        later = broker.publish_nowait("orders", b"y")
        publish.cancel()
        later.cancel()
        await broker.flush()

        assert [message.value for message in await broker.read("orders")] == [b"x", b"y"]


async def test_a_receive_that_waits_hears_of_a_rebalance_at_once(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker, aio.connect(server.url) as elsewhere:
        await broker.create_topic("wide", partitions=2)
        await broker.publish_batch("wide", [Message(b"%d" % n, partition=n % 2) for n in range(4)])
        first = await broker.consumer("wide", group="s", kind="stream", heartbeat=False)
        await first.receive(10, wait="1s")
        waiting = asyncio.ensure_future(first.receive(wait="1h"))

        second = await elsewhere.consumer("wide", group="s", kind="stream", heartbeat=False)
        again = await second.receive(10, wait="1h")  # It waits until the first has given up a partition.

        assert sorted(first.assignment + second.assignment) == [0, 1]
        assert {message.partition for message in again} == set(second.assignment)
        await first.commit()  # While its receive waits.
        await second.commit()
        assert await broker.depth("wide", "s") == 0
        waiting.cancel()


async def test_a_batch_of_nothing_is_answered_with_nothing(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        assert await broker.publish_batch("orders", []) == []


async def test_all_of_a_batch_or_nothing_fits_into_a_bounded_topic(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        await broker.create_topic("small", partitions=2, depth_max=3)
        batch = [Message(b"%d" % number, partition=number % 2) for number in range(4)]

        with pytest.raises(QueueFull):
            await broker.publish_batch("small", batch)
        await broker.publish_batch("small", batch[:3])

        assert len(await broker.read("small")) == 3


async def test_a_topic_that_is_made_again_is_published_to(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        await broker.publish("orders", b"old")
        await broker.delete_topic("orders")
        await broker.create_topic("orders", partitions=3, compression="zstd")

        receipts = [await broker.publish("orders", b"new", partition=number) for number in range(3)]

        assert [(receipt.partition, receipt.offset) for receipt in receipts] == [(0, 0), (1, 0), (2, 0)]


async def test_a_topic_that_others_have_changed_is_asked_for_before_anything_is_refused(
    server: VirtualServer,
) -> None:
    async with aio.connect(server.url) as broker:
        await broker.publish("orders", b"first")  # Now its settings are known here.
        producer = await broker.producer()
        server.run(server.broker.alter_topic("orders", partitions=3, message_bytes_max=2_000_000))

        placed = await broker.publish("orders", b"x", partition=2)
        server.run(server.broker.alter_topic("orders", partitions=4, message_bytes_max=3_000_000))
        large = await broker.publish("orders", b"x" * 2_500_000, partition=2)
        server.run(server.broker.alter_topic("orders", partitions=5))
        numbered = await producer.publish("orders", b"x", partition=4)

        assert (placed.offset, large.offset, numbered.offset) == (0, 1, 0)
        with pytest.raises(PartitionNotFound):
            await broker.publish("orders", b"x", partition=5)


async def test_an_encoded_batch_is_appended(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        builder = BatchBuilder()
        builder.add_values([b"c"])
        numbered = bytes(builder.build(0, 0, 0, 77, 0, 0))

        first = await broker.append("orders", 0, bytes(encode_values([b"a", b"b"], 0)))
        second = await broker.append("orders", 0, numbered)
        again = await broker.append("orders", 0, numbered)

        assert (first.offset, second.offset, again.offset) == (0, 2, 2)
        assert (second.duplicate, again.duplicate) == (False, True)
        builder = BatchBuilder()
        builder.add_values([b"d"])
        with pytest.raises(SequenceOutOfOrder):
            await broker.append("orders", 0, bytes(builder.build(0, 0, 0, 77, 0, 5)))


async def test_a_producer_notices_that_its_topic_has_changed(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        producer = await broker.producer()
        await broker.publish("orders", b"so that its settings are known")
        await producer.publish("orders", b"a", partition=0)
        await broker.alter_topic("orders", partitions=2)

        receipt = await producer.publish("orders", b"b", key="k")

        assert receipt.offset is not None
        assert len(await broker.read("orders")) == 3


async def test_a_stream_message_is_committed_by_its_ack(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        await broker.publish_batch("orders", [b"%d" % number for number in range(5)])
        consumer = await broker.consumer("orders", kind="stream")
        messages = await consumer.receive(5)

        await messages[2].ack()

        assert await broker.depth("orders", "default") == 2
        assert messages[2].settled
        with pytest.raises(GroupKindMismatch):
            await consumer.ack(messages[3], publish=[("orders", Message(b"x"))])
        with pytest.raises(InvalidValue):
            await consumer.ack(["message"])  # type: ignore[list-item]


async def test_an_ack_with_outputs_holds_for_all_or_none(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        await broker.publish("orders", b"x")
        consumer = await broker.consumer("orders", visibility_timeout="30s", heartbeat=False)
        [message] = await consumer.receive()
        server.advance("31s")

        with pytest.raises(LeaseLost):
            await consumer.ack(message, publish=[("orders", Message(b"y", dedup_id="y"))])
        with pytest.raises(LeaseLost):
            await message.extend("1m")

        assert [stored.value for stored in await broker.read("orders")] == [b"x"]


async def test_a_long_task_is_not_delivered_twice(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        await broker.publish("orders", b"x")
        consumer = await broker.consumer("orders", visibility_timeout="60ms", heartbeat=False)
        [message] = await consumer.receive()
        other = await broker.consumer("orders", heartbeat=False)
        receiver = consumer._operations._receiver  # type: ignore[attr-defined]
        for _ in range(3):  # Nearly the whole time passes at the server, and then a heartbeat comes.
            server.advance("50ms")
            receiver.held_leases.extend(receiver.held_leases.held(), 0.0)
            await receiver.send_heartbeat()

        assert await other.receive() == []
        await message.ack()
        assert await broker.depth("orders", "default") == 0


async def test_close_waits_for_what_was_published(server: VirtualServer) -> None:
    broker = await aio.connect(server.url).start()
    published = broker.publish_nowait("orders", b"x")

    await broker.close()

    assert published.result().offset == 0


async def test_close_gives_up_at_its_deadline(server: VirtualServer) -> None:
    async with aio.connect(server.url) as broker:
        await broker.create_topic("full", depth_max=1, depth_policy="wait")
        await broker.publish("full", b"x")
        waiting = broker.publish_nowait("full", b"y")
        queued = broker.publish_nowait("full", b"z", acks="written")
        await broker.topics()

        await asyncio.gather(broker.close(timeout="10ms"), broker.close())

        assert [type(each.exception()).__name__ for each in (waiting, queued)] == ["OutcomeUnknown", "Closed"]
        with pytest.raises(Closed):
            await broker.publish("full", b"z")


@pytest.mark.parametrize(
    ("name", "value"), [("request_timeout", 0), ("request_timeout", "soon"), ("linger", -1), ("client_id", 7)]
)
def test_wrong_settings_are_named(name: str, value: object) -> None:
    with pytest.raises(InvalidValue, match=name):
        aio.connect("penstock://127.0.0.1:7070", **{name: value})  # type: ignore[arg-type]


async def test_a_host_without_an_address_is_unreachable() -> None:
    with pytest.raises(Exception, match=r"SERVER_UNREACHABLE|penstock://no\.such\.host\.invalid"):
        await aio.connect("penstock://no.such.host.invalid").start()
