"""A transport that joins what is written in one turn of the loop.

uvicorn writes the head of an answer and then its body.  Each write is a call of the
kernel, and the first one wakes the client for a head without a body; both cost more than
all else that is done for a small request.  Here the two are one write, at the end
of the turn, or at once when they are large.
"""

import asyncio
from typing import Any, Final

HELD_BYTES_MAX: Final = 64 * 1024  # At most this much is not yet counted by flow control.


class JoinedWrites:
    """Wraps the transport of a connection, and passes on everything except writes."""

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._ended = False  # write_eof was called.

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, data: bytes) -> None:
        """Buffer it until the end of the turn."""
        if self._ended:
            return  # An answer to a request whose connection was refused meanwhile.
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > HELD_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        held, self._held = self._held, []
        self._held_bytes = 0
        if held and not self._inner.is_closing():
            self._inner.writelines(held)

    def write_eof(self) -> None:
        """Write what is buffered, then end the output."""
        self.flush()
        self._ended = True
        if not self._inner.is_closing():
            self._inner.write_eof()

    def close(self) -> None:
        """Write what is buffered, then close."""
        self.flush()
        self._inner.close()
