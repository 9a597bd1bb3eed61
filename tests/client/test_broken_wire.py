"""Clients and the real server, with a wire between them that breaks."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from tests.client.proxy import Proxy
from tests.client.served import VirtualServer

from penstock import aio
from penstock.errors import LeaseLost
from penstock.model.message import Message


@pytest.fixture
def server() -> Iterator[VirtualServer]:
    with VirtualServer() as started:
        started.run(started.broker.create_topic("orders"))
        yield started


async def test_a_publish_whose_answer_was_lost_is_there_once(server: VirtualServer) -> None:
    async with Proxy(server.url) as wire, aio.connect(wire.url) as broker:
        await broker.publish("orders", b"first")
        wire.swallow = True

        receipts = [
            await broker.publish("orders", b"second"),
            *await broker.publish_batch("orders", [b"third", Message(b"fourth", ttl="1h")]),
        ]

        assert wire.cuts == 1
        assert [receipt.offset for receipt in receipts] == [1, 2, 3]
        assert not any(receipt.duplicate for receipt in receipts)
        stored = await broker.read("orders")
        assert [message.value for message in stored] == [b"first", b"second", b"third", b"fourth"]
        assert (await broker.describe_topic("orders")).duplicates == 1  # Which the server has recognised.


async def test_a_message_that_the_server_places_is_there_once_too(server: VirtualServer) -> None:
    async with Proxy(server.url) as wire, aio.connect(wire.url) as broker:
        await broker.publish("orders", b"first")
        wire.swallow = True

        receipt = await broker.publish("orders", b"second", ttl="1h")

        assert (wire.cuts, receipt.offset, receipt.duplicate) == (1, 1, False)
        assert len(await broker.read("orders")) == 2


async def test_what_was_lost_on_its_way_to_the_consumer_is_sent_again(server: VirtualServer) -> None:
    async with Proxy(server.url) as wire, aio.connect(wire.url) as broker:
        await broker.publish_batch("orders", [b"%d" % number for number in range(10)])
        consumer = await broker.consumer("orders")
        kept = await consumer.receive(3)
        wire.swallow = True

        rest = await consumer.receive(100)

        assert wire.cuts == 1
        assert [(message.value, message.attempt) for message in rest] == [
            (b"%d" % number, 1) for number in range(3, 10)
        ]
        await consumer.ack([*kept, *rest])
        assert await broker.depth("orders", "default") == 0


async def test_a_stream_has_no_hole_and_no_repeat(server: VirtualServer) -> None:
    async with Proxy(server.url) as wire, aio.connect(wire.url) as broker:
        await broker.publish_batch("orders", [b"%d" % number for number in range(10)])
        consumer = await broker.consumer("orders", kind="stream")
        values = [message.value for message in await consumer.receive(3)]
        wire.swallow = True
        values += [message.value for message in await consumer.receive(100)]

        await consumer.commit()

        assert wire.cuts == 1
        assert values == [b"%d" % number for number in range(10)]
        assert await broker.depth("orders", "default") == 0


async def test_an_ack_whose_answer_was_lost_is_done_once(server: VirtualServer) -> None:
    async with Proxy(server.url) as wire, aio.connect(wire.url) as broker:
        await broker.create_topic("invoices")
        await broker.publish_batch("orders", [b"a", b"b", b"c"])
        consumer = await broker.consumer("orders")
        first, second, third = await consumer.receive(3)
        wire.swallow = True
        await first.ack()
        wire.swallow = True
        await consumer.ack(second, publish=[("invoices", Message(b"y"))])
        wire.swallow = True
        await third.reject("no good")

        assert wire.cuts == 3
        assert [message.value for message in await broker.read("invoices")] == [b"y"]
        assert [letter.error for letter in await broker.dead_letters("orders")] == ["no good"]
        assert await broker.depth("orders", "default") == 0


async def test_a_server_that_starts_again_finds_its_clients(tmp_path: object) -> None:
    with VirtualServer(str(tmp_path)) as server:
        async with aio.connect(server.url) as broker:
            await broker.create_topic("orders")
            await broker.publish_batch("orders", [b"a", b"b"])
            consumer = await broker.consumer("orders")
            [held] = await consumer.receive()
            server.run(server.stop())
            server.run(server.start())

            again = await consumer.receive(10, wait="10s")
            receipt = await broker.publish("orders", b"c")

            assert [message.value for message in again] == [b"a", b"b"]
            assert receipt.offset == 2
            with pytest.raises(LeaseLost):
                await held.ack()
            await consumer.ack(again)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_through_any_number_of_breaks_each_message_is_there_once_and_acked(
    server: VirtualServer, seed: int
) -> None:
    count = 400
    async with Proxy(server.url) as wire, aio.connect(wire.url) as broker:
        wire.cut_at_random(Random(seed), every=5000)

        async def publish(begin: int) -> None:
            for number in range(begin, count, 8):
                await broker.publish("orders", b"%d" % number, ttl=None if number % 5 else "1h")

        async def work(prefetch: int) -> list[bytes]:
            seen: list[bytes] = []
            async with await broker.consumer("orders", prefetch=prefetch) as consumer:
                while len(done) < count:
                    for message in await consumer.receive(7, wait="50ms"):
                        await message.ack()
                        seen.append(message.value)
                        done.add(message.value)
            return seen

        async def keep_time() -> None:
            while True:  # Or nobody's wait at the server would ever end.
                await asyncio.sleep(0.02)
                server.advance("50ms")

        done: set[bytes] = set()
        clock = asyncio.ensure_future(keep_time())
        publishing = asyncio.gather(*(publish(begin) for begin in range(8)))
        seen = [value for values in await asyncio.gather(work(0), work(20)) for value in values]
        await publishing
        clock.cancel()
        wire.cut_at_random(Random(seed), every=0)

        stored = Counter(message.value for message in await broker.read("orders", limit=1000))
        assert wire.cuts > 3
        assert stored == {b"%d" % number: 1 for number in range(count)}
        assert Counter(seen) == stored
        assert await broker.depth("orders", "default") == 0
