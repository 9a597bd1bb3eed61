"""The Kafka listener: what all its connections share, and their beginning and end.

    KafkaListener ──> Connection ──> apis ──> handlers ──> broker

Its limits, each with an error of its own or a pause: connections, bytes of a frame, of all frames that are
not complete and of all publishes, requests that wait on a connection, bytes that a client has not read.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.clock import Clock, SystemClock
from penstock.config.server import KafkaSettings, LimitSettings, TopicDefaults
from penstock.errors import PenstockError
from penstock.frontends.kafka.apis import APIS
from penstock.frontends.kafka.call import Api
from penstock.frontends.kafka.connection import Connection
from penstock.frontends.kafka.session import KafkaSession, KafkaShared
from penstock.frontends.listener import Connections, OpenConnections
from penstock.frontends.refusals import Refusals
from penstock.frontends.security.gateway import AuthGateway

UNAUTHENTICATED_BYTES_MAX: Final = 64 * 1024  # Of a frame before the login; a password is short.
LOGIN_S: Final = 10  # Where a login is asked for, it comes within this time.


class KafkaListener:
    """Kafka's protocol, for ``penstock serve``."""

    apis: Mapping[int, Api] = APIS

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
        self.shared = KafkaShared(
            broker,
            gateway or AuthGateway(broker),
            limits,
            settings or KafkaSettings(),
            clock or SystemClock(),
            defaults or TopicDefaults(),
        )
        self.stranger_bytes_max = UNAUTHENTICATED_BYTES_MAX
        self.frame_bytes_max = limits.frame_bytes_max
        self.write_buffer_bytes_max = limits.write_buffer_bytes_max
        self.half_frame_bytes = 0
        self.half_frame_bytes_max = limits.publish_bytes_max
        self.connections: OpenConnections[Connection] = OpenConnections(connections)
        self._refusals = Refusals("kafka")

    # The server's calls.

    def connect(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return Connection(self)

    async def drain(self) -> None:
        """Answer what was read, and close every connection."""
        self.shared.shares.stop()
        await self.connections.drain()
        self._refusals.close()
        self.shared.shares.close()

    def hurry(self) -> None:
        """Answer what waits for messages with what there is; for a clock that stands."""
        for connection in list(self.connections.open):
            connection.hurry()

    def abort(self) -> None:
        """Close at once whatever is still open."""
        self.shared.shares.stop()
        self.connections.abort()
        self._refusals.close()

    # A connection's calls.

    def session(self) -> KafkaSession:
        return KafkaSession(self.shared)

    def enter(self, connection: Connection) -> None:
        """Count a connection in, or raise."""
        self.connections.enter(connection)
        if self.shared.gateway.required:
            asyncio.get_running_loop().call_later(LOGIN_S, self._end_unauthenticated, connection)

    def leave(self, connection: Connection) -> None:
        self.shared.shares.lost(connection.session)
        self.connections.leave(connection)

    def refused(self, peer: str, error: PenstockError) -> None:
        """A connection was refused, or ended because of what it sent."""
        self._refusals.note(peer, error)

    def _end_unauthenticated(self, connection: Connection) -> None:
        if not connection.session.known:
            connection.end()
