"""``penstock`` for asyncio: the same names, to be awaited.

async with penstock.aio.open("data") as broker: ...
async with penstock.aio.connect("penstock://127.0.0.1:7070") as broker: ...
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from penstock.api.aio import AsyncBroker, AsyncQueue, AsyncTopicHandle
from penstock.api.aio_handles import AsyncConsumer, AsyncProducer, AsyncTopicsConsumer
from penstock.api.aio_transactions import AsyncTransaction
from penstock.config.broker import BrokerConfig
from penstock.model.message import AsyncReceivedMessage
from penstock.types import Duration

if TYPE_CHECKING:
    from penstock.client.aio import RemoteAsyncBroker

__all__ = [
    "AsyncBroker",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncQueue",
    "AsyncReceivedMessage",
    "AsyncTopicHandle",
    "AsyncTopicsConsumer",
    "AsyncTransaction",
    "connect",
    "open",
]


class open:  # noqa: A001, N801 - penstock.aio.open("data") is how a user says it.
    """Opens a broker: ``async with open("data") as broker``, or ``broker = await open("data").start()``."""

    def __init__(self, directory: str | None = None, *, config: BrokerConfig | None = None) -> None:
        self._directory = directory
        self._config = config
        self._broker: AsyncBroker | None = None

    async def start(self) -> AsyncBroker:
        """Open the broker; the caller closes it."""
        from penstock.broker.aio import EmbeddedAsyncBroker  # Only now: a client does not load the broker.

        return await EmbeddedAsyncBroker.open(self._directory, config=self._config)

    async def __aenter__(self) -> AsyncBroker:
        self._broker = await self.start()
        return self._broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._broker is not None
        await self._broker.close()


class connect:  # noqa: N801 - penstock.aio.connect(url) is how a user says it.
    """Connects to a server: ``async with connect(url) as broker``, or ``await connect(url).start()``.

    ``request_timeout``: how long a call is retried.  ``linger``: how long a publish waits for others to share
    its request.  ``client_id``: the name of this program in the server's logs.  ``key``, or ``user`` and
    ``password``: credentials; default: the environment variable PENSTOCK_KEY.  ``ca``: a file of certificates
    to trust with ``penstocks://``; default: the variable PENSTOCK_CA, or those of the system.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        request_timeout: Duration = "30s",
        linger: Duration = "0s",
        client_id: str | None = None,
        key: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
    ) -> None:
        from penstock.client.client import ClientSettings  # Not loaded for an embedded broker.
        from penstock.client.connections.login import ClientLogin

        login = ClientLogin(key, user, password, ca)
        self._settings = ClientSettings(url, request_timeout, linger, client_id, login)
        self._broker: RemoteAsyncBroker | None = None

    async def start(self) -> "RemoteAsyncBroker":
        """Connect; the caller closes the broker."""
        from penstock.client.aio import connect

        return await connect(self._settings)

    async def __aenter__(self) -> "RemoteAsyncBroker":
        self._broker = await self.start()
        return self._broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._broker is not None
        await self._broker.close()
