"""A client: a session, what is published over it, and the operations of a broker.

One for each ``connect``, on one event loop.  ``sync.py`` and ``aio.py`` put the
facades of ``api/`` on it.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Self

from penstock.client.connections.login import ClientLogin
from penstock.client.connections.url import ServerAddress, server_addresses
from penstock.client.operations import RemoteOperations
from penstock.client.publish.publisher import Publisher
from penstock.client.routing import OwnerRouting
from penstock.client.session import ClientSession
from penstock.clock import SystemClock
from penstock.errors import InvalidValue
from penstock.types import Duration, duration_ms
from penstock.version import __version__

CLOSE_MS = 10_000  # Default for how long close waits for what was published.


class ClientSettings:
    """How a client behaves, checked."""

    def __init__(
        self,
        url: str | Sequence[str],
        request_timeout: Duration,
        linger: Duration,
        client_id: str | None,
        login: ClientLogin | None = None,
    ) -> None:
        self.servers = server_addresses(url)
        self.login = login or ClientLogin()
        self.tls = self.login.tls() if self.servers[0].tls else None
        self.request_timeout_ms = duration_ms("request_timeout", request_timeout)
        if self.request_timeout_ms < 1:
            why = "a timeout must be above 0"
            raise InvalidValue(name="request_timeout", value=request_timeout, why=why)
        self.linger_ms = duration_ms("linger", linger) if linger else 0
        if client_id is not None and not isinstance(client_id, str):
            raise InvalidValue(name="client_id", value=client_id, why="it is text")
        library = f"penstock-python/{__version__}"
        self.client = library if client_id is None else f"{client_id} ({library})"


class Client:
    """What a program has after ``connect``."""

    def __init__(self, routing: OwnerRouting, publisher: Publisher) -> None:
        self.routing = routing
        self.session = routing.home
        self.publisher = publisher
        self.operations = RemoteOperations(routing, publisher)
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, settings: ClientSettings) -> Self:
        random = Random()

        def session(*servers: ServerAddress) -> ClientSession:
            return ClientSession(
                servers, settings.client, settings.request_timeout_ms, random, settings.login, settings.tls
            )

        home = session(*settings.servers)
        await home.open()
        routing = OwnerRouting(home, session)
        return cls(routing, Publisher(routing, SystemClock(), settings.linger_ms, random))

    async def close(self, timeout_ms: int | None) -> None:
        """Answer what was published, give back what is held, up to the deadline; then hang up."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        self.session.closing = True
        try:
            async with asyncio.timeout((CLOSE_MS if timeout_ms is None else timeout_ms) / 1000):
                await self.publisher.flush()
                for session in self.routing.sessions():
                    for consumer in list(session.consumers):
                        await consumer.close()
        except TimeoutError:
            pass  # The session ends what is still in flight with an error.
        finally:
            await self.routing.close()
            await self.session.close()
            self._closing.set_result(None)
