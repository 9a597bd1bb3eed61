"""One connection of the native protocol: bytes in, frames to a speaker, answers out.

    data_received ──> FrameSplitter ──> frames ──> speaker.handle(opcode, body)
                                                        │ at once, or when the broker calls back
    transport.write <── joined, once a turn of the loop ┤ send / answer
                    <── the first of a turn at once ────┘ push

A message goes out before the receipt of its publisher: a push is written at
once, and answers at the end of the turn, behind those that the turn has woken.

The first byte decides who speaks (``speakers``): KQueue's commands or
Penstock's.  What they say is their business; this class keeps the limits:

    in flight      a client with ``requests_max`` unanswered requests is not read until some are answered
    unread         above ``write_buffer_bytes_max`` the connection is neither read nor pushed to
    half a frame   counted over all connections; who would go beyond the limit is refused

No task and no future belong to a request, and no lock: all happens on the loop.
A connection that is refused is told why, and is not read any more; it is cut
``LINGER_MS`` after the last byte has gone, so that the answer can arrive before
the end does.  A client that has sent all it wants to (it closed its side) gets
its answers first.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast

from penstock.errors import Overloaded, PenstockError
from penstock.wire.native import Frame, FrameSplitter

KEEPALIVE_S: Final = 60  # A peer that vanished without a word is noticed after two minutes.
LINGER_MS: Final = 200  # A round trip, or a few.
LINGERS_MAX: Final = 25  # Then a client that does not read its last words has had five seconds.

JOIN_BYTES_MAX: Final = 64 * 1024  # More than that is not copied together to save a system call.


class Speaker(Protocol):
    """Who answers on a connection."""

    def handle(self, opcode: int, body: bytes) -> None:
        """One frame; answered by ``connection.answer``, now or later."""
        ...

    def refusal(self, error: PenstockError) -> bytes:
        """Last words before the connection is closed, in the speaker's language."""
        ...

    def pause(self) -> None:
        """The client does not read: push nothing more."""
        ...

    def resume(self) -> None: ...

    def drain(self) -> None:
        """The server is about to end: end every wait, begin none."""
        ...

    def lost(self) -> None: ...


class Host(Protocol):
    """What a connection needs of its listener."""

    frame_bytes_max: int
    hello_bytes_max: int  # Of the frames of somebody who has not logged in.
    write_buffer_bytes_max: int
    requests_max: int
    half_frame_bytes: int  # Kept for frames that are not complete, of all connections.
    half_frame_bytes_max: int

    def enter(self, connection: "Connection") -> None:
        """Count the connection in, or raise."""
        ...

    def leave(self, connection: "Connection") -> None: ...

    def speaker(self, opcode: int, connection: "Connection") -> Speaker | None:
        """Who answers a connection that begins with this opcode."""
        ...

    def unknown(self, data: bytes) -> bytes:
        """The answer to a connection that begins with these bytes, if nobody does."""
        ...

    def refused(self, peer: str, error: PenstockError) -> None: ...

    def refusal(self, error: PenstockError) -> bytes:
        """The answer to a connection that has not spoken yet."""
        ...


class Connection(asyncio.Protocol):
    """The protocol object of one connection."""

    def __init__(self, host: Host) -> None:
        self.in_flight = 0  # Requests that were handed to the speaker and not answered.
        self.writable = True
        self.peer = ""
        self.address = ""  # The peer's, without the port.
        self.known = False  # Whoever is at the other end has said hello, and logged in if that is asked for.
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._speaker: Speaker | None = None
        self._splitter = FrameSplitter(host.hello_bytes_max)
        self._frames: deque[Frame] = deque()  # Complete, and not handled because of a limit.
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flush_coming = False  # At the end of this turn of the loop.
        self._pushed = False  # Something was written in this turn; what follows goes at its end.
        self._work_coming = False
        self._reading = True
        self._ending = False  # Refused, or drained: nothing that arrives is looked at.
        self._draining = False
        self._heard_out = False  # The client has closed its side.

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.address, port = (transport.get_extra_info("peername") or ("?", "?"))[:2]
        self.peer = f"{self.address}:{port}"
        self._transport.set_write_buffer_limits(self._host.write_buffer_bytes_max)
        _notice_silence(transport.get_extra_info("socket"))
        try:
            self._host.enter(self)
        except PenstockError as error:
            self.end(self._host.refusal(error))

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        if self._speaker is None:
            self._speaker = self._host.speaker(data[0], self)
            if self._speaker is None:
                self.end(self._host.unknown(data))
                return
        splitter = self._splitter
        before = splitter.buffered
        frames = splitter.feed(data)
        if splitter.buffered != before:
            self._host.half_frame_bytes += splitter.buffered - before
        if self._frames:
            self._frames.extend(frames)
        else:
            self._handle(frames)
        if splitter.refusal is not None or self._host.half_frame_bytes > self._host.half_frame_bytes_max:
            self._refuse_frames()

    def eof_received(self) -> bool:
        self._heard_out = True
        self.drain()
        return self._transport is not None and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        self.writable = False
        if self._speaker is not None:
            self._speaker.pause()
        self._set_reading()

    def resume_writing(self) -> None:
        self.writable = True
        if self._speaker is not None:
            self._speaker.resume()
        self._work()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        self._ending = True
        self._frames.clear()
        self._out.clear()
        self._forget_half_frame()
        self._transport = None
        if self._speaker is not None:
            self._speaker.lost()
        self._host.leave(self)

    # The speaker's calls.

    def send(self, data: bytes) -> None:
        """Send at the end of this turn of the loop, together with what else is sent in it."""
        if self._ending:  # The last words are said, and nothing can be written behind them.
            return
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= self._host.write_buffer_bytes_max:
            self._flush()
        elif not self._flush_coming:
            self._flush_coming = True
            self._loop.call_soon(self._end_turn)

    def push(self, data: bytes) -> None:
        """Send at once, unless something was pushed in this turn of the loop already."""
        self.send(data)
        if self._flush_coming and not self._pushed:
            self._pushed = True
            self._flush()

    def send_alone(self, data: bytes) -> None:
        """Send now, before anything that is sent in a later turn of the loop."""
        if self._ending:
            return
        self._out.append(data)
        self._flush()

    def answer(self, data: bytes) -> None:
        """Send the answer to one request; an empty one for a request that wants none."""
        self.in_flight -= 1
        if data:
            self.send(data)
        if (self._frames or not self._reading) and not self._work_coming:
            self._work_coming = True
            self._loop.call_soon(self._work)
        if self._draining:
            self._end_if_drained()

    def trust(self) -> None:
        """It is known who is there, so frames may be large."""
        self.known = True
        self._splitter.limit = self._host.frame_bytes_max

    def later(self, function: Callable[[], None]) -> None:
        """Call it in the next turn of the loop."""
        self._loop.call_soon(function)

    def end(self, last_words: bytes = b"") -> None:
        """Say this, and close; what arrives from now on is not looked at."""
        transport = self._transport
        if self._ending or transport is None:
            return
        if last_words:
            self.send(last_words)
        self._ending = True
        self._frames.clear()
        self._flush()
        if transport.is_closing():
            return
        if self._heard_out or not transport.can_write_eof():  # TLS closes both sides, and lingers.
            transport.close()
            return
        with suppress(OSError):  # The peer may have reset the connection in this moment.
            transport.write_eof()
        self._reading = True
        transport.resume_reading()  # To throw away: a close with bytes unread would destroy the last words.
        self._loop.call_later(LINGER_MS / 1000, self._linger, LINGERS_MAX)

    @property
    def closed(self) -> bool:
        """True once nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    # The listener's calls.

    def drain(self) -> None:
        """Answer what was read, then close."""
        self._draining = True
        if self._speaker is not None:
            self._speaker.drain()
        self._set_reading()
        self._end_if_drained()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def buffered(self) -> int:
        """Bytes kept for this connection, both ways."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        waiting = sum(len(body) for _, body in self._frames)
        return self._splitter.buffered + waiting + sum(map(len, self._out)) + unsent

    # Inside.

    def _linger(self, more: int) -> None:
        if self._transport is None:
            return
        if more and self._transport.get_write_buffer_size():
            self._loop.call_later(LINGER_MS / 1000, self._linger, more - 1)
        else:
            self._transport.abort()

    def _handle(self, frames: list[Frame]) -> None:
        """Hand frames to the speaker, up to a limit; the rest waits."""
        assert self._speaker is not None
        handle = self._speaker.handle
        limit = self._host.requests_max
        for index, (opcode, body) in enumerate(frames):
            if self._ending:
                return
            if not self.writable or self.in_flight >= limit:
                self._frames.extend(frames[index:])
                self._set_reading()
                return
            self.in_flight += 1
            handle(opcode, body)

    def _work(self) -> None:
        """Go on with frames that had to wait."""
        self._work_coming = False
        while self._frames and self.writable and self.in_flight < self._host.requests_max:
            assert self._speaker is not None
            opcode, body = self._frames.popleft()
            self.in_flight += 1
            self._speaker.handle(opcode, body)
        self._set_reading()
        if self._draining:
            self._end_if_drained()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or self._ending or transport.is_closing():
            return
        wanted = self.writable and not self._frames and not self._draining
        wanted = wanted and self.in_flight < self._host.requests_max
        if wanted and not self._reading:
            self._reading = True
            transport.resume_reading()
        elif not wanted and self._reading:
            self._reading = False
            transport.pause_reading()

    def _end_turn(self) -> None:
        self._flush_coming = self._pushed = False
        self._flush()

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        size = self._out_bytes
        self._out = []
        self._out_bytes = 0
        transport = self._transport
        if transport is None or transport.is_closing():
            return  # uvloop raises if one writes to a peer that has gone.
        if len(out) == 1:
            transport.write(out[0])
        elif size > JOIN_BYTES_MAX:
            transport.writelines(out)
        else:
            transport.write(b"".join(out))

    def _refuse_frames(self) -> None:
        assert self._speaker is not None
        limit = self._host.half_frame_bytes_max
        error = self._splitter.refusal or Overloaded(what="bytes of unfinished requests", limit=limit)
        self._forget_half_frame()
        self._host.refused(self.peer, error)
        self.end(self._speaker.refusal(error))

    def _forget_half_frame(self) -> None:
        self._host.half_frame_bytes -= self._splitter.buffered
        self._splitter = FrameSplitter(self._host.hello_bytes_max)

    def _end_if_drained(self) -> None:
        if self.in_flight == 0 and not self._frames:
            self.end()


def _notice_silence(raw: socket.socket | None) -> None:
    """Let the kernel ask a silent peer whether it is still there."""
    if raw is None:
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # Linux; elsewhere the system's own times hold.
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 4)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
