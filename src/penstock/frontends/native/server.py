"""The native listener: what all its connections share, and their beginning and end.

    NativeListener ──> Connection ──> Session         ──> commands ──> broker
                           │          KQueueSession  ──────────────> broker
                           └ which of them: the first byte

Its limits, each with an error of its own or a pause: connections, bytes of a
frame, requests in flight on a connection, bytes a client has not read, bytes
of frames that are not complete, bytes of publishes that wait for the disk.
"""

import asyncio
from typing import Final

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError, Unauthenticated
from penstock.frontends.foreign import http_refusal, is_http
from penstock.frontends.listener import Connections, OpenConnections
from penstock.frontends.native.commands import TABLE
from penstock.frontends.native.connection import Connection, Speaker
from penstock.frontends.native.kqueue import COMMANDS, KQueueSession, KQueueShared, unknown_command
from penstock.frontends.native.session import NativeSession, NativeShared
from penstock.frontends.refusals import Refusals
from penstock.frontends.security.gateway import AuthGateway
from penstock.wire import native
from penstock.wire.native_bodies import error_frame

RECEIVE_MESSAGES_MAX: Final = 10_000
HELLO_BYTES_MAX: Final = 64 * 1024  # Of a stranger; a key is short.
HELLO_S: Final = 10  # Where a login is asked for, it comes within this time.


class NativeListener:
    """The native protocol, for ``penstock serve``."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
    ) -> None:
        self._gateway = gateway or AuthGateway(broker)
        self.frame_bytes_max = limits.frame_bytes_max
        self.hello_bytes_max = HELLO_BYTES_MAX if self._gateway.required else limits.frame_bytes_max
        self.write_buffer_bytes_max = limits.write_buffer_bytes_max
        self.requests_max = limits.requests_max
        self.half_frame_bytes = 0
        self.half_frame_bytes_max = limits.publish_bytes_max
        self.shared = NativeShared(
            broker,
            self._gateway,
            frame_bytes_max=limits.frame_bytes_max,
            publish_bytes_max=limits.publish_bytes_max,
            requests_max=limits.requests_max,
            resume_ms=limits.resume_ms,
            receive_messages_max=RECEIVE_MESSAGES_MAX,
        )
        self.kqueue = KQueueShared(broker, self._gateway)
        self.connections: OpenConnections[Connection] = OpenConnections(connections)
        self._refusals = Refusals("native")

    # The server's calls.

    def connect(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return Connection(self)

    async def drain(self) -> None:
        """Answer what was read, close every connection, give back what consumers hold."""
        self.kqueue.stopping = True
        await self.connections.drain()
        self._refusals.close()
        self.shared.resumable.close_all()

    def abort(self) -> None:
        """Close at once whatever is still open."""
        self.kqueue.stopping = True
        self.connections.abort()
        self._refusals.close()
        self.shared.resumable.close_all()

    # A connection's calls.

    def enter(self, connection: Connection) -> None:
        """Count a connection in, or raise."""
        self.connections.enter(connection)
        if self._gateway.required:
            asyncio.get_running_loop().call_later(HELLO_S, self._end_unauthenticated, connection)

    def leave(self, connection: Connection) -> None:
        self.connections.leave(connection)

    def speaker(self, opcode: int, connection: Connection) -> Speaker | None:
        """Who answers a connection that begins with this opcode."""
        if opcode == native.HELLO:
            return NativeSession(connection, self.shared, TABLE)
        if opcode in COMMANDS and not self._gateway.required:
            connection.trust()
            return KQueueSession(connection, self.kqueue)
        return None

    def unknown(self, data: bytes) -> bytes:
        """The answer to a connection that begins with these bytes, if nobody does."""
        opcode = data[0]
        if is_http(data):
            return http_refusal("native")
        if opcode in COMMANDS:
            refusal = Unauthenticated(why="this server asks for a login, which KQueue's protocol has not")
            return f"ERR {refusal}\n".encode()
        return f"{unknown_command(opcode)}\n".encode()

    def refused(self, peer: str, error: PenstockError) -> None:
        self._refusals.note(peer, error)

    def _end_unauthenticated(self, connection: Connection) -> None:
        if not connection.known:
            connection.end(
                self.refusal(Unauthenticated(why=f"nobody has logged in within {HELLO_S} seconds"))
            )

    def refusal(self, error: PenstockError) -> bytes:
        """The answer to a connection that may not even begin."""
        return error_frame(native.UNASKED, error)
