"""A server's text door on a broker in virtual time, on asyncio's own loop and on uvloop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import uvloop

from penstock.config.broker import BrokerConfig
from penstock.config.server import LimitSettings, ServerConfig
from penstock.frontends.listener import Connections
from penstock.frontends.text.server import TextListener
from penstock.testing import AsyncTestBroker

PATIENCE_S = 60  # Far more than anything takes; a test that fails ends.
SETTINGS = ServerConfig()


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Client:
    """Somebody with netcat."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)

    async def line(self) -> str:
        """The next line; empty at the end."""
        return (await asyncio.wait_for(self.reader.readline(), PATIENCE_S)).decode().removesuffix("\n")

    async def ask(self, line: str, count: int = 1) -> Any:
        """Send one line; the lines that come, or the one."""
        self.send(f"{line}\n")
        lines = [await self.line() for _ in range(count)]
        return lines if count > 1 else lines[0]

    async def rest(self) -> str:
        """Everything until the server closes."""
        return (await asyncio.wait_for(self.reader.read(), PATIENCE_S)).decode()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


class Door:
    """The text listener, the broker behind it, and the way in."""

    def __init__(self, broker: AsyncTestBroker, listener: TextListener, connections: Connections) -> None:
        self.broker = broker
        self.listener = listener
        self.connections = connections
        self.port = 0
        self._clients: list[Client] = []

    async def connect(self, **options: Any) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, **options))
        self._clients.append(client)
        return client

    async def gone(self) -> None:
        """Wait until the server has seen the end of all connections."""
        await asyncio.wait_for(asyncio.gather(*self.listener._tasks.values()), PATIENCE_S)

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()
        async with asyncio.timeout(PATIENCE_S):
            await self.listener.drain()


Opens = Callable[..., Any]


@pytest.fixture
def opened() -> Opens:
    """``async with opened(text_line_bytes_max=10) as door``."""

    @asynccontextmanager
    async def open_door(config: BrokerConfig | None = None, **limits: int) -> AsyncIterator[Door]:
        settings = msgspec.structs.replace(LimitSettings(), **limits)
        config = config or BrokerConfig(topic=SETTINGS.topic.settings)
        connections = Connections(settings.connections_max)
        async with await AsyncTestBroker.open(config=config) as broker:
            listener = TextListener(broker, settings, connections)
            door = Door(broker, listener, connections)
            server = await asyncio.get_running_loop().create_server(listener.connect, "127.0.0.1", 0)
            door.port = server.sockets[0].getsockname()[1]
            try:
                yield door
            finally:
                server.close()
                await door.close()

    return open_door


@pytest.fixture
async def door(opened: Opens) -> AsyncIterator[Door]:
    async with opened() as one:
        yield one
