"""One connection to a server: sends frames, and dispatches responses to their requests.

    request(encode, then) ──> correlation 17 ──┐            ┌──> then(body, None)
    request(encode, then) ──> correlation 18 ──┼── socket ──┼──> then(b"", error)
    push(frame)           ─────────────────────┘            └──> on_push: frames that are not responses

``then`` is called exactly once for each request: with the answer, with the
error it was refused with, or with ``ConnectionLost`` when the connection ends
before.  No task and no future is made here; ``session.py`` has those.

What is sent first in a turn of the event loop goes out at once, so that the
server can begin; the rest of that turn is sent together.  A connection
on which nothing is heard for ``SILENCE_S`` is asked for a sign of life, and given
up if none comes: a server that lost its power sends no FIN.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Final

from penstock.client.url import ServerAddress
from penstock.errors import FrameTooLarge, PenstockError, ServerUnreachable
from penstock.transport.framed import FramedConnection
from penstock.wire.frames import FrameSplitter
from penstock.wire.native import (
    ERROR,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    OK,
    PING,
    UINT32_MAX,
    UNASKED,
    correlation_of,
    frame,
)
from penstock.wire.native_bodies import decode_error_frame

SILENCE_S = 10.0  # Then a ping; after as long again, the connection is taken for dead.  (Tests set it.)
UNSENT_BYTES_MAX: Final = 1 << 20  # Beyond it, a write does not wait for the end of the turn.
CLOSE_S: Final = 1.0  # For the server to take what was sent.
CONNECT_S: Final = 5.0  # For one attempt: a host that does not answer at all is tried again.
NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
HUNG_UP: Final = "the server closed the connection"

Encode = Callable[[int], bytes]  # A whole frame, for the correlation it gets.
OnAnswer = Callable[[bytes, Exception | None], None]
Push = Callable[[int, bytes], None]


class ConnectionLost(Exception):  # noqa: N818 - as the others are named; it never leaves the client.
    """The connection is gone; whether what was asked was done, nobody knows."""


class ClientConnection(FramedConnection):
    def __init__(self, on_push: Push, on_lost: Callable[["ClientConnection", str], None]) -> None:
        super().__init__(FrameSplitter(HEADER_BYTES, FRAME_BYTES_MAX), UNSENT_BYTES_MAX)
        self._on_push = on_push
        self._on_lost = on_lost
        self._waiting: dict[int, OnAnswer] = {}  # By correlation.
        self._correlation = UNASKED
        self._why = HUNG_UP
        self._heard = True
        self._silent = True  # Nothing was ever heard.
        self._pinged = False
        self._timer: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self.frame_bytes_max = FRAME_BYTES_MAX  # The server says when it is less.
        self.lost = False
        self.peer: tuple[str, int] | None = None  # The other end.

    # For the session.

    def request(self, encode: Encode, then: OnAnswer) -> None:
        """Send a request; ``then`` hears what became of it."""
        if self.lost:
            then(b"", ConnectionLost(self._why))
            return
        correlation = self._correlation = self._correlation % UINT32_MAX + 1
        frame_bytes = encode(correlation)
        if len(frame_bytes) > self.frame_bytes_max + HEADER_BYTES:
            raise FrameTooLarge(size_bytes=len(frame_bytes) - HEADER_BYTES, limit_bytes=self.frame_bytes_max)
        self._waiting[correlation] = then
        self.push(frame_bytes)

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
            for opcode, body in self._splitter.feed(data):
                correlation = correlation_of(body) if opcode in (OK, ERROR) else UNASKED
                if correlation == UNASKED:
                    self._on_push(opcode, body)
                    continue
                then = self._waiting.pop(correlation, None)
                if then is None:
                    continue  # A publish that wanted no answer was refused.
                if opcode == OK:
                    then(body, None)
                else:
                    then(b"", decode_error_frame(body))
            if self._splitter.refusal is not None:
                raise self._splitter.refusal
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
        waiting, self._waiting = self._waiting, {}
        for then in waiting.values():
            then(b"", ConnectionLost(why))
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


def reason(error: Exception) -> str:
    """An error of the operating system in its own words, without the numbers around them."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, OSError) and error.strerror:  # Of names that cannot be looked up.
        return error.strerror.lower()
    return str(error) or type(error).__name__


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
