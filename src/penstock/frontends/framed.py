"""The server's side of a framed connection, and what the connections of one listener share.

``ServerConnection`` enforces the limits that the native protocol and Kafka's have in common:

    login              before it, only short frames are read, and it must come within ``LOGIN_S``
    unfinished frames  their bytes are counted over all connections; the one that exceeds the limit is refused
    backpressure       a client that does not read its answers, or has too many requests in flight, is not
                       read until that has changed
    draining           what was read is answered, then the connection is closed

No task, no future and no lock belong to a request: everything happens on the event loop.

A connection that is refused gets an answer, as far as its protocol has one, and is not read any more.  It
is closed ``LINGER_MS`` after the last byte was sent: closing a socket that has unread input would destroy
the answer on its way.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from penstock.config.server import LimitSettings
from penstock.errors import Overloaded, PenstockError, Unauthenticated
from penstock.frontends.listener import Connections, OpenConnections
from penstock.frontends.refusals import Refusals
from penstock.frontends.security.gateway import AuthGateway
from penstock.transport.framed import FramedConnection
from penstock.transport.frames import Frame, FrameSplitter
from penstock.types import mypyc_attr

LINGER_MS = 200  # A round trip, or a few.  (Tests set it.)
LINGERS_MAX: Final = 25  # A client that does not read its last answer is cut after five seconds.
LOGIN_S = 10.0  # (Tests set it.)
LOGIN_FRAME_BYTES_MAX: Final = 64 * 1024  # Keys and passwords are short.

ConnectionT = TypeVar("ConnectionT", bound="ServerConnection")


class ServerConnection(FramedConnection):
    """A connection that a listener has accepted; a subclass handles the requests."""

    def __init__(self, listener: "FramedListener[Any]", header_bytes: int) -> None:
        super().__init__(
            FrameSplitter(header_bytes, listener.login_frame_bytes_max), listener.write_buffer_bytes_max
        )
        self.in_flight = 0  # Requests that have begun and are not answered.
        self.writable = True
        self.known = False  # Logged in, if the server asks for it.
        self.address = ""  # The peer's, without the port.
        self.peer = ""
        self._listener = listener
        self._frames: deque[Frame] = deque()  # Complete, but not begun because of a limit or their order.
        self._started = False  # Something has arrived.
        self._reading = True
        self._draining = False
        self._input_ended = False  # The client has closed its side.

    # What a subclass defines.

    def start(self, data: bytes) -> bool:
        """Look at the first bytes; False if the connection was refused because of them."""
        raise NotImplementedError

    def take(self, frames: list[Frame]) -> None:
        """Begin these requests, or keep them in ``_frames``."""
        raise NotImplementedError

    def proceed(self) -> None:
        """Begin requests that had to wait, as far as the limits allow."""
        raise NotImplementedError

    def has_room(self) -> bool:
        """Whether more requests may be read."""
        raise NotImplementedError

    def stop_waiting(self) -> None:
        """Answer the requests that wait for something, and begin no further wait: the connection drains."""
        raise NotImplementedError

    def last_words(self, error: PenstockError) -> bytes:
        """The last response, which says why the connection is closed; empty if the protocol has none."""
        raise NotImplementedError

    def lost(self) -> None:
        raise NotImplementedError

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.set_write_buffer_limits(self._unsent_bytes_max)
        self.address, port = (transport.get_extra_info("peername") or ("?", "?"))[:2]
        self.peer = f"{self.address}:{port}"
        try:
            self._listener.enter(self)
        except PenstockError as error:
            self.refuse(error)

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        if not self._started:
            self._started = True
            if not self.start(data):
                return
        splitter = self._splitter
        before = splitter.buffered
        frames = splitter.feed(data)
        grown = splitter.buffered - before
        if grown:
            self._listener.half_frame_bytes += grown
        if frames:
            self.take(frames)
        if splitter.refusal is not None:
            self.refuse(splitter.refusal)
        elif grown and self._listener.half_frame_bytes > self._listener.half_frame_bytes_max:
            limit = self._listener.half_frame_bytes_max
            self.refuse(Overloaded(what="bytes of unfinished requests", limit=limit))

    def pause_writing(self) -> None:
        self.writable = False
        self._set_reading()

    def resume_writing(self) -> None:
        self.writable = True
        self.proceed()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        self._ending = True
        self._frames.clear()
        self._out.clear()
        self._forget_unfinished()
        self._transport = None
        self.lost()
        self._listener.leave(self)

    # Called by the protocol and by the listener.

    def trust(self) -> None:
        """The client has logged in: frames may be large."""
        self.known = True
        self._splitter.limit = self._listener.frame_bytes_max

    def refuse(self, error: PenstockError) -> None:
        """Close the connection because of an invalid request, or because a limit is reached."""
        self._forget_unfinished()
        self._listener.refused(self.peer, error)
        self.end(self.last_words(error))

    def drain(self) -> None:
        """Answer requests that were read, then close."""
        self._draining = True
        self.stop_waiting()
        self._set_reading()
        self._end_if_drained()

    def end(self, last_words: bytes = b"") -> None:
        """Send this and close; input from now on is discarded."""
        transport = self._transport
        if self._ending or transport is None:
            return
        if last_words:
            self.send(last_words)
        self._ending = True
        self._frames.clear()
        self._flush(turn_ends=False)
        if transport.is_closing():
            return
        if self._input_ended or not transport.can_write_eof():  # TLS closes both sides, and lingers.
            transport.close()
            return
        with suppress(OSError):  # The peer may have reset the connection in this moment.
            transport.write_eof()
        self._reading = True
        transport.resume_reading()
        self._loop.call_later(LINGER_MS / 1000, self._linger, LINGERS_MAX)

    @property
    def buffered(self) -> int:
        """Bytes buffered for this connection, in both directions."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        waiting = sum(len(body) for _, body in self._frames)
        return self._splitter.buffered + waiting + sum(map(len, self._out)) + unsent

    # Internals.

    def _linger(self, more: int) -> None:
        if self._transport is None:
            return
        if more and self._transport.get_write_buffer_size():
            self._loop.call_later(LINGER_MS / 1000, self._linger, more - 1)
        else:
            self._transport.abort()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or self._ending or transport.is_closing():
            return
        wanted = self.writable and not self._draining and self.has_room()
        if wanted and not self._reading:
            transport.resume_reading()
        elif not wanted and self._reading:
            transport.pause_reading()
        self._reading = wanted

    def _end_if_drained(self) -> None:
        if self.in_flight == 0 and not self._frames:
            self.end()

    def _forget_unfinished(self) -> None:
        self._listener.half_frame_bytes -= self._splitter.buffered
        self._splitter.forget()


@mypyc_attr(allow_interpreted_subclasses=True)
class FramedListener(Generic[ConnectionT]):
    """What all connections of one listener share: limits, the count of connections, the log of refusals."""

    def __init__(
        self, name: str, limits: LimitSettings, connections: Connections, gateway: AuthGateway
    ) -> None:
        self.gateway = gateway
        self.frame_bytes_max = limits.frame_bytes_max
        self.login_frame_bytes_max = LOGIN_FRAME_BYTES_MAX if gateway.required else limits.frame_bytes_max
        self.write_buffer_bytes_max = limits.write_buffer_bytes_max
        self.half_frame_bytes = 0  # Of the unfinished frames of all connections.
        self.half_frame_bytes_max = limits.publish_bytes_max
        self.connections: OpenConnections[ConnectionT] = OpenConnections(connections)
        self._refusals = Refusals(name)

    async def drain(self) -> None:
        """Answer requests that were read, and close every connection."""
        await self.connections.drain()
        self._refusals.close()

    def abort(self) -> None:
        """Close at once whatever is still open."""
        self.connections.abort()
        self._refusals.close()

    def enter(self, connection: ConnectionT) -> None:
        """Count a connection in, or raise."""
        self.connections.enter(connection)
        if self.gateway.required:
            asyncio.get_running_loop().call_later(LOGIN_S, self._end_unless_known, connection)

    def leave(self, connection: ConnectionT) -> None:
        self.connections.leave(connection)

    def refused(self, peer: str, error: PenstockError) -> None:
        """Log that a connection was refused, or ended because of what it sent."""
        self._refusals.note(peer, error)

    def _end_unless_known(self, connection: ConnectionT) -> None:
        if not connection.known:
            error = Unauthenticated(why=f"there was no login within {LOGIN_S:g} seconds")
            connection.end(connection.last_words(error))
