"""The limit that a server is measured beside: sockets, frames and syncs, and nothing of a broker.

    python -m benchmarks.raw_server DIRECTORY      prints its port

The raw loop of the design's measurements: a protocol on uvloop, every frame
of a read handled at once, the answers of a turn joined into one write.  Frames
are those of the native protocol (opcode, length, body):

    1  answer in 20 bytes
    2  append the body to a file, answer when it is on disk; all that came meanwhile share one sync
    3  answer with as many bytes as the body's number says
"""

import asyncio
import os
import sys
import threading
from struct import Struct
from typing import cast

FRAME = Struct(">BI")
NUMBER = Struct(">I")
ECHO, APPEND, SEND = 1, 2, 3
ANSWER = FRAME.pack(ECHO, 20) + bytes(20)


class Disk:
    """A file that grows; one thread syncs it, for everyone who wrote before."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        self._size = 0
        self._loop = loop
        self._waiting: list[RawConnection] = []
        self._syncing = False
        self._work = threading.Semaphore(0)
        threading.Thread(target=self._sync, daemon=True).start()

    def append(self, data: bytes, connection: "RawConnection") -> None:
        """Write now; the connection is answered when it is on disk."""
        self._size += os.pwrite(self._descriptor, data, self._size)
        if not self._waiting and not self._syncing:
            self._loop.call_soon(self._begin)
        self._waiting.append(connection)

    def _begin(self) -> None:
        self._syncing = True
        self._shared, self._waiting = self._waiting, []
        self._work.release()

    def _sync(self) -> None:
        while True:
            self._work.acquire()
            os.fdatasync(self._descriptor)
            self._loop.call_soon_threadsafe(self._done)

    def _done(self) -> None:
        self._syncing = False
        shared = self._shared
        if self._waiting:
            self._begin()
        for connection in shared:
            connection.answer(ANSWER)


class RawConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, disk: Disk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._rest = b""
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's call."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none of asyncio's classes.

    def data_received(self, data: bytes) -> None:
        """asyncio's call."""
        data = self._rest + data if self._rest else data
        at = 0
        while at + 5 <= len(data):
            opcode, length = FRAME.unpack_from(data, at)
            if at + 5 + length > len(data):
                break
            body = data[at + 5 : at + 5 + length]
            at += 5 + length
            if opcode == APPEND:
                self._disk.append(body, self)
            elif opcode == SEND:
                size = NUMBER.unpack(body)[0]
                self.answer(FRAME.pack(SEND, size) + bytes(size))
            else:
                self.answer(ANSWER)
        self._rest = data[at:]

    def answer(self, data: bytes) -> None:
        """Send with the other answers of this turn."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not self._transport.is_closing():
            self._transport.write(b"".join(out))


async def serve(directory: str) -> None:
    """Until the process is ended."""
    loop = asyncio.get_running_loop()
    disk = Disk(f"{directory}/raw", loop)
    server = await loop.create_server(lambda: RawConnection(disk, loop), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1]))
