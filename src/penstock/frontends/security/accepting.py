"""Accepts connections that must be encrypted, and recognises those that are not.

    accept ──> wait for the first bytes, and leave them where they are
                 ├── a TLS handshake ──> the listener's protocol, over TLS
                 └── anything else   ──> one answer in plain, which says so, and the end

The event loop's own ``create_server`` would begin the handshake at once, and close a connection that does not
speak TLS without a word: ``curl http://`` then says "empty reply", and a client only that it was cut off.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from penstock.frontends.foreign import http_answer, is_binary, is_http, is_tls
from penstock.frontends.security.tls import HANDSHAKE_S, SHUTDOWN_S

LOOK_BYTES: Final = 64  # Enough to tell one protocol from another.
RETRY_S: Final = 1.0  # There are no more file descriptors, say: connections wait to be accepted meanwhile.
WORDS: Final = "This port uses TLS; connect with https://, penstocks:// or the TLS option of your client."

logger = logging.getLogger("penstock")


class TlsAcceptor:
    """Accepts the connections of one listener, until it is closed."""

    def __init__(
        self, listening: socket.socket, connect: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext
    ) -> None:
        self._loop = asyncio.get_running_loop()
        listening.setblocking(False)
        self._listening = listening
        self._connect = connect
        self._tls = tls
        self._accepting = self._loop.create_task(self._accept())
        self._beginning: set[asyncio.Task[None]] = set()  # Connections whose handshake is not done.

    def close(self) -> None:
        """Stop accepting; connections that have begun a handshake are closed."""
        self._accepting.cancel()
        self._listening.close()
        for task in self._beginning:
            task.cancel()

    async def _accept(self) -> None:
        while True:
            try:
                made, _ = await self._loop.sock_accept(self._listening)
            except OSError as error:
                logger.warning("a connection cannot be accepted: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            task = self._loop.create_task(self._begin(made))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, made: socket.socket) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                first = await self._look(made)
            if not is_tls(first):
                _refuse(made, first)
                return
            await self._loop.connect_accepted_socket(
                self._connect,
                made,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError:  # A handshake that fails or takes too long; a connection that is gone.
            made.close()
        except asyncio.CancelledError:
            made.close()
            raise

    async def _look(self, made: socket.socket) -> bytes:
        """Look at the first bytes without consuming them."""
        made.setblocking(False)
        readable = asyncio.Event()
        self._loop.add_reader(made.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(made.fileno())
        return made.recv(LOOK_BYTES, socket.MSG_PEEK)


def _refuse(made: socket.socket, first: bytes) -> None:
    """Send a refusal in the client's protocol, if that is recognised, and close."""
    with made:
        if not first:
            return  # The other side has gone.
        if is_http(first):
            made.send(http_answer(WORDS))
        elif not is_binary(first):
            made.send(f"ERR {WORDS}\n".encode())
        made.recv(LOOK_BYTES * 1024)  # What is left unread when a socket closes would discard the answer.
