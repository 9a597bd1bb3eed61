"""The interface between the server and its front ends.

A front end is a ``Listener``: it makes a protocol for each connection and
knows how to end them all.  The server (``serve.py``) owns the sockets: it binds
them, accepts, and calls ``drain`` and then ``abort`` at the end.

    listener = TextListener(broker, limits, connections)
    server = await loop.create_server(listener.connect, "127.0.0.1", 3000)

``Connections`` counts what is open over all listeners.  A protocol enters
itself in ``connection_made`` and leaves in ``connection_lost``; where ``enter``
says no, it answers with its front end's words for "too many" and closes.
``OpenConnections`` are the connections of one listener.
"""

import asyncio
import socket
from typing import Generic, Protocol, TypeVar, runtime_checkable

from penstock.config.server import TlsSettings
from penstock.errors import Overloaded


class Listener(Protocol):
    """One front end, as the server sees it."""

    def connect(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection: the factory of ``loop.create_server``."""
        ...

    async def drain(self) -> None:
        """Nothing new is accepted: answer requests that were read, then close every connection.

        The server gives up waiting for it at its deadline, by cancelling.
        """
        ...

    def abort(self) -> None:
        """Close at once whatever is still open."""
        ...


@runtime_checkable
class BindingListener(Protocol):
    """A front end whose library opens its own sockets and accepts connections itself."""

    async def listen(self, reserved: socket.socket, tls: TlsSettings) -> None:
        """Serve the address of this bound socket, and close the socket; ``OSError`` if that fails."""
        ...

    async def drain(self) -> None:
        """Accept nothing new, and end as ``Listener.drain`` does."""
        ...

    def abort(self) -> None:
        """Close at once whatever is still open."""
        ...


class Connections:
    """How many connections are open, of all listeners together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = 0

    def enter(self) -> None:
        """Count a connection; ``Overloaded`` at the limit, and then it must not ``leave``."""
        if self.count >= self._limit:
            raise Overloaded(what="connections", limit=self._limit)
        self.count += 1

    def leave(self) -> None:
        self.count -= 1
        assert self.count >= 0


class DrainableConnection(Protocol):
    """The part of a connection that its listener uses."""

    def drain(self) -> None:
        """Answer requests that were read, then close."""
        ...

    def abort(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=DrainableConnection)


class OpenConnections(Generic[ConnectionT]):
    """The open connections of one listener, from the first to the last."""

    def __init__(self, connections: Connections) -> None:
        self.open: set[ConnectionT] = set()  # Also one that is refused: it must be ended, too.
        self._counted: set[ConnectionT] = set()
        self._connections = connections
        self._draining = False
        self._left = asyncio.Event()

    def enter(self, connection: ConnectionT) -> None:
        """Count a connection in, or raise."""
        self.open.add(connection)
        self._connections.enter()
        self._counted.add(connection)
        if self._draining:
            connection.drain()

    def leave(self, connection: ConnectionT) -> None:
        if connection in self._counted:
            self._counted.discard(connection)
            self._connections.leave()
        self.open.discard(connection)
        self._left.set()

    async def drain(self) -> None:
        """Let every connection answer what it has read, and close; return when the last is closed."""
        self._draining = True
        for connection in list(self.open):
            connection.drain()
        while self.open:
            self._left.clear()
            await self._left.wait()

    def abort(self) -> None:
        """Close at once whatever is still open."""
        for connection in list(self.open):
            connection.abort()
