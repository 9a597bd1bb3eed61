"""The requests and responses of one connection, without I/O: what both shells of the client share.

    request(encode, then) ── bytes to send ──> the shell's socket
    feed(data)            <── bytes received ── the shell's socket
      │
      ├──> then(body, None), or then(b"", error): the response to a request
      └──> on_push(opcode, body): a frame that is no response

The shells are ``connection.py`` (asyncio) and ``blocking_connection.py`` (a plain socket, in the thread of
the caller).  ``then`` is called exactly once for each request: with the response, with the error it was
refused with, or with ``ConnectionLost`` when the shell reports that the connection has ended (``lose``).
"""

import os
from collections.abc import Callable

from penstock.errors import FrameTooLarge
from penstock.transport.frames import FrameSplitter
from penstock.wire.native import ERROR, FRAME_BYTES_MAX, HEADER_BYTES, OK, UINT32_MAX, UNASKED, correlation_of
from penstock.wire.native_bodies import decode_error_frame

Encode = Callable[[int], bytes]  # A whole frame, for the correlation it gets.
OnAnswer = Callable[[bytes, Exception | None], None]
Push = Callable[[int, bytes], None]


class ConnectionLost(Exception):  # noqa: N818 - as the others are named; it never leaves the client.
    """The connection is gone; whether the request was executed is unknown."""


class Exchange:
    """Correlates the responses on a connection with their requests."""

    def __init__(self, on_push: Push) -> None:
        self.splitter = FrameSplitter(HEADER_BYTES, FRAME_BYTES_MAX)
        self.frame_bytes_max = FRAME_BYTES_MAX  # The server says when it is less.
        self._on_push = on_push
        self._waiting: dict[int, OnAnswer] = {}  # By correlation.
        self._correlation = UNASKED

    def request(self, encode: Encode, then: OnAnswer) -> bytes:
        """The frame of a request, to be sent now; ``then`` is called with its outcome."""
        correlation = self._correlation = self._correlation % UINT32_MAX + 1
        frame_bytes = encode(correlation)
        if len(frame_bytes) > self.frame_bytes_max + HEADER_BYTES:
            raise FrameTooLarge(size_bytes=len(frame_bytes) - HEADER_BYTES, limit_bytes=self.frame_bytes_max)
        self._waiting[correlation] = then
        return frame_bytes

    def feed(self, data: bytes) -> int:
        """Hand every frame that is complete now to its owner; returns how many there were.

        Raises ``PenstockError`` for bytes that are not our protocol's.
        """
        frames = self.splitter.feed(data)
        for opcode, body in frames:
            correlation = correlation_of(body) if opcode in (OK, ERROR) else UNASKED
            if correlation == UNASKED:
                self._on_push(opcode, body)
                continue
            error = (
                decode_error_frame(body) if opcode == ERROR else None
            )  # May raise: before the request goes.
            then = self._waiting.pop(correlation, None)
            if then is not None:  # Else a publish that wanted no answer was refused.
                then(b"" if error is not None else body, error)
        if self.splitter.refusal is not None:
            raise self.splitter.refusal
        return len(frames)

    def lose(self, why: str) -> None:
        """The connection has ended: all requests in flight end with an error."""
        waiting, self._waiting = self._waiting, {}
        for then in waiting.values():
            then(b"", ConnectionLost(why))


def reason(error: Exception) -> str:
    """The message of an operating system error, without its number."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, OSError) and error.strerror:  # Of names that cannot be looked up.
        return error.strerror.lower()
    return str(error) or type(error).__name__
