"""Three nodes with Kafka listeners in this process."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop
from tests.clustered import Node, open_nodes
from tests.stalls import watched

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import KafkaSettings, LimitSettings
from penstock.frontends.kafka.server import KafkaListener
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway

T = TypeVar("T")
PARTITIONS = 6
NODES = (1, 2, 3)
SETTINGS = KafkaSettings(initial_rebalance_delay_ms=0)


def place(_: str, partition: int) -> int:
    return NODES[partition % len(NODES)]


@dataclass
class Address:
    """Of a Kafka listener."""

    address: str


class KafkaCluster:
    """Three nodes with Kafka listeners on one loop."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.nodes: list[Node] = []
        self._watching = ExitStack()
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    async def _start(self) -> None:
        self.nodes = await open_nodes(len(NODES), place, lambda _: EmbeddedAsyncBroker.open())
        self._listeners = []
        for node in self.nodes:
            gateway = AuthGateway(node.broker)
            listener = KafkaListener(node.broker, LimitSettings(), Connections(100), gateway, SETTINGS)
            server: Any = await self.loop.create_server(listener.connect, "127.0.0.1", 0)
            self._listeners.append((listener, server))
            addresses = node.table.addresses
            port = server.sockets[0].getsockname()[1]
            addresses[node.number] = addresses[node.number]._replace(kafka=port)
        await self.nodes[0].broker.create_topic("orders", partitions=PARTITIONS)
        self._watching.enter_context(watched())

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self.nodes[0].table.addresses[node].kafka}"

    def close(self) -> None:
        try:
            self.run(self._stop())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    async def _stop(self) -> None:
        for listener, server in self._listeners:
            server.close()
            listener.abort()
        for node in self.nodes:
            await node.stop()
            await node.broker.close(timeout=1)
        self._watching.close()  # Fails if the loop stood still.

    async def move(self, partition: int, source: int, target: int) -> None:
        """An empty partition gets another owner, and a new epoch."""
        old, new = self.nodes[source - 1].broker, self.nodes[target - 1].broker
        await old.run(old._core.close_partition("orders", partition, target, 2))
        await new.run(new._core.open_partition("orders", partition, 2))
        before = self.nodes[0].table.place
        for node in self.nodes:
            node.table.epochs["orders", partition] = 2
            node.table.change(lambda topic, number: target if number == partition else before(topic, number))
