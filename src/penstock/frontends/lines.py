"""Connections whose requests are lines: what the text protocol and the status page stand on.

    bytes ──> LineConnection ── read_line() ──> a task of the listener ── write(), drained() ──> bytes

These protocols are for people and for small programs, so a connection is one task
that reads as it happens: read a line, do it, answer, read the next.  (The
native protocol has no task for a connection; it is the quick one.)

Limits: a line is at most ``line_bytes_max``, and no more than that and one read
of the socket is ever kept.  A client that does not read its answers is not
read from either, since its task waits in ``drained``.  What is not a whole line
when the input ends is dropped: half a message is no message.

The listener owns the tasks.  ``drain`` ends the input of all connections: lines
that have arrived are still done, then the task ends and the connection closes.
"""

import asyncio
import logging
from typing import Final, cast

from penstock.errors import Overloaded, PenstockError
from penstock.frontends.foreign import is_binary, spoken
from penstock.frontends.listener import Connections

# How long a client may take to read the last of what it was sent; then the connection is cut.
LINGER_S: Final = 5.0

logger = logging.getLogger("penstock")


class LineTooLong(Exception):  # noqa: N818 - it reads better, and never leaves the front ends.
    """A line exceeds the limit; each front end has its own error text."""


class NotLines(Exception):  # noqa: N818 - the same.
    """The connection begins with bytes that are not a line of text."""

    def __init__(self, data: bytes) -> None:
        super().__init__(spoken(data))
        self.spoken = spoken(data)


class LineConnection(asyncio.Protocol):
    """One connection, between its transport and its task."""

    def __init__(self, listener: "LineListener", line_bytes_max: int, write_buffer_bytes_max: int) -> None:
        self._listener = listener
        self._line_bytes_max = line_bytes_max
        self._write_buffer_bytes_max = write_buffer_bytes_max
        self._buffer = bytearray()
        self._looked = 0  # Bytes of the buffer that are known to have no end of line.
        self._begun = False  # Something has arrived, and it may be lines.
        self._ended = False  # No more input: the client has closed its side, or the server drains.
        self._reading = True  # False while the transport is paused.
        self._leaving = False  # All is said; the rest of the input is read and dropped.
        self._input = asyncio.Event()  # Something arrived, or nothing will.
        self._writable = asyncio.Event()  # The client reads as quickly as it is sent to; or it has gone.
        self._writable.set()
        self._gone = asyncio.Event()

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none of asyncio's classes.
        self._transport.set_write_buffer_limits(self._write_buffer_bytes_max)
        self.address = str((transport.get_extra_info("peername") or ("?",))[0])  # Without the port.
        self._listener.begin(self)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._buffer += data
        if len(self._buffer) > self._line_bytes_max:
            self._pause()
        self._input.set()

    def eof_received(self) -> bool:
        self._ended = True
        self._input.set()
        return self._transport.can_write_eof()  # The other direction stays open, for the answers; not in TLS.

    def connection_lost(self, _: Exception | None) -> None:
        self._ended = True
        for event in (self._input, self._writable, self._gone):
            event.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # The task's calls.

    @property
    def lost(self) -> bool:
        """Whether the client has disconnected."""
        return self._gone.is_set()

    async def read_line(self) -> bytes | None:
        """The next line without its end (LF or CRLF); None if there are no more."""
        while (line := self._take()) is None and not self._ended:
            self._input.clear()
            await self._input.wait()
        return line

    async def read_lines(self, count_max: int) -> list[bytes]:
        """The next line and all others that have arrived; none if there are no more."""
        first = await self.read_line()
        lines = [] if first is None else [first]
        try:
            while lines and len(lines) < count_max and (line := self._take()) is not None:
                lines.append(line)
        except LineTooLong:
            pass  # The next call says so, when these are done.
        return lines

    def _take(self) -> bytes | None:
        """The next line, if it is complete."""
        if not self._begun and self._buffer:
            self._begun = True
            if is_binary(bytes(self._buffer[:1])):
                raise NotLines(bytes(self._buffer))
        end = self._buffer.find(b"\n", self._looked)
        if max(end, len(self._buffer) if end < 0 else 0) > self._line_bytes_max:
            raise LineTooLong
        if end < 0:
            self._looked = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._looked = 0
        if not self._reading and not self._ended and len(self._buffer) <= self._line_bytes_max:
            self._reading = True
            self._transport.resume_reading()
        return line.removesuffix(b"\r")

    def write(self, data: bytes) -> None:
        """Send now, or as soon as the client reads."""
        if not self._transport.is_closing():  # uvloop raises where one writes to a peer that has gone.
            self._transport.write(data)

    async def drained(self) -> None:
        """Return when the client has read enough or has disconnected."""
        await self._writable.wait()

    def end_input(self) -> None:
        """Stop reading; input that has arrived is still processed."""
        self._ended = True
        if self._leaving:
            self._transport.close()
        self._pause()
        self._input.set()

    def _pause(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    async def last_words(self, data: bytes) -> None:
        """Send a last response and ignore all further input.

        To close with unread input would throw away what was just sent, so the
        rest of the input is read and dropped until the client closes.
        """
        self._ended = self._leaving = True
        self._buffer.clear()
        self.write(data)
        if self._transport.is_closing():
            return
        if not self._transport.can_write_eof():  # TLS cannot close one side, and lingers itself.
            await self.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # The client has gone, and the transport does not know it yet.
            self.abort()
            return
        if not self._reading:
            self._transport.resume_reading()
        await self._until_gone()

    async def close(self) -> None:
        """Close when everything is sent; abort the connection if the client does not read."""
        self._transport.close()
        await self._until_gone()

    async def _until_gone(self) -> None:
        try:
            async with asyncio.timeout(LINGER_S):
                await self._gone.wait()
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        self._transport.abort()


class LineListener:
    """A line-based front end; the subclass defines the protocol."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._tasks: dict[LineConnection, asyncio.Task[None]] = {}
        self._draining = False

    def connect(self) -> LineConnection:
        """The protocol of a new connection."""
        raise NotImplementedError

    async def talk(self, connection: LineConnection) -> None:
        """Serve one connection until its input ends."""
        raise NotImplementedError

    def refusal(self, error: PenstockError) -> bytes:
        """The response to a connection that cannot be served at all."""
        raise NotImplementedError

    def begin(self, connection: LineConnection) -> None:
        """Start the task of a new connection."""
        self._tasks[connection] = asyncio.get_running_loop().create_task(self._serve(connection))
        if self._draining:  # It was accepted in the same moment.
            connection.end_input()

    async def _serve(self, connection: LineConnection) -> None:
        try:
            self._connections.enter()
        except Overloaded as error:
            connection.write(self.refusal(error))
            await self._end(connection)
            return
        try:
            await self.talk(connection)
        except Exception:
            logger.exception("a connection was closed because of a fault in the server")
        finally:
            self._connections.leave()
            await self._end(connection)

    async def _end(self, connection: LineConnection) -> None:
        try:
            await connection.close()
        finally:
            del self._tasks[connection]

    async def drain(self) -> None:
        """Execute and answer the lines that have arrived, then close every connection."""
        self._draining = True
        for connection in self._tasks:
            connection.end_input()
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def abort(self) -> None:
        """Close at once what is still open."""
        for connection, task in self._tasks.items():
            connection.abort()
            task.cancel()
