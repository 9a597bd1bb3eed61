"""A connection that has become a WebSocket: uvicorn's protocol over ``websockets``, within our limits.

    HttpConnection ── Upgrade: websocket ──> SocketConnection ──> a task for it ──> the app of ``app.py``

What is added to it:

    connections     the one that HTTP has counted stays counted, until the socket is gone
    before it       what arrives before the handshake is answered is kept until then
    frames          a message has ``http_body_bytes_max``, in at most ``FRAGMENTS_MAX`` pieces, uncompressed
    silence         a client that does not answer a ping within ``PING_S`` is cut, whatever waits to be sent
    the end         the socket's task finishes its current answer, and closes
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Iterable
from typing import Any, Final, Protocol

from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame

from penstock.errors import RequestInvalid
from penstock.frontends.http.consumers.long_polls import Disconnection
from penstock.frontends.http.problems import whole_response
from penstock.frontends.listener import Connections

PING_S: Final = 20  # Between pings, and for the answer to one.
FRAGMENTS_MAX: Final = 1000  # Or a message could be of empty ones, without an end.
CLOSE_S: Final = 1.0  # For the client to say goodbye, too.
KEY_BYTES: Final = 16


class SocketListener(Protocol):
    """The part of the listener that a WebSocket connection uses."""

    config: Config
    state: ServerState
    connections: Connections
    logger: logging.Logger
    emptied: asyncio.Event


def is_handshake(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request can become a WebSocket; otherwise it is answered like any other."""
    found = dict(headers)
    try:
        key = b64decode(found.get(b"sec-websocket-key", b""), validate=True)
    except ValueError:
        return False
    return len(key) == KEY_BYTES and found.get(b"sec-websocket-version") == b"13"


def quiet() -> logging.Logger:
    """The logger for uvicorn, which logs faults only, not errors of clients."""
    logger = logging.getLogger("penstock.http")
    logger.setLevel(logging.ERROR)
    logger.addFilter(_of_interest)  # The same one again is not added.
    return logger


def _of_interest(record: logging.LogRecord) -> bool:
    """Whether to log a record: a task that was cancelled because the server stops is not a fault."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


class SocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener
        self._lost = Disconnection()
        self._early = bytearray()  # Arrived before the handshake was answered.
        state = {"lost": self._lost}
        super().__init__(listener.config, listener.state, state, asyncio.get_running_loop())
        self.close_timeout = CLOSE_S
        self.logger = self.conn.logger = listener.logger

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._listener.connections.leave()
        self._lost.lose()
        self._listener.emptied.set()

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            # The library would take frames for what they are, and then refuse to complete the handshake.
            self._early += data
            self.transport.pause_reading()
            return
        super().data_received(data)
        if not self.handshake_initiated:  # The head has come whole, and the library has limits of its own.
            why = "a WebSocket has a shorter head, with fewer headers"
            self.transport.write(whole_response(RequestInvalid(part="head", why=why)))
            self.transport.close()

    def handle_close(self, event: Frame) -> None:
        self._lost.closed = True
        super().handle_close(event)

    async def send(self, message: Any) -> None:
        if self.transport.is_closing():  # Else the library takes what follows for part of the handshake.
            raise ClientDisconnected
        await super().send(message)
        if self._early and self.handshake_complete:
            early, self._early = bytes(self._early), bytearray()
            self.transport.resume_reading()
            self.data_received(early)

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= FRAGMENTS_MAX:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"over {FRAGMENTS_MAX} fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_parser_exception(self) -> None:
        """Send the error; further input is read and discarded."""
        if self.disconnected:
            return
        self.disconnected = True  # For the task: nothing can be said any more.
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.PROTOCOL_ERROR})
        self.transport.write(b"".join(self.conn.data_to_send()))
        # A close with bytes unread would destroy the last words.
        self.transport.resume_reading()
        self.close_timer = self.loop.call_later(CLOSE_S, self.transport.close)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # It would wait for a client that does not read, else.

    def shutdown(self) -> None:
        """The server is about to stop: for the task this looks as if the client had disconnected."""
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.SERVICE_RESTART})
