"""``penstock`` for asyncio: the same names, to be awaited.

async with penstock.aio.open("data") as broker: ...
"""

from importlib import import_module
from types import TracebackType

from penstock.api.aio import AsyncBroker, AsyncQueue, AsyncTopicHandle
from penstock.api.aio_handles import AsyncConsumer, AsyncProducer
from penstock.config import BrokerConfig
from penstock.message import AsyncReceivedMessage

__all__ = [
    "AsyncBroker",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncQueue",
    "AsyncReceivedMessage",
    "AsyncTopicHandle",
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
        embedded = import_module("penstock.broker.aio").EmbeddedAsyncBroker
        broker: AsyncBroker = await embedded.open(self._directory, config=self._config)
        return broker

    async def __aenter__(self) -> AsyncBroker:
        self._broker = await self.start()
        return self._broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._broker is not None
        await self._broker.close()
