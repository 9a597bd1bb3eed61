"""A server that asks for keys for tests: its broker, its gateway, and a port for one of its listeners."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.frontends.native.peer import Peer

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.frontends.kqueue.server import KQueueProtocol
from penstock.frontends.listener import Connections, Listener
from penstock.frontends.native.server import NativeListener
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.status.server import StatusListener
from penstock.frontends.text.server import TextListener
from penstock.model.access import Grant, Quota
from penstock.testing import ManualClock

PATIENCE_S = 60


class Secured:
    """One listener of a server that asks for keys."""

    def __init__(
        self, broker: EmbeddedAsyncBroker, gateway: AuthGateway, listener: Any, clock: ManualClock
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.listener = listener
        self.clock = clock
        self.port = 0
        self._peers: list[Peer] = []

    @property
    def url(self) -> str:
        return f"penstock://127.0.0.1:{self.port}"

    async def key(self, role: Any, *topics: str, quota: Quota | None = None) -> str:
        """The text of a new key."""
        grant = Grant(role=role, topics=topics or ("*",))
        return (await self.broker.create_key(role, [grant], quota=quota)).key

    async def peer(self) -> Peer:
        """Somebody who speaks in frames, and has not said hello."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self._peers.append(peer)
        return peer

    async def end(self) -> None:
        """Cut them all."""
        for peer in self._peers:
            peer.cut()
            with suppress(ConnectionError):
                await peer.writer.wait_closed()

    async def lines(self, *lines: str) -> list[str]:
        """Say this, and hear all that is said until the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("".join(f"{line}\r\n" for line in lines).encode())
        async with asyncio.timeout(PATIENCE_S):
            heard = await reader.read()
        writer.close()
        return heard.decode().splitlines()


MAKERS: dict[str, Callable[..., Listener]] = {
    "native": lambda broker, gateway: NativeListener(
        broker, LimitSettings(), Connections(100), gateway, KQueueProtocol(broker, gateway)
    ),
    "text": lambda broker, gateway: TextListener(broker, LimitSettings(), Connections(100), gateway),
    "status": lambda broker, gateway: StatusListener(broker, LimitSettings(), Connections(100), gateway),
}


@asynccontextmanager
async def secured(kind: str = "native") -> AsyncIterator[Secured]:
    """A listener over a broker in memory with the topics orders and invoices."""
    broker = await EmbeddedAsyncBroker.open()
    for topic in ("orders", "invoices"):
        await broker.create_topic(topic)
    clock = ManualClock()
    gateway = AuthGateway(broker, authentication=True, clock=clock)
    listener = MAKERS[kind](broker, gateway)
    place = Secured(broker, gateway, listener, clock)
    server = await asyncio.get_running_loop().create_server(listener.connect, "127.0.0.1", 0)
    place.port = server.sockets[0].getsockname()[1]
    try:
        yield place
    finally:
        server.close()
        await place.end()
        listener.abort()
        gateway.close()
        await broker.close()
