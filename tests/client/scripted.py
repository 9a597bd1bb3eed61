"""A server that does what a test says, frame by frame, on the test's own loop.

    async with Scripted() as server, aio.connect(server.url) as broker: ...
        asked = asyncio.ensure_future(broker.topics())
        request = await server.request()
        request.cut()                       # or request.ok(...), request.refuse(...)

It says hello and goodbye by itself; everything else is up to the test.
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from penstock.config.broker import TopicSettings
from penstock.errors import PenstockError
from penstock.wire import native
from penstock.wire.native import PublishOutcome
from penstock.wire.native_bodies import (
    Metadata,
    OpenConsumer,
    OpenedConsumer,
    Welcome,
    decode_body,
    encode_error,
    error_frame,
    ok_frame,
)
from penstock.wire.records import encode_values, place_batch, read_header

PATIENCE_S = 60  # Far more than anything takes; a test that fails ends.
WELCOME = Welcome(
    version=1,
    server="scripted",
    frame_bytes_max=1 << 24,
    requests_max=100,
    receive_messages_max=1000,
    resume_ms=5000,
)


class Request:
    """One frame of the client, and the ways to answer it."""

    def __init__(self, writer: asyncio.StreamWriter, opcode: int, body: bytes) -> None:
        self.writer = writer
        self.opcode = opcode
        self.body = body
        self.correlation = native.correlation_of(body)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ok(self, value: Any = None) -> None:
        """Answer with msgpack."""
        self.send(ok_frame(self.correlation, value))

    def done(self) -> None:
        """Answer with nothing."""
        self.send(native.frame(native.OK, self.correlation))

    def refuse(self, error: PenstockError) -> None:
        self.send(error_frame(self.correlation, error))

    def publish(self) -> native.Publish:
        """The request, if it is a publish."""
        assert self.opcode == native.PUBLISH, hex(self.opcode)
        return native.decode_publish(self.body)

    def published(self, offset: int = 0, state: int = native.WRITTEN) -> None:
        """Answer a publish: all its batches are there, one after the other."""
        outcomes = []
        for partition, batch in self.publish().batches:
            outcomes.append(PublishOutcome(partition, offset, 1000, state))
            offset += read_header(batch).count
        self.send(native.encode_published(self.correlation, outcomes, 0))

    def refused(self, *errors: PenstockError | None) -> None:
        """Answer a publish: an error for each batch, or None for one that was written."""
        outcomes = [
            PublishOutcome(partition, 0, 1000, native.WRITTEN)
            if error is None
            else PublishOutcome(0, 0, 0, native.REFUSED, encode_error(error))
            for (partition, _), error in zip(self.publish().batches, errors, strict=True)
        ]
        self.send(native.encode_published(self.correlation, outcomes, 0))

    def opened(self, resumed: bool = False, **facts: Any) -> OpenConsumer:
        """Answer the opening of a consumer; returns what was asked for."""
        assert self.opcode == native.OPEN_CONSUMER, hex(self.opcode)
        facts = {"consumer": 1, "kind": "queue", "visibility_ms": 30_000, "assignment": [], **facts}
        self.ok(OpenedConsumer(consumer_id="c", token=b"token", resumed=resumed, session_ms=30_000, **facts))
        return decode_body(self.body, OpenConsumer)

    def received(self, *batches: native.LeasedBatch) -> None:
        """Answer a receive."""
        assert self.opcode == native.RECEIVE, hex(self.opcode)
        self.send(native.encode_received(self.correlation, list(batches)))

    def cut(self) -> None:
        """Break the connection, without a word."""
        transport = self.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class Scripted:
    """The server."""

    def __init__(self) -> None:
        self.welcome = WELCOME
        self.unwelcome: PenstockError | None = None  # Said instead.
        self.connections_max = 1 << 16  # Those beyond are accepted, and hear nothing.
        self.settings = TopicSettings()
        self.version = 1
        self.connections = 0
        self._there = True
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"penstock://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.vanish()
        await asyncio.sleep(0)  # What was broken is closed in the next turn of the loop.

    async def vanish(self) -> None:
        """Stop listening, and break every connection."""
        self._server.close()
        self._there = False
        while self._writers:  # Until those who serve have noticed.
            self.hang_up()
            await asyncio.sleep(0)

    def hang_up(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def come_back(self) -> None:
        """Listen again, where clients know it."""
        self._there = True
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._there:  # It was accepted just before the end.
            writer.transport.abort()
            return
        self.connections += 1
        silent = self.connections > self.connections_max
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                header = await reader.readexactly(native.HEADER_BYTES)
                body = await reader.readexactly(int.from_bytes(header[1:], "big"))
                request = Request(writer, header[0], body)
                if silent:
                    continue
                if request.opcode == native.HELLO and self.unwelcome is not None:
                    request.refuse(self.unwelcome)
                elif request.opcode == native.HELLO:
                    request.ok(self.welcome)
                elif request.opcode == native.CLOSE_CONSUMER:
                    request.done()
                else:
                    self._requests.put_nowait(request)
        self._writers.discard(writer)
        writer.close()

    async def request(self, opcode: int | None = None) -> Request:
        """The next request; metadata and producer ids are given on the way, unless asked for by name."""
        while True:
            async with asyncio.timeout(PATIENCE_S):
                request = await self._requests.get()
            if request.opcode == native.METADATA != opcode:
                request.ok(Metadata(version=self.version, settings=self.settings))
            elif request.opcode == native.NEW_PRODUCER != opcode:
                self.producer_ids = getattr(self, "producer_ids", 0) + 1
                request.send(native.encode_producer(request.correlation, self.producer_ids))
            else:
                assert opcode in (None, request.opcode), f"0x{request.opcode:02x} came first"
                return request

    @property
    def quiet(self) -> bool:
        """Whether the client has asked for nothing that the test has not seen."""
        return self._requests.empty()


def delivery(
    *values: bytes, lease: int = 1, partition: int = 0, start: int = 0, attempt: int = 1
) -> native.LeasedBatch:
    """Messages as a server lends them."""
    batch = encode_values(list(values), 1000)
    place_batch(batch, start, 0)
    return native.LeasedBatch(partition, lease, attempt, start, start + len(values), bytes(batch))
