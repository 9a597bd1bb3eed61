"""A connection that dies at the worst moment: nothing is lost, and nothing is done twice."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.client.scripted import Request, Scripted

from penstock import aio
from penstock.api.aio import AsyncBroker
from penstock.config.broker import TopicSettings
from penstock.errors import (
    Closed,
    FrameTooLarge,
    MessageTooLarge,
    MetadataStale,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    QueueFull,
    SequenceOutOfOrder,
    SequenceReused,
    ServerUnreachable,
    ShuttingDown,
    StorageFailed,
    TopicExists,
    TopicNotFound,
    Unauthenticated,
)
from penstock.wire import native
from penstock.wire.records import decode_batch, read_header


def begin(work: Any) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(work)


def values(request: Request) -> list[bytes | None]:
    """What a publish carries."""
    return [record.value for _, batch in request.publish().batches for record in decode_batch(batch)]


def numbers(request: Request) -> list[tuple[int, int]]:
    """Producer id and sequence of each batch of a publish."""
    headers = [read_header(batch) for _, batch in request.publish().batches]
    return [(header.producer_id, header.base_sequence) for header in headers]


lone_or_not = pytest.mark.parametrize("lone", [False, True])  # Sent by a task, or in the call itself.


async def published_once(server: Scripted, broker: AsyncBroker) -> None:
    """A first publish, so that metadata and producer id are known."""
    first = begin(broker.publish("orders", b"first"))
    (await server.request()).published()
    await first


# Publishes.


@lone_or_not
async def test_a_publish_without_an_answer_is_sent_again_as_it_was(lone: bool) -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        if lone:
            await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        first = await server.request()
        first.cut()

        again = await server.request()
        again.published(offset=7, state=native.DUPLICATE)

        assert again.publish().batches == first.publish().batches
        receipt = await publish
        assert (receipt.offset, receipt.duplicate) == (7, False)  # The caller has published it once.
        assert server.connections == 2


@lone_or_not
async def test_a_connection_that_dies_within_the_answer_has_not_answered(lone: bool) -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        if lone:
            await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        first = await server.request()
        first.send(b"\x80\x00\x00\x00\x1c\x00")
        await first.writer.drain()
        first.writer.close()

        (await server.request()).published(offset=3)

        assert (await publish).offset == 3


async def test_a_connection_that_dies_after_the_answer_repeats_nothing() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        publish = begin(broker.publish("orders", b"x"))
        first = await server.request()
        first.published()
        await publish
        first.cut()

        topics = begin(broker.topics())
        assert (await server.request()).opcode == native.CALL
        topics.cancel()


async def test_a_lone_publish_needs_no_task_and_no_turn_of_the_loop() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        tasks = asyncio.all_tasks()
        broker.publish_nowait("orders", b"x")

        assert asyncio.all_tasks() == tasks
        request = await server.request()
        request.published(offset=1)
        await broker.flush()
        assert numbers(request) == [(1, 1)]


async def test_a_lone_publish_is_not_left_without_an_end_when_the_client_closes() -> None:
    async with Scripted() as server:
        async with aio.connect(server.url) as broker:
            await published_once(server, broker)
            publish = begin(broker.publish("orders", b"x"))
            waiting = begin(broker.publish("orders", b"y"))
            await server.request()
            await broker.close(timeout="10ms")
        outcomes = await asyncio.gather(publish, waiting, return_exceptions=True)

        assert [type(each) for each in outcomes] == [OutcomeUnknown, Closed]


async def test_what_was_published_meanwhile_becomes_the_next_batch() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        one = begin(broker.publish("orders", b"1"))
        request = await server.request()
        others = [begin(broker.publish("orders", b"%d" % number)) for number in (2, 3, 4)]
        await asyncio.wait(others, timeout=0)
        request.published(offset=1)

        together = await server.request()
        together.published(offset=2)

        assert values(together) == [b"2", b"3", b"4"]
        assert [(await each).offset for each in (one, *others)] == [1, 2, 3, 4]
        assert numbers(request) == [(1, 1)]
        assert numbers(together) == [(1, 2)]


async def test_large_calls_share_a_request_and_keep_their_batches() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        tasks = [begin(broker.publish_batch("orders", [b"%d" % number] * 1000)) for number in range(5)]
        request = await server.request()
        request.published(offset=1)
        rest = await server.request()
        rest.published(offset=1001)
        receipts = await asyncio.gather(*tasks)

        assert numbers(request) == [(1, 1)]  # It was the first, and did not wait for the others.
        assert numbers(rest) == [(1, 1001), (1, 2001), (1, 3001), (1, 4001)]
        assert [each[0].offset for each in receipts] == [1, 1001, 2001, 3001, 4001]


async def test_linger_gathers_what_comes_within_it() -> None:
    async with Scripted() as server, aio.connect(server.url, linger="30ms") as broker:
        await published_once(server, broker)
        one = begin(broker.publish("orders", b"1"))
        await asyncio.wait([one], timeout=0.005)
        two = begin(broker.publish("orders", b"2"))
        request = await server.request()
        request.published()
        await asyncio.gather(one, two)

        assert values(request) == [b"1", b"2"]


async def test_what_fills_a_request_does_not_linger() -> None:
    async with Scripted() as server, aio.connect(server.url, linger="1h") as broker:
        publish = begin(broker.publish_batch("orders", [b"x" * 300_000] * 4))
        request = await server.request()
        request.published()
        flush = begin(broker.flush())  # Nor does what somebody waits for.
        rest = await server.request()
        rest.published()
        await flush

        assert (len(values(request)), len(values(rest))) == (3, 1)
        assert len(await publish) == 4


async def test_a_refused_batch_gives_its_numbers_to_the_next() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        full = begin(broker.publish("orders", b"full"))
        refused = await server.request()
        refused.refused(QueueFull(what="topic 'orders'", limit=1))
        with pytest.raises(QueueFull):
            await full

        following = begin(broker.publish("orders", b"next"))
        request = await server.request()
        request.published()
        await following

        assert numbers(refused) == numbers(request) == [(1, 1)]


async def test_messages_that_are_refused_together_are_tried_alone() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        tasks = [begin(broker.publish("orders", value)) for value in (b"before", b"fits", b"does not")]
        full = QueueFull(what="topic 'orders'", limit=3)
        (await server.request()).published(offset=1)
        both = await server.request()
        both.refused(full)
        fits = await server.request()
        fits.published(offset=2)
        (await server.request()).refused(full)

        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        assert (values(both), values(fits)) == ([b"fits", b"does not"], [b"fits"])
        assert not isinstance(outcomes[1], BaseException)
        assert isinstance(outcomes[2], QueueFull)


async def test_numbers_whose_fate_is_unknown_are_never_used_again() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        failed = begin(broker.publish("orders", b"x"))
        request = await server.request()
        request.refused(StorageFailed(path="log", why="no more"))
        with pytest.raises(StorageFailed):
            await failed

        following = begin(broker.publish("orders", b"y"))
        other = await server.request()
        other.published()
        await following

        assert numbers(request) == [(1, 1)]
        assert numbers(other) == [(2, 0)]


@lone_or_not
async def test_a_key_that_is_refused_later_does_not_say_that_nothing_was_written(lone: bool) -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        if lone:
            await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        first = await server.request()
        server.unwelcome = Unauthenticated(why="the key was revoked")
        first.cut()
        with pytest.raises(OutcomeUnknown):
            await publish

        server.unwelcome = None
        following = begin(broker.publish("orders", b"next"))
        request = await server.request()
        request.published()
        await following

        assert numbers(request) == [(2, 0)] != numbers(first)


@pytest.mark.parametrize("whole", [True, False])
async def test_numbers_that_were_used_before_are_never_used_again(whole: bool) -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        request = await server.request()
        reused = SequenceReused(producer_id=1, sequence=1, why="other records")
        if whole:
            request.refuse(reused)
        else:
            request.refused(reused)
        with pytest.raises(SequenceReused):
            await publish

        following = begin(broker.publish("orders", b"next"))
        other = await server.request()
        other.published()
        await following

        assert (numbers(request), numbers(other)) == ([(1, 1)], [(2, 0)])


async def test_a_server_that_lost_our_numbers_gets_new_ones() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        request = await server.request()
        request.refused(SequenceOutOfOrder(producer_id=1, sequence=1, expected=0))

        again = await server.request()
        again.published()
        await publish

        assert (numbers(request), numbers(again)) == ([(1, 1)], [(2, 0)])


async def test_settings_that_have_changed_are_asked_for_and_the_batch_is_made_anew() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        large = begin(broker.publish("orders", b"x" * 20))
        small = begin(broker.publish("orders", b"y", partition=0))
        stale = await server.request()
        server.version, server.settings = 2, TopicSettings(partitions=3, message_bytes_max=10)
        stale.refuse(MetadataStale(topic="orders", version=1))

        again = await server.request()
        again.published()

        assert (stale.publish().version, again.publish().version) == (1, 2)
        assert values(again) == [b"y"]
        with pytest.raises(MessageTooLarge):
            await large
        await small


async def test_a_repeat_for_changed_settings_is_still_the_same_batch() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        first = await server.request()
        first.cut()  # It may have been written.
        server.version, server.settings = 2, TopicSettings(partitions=8)
        (await server.request()).refuse(MetadataStale(topic="orders", version=1))

        again = await server.request()
        again.published(state=native.DUPLICATE)
        await publish

        assert again.publish().batches == first.publish().batches
        assert again.publish().version == 2


async def test_a_topic_that_keeps_changing_is_given_up() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        publish = begin(broker.publish("orders", b"x"))

        async def stale() -> None:
            while True:
                (await server.request()).refuse(MetadataStale(topic="orders", version=1))

        refusing = begin(stale())
        with pytest.raises(MetadataStale):
            await publish
        refusing.cancel()


@lone_or_not
@pytest.mark.parametrize("refusal", [Overloaded(what="bytes", limit=1), ShuttingDown(what="server")])
async def test_what_is_refused_for_now_is_asked_again(refusal: PenstockError, lone: bool) -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        if lone:
            await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        (await server.request()).refuse(refusal)
        (await server.request()).published(offset=5)

        assert (await publish).offset == 5


async def test_what_is_refused_up_to_the_deadline_is_refused() -> None:
    async with Scripted() as server, aio.connect(server.url, request_timeout="50ms") as broker:
        publish = begin(broker.publish("orders", b"x"))

        async def overloaded() -> None:
            while True:
                (await server.request()).refuse(Overloaded(what="bytes", limit=1))

        refusing = begin(overloaded())
        with pytest.raises(Overloaded):
            await publish
        refusing.cancel()


async def test_a_request_that_the_server_would_not_take_is_not_sent() -> None:
    async with Scripted() as server:
        server.welcome = msgspec.structs.replace(server.welcome, frame_bytes_max=2000)
        async with aio.connect(server.url) as broker:
            publish = begin(broker.publish("orders", b"x" * 3000))
            following = begin(broker.publish("orders", b"y"))
            request = await server.request()
            request.published()
            await following

            assert values(request) == [b"y"]
            with pytest.raises(FrameTooLarge):
                await publish


async def test_a_message_with_a_due_time_gets_an_id_to_be_known_by() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        publish = begin(broker.publish("orders", b"x", delay="1h"))
        first = await server.request()
        first.cut()
        again = await server.request()
        again.ok([(0, None, 1000, "orders:0:s0", True)])

        receipt = await publish

        assert first.opcode == native.PUBLISH_MESSAGES
        assert first.body[4:] == again.body[4:]
        assert b"~1-1" in first.body
        assert (receipt.schedule_id, receipt.duplicate) == ("orders:0:s0", False)


async def test_a_topic_that_forgets_ids_at_once_cannot_be_repeated_to() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        server.settings = TopicSettings(dedup_window_ms=0)
        publish = begin(broker.publish("orders", b"x", delay="1h"))
        (await server.request()).cut()

        with pytest.raises(OutcomeUnknown):
            await publish


# Other calls.


async def test_what_changes_nothing_is_asked_again() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        topics = begin(broker.topics())
        (await server.request()).cut()
        (await server.request()).ok(["orders"])

        assert await topics == ["orders"]


async def test_what_cannot_be_done_twice_is_not_asked_again() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        schedule = begin(broker.schedule("orders", b"x", cron="* * * * *"))
        (await server.request()).cut()

        with pytest.raises(OutcomeUnknown) as caught:
            await schedule

        assert caught.value.facts == {"operation": "schedule", "server": server.url}


async def test_a_repeat_that_finds_it_done_is_done() -> None:
    async with Scripted() as server, aio.connect(server.url) as broker:
        create = begin(broker.create_topic("orders"))
        (await server.request()).cut()
        (await server.request()).refuse(TopicExists(topic="orders"))
        await create

        delete = begin(broker.delete_topic("orders"))
        (await server.request()).refuse(TopicNotFound(topic="orders"))  # Not a repeat.
        with pytest.raises(TopicNotFound):
            await delete


# Nobody there.


async def test_nobody_there_is_said_at_once() -> None:
    async with Scripted() as server:
        pass
    with pytest.raises(ServerUnreachable) as caught:
        await aio.connect(server.url).start()

    assert caught.value.facts == {"server": server.url, "why": "connection refused"}


async def test_a_server_that_stays_away_is_unreachable_and_one_that_comes_back_is_found() -> None:
    async with Scripted() as server, aio.connect(server.url, request_timeout="50ms") as broker:
        await server.vanish()
        with pytest.raises(ServerUnreachable) as caught:
            await broker.topics()
        broker._client.session.timeout_ms = 10_000
        topics = begin(broker.topics())

        await server.come_back()
        (await server.request()).ok(["orders"])

        assert caught.value.facts["server"] == server.url
        assert await topics == ["orders"]


@lone_or_not
async def test_a_publish_that_nobody_answered_in_time_has_an_unknown_outcome(lone: bool) -> None:
    async with Scripted() as server, aio.connect(server.url, request_timeout="50ms") as broker:
        if lone:
            await published_once(server, broker)
        publish = begin(broker.publish("orders", b"x"))
        unanswered = await server.request()
        with pytest.raises(OutcomeUnknown):
            await publish

        following = begin(broker.publish("orders", b"y"))
        request = await server.request()
        request.published()
        await following

        assert (numbers(unanswered), numbers(request)) == ([(1, int(lone))], [(2, 0)])


async def test_a_server_that_hangs_up_at_once_is_not_asked_without_a_break() -> None:
    async with Scripted() as server, aio.connect(server.url, request_timeout="100ms") as broker:
        topics = begin(broker.topics())
        while not topics.done():
            server.hang_up()
            await asyncio.wait([topics], timeout=0.001)

        assert isinstance(topics.exception(), ServerUnreachable)
        assert server.connections < 20


async def test_another_protocol_is_recognised() -> None:
    async def http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(http, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    with pytest.raises(ServerUnreachable, match="frame"):
        await aio.connect(f"penstock://127.0.0.1:{port}").start()
    server.close()


async def test_a_silent_server_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.connections.connection.SILENCE_S", 0.02)
    async with Scripted() as server, aio.connect(server.url) as broker:
        topics = begin(broker.topics())
        assert (await server.request()).opcode == native.CALL
        assert (await server.request()).opcode == native.PING

        again = await server.request()  # On another connection.
        again.ok([])

        assert (again.opcode, await topics) == (native.CALL, [])
        assert server.connections == 2
