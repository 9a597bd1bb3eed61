"""Consumers over a connection: resumed, called off, kept alive, supplied ahead."""

import asyncio
import gc
from typing import Any

import pytest
from tests.client.scripted import Request, Scripted, delivery

from penstock import aio
from penstock.api.aio_handles import AsyncConsumer
from penstock.client.aio import RemoteAsyncBroker
from penstock.errors import (
    AlreadySettled,
    Closed,
    DiskFull,
    GroupKindMismatch,
    InvalidValue,
    LeaseLost,
    NotAssigned,
    TopicNotFound,
)
from penstock.model.message import Message
from penstock.wire import native
from penstock.wire.native_bodies import (
    ExtendBody,
    NackBody,
    assigned_frame,
    consumer_closed_frame,
    decode_body,
)


def begin(work: Any) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(work)


async def opened(
    server: Scripted,
    broker: RemoteAsyncBroker,
    kind: str = "queue",
    assignment: tuple[int, ...] = (),
    **options: Any,
) -> AsyncConsumer:
    making = begin(broker.consumer("orders", **{"heartbeat": False, **options}))
    (await server.request()).opened(kind=kind, assignment=list(assignment))
    consumer: AsyncConsumer = await making
    return consumer


async def got(server: Scripted, consumer: AsyncConsumer, *batches: native.LeasedBatch) -> list[Any]:
    """Receive these."""
    receiving = begin(consumer.receive(100))
    (await server.request()).received(*batches)
    messages: list[Any] = await receiving
    return messages


# A lost connection.


async def test_a_consumer_comes_back_with_what_it_holds() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        kept, acked = await got(server, consumer, delivery(b"a", lease=4), delivery(b"b", lease=5, start=1))
        done = begin(acked.ack())
        request = await server.request()
        request.done()
        await done
        request.cut()

        wish = (await server.request()).opened(resumed=True, consumer=9)
        answer = begin(kept.ack())
        repeated = await server.request()
        repeated.done()
        await answer

        assert (wish.resume, wish.held) == (b"token", [(0, 4)])
        assert native.decode_ack(repeated.body) == (9, [(0, 4, 0, 1)])


async def test_an_ack_that_had_arrived_is_done() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        ack = begin(message.ack())
        (await server.request()).cut()
        (await server.request()).opened(resumed=True)
        (await server.request()).refuse(AlreadySettled(topic="orders", partition=0, offset=0))

        await ack

        assert consumer.in_flight == 0


@pytest.mark.parametrize("kind", [AlreadySettled, LeaseLost])
async def test_a_nack_that_had_arrived_is_done(kind: type[AlreadySettled | LeaseLost]) -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        nack = begin(message.nack())
        (await server.request()).cut()
        (await server.request()).opened(resumed=True)
        (await server.request()).refuse(kind(topic="orders", partition=0, offset=0))

        await nack

        assert message.settled


async def test_a_server_that_has_forgotten_the_consumer_takes_back_what_it_held() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        receiving = begin(consumer.receive(1, wait="1h"))
        (await server.request()).cut()
        (await server.request()).opened(resumed=False)
        (await server.request()).received(delivery(b"a", lease=9, attempt=2))
        [again] = await receiving

        late = begin(message.ack())
        (await server.request()).refuse(LeaseLost(topic="orders", partition=0, offset=0))

        with pytest.raises(LeaseLost):
            await late
        assert (again.attempt, consumer.in_flight) == (2, 1)


async def test_a_wait_goes_on_after_the_connection_came_back() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        receiving = begin(consumer.receive(5, wait="1h"))
        first = await server.request()
        first.cut()
        (await server.request()).opened(resumed=True)
        again = await server.request()
        again.received(delivery(b"a"))

        assert [message.value for message in await receiving] == [b"a"]
        asked, left = native.decode_receive(first.body), native.decode_receive(again.body)
        assert asked == (1, 5, 3_600_000)
        assert left[:2] == (1, 5)
        assert 3_590_000 < left[2] <= 3_600_000


async def test_a_stream_goes_on_after_what_has_arrived() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, "stream", (0, 1))
        receiving = begin(consumer.receive(100))
        request = await server.request()
        request.received(delivery(b"a", b"b", lease=-1, partition=1, start=5))
        await receiving
        request.cut()

        wish = (await server.request()).opened(resumed=True, kind="stream", assignment=[0, 1])

        assert wish.positions == {1: 7}
        committing = begin(consumer.commit())
        commit = await server.request()
        commit.done()
        await committing
        assert native.decode_commit(commit.body)[1] == [(1, 7)]


async def test_a_commit_that_crosses_a_rebalance_leaves_out_what_was_revoked() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, "stream", (0, 1))
        receiving = begin(consumer.receive(100, wait="1s"))
        request = await server.request()
        request.received(delivery(b"a", lease=-1), delivery(b"b", lease=-1, partition=1))
        await receiving

        committing = begin(consumer.commit())
        first = await server.request(native.COMMIT)
        first.refuse(NotAssigned(group="default", member="m", partition=1))
        (await server.request(native.HEARTBEAT)).ok([0])
        second = await server.request(native.COMMIT)
        second.done()
        await committing

        assert native.decode_commit(first.body)[1] == [(0, 1), (1, 1)]
        assert native.decode_commit(second.body)[1] == [(0, 1)]


async def test_a_commit_that_is_refused_though_nothing_was_revoked_is_an_error() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, "stream", (0,))
        receiving = begin(consumer.receive(100, wait="1s"))
        (await server.request()).received(delivery(b"a", lease=-1))
        await receiving

        committing = begin(consumer.commit())
        refused = NotAssigned(group="default", member="m", partition=0)
        (await server.request(native.COMMIT)).refuse(refused)
        (await server.request(native.HEARTBEAT)).ok([0])

        with pytest.raises(NotAssigned):
            await committing


async def test_a_consumer_hears_of_its_partitions_while_it_waits() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, "stream", ())
        receiving = begin(consumer.receive(100, wait="1h"))
        request = await server.request()

        request.send(assigned_frame(1, [0, 2]))
        request.send(assigned_frame(77, [5]))  # Of a consumer that is not there any more.
        request.received(delivery(b"a", lease=-1))
        await receiving

        assert consumer.assignment == [0, 2]


async def test_a_consumer_whose_topic_is_gone_says_so() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        receiving = begin(consumer.receive(1, wait="1h"))
        (await server.request()).cut()
        (await server.request()).refuse(TopicNotFound(topic="orders"))

        with pytest.raises(TopicNotFound):
            await receiving
        with pytest.raises(TopicNotFound):
            await consumer.receive()


async def test_a_consumer_that_the_server_closes_is_closed() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, prefetch=5)
        receiving = begin(consumer.receive(1, wait="1h"))
        credit = await server.request()
        credit.send(consumer_closed_frame(1, Closed(what="consumer")))

        with pytest.raises(Closed):
            await receiving
        await consumer.close()
        assert server.quiet


# Cancellation.


async def test_a_cancelled_receive_is_called_off_and_what_was_on_its_way_is_kept() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        receiving = begin(consumer.receive(5, wait="1h"))
        asked = await server.request()
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving

        asked.received(delivery(b"a", b"b"))  # It was sent before the cancellation came.
        off = await server.request()

        assert native.decode_receive(off.body) == (1, 0, 0)
        assert [message.value for message in await consumer.receive(5)] == [b"a", b"b"]
        assert consumer.in_flight == 2


async def test_what_was_kept_for_too_long_is_not_handed_out() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        making = begin(broker.consumer("orders", heartbeat=False))
        (await server.request()).opened(visibility_ms=2)
        consumer = await making
        receiving = begin(consumer.receive(5, wait="1h"))
        asked = await server.request()
        receiving.cancel()
        asked.received(delivery(b"a"))
        await server.request()
        await asyncio.wait([begin(asyncio.sleep(0.01))])  # The server has given it to somebody else.

        again = begin(consumer.receive(5))
        (await server.request()).received(delivery(b"b", lease=2, start=1))

        assert [message.value for message in await again] == [b"b"]


async def test_an_answer_in_the_turn_of_the_cancellation_is_kept() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        receiving = begin(consumer.receive(5, wait="1h"))
        asked = await server.request()
        settle = broker._client.session._connection.exchange._waiting[asked.correlation]  # type: ignore[union-attr]
        settle(native.encode_received(asked.correlation, [delivery(b"a")])[5:], None)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving

        assert [message.value for message in await consumer.receive(5)] == [b"a"]


async def test_a_receive_beside_one_that_is_called_off_goes_on() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        stays, goes = begin(consumer.receive(1, wait="1h")), begin(consumer.receive(2, wait="1h"))
        requests = [await server.request(), await server.request()]
        goes.cancel()
        (await server.request()).received()  # The server ends all waits of the consumer.
        for request in requests:
            request.received()
        (await server.request()).received(delivery(b"a"))

        assert len(await stays) == 1


async def test_a_cancelled_ack_is_on_its_way() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        ack = begin(message.ack())
        request = await server.request()
        ack.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ack
        request.done()

        assert (message.settled, consumer.in_flight) == (True, 0)


# Answers.


async def test_messages_of_one_lease_are_acked_as_ranges() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        messages = await got(server, consumer, delivery(*[b"x"] * 6, lease=3, start=10))
        ack = begin(consumer.ack([*messages[:3], messages[5]]))
        request = await server.request()
        request.done()
        await ack

        assert native.decode_ack(request.body) == (1, [(0, 3, 10, 13), (0, 3, 15, 16)])
        assert consumer.in_flight == 2


async def test_an_ack_that_the_disk_refused_may_be_given_again() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        ack = begin(message.ack())
        (await server.request()).refuse(DiskFull(path="journal"))
        with pytest.raises(DiskFull):
            await ack
        assert not message.settled

        again = begin(message.ack())
        (await server.request()).done()
        await again


async def test_what_an_error_was_travels_with_the_nack() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))
        nack = begin(message.nack(delay="1m", error=KeyError("price")))
        request = await server.request()
        request.done()
        await nack

        told = decode_body(request.body, NackBody)
        assert (told.delay_ms, told.error_class, told.error_message) == (60_000, "KeyError", "'price'")
        assert told.fingerprint


async def test_wrong_answers_are_refused_before_they_are_sent() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a"))

        with pytest.raises(InvalidValue, match="reason"):
            await message.reject(7)
        with pytest.raises(InvalidValue, match="duration"):
            await message.extend("13h")
        with pytest.raises(InvalidValue, match="value"):
            await consumer.ack(message, publish=[("invoices", Message("text"))])  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match="max_messages"):
            await consumer.receive(0)
        with pytest.raises(GroupKindMismatch):
            await consumer.commit()

        assert server.quiet
        assert not message.settled


async def test_what_was_settled_on_delivery_needs_no_answer() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker)
        [message] = await got(server, consumer, delivery(b"a", lease=-1))

        async with message:
            pass

        assert (server.quiet, consumer.in_flight) == (True, 0)
        with pytest.raises(AlreadySettled):
            await message.nack()


# Heartbeats.


async def beating(server: Scripted, broker: RemoteAsyncBroker, visibility_ms: int) -> AsyncConsumer:
    making = begin(broker.consumer("orders"))
    (await server.request()).opened(visibility_ms=visibility_ms)
    consumer: AsyncConsumer = await making
    return consumer


async def test_what_the_program_works_on_is_kept() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await beating(server, broker, visibility_ms=30)
        working, dropped = await got(
            server, consumer, delivery(b"a", lease=1), delivery(b"b", lease=2, start=1)
        )
        del dropped
        gc.collect()

        for _ in range(3):
            send_heartbeat = await server.request(native.EXTEND)
            send_heartbeat.ok([])
            assert decode_body(send_heartbeat.body, ExtendBody) == ExtendBody(1, [(0, 1)], 30)

        ack = begin(working.ack())
        while (request := await server.request()).opcode == native.EXTEND:
            request.ok([])
        request.done()
        await ack
        assert consumer.in_flight == 0


async def test_a_lease_that_was_lost_is_not_kept() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await beating(server, broker, visibility_ms=30)
        held = await got(server, consumer, delivery(b"a", lease=1), delivery(b"b", lease=2, start=1))
        (await server.request(native.EXTEND)).ok([(0, 2)])

        send_heartbeat = await server.request(native.EXTEND)
        send_heartbeat.ok([])

        assert decode_body(send_heartbeat.body, ExtendBody).leases == [(0, 1)]
        assert (consumer.in_flight, len(held)) == (1, 2)


async def test_a_lease_that_was_extended_for_long_is_left_alone() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await beating(server, broker, visibility_ms=30)
        short, long = await got(server, consumer, delivery(b"a", lease=1), delivery(b"b", lease=2, start=1))
        extending = begin(long.extend("1h"))
        while (
            decode_body((request := await server.request(native.EXTEND)).body, ExtendBody).duration_ms == 30
        ):
            request.ok([])
        request.ok([])
        await extending

        send_heartbeat = await server.request(native.EXTEND)
        send_heartbeat.ok([])

        assert decode_body(send_heartbeat.body, ExtendBody).leases == [(0, 1)]
        assert not short.settled


async def test_a_stream_consumer_stays_a_member_and_hears_of_its_partitions() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, "stream", (0, 1), prefetch=10)
        receiving = begin(consumer.receive(1, wait="1h"))
        credit = await server.request(native.CREDIT)
        credit.send(
            native.encode_delivery(1, [delivery(b"a", b"b", lease=-1), delivery(b"c", lease=-1, partition=1)])
        )
        await receiving
        send_heartbeat = begin(consumer._operations._receiver.send_heartbeat())  # type: ignore[attr-defined]
        (await server.request(native.HEARTBEAT)).ok([1])
        await send_heartbeat

        assert consumer.assignment == [1]
        [message] = await consumer.receive(10)  # What was there of the other partition is somebody else's.
        assert message.value == b"c"


# Prefetching.


def credit_of(request: Request) -> int:
    assert request.opcode == native.CREDIT, hex(request.opcode)
    return native.decode_credit(request.body)[1]


async def test_no_more_than_n_are_unanswered() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, prefetch=4)
        receiving = begin(consumer.receive(1, wait="1h"))
        first = await server.request()
        first.send(native.encode_delivery(1, [delivery(*[b"x"] * 4)]))
        messages = await receiving
        messages += await consumer.receive(10)

        assert (credit_of(first), len(messages), consumer.in_flight) == (4, 4, 4)
        assert await begin(consumer.receive(1, wait="1ms")) == []
        assert server.quiet

        ack = begin(consumer.ack(messages[:2]))
        (await server.request()).done()
        await ack
        assert credit_of(await server.request()) == 2


async def test_whoever_waits_gets_credit_for_what_there_is_room() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, prefetch=10)
        receiving = begin(consumer.receive(10, wait="1h"))
        first = await server.request()
        first.send(native.encode_delivery(1, [delivery(*[b"x"] * 10)]))
        messages = await receiving
        ack = begin(messages[0].ack())
        (await server.request()).done()
        await ack
        assert server.quiet  # One alone is not worth a frame, as long as nobody waits.

        waiting = begin(consumer.receive(1, wait="1h"))
        more = await server.request()
        more.send(native.encode_delivery(1, [delivery(b"y", lease=2, start=10)]))

        assert credit_of(more) == 1
        assert [message.value for message in await waiting] == [b"y"]


async def test_a_receive_that_does_not_wait_gets_what_the_server_has() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, prefetch=10)
        receiving = begin(consumer.receive(5))
        (await server.request()).send(native.encode_delivery(1, [delivery(b"a", b"b")]))
        (await server.request(native.PING)).done()

        assert len(await receiving) == 2


async def test_credit_is_given_anew_on_a_new_connection() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        consumer = await opened(server, broker, prefetch=4)
        receiving = begin(consumer.receive(1, wait="1h"))
        first = await server.request()
        first.send(native.encode_delivery(1, [delivery(b"a", b"b", b"c")]))
        [message] = await receiving
        first.cut()

        wish = (await server.request()).opened(resumed=True)
        credit = await server.request()

        assert wish.held == [(0, 1)]
        assert credit_of(credit) == 1  # Three of four are held: one is with the program, two are buffered.
        assert [each.value for each in await consumer.receive(10)] == [b"b", b"c"]
        assert not message.settled
