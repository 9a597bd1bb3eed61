"""Publishes on the thread that calls: in order, once, and no worse off than on the loop."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
from tests.client.proxy import Proxy
from tests.client.scripted import PATIENCE_S, Request, Scripted
from tests.client.served import VirtualServer

import penstock
from penstock.client import blocking_connection, direct
from penstock.client.connections.exchange import Encode
from penstock.client.sync import RemoteBroker
from penstock.config.server import LimitSettings
from penstock.errors import (
    InvalidName,
    InvalidValue,
    MessageTooLarge,
    MetadataStale,
    OutcomeUnknown,
    Overloaded,
    PartitionNotFound,
    PenstockError,
    QuotaExceeded,
    SequenceOutOfOrder,
    SequenceReused,
    ShuttingDown,
    TopicNotFound,
)
from penstock.model.message import Receipt
from penstock.version import compiled
from penstock.wire import native
from penstock.wire.records import read_header


@pytest.fixture
def server() -> Iterator[VirtualServer]:
    with VirtualServer() as started:
        started.run(started.broker.create_topic("orders"))
        yield started


def warm(broker: RemoteBroker) -> None:
    """Publish until there is a channel."""
    for _ in range(direct.DIRECT_MIN + 1):
        broker.publish("orders", b"warm")
    assert broker._direct.channel is not None


def values(broker: RemoteBroker) -> list[bytes]:
    """All that was published after the warming up."""
    stored = broker.read("orders", limit=5000)
    return [message.value for message in stored if message.value != b"warm"]


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    patience = threading.Event()
    while not condition():
        patience.wait(0.001)


def direct_is_busy(broker: RemoteBroker) -> bool:
    channel = broker._direct.channel
    return channel is not None and channel.turn.locked()


def interrupt_when_busy(broker: RemoteBroker) -> None:
    """Send the main thread a SIGINT while it publishes directly."""

    def interrupt() -> None:
        until(lambda: direct_is_busy(broker))
        threading.Event().wait(0.05)  # So that it waits for the answer, as a rule.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()


# The channel.


def test_who_publishes_much_gets_a_channel_and_who_publishes_little_does_not(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        for number in range(direct.DIRECT_MIN):
            assert broker.publish("orders", b"%d" % number).offset == number
        assert len(server.listener.connections.open) == 1

        for number in range(direct.DIRECT_MIN, 100):
            assert broker.publish("orders", b"%d" % number).offset == number
        assert len(server.listener.connections.open) == 2
        assert values(broker) == [b"%d" % number for number in range(100)]
    until(lambda: not server.listener.connections.open)


def test_the_channel_carries_everything_that_the_loop_does(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        broker.alter_topic("orders", partitions=3)
        warm(broker)

        keyed = broker.publish("orders", b"a", key="k", headers={"h": "1"}, priority="high", partition=2)
        [first, second] = broker.publish_batch("orders", [b"b", penstock.Message(b"c", partition=1)])
        written = broker.publish("orders", b"d", acks="written")
        unheard = broker.publish("orders", b"e", acks="none")
        short = broker.publish("orders", b"f", ttl="1h")
        broker.publish("orders", b"g")

        [stored] = broker.read("orders", partition=2, offset=keyed.offset, limit=1)
        assert (stored.value, stored.key, stored.priority) == (b"a", b"k", "high")
        assert second.partition == 1
        assert {first.duplicate, written.duplicate, short.duplicate} == {False}
        assert unheard.offset is None
        found = [broker.read("orders", partition=number, limit=500) for number in range(3)]
        assert sorted(m.value for part in found for m in part if m.value != b"warm") == [
            bytes([letter]) for letter in b"abcdefg"
        ]


def test_bad_input_is_refused_in_the_same_words(server: VirtualServer) -> None:
    def refusals(broker: RemoteBroker) -> Iterator[str]:
        calls: list[tuple[type[PenstockError], Callable[[], Receipt]]] = [
            (InvalidValue, lambda: broker.publish("orders", "text")),  # type: ignore[arg-type]
            (PartitionNotFound, lambda: broker.publish("orders", b"x", partition=7)),
            (MessageTooLarge, lambda: broker.publish("orders", b"x" * 2_000_000)),
            (InvalidName, lambda: broker.publish("a/b", b"x")),
            (InvalidName, lambda: broker.publish(["orders"], b"x")),  # type: ignore[arg-type]
        ]
        for error, publish in calls:
            with pytest.raises(error) as raised:
                publish()
            yield str(raised.value)

    with penstock.connect(server.url) as cold, penstock.connect(server.url) as broker:
        warm(broker)

        assert list(refusals(broker)) == list(refusals(cold))
        assert broker.publish("orders", b"x").offset == direct.DIRECT_MIN + 1


def test_the_channel_shows_the_same_key() -> None:
    with VirtualServer(authentication=True) as server:
        server.run(server.broker.create_topic("orders"))
        with penstock.connect(server.url, key=server.key) as broker:
            warm(broker)

            assert broker.publish("orders", b"x").offset == direct.DIRECT_MIN + 1


@pytest.mark.parametrize("kind", ["linger", "none", "ttl", "waits for room"])
def test_who_could_not_use_a_channel_gets_none(server: VirtualServer, kind: str) -> None:
    with penstock.connect(server.url, linger="1ms" if kind == "linger" else 0) as broker:
        if kind == "waits for room":
            broker.alter_topic("orders", depth_max=1000, depth_policy="wait")
        for _ in range(2 * direct.DIRECT_MIN):
            broker.publish(
                "orders",
                b"x",
                acks="none" if kind == "none" else "durable",
                ttl="1h" if kind == "ttl" else None,
            )

        assert broker._direct.channel is None


def test_without_room_for_a_second_connection_the_first_does_it() -> None:
    with VirtualServer(limits=LimitSettings(connections_max=1)) as server:
        server.run(server.broker.create_topic("orders"))
        with penstock.connect(server.url) as broker:
            for number in range(3 * direct.DIRECT_MIN):
                assert broker.publish("orders", b"x").offset == number

            assert broker._direct.channel is None


def test_a_new_connection_is_the_end_of_the_old_ones_channel(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        warm(broker)
        before = broker._direct.channel
        connection = broker._client.session._connection
        assert connection is not None
        broker._portal.post(lambda: connection._abort("cut"))
        until(lambda: broker._client.session.generation == 2)

        assert broker.publish("orders", b"x").offset == direct.DIRECT_MIN + 1
        assert broker._direct.channel is None is not before


def test_a_channel_that_was_idle_for_long_is_not_used_any_more(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        warm(broker)
        channel = broker._direct.channel
        assert channel is not None
        channel.used_ms -= direct.IDLE_MS + 1

        assert broker.publish("orders", b"x").offset == direct.DIRECT_MIN + 1
        assert broker._direct.channel is None
    until(lambda: not server.listener.connections.open)


# Order.

REFUSED: list[tuple[dict[str, Any] | None, type[PenstockError]]] = [
    (None, PenstockError),
    ({"topic": 7, "value": b"x"}, InvalidName),
    ({"topic": "un/known", "value": b"x"}, InvalidName),
    ({"topic": "orders", "value": bytes(2_000_000)}, MessageTooLarge),
    ({"topic": "orders", "value": b"x", "ttl": "-1s"}, InvalidValue),
]


def test_nothing_is_overtaken(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        warm(broker)
        expected = []
        for number in range(200):
            for letter in b"abc"[: number % 4]:
                broker.publish_nowait("orders", b"%d%c" % (number, letter))
                expected.append(b"%d%c" % (number, letter))
            broker.publish("orders", b"%d" % number)
            expected.append(b"%d" % number)

        assert values(broker) == expected


def test_what_nobody_answers_for_is_not_overtaken_either(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        warm(broker)
        for number in range(20):
            broker.publish("orders", b"%d first" % number + bytes(900_000), acks="none")
            broker.publish("orders", b"%d second" % number)

            [first, second] = broker.read("orders", offset=direct.DIRECT_MIN + 1 + 2 * number)
            assert (first.value.strip(b"\0"), second.value) == (b"%d first" % number, b"%d second" % number)


@pytest.mark.parametrize(
    ("refused", "error"), REFUSED, ids=["none", "no-name", "unknown", "too-large", "ttl"]
)
def test_nor_is_it_by_what_goes_to_another_topic(
    server: VirtualServer, refused: dict[str, Any] | None, error: type[PenstockError]
) -> None:
    """Also if something is refused between the two, which was perhaps never sent."""
    with penstock.connect(server.url) as broker:
        broker.create_topic("large")
        broker.publish("large", b"warm")
        warm(broker)
        for number in range(20):
            broker.publish("large", bytes(900_000), acks="none")
            if refused is not None:
                with pytest.raises(error):
                    broker.publish(**refused)
            broker.publish("orders", b"after it")

            assert server.run(server.broker.stats()).messages == direct.DIRECT_MIN + 2 + 2 * (number + 1)


def test_what_goes_by_the_channel_says_nothing_of_what_goes_by_the_loop(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        warm(broker)
        publisher = broker._client.publisher
        sender = publisher.sender("orders")
        assert sender is not None
        assert sender.metadata is not None
        publisher.server.unasked += 1  # By another thread, a moment ago.
        unit = sender.single(sender.metadata, [b"x"], native.ACKS_DURABLE)
        assert unit is not None
        slot = broker._direct._home
        assert slot.channel is not None

        receipts = broker._direct._publish(slot, slot.channel, sender, unit, sender.metadata, None, 0)

        assert isinstance(receipts, list)
        assert publisher.server.unasked_taken < publisher.server.unasked
        publisher.server.unasked -= 1


def test_what_others_publish_meanwhile_needs_not_wait_and_keeps_its_order(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker, ThreadPoolExecutor(1) as threads:
        warm(broker)
        with server.deaf():
            first = threads.submit(broker.publish, "orders", b"first")
            until(lambda: direct_is_busy(broker))
            later = [broker.publish_nowait("orders", b"%d" % number) for number in range(3)]

        offsets = [each.result().offset for each in later]
        assert offsets == sorted(offset for offset in offsets if offset is not None)
        assert {first.result().offset, *offsets} == {direct.DIRECT_MIN + 1 + number for number in range(4)}
        assert [value for value in values(broker) if value != b"first"] == [b"0", b"1", b"2"]


def test_threads_that_publish_in_turn_and_at_once_keep_their_own_order(server: VirtualServer) -> None:
    def publish(name: int) -> None:
        for number in range(150):
            broker.publish("orders", b"%d-%d" % (name, number))

    with penstock.connect(server.url) as broker, ThreadPoolExecutor(4) as threads:
        warm(broker)
        list(threads.map(publish, range(4)))

        stored = values(broker)
        assert len(stored) == 600
        for name in range(4):
            own = [value for value in stored if value.startswith(b"%d-" % name)]
            assert own == [b"%d-%d" % (name, number) for number in range(150)]


# What the channel does not answer.


class Slow:
    """A scripted server, and a client in another thread that has a channel to it."""

    def __init__(self, server: Scripted) -> None:
        self.server = server

    async def connect(self, request_timeout: str = "30s") -> None:
        self.broker = await asyncio.to_thread(
            penstock.connect, self.server.url, request_timeout=request_timeout
        )
        for number in range(direct.DIRECT_MIN + 1):
            publishing = self.publish()
            self.first = await self.server.request()
            self.first.published(number)
            await publishing
        assert self.server.connections == 2

    def publish(self) -> "asyncio.Future[Receipt]":
        return asyncio.ensure_future(asyncio.to_thread(self.broker.publish, "orders", b"x"))

    def by_channel(self, request: Request) -> bool:
        return request.writer is self.first.writer


@pytest.fixture
def slow() -> Slow:
    return Slow(Scripted())


async def test_a_lost_channel_loses_nothing_and_repeats_what_the_server_can_recognise(slow: Slow) -> None:
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        assert slow.by_channel(first)
        first.cut()
        again = await slow.server.request()
        assert not slow.by_channel(again)
        assert again.publish().batches == first.publish().batches
        again.published(77, native.DUPLICATE)

        receipt = await publishing
        assert (receipt.offset, receipt.duplicate) == (77, False)
        following = slow.publish()
        request = await slow.server.request()
        assert not slow.by_channel(request)
        request.published(78)
        assert (await following).offset == 78
        await asyncio.to_thread(slow.broker.close)


async def test_an_answer_that_takes_long_is_left_to_the_loop(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_connection, "ANSWER_S", 0.05)
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        again = await slow.server.request()
        assert (slow.by_channel(first), slow.by_channel(again)) == (True, False)
        assert again.publish().batches == first.publish().batches
        again.published(50)

        assert (await publishing).offset == 50
        await asyncio.to_thread(slow.broker.close)


async def test_the_programs_own_limit_of_time_is_kept(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_connection, "ANSWER_S", 2 * PATIENCE_S)
    async with slow.server:
        await slow.connect(request_timeout="1s")
        publishing = slow.publish()
        await slow.server.request()

        with pytest.raises(OutcomeUnknown):
            async with asyncio.timeout(PATIENCE_S):
                await publishing
        await asyncio.to_thread(slow.broker.close)


async def test_a_channel_is_not_waited_for_longer_than_the_program_waits(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_connection, "CONNECT_S", 2 * PATIENCE_S)
    slow.server.connections_max = 1
    async with slow.server:
        async with asyncio.timeout(PATIENCE_S):
            await slow.connect(request_timeout="1s")

        assert slow.broker._direct.channel is None
        await asyncio.to_thread(slow.broker.close)


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage that is no frame at all, and goes on for some time",
        native.frame(native.OK, 4_000_000_000),  # To somebody else.
        native.frame(native.DELIVERY, native.UNASKED),
        bytes([native.OK]) + (2).to_bytes(4, "big") + b"??",  # Too short to say to whom.
        bytes([native.ERROR]) + (1).to_bytes(4, "big") + b"?",
    ],
)
async def test_a_channel_that_says_something_else_is_given_up(slow: Slow, answer: bytes) -> None:
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        first.send(answer)
        again = await slow.server.request()
        assert again.publish().batches == first.publish().batches
        again.published(50)

        assert (await publishing).offset == 50
        await asyncio.to_thread(slow.broker.close)


async def test_a_topic_that_has_changed_is_looked_at_again(slow: Slow) -> None:
    async with slow.server:
        await slow.connect()
        slow.server.version = 2
        publishing = slow.publish()
        (await slow.server.request()).refuse(MetadataStale(topic="orders", version=2))
        again = await slow.server.request()
        assert again.publish().version == 2
        again.published(50)

        assert (await publishing).offset == 50
        following = slow.publish()
        request = await slow.server.request()
        assert not slow.by_channel(request)  # It may lead to a server that would refuse each of them.
        request.published(51)
        assert (await following).offset == 51
        await asyncio.to_thread(slow.broker.close)


def numbers_of(request: Request) -> tuple[int, int]:
    """Producer id and sequence number of a publish."""
    [(_, batch)] = request.publish().batches
    header = read_header(batch)
    return header.producer_id, header.base_sequence


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        Overloaded(what="requests", limit=1),
        QuotaExceeded(who="ann", what="bytes", limit=1, retry_after=1),
        ShuttingDown(what="server"),
    ],
    ids=lambda error: error.code,
)
async def test_what_is_refused_for_now_is_repeated_by_the_loop_with_the_same_numbers(
    slow: Slow, whole: bool, error: PenstockError
) -> None:
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        if whole:
            first.refuse(error)
        else:
            first.refused(error)
        again = await slow.server.request()
        assert (slow.by_channel(first), slow.by_channel(again)) == (True, False)
        assert again.publish().batches == first.publish().batches  # A node that forwards may have written it.
        again.published(50)
        assert (await publishing).offset == 50

        following = slow.publish()
        request = await slow.server.request()
        assert not slow.by_channel(request)
        assert numbers_of(request)[0] != numbers_of(first)[0]
        request.published(51)
        assert (await following).offset == 51
        await asyncio.to_thread(slow.broker.close)


async def test_a_number_that_was_used_before_is_not_used_again(slow: Slow) -> None:
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        first.refused(SequenceReused(producer_id=1, sequence=1, why="other records"))
        with pytest.raises(SequenceReused):
            await publishing

        following = slow.publish()
        request = await slow.server.request()
        assert numbers_of(request)[0] != numbers_of(first)[0]
        request.published(50)
        assert (await following).offset == 50
        await asyncio.to_thread(slow.broker.close)


async def test_numbers_that_are_perhaps_used_are_never_used_for_something_else(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "PAUSE_MS", 0)
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        first.cut()
        again = await slow.server.request()
        assert numbers_of(again) == numbers_of(first)
        again.published(50)
        await publishing

        used = {numbers_of(first)}
        for number in range(2 * direct.DIRECT_MIN):  # Until there is another channel.
            following = slow.publish()
            request = await slow.server.request()
            assert numbers_of(request) not in used
            used.add(numbers_of(request))
            request.published(51 + number)
            await following
        assert slow.server.connections == 3
        await asyncio.to_thread(slow.broker.close)


@pytest.mark.skipif(compiled(), reason="a part of the client is replaced")
async def test_what_was_interrupted_is_sent_again_by_the_loop_before_what_follows(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: blocking_connection.BlockingConnection, encode: Encode) -> bytes:
        connection._socket.sendall(connection._exchange.request(encode, connection._take))
        raise KeyboardInterrupt

    def publish() -> None:
        with pytest.raises(KeyboardInterrupt):
            slow.broker.publish("orders", b"interrupted")

    async with slow.server:
        await slow.connect()
        monkeypatch.setattr(blocking_connection.BlockingConnection, "ask", interrupted)
        await asyncio.to_thread(publish)
        first = await slow.server.request()
        following = slow.publish()
        again = await slow.server.request()
        assert (slow.by_channel(first), slow.by_channel(again)) == (True, False)
        assert again.publish().batches == first.publish().batches
        again.published(50, native.DUPLICATE)
        request = await slow.server.request()
        assert numbers_of(request)[0] != numbers_of(first)[0]
        request.published(51)

        assert (await following).offset == 51
        await asyncio.to_thread(slow.broker.close)


async def test_a_server_that_has_lost_the_numbers_of_the_channel_gets_others(slow: Slow) -> None:
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        first.refused(SequenceOutOfOrder(producer_id=1, sequence=1, expected=0))
        again = await slow.server.request()
        assert not slow.by_channel(again)
        assert numbers_of(again)[0] != numbers_of(first)[0]
        again.published(50)

        assert (await publishing).offset == 50
        assert slow.broker._direct.channel is None
        await asyncio.to_thread(slow.broker.close)


@pytest.mark.parametrize("whole", [True, False])
async def test_a_refusal_reaches_the_caller(slow: Slow, whole: bool) -> None:
    error: PenstockError = TopicNotFound(topic="orders")
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        request = await slow.server.request()
        if whole:
            request.refuse(error)
        else:
            request.refused(error)

        with pytest.raises(TopicNotFound):
            await publishing
        await asyncio.to_thread(slow.broker.close)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_through_any_number_of_breaks_each_message_is_there_once_and_in_order(
    server: VirtualServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "DIRECT_MIN", 3)
    monkeypatch.setattr(direct, "PAUSE_MS", 0)

    used: set[direct.PublishChannel | None] = {None}

    def publish(url: str) -> Iterator[int | None]:
        with penstock.connect(url) as broker:
            for number in range(400):
                yield broker.publish("orders", b"%d" % number).offset
                used.add(broker._direct.channel)

    async with Proxy(server.url) as wire:
        wire.cut_at_random(Random(seed), every=5000)
        offsets = await asyncio.to_thread(lambda: list(publish(wire.url)))

    assert wire.cuts > 5
    assert len(used) > 3
    assert offsets == list(range(400))
    stored = await asyncio.to_thread(lambda: server.run(server.broker.read("orders", limit=500)))
    assert [message.value for message in stored] == [b"%d" % number for number in range(400)]


# Ends.


@pytest.mark.usefixtures("interruptible")
def test_what_was_interrupted_arrives_once_and_nothing_waits_for_ever(server: VirtualServer) -> None:
    with penstock.connect(server.url) as broker:
        warm(broker)

        with server.deaf():
            interrupt_when_busy(broker)
            with pytest.raises(KeyboardInterrupt):
                broker.publish("orders", b"interrupted")

        broker.publish("orders", b"next")
        assert values(broker) == [b"interrupted", b"next"]
        assert broker._client.publisher.buffered == 0


def test_close_waits_for_a_publish_that_is_out(server: VirtualServer) -> None:
    broker = penstock.connect(server.url)
    warm(broker)
    with ThreadPoolExecutor(2) as threads:
        with server.deaf():
            publishing = threads.submit(broker.publish, "orders", b"last")
            until(lambda: direct_is_busy(broker))
            closing = threads.submit(broker.close)
            until(lambda: broker._portal._closed)

        assert publishing.result(PATIENCE_S).offset == direct.DIRECT_MIN + 1
        closing.result(PATIENCE_S)
    until(lambda: not server.listener.connections.open)


@pytest.mark.parametrize("kind", ["lost", "refused"])
async def test_close_does_not_wait_for_a_channel_that_was_given_up(slow: Slow, kind: str) -> None:
    async with slow.server:
        await slow.connect()
        publishing = slow.publish()
        first = await slow.server.request()
        closing = asyncio.ensure_future(asyncio.to_thread(slow.broker.close, timeout=2 * PATIENCE_S))
        await asyncio.to_thread(until, lambda: slow.broker._direct.channel is None)
        if kind == "lost":
            first.cut()
            (await slow.server.request()).published(50)
            assert (await publishing).offset == 50
        else:
            first.refused(SequenceReused(producer_id=1, sequence=1, why="other records"))
            with pytest.raises(SequenceReused):
                await publishing

        async with asyncio.timeout(PATIENCE_S):
            await closing


def test_close_with_a_deadline_tells_who_still_waits(server: VirtualServer) -> None:
    broker = penstock.connect(server.url)
    warm(broker)
    with ThreadPoolExecutor(1) as threads, server.deaf():
        publishing = threads.submit(broker.publish, "orders", b"last")
        until(lambda: direct_is_busy(broker))
        behind = broker.publish_nowait("orders", b"behind")
        broker.close(timeout=0.05)

        with pytest.raises(OutcomeUnknown):
            publishing.result(PATIENCE_S)
        with pytest.raises(OutcomeUnknown):
            behind.result(PATIENCE_S)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind", ["publish", "flush", "close"])
def test_a_handler_may_use_the_broker_in_the_middle_of_a_publish(server: VirtualServer, kind: str) -> None:
    broker = penstock.connect(server.url)
    warm(broker)
    deaf = ExitStack()
    inner: list[int | None] = []

    def handle(*_: object) -> None:
        deaf.close()
        if kind == "publish":
            inner.append(broker.publish("orders", b"inner").offset)
        elif kind == "flush":
            broker.flush()
        else:
            broker.close()

    signal.signal(signal.SIGINT, handle)
    deaf.enter_context(server.deaf())
    interrupt_when_busy(broker)

    outer = broker.publish("orders", b"outer").offset
    broker.close()
    stored = server.run(server.broker.read("orders", offset=direct.DIRECT_MIN + 1))
    assert {message.offset: message.value for message in stored} == {
        outer: b"outer",
        **dict.fromkeys(inner, b"inner"),
    }
    assert len(inner) == (kind == "publish")
