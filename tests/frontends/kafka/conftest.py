"""A broker behind the Kafka listener, on a loop in a thread of its own: Kafka's clients block."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

import pytest
import uvloop
from tests.frontends.kafka.raw import Raw
from tests.stalls import watched

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.clock import SystemClock
from penstock.config.broker import BrokerConfig, TopicSettings
from penstock.config.server import KafkaSettings, LimitSettings
from penstock.frontends.kafka.server import KafkaListener
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway

T = TypeVar("T")
P = ParamSpec("P")
QUICK = KafkaSettings(initial_rebalance_delay_ms=0)  # Most tests have one member, or want several rounds.
PARTITIONS = 4


class Server:
    """What a test needs of the server."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, authentication: bool, tls: ssl.SSLContext | None
    ) -> None:
        self.loop = loop
        self._authentication = authentication
        self._tls = tls
        self.broker: EmbeddedAsyncBroker
        self.listener: KafkaListener
        self.address = ""
        self._stop = asyncio.Event()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Something that belongs on the server's loop."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(timeout=30)

    def call(self, operation: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """An operation that never waits."""

        async def called() -> T:
            return operation(*args, **options)

        return self.run(called())

    def stop(self) -> None:
        """Drain and close."""
        self.loop.call_soon_threadsafe(self._stop.set)

    async def serve(self, data: str | None, settings: KafkaSettings, ready: Callable[[], None]) -> None:
        """Listen until ``stop``."""
        config = BrokerConfig(topic=TopicSettings(partitions=PARTITIONS))
        broker = await EmbeddedAsyncBroker.open(data, config=config)
        gateway = AuthGateway(broker, authentication=self._authentication)
        self.listener = KafkaListener(
            broker, LimitSettings(), Connections(100), gateway, settings, SystemClock()
        )
        accepting = await self.loop.create_server(self.listener.connect, "127.0.0.1", 0, ssl=self._tls)
        self.broker = broker
        self.address = "{}:{}".format(*accepting.sockets[0].getsockname())
        ready()
        with watched():
            await self._stop.wait()
        accepting.close()
        await self.listener.drain()
        gateway.close()
        await broker.close()


def serving(
    data: str | None = None,
    settings: KafkaSettings | None = None,
    *,
    authentication: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    """A server in a thread."""
    loop = uvloop.new_event_loop()
    server = Server(loop, authentication, tls)
    ready = threading.Event()
    faults: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(server.serve(data, settings or QUICK, ready.set))
        except BaseException as fault:  # noqa: BLE001 - it is raised by the test's own thread.
            faults.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)
        loop.close()
    for fault in faults:
        raise fault


@pytest.fixture
def kafka() -> Iterator[Server]:
    """A server in memory."""
    yield from serving()


@pytest.fixture
def raw(kafka: Server) -> Iterator[Raw]:
    """A connection that speaks in messages of our own codec."""
    with Raw(kafka) as connected:
        yield connected
