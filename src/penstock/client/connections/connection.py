"""The asyncio shell of a connection: moves the bytes of an ``Exchange`` through a transport.

What is sent first in a turn of the event loop goes out at once, so that the
server can begin; the rest of that turn is sent together.  No task and no future
is made here; ``session.py`` has those.  A connection on which nothing is heard for
``SILENCE_S`` is asked for a sign of life, and given up if none comes: a server that
lost its power sends no FIN.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from penstock.client.connections.exchange import ConnectionLost, Encode, Exchange, OnAnswer, Push, reason
from penstock.client.connections.url import ServerAddress
from penstock.errors import PenstockError, ServerUnreachable
from penstock.transport.framed import FramedConnection
from penstock.wire.native import PING, frame

SILENCE_S = 10.0  # Then a ping; after as long again, the connection is taken for dead.  (Tests set it.)
UNSENT_BYTES_MAX: Final = 1 << 20  # Beyond it, a write does not wait for the end of the turn.
CLOSE_S: Final = 1.0  # For the server to take what was sent.
CONNECT_S: Final = 5.0  # For one attempt: a host that does not answer at all is tried again.
NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
HUNG_UP: Final = "the server closed the connection"


class ClientConnection(FramedConnection):
    def __init__(self, on_push: Push, on_lost: Callable[["ClientConnection", str], None]) -> None:
        self.exchange = Exchange(on_push)
        super().__init__(self.exchange.splitter, UNSENT_BYTES_MAX)
        self._on_lost = on_lost
        self._why = HUNG_UP
        self._heard = True
        self._silent = True  # Nothing was ever heard.
        self._pinged = False
        self._timer: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self.lost = False
        self.peer: tuple[str, int] | None = None  # The other end.

    # For the session.

    def request(self, encode: Encode, then: OnAnswer) -> None:
        """Send a request; ``then`` is called with its outcome."""
        if self.lost:
            then(b"", ConnectionLost(self._why))
            return
        self.push(self.exchange.request(encode, then))

    async def close(self, why: str) -> None:
        """End the connection after what was sent, unless the server does not take it."""
        if self.lost or self._transport is None:
            return
        self._flush(turn_ends=False)
        self._why = why
        self._transport.close()
        timer = self._loop.call_later(CLOSE_S, self._transport.abort)
        await asyncio.shield(self._gone)
        timer.cancel()

    def _abort(self, why: str) -> None:
        if not self.lost and self._transport is not None:
            self._why = why
            self._transport.abort()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.peer = (peer[0], peer[1]) if peer else None
        self._timer = self._loop.call_later(SILENCE_S, self._listen)

    def data_received(self, data: bytes) -> None:
        """Hand every complete frame to its owner."""
        self._heard = True
        self._silent = False
        try:
            self.exchange.feed(data)
        except PenstockError as error:  # Bytes that are not our protocol's.
            self._abort(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who waits, and then the session."""
        self.lost = True
        if not self._gone.done():
            self._gone.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        why = self._why if exc is None else reason(exc)
        if self._silent and why == HUNG_UP:
            why += self._hint()
        self.exchange.lose(why)
        self._on_lost(self, why)

    def _hint(self) -> str:
        """What may be wrong if a server says nothing at all: one that uses TLS does not answer in plain."""
        encrypted = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return "" if encrypted else " without an answer; if it uses TLS, the address begins with penstocks://"

    def _listen(self) -> None:
        """Called now and then: is the server still there?"""
        if self._heard:
            self._heard = self._pinged = False
        elif self._pinged:
            self._abort(f"the server was silent for {2 * SILENCE_S:.0f} seconds")
            return
        else:
            self._pinged = True
            self.request(lambda correlation: frame(PING, correlation), _nobody)
        self._timer = self._loop.call_later(SILENCE_S, self._listen)


def _nobody(body: bytes, error: Exception | None) -> None:
    """An answer that is only a sign of life."""


async def connect(
    address: ServerAddress,
    on_push: Push,
    on_lost: Callable[[ClientConnection, str], None],
    tls: ssl.SSLContext | None = None,
) -> ClientConnection:
    """A new connection, or ``ServerUnreachable``."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_connection(
                lambda: ClientConnection(on_push, on_lost), address.host, address.port, ssl=tls
            )
    except TimeoutError:
        why = f"no answer within {CONNECT_S:.0f} seconds"
        raise ServerUnreachable(server=str(address), why=why) from None
    except ssl.SSLCertVerificationError as error:
        why = f"its certificate is not trusted ({error.verify_message}); ca= or PENSTOCK_CA names one"
        raise ServerUnreachable(server=str(address), why=why) from None
    except ssl.SSLError as error:
        raise ServerUnreachable(server=str(address), why=_handshake(error)) from None
    except (OSError, UnicodeError) as error:
        raise ServerUnreachable(server=str(address), why=reason(error)) from None
    return connection


def _handshake(error: ssl.SSLError) -> str:
    """Why a connection could not be encrypted."""
    if error.reason in NOT_TLS:
        return "it does not use TLS there, so the address begins with penstock://, or has another port"
    return f"the TLS handshake failed ({str(error.reason or error).lower().replace('_', ' ')})"
