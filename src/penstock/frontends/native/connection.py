"""One connection of the native port: frames to a dispatcher, answers out.

    data_received ──> frames ──> dispatcher.handle(opcode, body)
                                      │ at once, or when the broker calls back
    transport.write <── send, answer, push

Deliveries are pushed, so they are written before the acknowledgements of the publishes that they come from:
this shortens the way from publisher to consumer.

The first byte selects the dispatcher (``NativeHost.dispatcher``): the native protocol, or another one on
the same port (``PortProtocol``).  A client with ``requests_max`` unanswered requests is not read until some
are answered; the other limits are those of every ``ServerConnection``.  A client that closes its side gets
its answers first.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.errors import PenstockError
from penstock.frontends.framed import FramedListener, ServerConnection
from penstock.transport.frames import Frame
from penstock.types import mypyc_attr
from penstock.wire.native import HEADER_BYTES


class Dispatcher(Protocol):
    """Handles the requests of a connection in its protocol."""

    def handle(self, opcode: int, body: bytes) -> None:
        """One frame; answered by ``connection.answer``, now or later."""
        ...

    def refusal(self, error: PenstockError) -> bytes:
        """The last response, which says why the connection is closed."""
        ...

    def pause(self) -> None:
        """The client does not read: pause pushes."""
        ...

    def resume(self) -> None: ...

    def drain(self) -> None:
        """The server is about to stop: end all waits, begin none."""
        ...

    def lost(self) -> None: ...


class PortProtocol(Protocol):
    """Another protocol on the same port, recognised by the first byte of a connection."""

    def dispatcher(self, data: bytes, connection: "NativeConnection") -> Dispatcher | None:
        """The dispatcher of a connection that begins with these bytes; None if they are not its own."""
        ...

    def unknown(self, data: bytes) -> bytes:
        """The answer to a connection that begins with these bytes, if there is no dispatcher for them."""
        ...

    def stop(self) -> None:
        """The server stops, and its connections with it."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class NativeHost(FramedListener["NativeConnection"]):
    """The part of the listener that a connection uses."""

    requests_max: int  # Unanswered, of one connection.

    def dispatcher(self, data: bytes, connection: "NativeConnection") -> Dispatcher | None:
        """The dispatcher of a connection that begins with these bytes."""
        raise NotImplementedError

    def unknown(self, data: bytes) -> bytes:
        """The answer to a connection that begins with these bytes, if there is no dispatcher for them."""
        raise NotImplementedError

    def refusal(self, error: PenstockError) -> bytes:
        """The answer to a connection on which nothing has arrived yet."""
        raise NotImplementedError


class NativeConnection(ServerConnection):
    def __init__(self, host: NativeHost) -> None:
        super().__init__(host, HEADER_BYTES)
        self._host = host
        self._dispatcher: Dispatcher | None = None
        self._proceed_coming = False
        self._taking = False  # Requests are being begun: answers are sent together, behind what is pushed.

    # Called by the transport.

    def start(self, data: bytes) -> bool:
        self._dispatcher = self._host.dispatcher(data, self)
        if self._dispatcher is None:
            self.end(self._host.unknown(data))
        return self._dispatcher is not None

    def eof_received(self) -> bool:
        self._input_ended = True
        self.drain()
        return self._transport is not None and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._dispatcher is not None:
            self._dispatcher.pause()

    def resume_writing(self) -> None:
        self.writable = True
        if self._dispatcher is not None:
            self._dispatcher.resume()
        self.proceed()

    def lost(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.lost()

    # Called by the dispatcher.

    def answer(self, data: bytes) -> None:
        """Send the response to one request; empty for a request without one.

        The last answer that the client waits for is sent at once, with those before it: another turn of the
        event loop would cost it a system call, and nothing would be joined by waiting.
        """
        self.in_flight -= 1
        if data:
            if self.in_flight or self._taking:
                self.send(data)
            else:
                self.send_now(data)
        if (self._frames or not self._reading) and not self._proceed_coming:
            self._proceed_coming = True
            self._loop.call_soon(self.proceed)
        if self._draining:
            self._end_if_drained()

    def later(self, function: Callable[[], None]) -> None:
        """Call a function in the next turn of the loop."""
        self._loop.call_soon(function)

    # Requests.

    def take(self, frames: list[Frame]) -> None:
        if self._frames:
            self._frames.extend(frames)
            return
        assert self._dispatcher is not None
        handle = self._dispatcher.handle
        limit = self._host.requests_max
        self._taking = True
        for index, (opcode, body) in enumerate(frames):
            if self._ending:
                break
            if not self.writable or self.in_flight >= limit:
                self._frames.extend(frames[index:])
                self._set_reading()
                break
            self.in_flight += 1
            handle(opcode, body)
        self._taking = False

    def proceed(self) -> None:
        self._proceed_coming = False
        self._taking = True
        while self._frames and self.writable and self.in_flight < self._host.requests_max:
            assert self._dispatcher is not None
            opcode, body = self._frames.popleft()
            self.in_flight += 1
            self._dispatcher.handle(opcode, body)
        self._taking = False
        self._set_reading()
        if self._draining:
            self._end_if_drained()

    def has_room(self) -> bool:
        return not self._frames and self.in_flight < self._host.requests_max

    def stop_waiting(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.drain()

    def last_words(self, error: PenstockError) -> bytes:
        return self._host.refusal(error) if self._dispatcher is None else self._dispatcher.refusal(error)
