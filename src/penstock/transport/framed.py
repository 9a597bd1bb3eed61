"""One end of a connection that exchanges frames: splits what it reads, joins what it writes.

    data_received ──> FrameSplitter ──> frames ──> the subclass
    transport.write <── the first push of a turn of the event loop, at once
                    <── everything else that is sent in the turn, joined, at its end

Subclasses: ``client/connections/connection.py``, and ``frontends/framed.py`` for the server's side.
"""

import asyncio
from typing import Final, cast

from penstock.transport.frames import FrameSplitter

JOIN_BYTES_MAX: Final = 64 * 1024  # Larger writes are not joined: the copy costs more than a system call.

Buffer = bytes | bytearray | memoryview


class FramedConnection(asyncio.Protocol):
    """Writes and their limits; a subclass handles the frames."""

    def __init__(self, splitter: FrameSplitter, unsent_bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._splitter = splitter
        self._unsent_bytes_max = unsent_bytes_max  # Beyond it writes do not wait for the end of the turn.
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._flush_coming = False  # At the end of this turn of the loop.
        self._pushed = False  # In this turn of the loop, so that further pushes wait for its end.
        self._ending = False  # Nothing more is sent, and what arrives is discarded.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass of asyncio's.

    @property
    def closed(self) -> bool:
        """True once nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def send(self, data: bytes) -> None:
        """Send at the end of this turn of the loop, joined with everything else that is sent in it."""
        if self._ending:
            return
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= self._unsent_bytes_max:
            self._flush(turn_ends=False)
        elif not self._flush_coming:
            self._flush_coming = True
            self._loop.call_soon(self._flush)

    def push(self, data: bytes) -> None:
        """Send at once, unless something was pushed in this turn of the loop already."""
        if self._pushed:
            self.send(data)
            return
        if self._ending:
            return
        self._pushed = True
        if not self._flush_coming:
            self._flush_coming = True
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._out_bytes += len(data)
        self._flush(turn_ends=False)

    def send_now(self, data: bytes) -> None:
        """Send at once, before anything that is sent in a later turn of the loop."""
        if not self._ending:
            self._out.append(data)
            self._out_bytes += len(data)
            self._flush(turn_ends=False)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _flush(self, turn_ends: bool = True) -> None:
        if turn_ends:
            self._flush_coming = self._pushed = False
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
