"""The Kafka listener: what all its connections share, and their beginning and end.

    KafkaListener ──> KafkaConnection ──> apis ──> handlers ──> broker

Its limits, each with an error of its own or a pause: connections, bytes of a frame, of all frames that are
not complete and of all publishes, requests that wait on a connection, bytes that a client has not read.
"""

import asyncio

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.clock import Clock, SystemClock
from penstock.config.server import KafkaSettings, LimitSettings, TopicDefaults
from penstock.frontends.kafka.apis import APIS
from penstock.frontends.kafka.connection import KafkaConnection, KafkaHost
from penstock.frontends.kafka.session import KafkaSession, KafkaShared
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway


class KafkaListener(KafkaHost):
    """Kafka's protocol, for ``penstock serve``."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
        settings: KafkaSettings | None = None,
        clock: Clock | None = None,
        defaults: TopicDefaults | None = None,
    ) -> None:
        super().__init__("kafka", limits, connections, gateway or AuthGateway(broker))
        self.apis = APIS
        self.shared = KafkaShared(
            broker,
            self.gateway,
            limits,
            settings or KafkaSettings(),
            clock or SystemClock(),
            defaults or TopicDefaults(),
        )

    # Called by the server.

    def connect(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return KafkaConnection(self)

    async def drain(self) -> None:
        """Answer requests that were read, and close every connection."""
        self.shared.shares.stop()
        await super().drain()
        self.shared.shares.close()

    def hurry(self) -> None:
        """End requests that wait for messages; for tests, whose clock stands still."""
        for connection in list(self.connections.open):
            connection.hurry()

    def abort(self) -> None:
        """Close at once whatever is still open."""
        self.shared.shares.stop()
        super().abort()

    # Called by a connection.

    def session(self) -> KafkaSession:
        return KafkaSession(self.shared)

    def leave(self, connection: KafkaConnection) -> None:
        self.shared.shares.connection_lost(connection.session)
        super().leave(connection)
