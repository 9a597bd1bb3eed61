"""A second connection, without an event loop: a thread sends a request and blocks for the response.

    thread ── ask ── socket ── answer

One request at a time, by one thread at a time.  A request that ends without a response
closes the connection: a late response would be taken for that of the next request.
Nothing is repeated here; the caller decides (``lone.py``).
"""

import socket
from contextlib import suppress
from typing import Final

from penstock.client.connection import ConnectionLost, Encode, reason
from penstock.client.session import ClientSession
from penstock.errors import PenstockError
from penstock.wire.frames import FrameSplitter
from penstock.wire.native import (
    ERROR,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    OK,
    UINT32_MAX,
    UNASKED,
    correlation_of,
)
from penstock.wire.native_bodies import decode_error_frame

CONNECT_S: Final = 1.0  # There is a connection to the same place already: it answers, or it does not matter.
ANSWER_S = 5.0  # If nothing is heard for longer, it is the event loop's business.  (Tests set it.)
RECEIVE_BYTES: Final = 4096  # Answers to publishes are small.


class BlockingConnection:
    """A connection that has said hello."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._splitter = FrameSplitter(HEADER_BYTES, FRAME_BYTES_MAX)
        self._correlation = UNASKED

    @classmethod
    def open(cls, session: ClientSession) -> "BlockingConnection | None":
        """To where the session is connected to, as the same client; None if that cannot be."""
        peer = session.peer
        if peer is None:
            return None
        try:
            connected = socket.create_connection(peer, CONNECT_S)
        except OSError:
            return None
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if session.tls is not None:
                connected = session.tls.wrap_socket(connected, server_hostname=session.address.host)
            line = cls(connected)
            line.ask(session.hello)
            connected.settimeout(min(ANSWER_S, session.timeout_ms / 1000))
        except (OSError, ConnectionLost, PenstockError):  # For example, there are too many connections.
            connected.close()
            return None
        except BaseException:  # Ctrl-C.
            connected.close()
            raise
        return line

    def ask(self, encode: Encode) -> bytes:
        """The body of the answer; raises what the server refuses it with, or ``ConnectionLost``."""
        correlation = self._correlation = self._correlation % UINT32_MAX + 1
        try:
            self._socket.sendall(encode(correlation))
            opcode, body = self._frame()
            meant = correlation_of(body) == correlation and opcode in (OK, ERROR)
            refusal = decode_error_frame(body) if opcode == ERROR and meant else None
        except (OSError, PenstockError) as error:  # The socket's, or bytes that are not our protocol's.
            raise ConnectionLost(reason(error)) from None
        if not meant:
            raise ConnectionLost("the server said something else")
        if refusal is not None:
            raise refusal
        return body

    def _frame(self) -> tuple[int, bytes]:
        while True:
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionLost("the server closed the connection")
            frames = self._splitter.feed(data)
            if self._splitter.refusal is not None:
                raise self._splitter.refusal
            if frames:
                return frames[0]

    def close(self) -> None:
        """Hang up; a thread that waits for an answer is told that there will be none."""
        with suppress(OSError):  # The server was quicker.
            # Not the one of a TLS socket: what another thread is about to send would go out unencrypted.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()
