"""The native listener: what all its connections share, and their beginning and end.

    NativeListener ──> NativeConnection ──┬──> NativeSession ──> commands ──> broker
                                          └──> another protocol on the same port (KQueue's)

The first byte of a connection decides; ``serve.py`` says what the other protocol is.

Its limits, each with an error of its own or a pause: connections, bytes of a
frame, requests in flight on a connection, bytes a client has not read, bytes
of frames that are not complete, bytes of publishes that wait for the disk.
"""

import asyncio
from typing import Final

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.foreign import http_refusal, is_http
from penstock.frontends.listener import Connections
from penstock.frontends.native.commands import TABLE
from penstock.frontends.native.connection import Dispatcher, NativeConnection, NativeHost, PortProtocol
from penstock.frontends.native.session import NativeSession, NativeShared
from penstock.frontends.security.gateway import AuthGateway
from penstock.wire import native
from penstock.wire.native_bodies import error_frame

RECEIVE_MESSAGES_MAX: Final = 10_000


class NativeListener(NativeHost):
    """The native protocol, for ``penstock serve``."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway,
        other: PortProtocol,
    ) -> None:
        super().__init__("native", limits, connections, gateway)
        self.requests_max = limits.requests_max
        self.shared = NativeShared(
            broker,
            gateway,
            frame_bytes_max=limits.frame_bytes_max,
            publish_bytes_max=limits.publish_bytes_max,
            requests_max=limits.requests_max,
            resume_ms=limits.resume_ms,
            receive_messages_max=RECEIVE_MESSAGES_MAX,
        )
        self._other = other  # For connections that do not begin with a HELLO.

    # Called by the server.

    def connect(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return NativeConnection(self)

    async def drain(self) -> None:
        """Answer requests that were read, close every connection, close consumers."""
        self._other.stop()
        await super().drain()
        self.shared.resumable.close_all()

    def abort(self) -> None:
        """Close at once whatever is still open."""
        self._other.stop()
        super().abort()
        self.shared.resumable.close_all()

    # Called by a connection.

    def dispatcher(self, data: bytes, connection: NativeConnection) -> Dispatcher | None:
        """The dispatcher of a connection that begins with these bytes."""
        if data[0] == native.HELLO:
            return NativeSession(connection, self.shared, TABLE)
        return self._other.dispatcher(data, connection)

    def unknown(self, data: bytes) -> bytes:
        """The answer to a connection that begins with these bytes, if there is no dispatcher for them."""
        return http_refusal("native") if is_http(data) else self._other.unknown(data)

    def refusal(self, error: PenstockError) -> bytes:
        """The answer to a connection on which nothing has arrived yet."""
        return error_frame(native.UNASKED, error)
