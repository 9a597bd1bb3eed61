"""The other end of a connection, for the tests: frames out, frames in, nothing clever."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.kqueue.server import KQueueProtocol
from penstock.frontends.listener import Connections
from penstock.frontends.native.server import NativeListener
from penstock.frontends.security.gateway import AuthGateway
from penstock.operations.codec import arguments_of, decode_answer
from penstock.transport.frames import Frame
from penstock.wire import native
from penstock.wire.native_bodies import (
    Hello,
    Metadata,
    OpenConsumer,
    OpenedConsumer,
    Welcome,
    decode_body,
    decode_error_frame,
    encode_body,
    encode_call,
)
from penstock.wire.records import encode_values

PATIENCE_S = 60  # Far more than anything takes; a test that fails ends.


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on asyncio's own loop and on uvloop: they differ where it hurts."""

    @functools.wraps(test)
    def run(loop: str, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(test(**fixtures))

    signature = inspect.signature(test)
    first = inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first, *signature.parameters.values()]
    )
    marked: Callable[..., None] = pytest.mark.parametrize("loop", LOOPS)(run)
    return marked


class Peer:
    """A client that speaks in frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation = 0

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self, size: int) -> bytes:
        """Exactly so many bytes."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readexactly(size)

    async def line(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readline()

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    async def frame(self) -> Frame:
        header = await self.read(native.HEADER_BYTES)
        return header[0], await self.read(int.from_bytes(header[1:], "big"))

    async def ask(self, request: bytes) -> bytes:
        """Send one request and return the body of its answer, or raise its error."""
        self.send(request)
        opcode, body = await self.frame()
        if opcode == native.ERROR:
            raise decode_error_frame(body)
        assert opcode == native.OK, f"answered with 0x{opcode:02x}"
        assert native.correlation_of(body) == int.from_bytes(request[5:9], "big")
        return body

    async def hello(self) -> Welcome:
        hello = Hello(versions=[native.VERSION], client="test")
        return decode_body(await self.ask(encode_body(native.HELLO, self.next_correlation(), hello)), Welcome)

    async def call(self, operation: str, **arguments: Any) -> Any:
        request = encode_call(self.next_correlation(), operation, arguments_of(operation, **arguments))
        return decode_answer(operation, memoryview(await self.ask(request))[4:])

    async def metadata(self, topic: str) -> Metadata:
        return decode_body(
            await self.ask(encode_body(native.METADATA, self.next_correlation(), topic)), Metadata
        )

    async def publish(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = native.ACKS_DURABLE
    ) -> native.PublishOutcome:
        """One batch to one partition."""
        version = (await self.metadata(topic)).version
        batch = encode_values(list(values), 0, 0)
        request = native.encode_publish(
            self.next_correlation(), topic, version, acks, [(partition, bytes(batch))]
        )
        outcomes, _ = native.decode_published(await self.ask(request))
        return outcomes[0]

    async def open(self, topic: str, group: str = "g", **more: Any) -> OpenedConsumer:
        request = OpenConsumer(topic=topic, group=group, **more)
        body = await self.ask(encode_body(native.OPEN_CONSUMER, self.next_correlation(), request))
        return decode_body(body, OpenedConsumer)

    async def receive(
        self, consumer: int, max_messages: int = 100, wait_ms: int = 0
    ) -> list[native.LeasedBatch]:
        request = native.encode_receive(self.next_correlation(), consumer, max_messages, wait_ms)
        return native.decode_received(await self.ask(request))

    async def ack(self, consumer: int, *batches: native.LeasedBatch) -> None:
        runs = [(batch.partition, batch.lease, batch.start, batch.end) for batch in batches]
        await self.ask(native.encode_ack(self.next_correlation(), consumer, runs))

    async def refused(self, request: bytes) -> PenstockError:
        """The error that answers a request."""
        try:
            await self.ask(request)
        except PenstockError as error:
            return error
        raise AssertionError("the request was not refused")

    def cut(self) -> None:
        """Vanish without a word."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


class Place:
    """A listener on a free port, with its broker in memory."""

    def __init__(
        self, broker: EmbeddedAsyncBroker, listener: NativeListener, kqueue: KQueueProtocol, port: int
    ) -> None:
        self.broker = broker
        self.listener = listener
        self.kqueue = kqueue
        self.port = port
        self._peers: list[Peer] = []

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self.adopt(peer)
        return peer

    def adopt(self, peer: Peer) -> None:
        """End this connection with the others."""
        self._peers.append(peer)

    async def client(self) -> Peer:
        """A connection that has said hello."""
        peer = await self.connect()
        await peer.hello()
        return peer

    async def end(self) -> None:
        """Cut every connection, at both ends."""
        for peer in self._peers:
            peer.cut()
            with suppress(ConnectionError):
                await peer.writer.wait_closed()
        self.listener.abort()
        await until(lambda: not self.listener.connections.open)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what happens outside of the loop sets no event.
            await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    directory: str | None = None, *, connections_max: int = 100, **limits: int
) -> AsyncIterator[Place]:
    """A listener, ended properly."""
    broker = await EmbeddedAsyncBroker.open(directory)
    gateway = AuthGateway(broker)
    kqueue = KQueueProtocol(broker, gateway)
    listener = NativeListener(broker, LimitSettings(**limits), Connections(connections_max), gateway, kqueue)
    server = await asyncio.get_running_loop().create_server(listener.connect, "127.0.0.1", 0)
    place = Place(broker, listener, kqueue, server.sockets[0].getsockname()[1])
    try:
        yield place
    finally:
        server.close()
        await place.end()
        await broker.close()
