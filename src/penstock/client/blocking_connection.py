"""The blocking shell of a connection: moves the bytes of an ``Exchange`` through a plain socket.

    thread ── ask ── exchange.py ── sendall, recv ── response

One request at a time, by one thread at a time, without an event loop.  A request that ends
without a response makes the connection useless, and its owner closes it.  Nothing is
repeated here; the caller decides (``direct.py``).

A plain socket waits in the kernel, with a limit of time set there: that saves the two ``poll`` calls
that Python makes for a socket with a timeout.  TLS needs the latter.
"""

import socket
import struct
from contextlib import suppress
from typing import Final, Self

from penstock.client.connections.exchange import ConnectionLost, Encode, Exchange, reason
from penstock.client.session import ClientSession
from penstock.errors import PenstockError

# For each step of it, or the program's own limit if that is less: there is a connection to the same place
# already, so it answers, or it does not matter.  (Tests set it.)
CONNECT_S = 1.0
ANSWER_S = 5.0  # If nothing is heard for longer, it is the event loop's business.  (Tests set it.)
RECEIVE_BYTES: Final = 4096  # Responses to publishes are small.


class BlockingConnection:
    """A connection after its hello."""

    def __init__(self, connected: socket.socket, session: ClientSession) -> None:
        self._socket = connected
        self._exchange = Exchange(_no_push)
        self._answered = False
        self._body = b""
        self._error: Exception | None = None
        self.ask(session.hello)

    @classmethod
    def open(cls, session: ClientSession) -> Self | None:
        """To where the session is connected to, as the same client; None if that cannot be."""
        peer = session.peer
        if peer is None:
            return None
        try:
            connected = socket.create_connection(peer, min(CONNECT_S, session.timeout_ms / 1000))
        except OSError:
            return None
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if session.tls is not None:
                connected = session.tls.wrap_socket(connected, server_hostname=session.address.host)
            connection = cls(connected, session)
            set_timeout(connected, min(ANSWER_S, session.timeout_ms / 1000), kernel=session.tls is None)
        except (OSError, ConnectionLost, PenstockError):  # For example, there are too many connections.
            connected.close()
            return None
        except BaseException:  # Ctrl-C.
            connected.close()
            raise
        return connection

    def ask(self, encode: Encode) -> bytes:
        """The body of the response; raises what the server refuses it with, or ``ConnectionLost``."""
        self._answered = False
        try:
            self._socket.sendall(self._exchange.request(encode, self._take))
            while not self._answered:
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionLost("the server closed the connection")
                if self._exchange.feed(data) and not self._answered:
                    raise ConnectionLost("the server sent an unexpected frame")
        except (OSError, PenstockError) as error:  # The socket's, or bytes that are not our protocol's.
            raise ConnectionLost(reason(error)) from None
        if self._error is not None:
            raise self._error
        return self._body

    def _take(self, body: bytes, error: Exception | None) -> None:
        self._body = body
        self._error = error
        self._answered = True

    def close(self) -> None:
        """Close the connection; a thread that waits for a response gets ``ConnectionLost``."""
        with suppress(OSError):  # The server was quicker.
            # Not the one of a TLS socket: what another thread is about to send would go out unencrypted.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._socket.close()


def set_timeout(connected: socket.socket, seconds: float, *, kernel: bool) -> None:
    """Limit how long the socket waits; both ways raise an ``OSError`` then."""
    if not kernel:
        connected.settimeout(seconds)
        return
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    connected.settimeout(None)


def _no_push(opcode: int, body: bytes) -> None:
    """This connection gets no pushes; ``ask`` counts the frame and fails."""
