"""A client of the HTTP listener for the tests: as little of HTTP/1.1 as they need, and no more patience."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import LOCALHOST, HttpSettings, LimitSettings
from penstock.frontends.http.server import HttpListener
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway

PATIENCE_S = 60
CUTS = ("closed", "reset", "half closed")  # How a connection may end.


class Answer(msgspec.Struct):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["code"])


class Browser:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Answer:
        """One request; a body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        told = {"host": "localhost", "content-length": str(len(data)), **(headers or {})}
        if body is not None:
            told.setdefault("content-type", "application/json")
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data)
        return await self.hear(method, patience_s)

    async def hear(self, method: str = "GET", patience_s: float = PATIENCE_S) -> Answer:
        """The next answer."""
        async with asyncio.timeout(patience_s):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = [line.partition(": ") for line in head[1:] if line]
            headers = {name.lower(): value for name, _, value in pairs}
            if headers.get("content-type") == "text/event-stream":  # It has no end.
                return Answer(int(head[0].split(" ")[1]), headers, b"")
            if headers.get("transfer-encoding") == "chunked":
                return Answer(int(head[0].split(" ")[1]), headers, await self._chunks())
            length = 0 if method == "HEAD" else int(headers.get("content-length", 0))
            return Answer(int(head[0].split(" ")[1]), headers, await self.reader.readexactly(length))

    async def _chunks(self) -> bytes:
        whole = b""
        while size := int(await self.reader.readline(), 16):
            whole += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return whole

    async def hear_end(self) -> bytes:
        """All that comes until the server closes."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def cut(browser: Browser, way: str) -> None:
    """End a connection without a word of HTTP or WebSocket."""
    if way == "half closed":
        browser.writer.write_eof()
        return
    if way == "reset":
        raw: socket.socket = browser.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    browser.writer.transport.abort()


class Place:
    """A listener, its broker, and a connection that is opened when somebody asks."""

    def __init__(
        self, broker: EmbeddedAsyncBroker, gateway: AuthGateway, listener: HttpListener, port: int
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.listener = listener
        self.port = port
        self._open: list[Browser] = []
        self._idle: Browser | None = None  # For ``turn``.

    @property
    def url(self) -> str:
        """Where a real browser finds the dashboard."""
        return f"http://127.0.0.1:{self.port}/ui/"

    async def browser(self) -> Browser:
        """Another connection."""
        made = Browser(*await asyncio.open_connection("127.0.0.1", self.port))
        self._open.append(made)
        return made

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        return await (await self.browser()).ask(method, path, body, headers)

    async def turn(self) -> None:
        """Let the server have a turn or two, on one connection however often that is."""
        self._idle = self._idle or await self.browser()
        assert (await self._idle.ask("GET", "/livez")).status == 200

    async def close(self) -> None:
        for browser in self._open:
            await browser.close()


@asynccontextmanager
async def place(
    limits: LimitSettings | None = None,
    *,
    connections: int = 100,
    authentication: bool = False,
    broker: EmbeddedAsyncBroker | None = None,
    settings: HttpSettings | None = None,
    host: str = LOCALHOST,
) -> AsyncIterator[Place]:
    """A listener over a broker in memory with the topic orders."""
    broker = broker or await EmbeddedAsyncBroker.open()
    await broker.create_topic("orders", partitions=2)
    gateway = AuthGateway(broker, authentication=authentication)
    listener = HttpListener(
        broker, limits or LimitSettings(), Connections(connections), gateway, settings or HttpSettings(), host
    )
    server = await asyncio.get_running_loop().create_server(listener.connect, "127.0.0.1", 0)
    made = Place(broker, gateway, listener, server.sockets[0].getsockname()[1])
    try:
        yield made
    finally:
        server.close()
        await made.close()
        listener.abort()
        gateway.close()
        await broker.close()
