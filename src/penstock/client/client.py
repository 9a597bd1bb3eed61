"""A client: a session, what is published over it, and the operations of a broker.

One for each ``connect``, on one event loop.  ``sync.py`` and ``aio.py`` put the
facades of ``api/`` on it.
"""

import asyncio
from random import Random
from typing import Self

from penstock.client.login import ClientLogin
from penstock.client.operations import RemoteOperations
from penstock.client.publish.publisher import Publisher
from penstock.client.session import ClientSession
from penstock.client.url import server_address
from penstock.clock import SystemClock
from penstock.errors import InvalidValue
from penstock.types import Duration, duration_ms
from penstock.version import __version__

CLOSE_MS = 10_000  # How long close waits for what was published, unless told otherwise.


class ClientSettings:
    """How a client behaves, checked."""

    def __init__(
        self,
        url: str,
        request_timeout: Duration,
        linger: Duration,
        client_id: str | None,
        login: ClientLogin | None = None,
    ) -> None:
        self.address = server_address(url)
        self.login = login or ClientLogin()
        self.tls = self.login.tls() if self.address.tls else None
        self.request_timeout_ms = duration_ms("request_timeout", request_timeout)
        if self.request_timeout_ms < 1:
            why = "a request needs some time to be answered"
            raise InvalidValue(name="request_timeout", value=request_timeout, why=why)
        self.linger_ms = duration_ms("linger", linger) if linger else 0
        if client_id is not None and not isinstance(client_id, str):
            raise InvalidValue(name="client_id", value=client_id, why="it is text")
        library = f"penstock-python/{__version__}"
        self.client = library if client_id is None else f"{client_id} ({library})"


class Client:
    """One connection's worth of a broker."""

    def __init__(self, session: ClientSession, publisher: Publisher) -> None:
        self.session = session
        self.publisher = publisher
        self.operations = RemoteOperations(session, publisher)
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, settings: ClientSettings) -> Self:
        random = Random()
        session = ClientSession(
            settings.address,
            settings.client,
            settings.request_timeout_ms,
            random,
            settings.login,
            settings.tls,
        )
        await session.open()
        return cls(session, Publisher(session, SystemClock(), settings.linger_ms, random))

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
                for consumer in list(self.session.consumers):
                    await consumer.close()
        except TimeoutError:
            pass  # What is still out is told so by the session.
        finally:
            await self.session.close()
            self._closing.set_result(None)
