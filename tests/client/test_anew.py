"""Consumers whose server has forgotten them: it was started again, or they were away for too long."""

import asyncio

import pytest
from tests.client.scripted import PATIENCE_S, Scripted, delivery
from tests.client.test_consuming import begin, got, opened

from penstock import aio
from penstock.errors import LeaseLost
from penstock.wire import native


@pytest.mark.parametrize("answer", ["nack", "reject"])
async def test_an_answer_that_nobody_knows_the_fate_of_is_not_taken_for_done(answer: str) -> None:
    """The lease is lost because the server was killed, not because the answer had arrived."""
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        answering = begin(message.nack() if answer == "nack" else message.reject("poison"))
        (await server.request()).cut()
        (await server.request()).opened(resumed=False)
        (await server.request()).refuse(LeaseLost(topic="orders", partition=0, offset=0))

        with pytest.raises(LeaseLost):
            await answering


async def test_what_was_read_of_a_stream_can_be_committed_when_the_server_is_back() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, "stream", (0, 1))
        receiving = begin(consumer.receive(100, wait="1s"))
        request = await server.request()
        request.received(delivery(b"a", b"b", lease=-1), delivery(b"c", lease=-1, partition=1))
        assert len(await receiving) == 3
        request.cut()

        wish = (await server.request()).opened(resumed=False, kind="stream", consumer=7)
        send_heartbeat = await server.request(native.HEARTBEAT)
        send_heartbeat.ok([0])  # Somebody else has the other partition now.
        async with asyncio.timeout(PATIENCE_S):
            while consumer.assignment != [0]:  # noqa: ASYNC110 - some turns of the loop.
                await asyncio.sleep(0)
        committing = begin(consumer.commit())
        commit = await server.request(native.COMMIT)
        commit.done()
        await committing

        assert wish.positions == {0: 2, 1: 1}
        assert consumer.assignment == [0]
        assert native.decode_commit(commit.body) == (7, [(0, 2)])
