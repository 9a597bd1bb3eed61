"""The limit of W1 and W7: a loop in Python that appends, syncs and answers, and is no broker.

    python -m benchmarks.peers.bare_server DIRECTORY PORT

    length (4 bytes), body      appended, and answered with 4 bytes when it is on disk
    length 0                    answered with all bodies, in the same form, and a length of 0

What is read in one turn of the loop shares a sync.  There are no topics, no
checksums, no offsets, and nobody who could be refused.
"""

import asyncio
import os
import sys
from struct import Struct
from typing import cast

import uvloop

LENGTH = Struct(">I")
DONE = LENGTH.pack(0)
ROOM_BYTES = 64 << 20  # Zeroed ahead, as Penstock does: new lengths and new blocks make a sync longer.


class Disk:
    """One file, and who waits for it."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        os.pwrite(self._descriptor, bytes(ROOM_BYTES), 0)
        os.fsync(self._descriptor)
        self._size = 0
        self._waiting: list[asyncio.Transport] = []

    def append(self, data: bytes, client: asyncio.Transport) -> None:
        """Write now; the client is answered at the end of the turn, when it is on disk."""
        self._size += os.pwrite(self._descriptor, data, self._size)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._sync)
        self._waiting.append(client)

    def _sync(self) -> None:
        os.fdatasync(self._descriptor)
        waiting, self._waiting = self._waiting, []
        for client in waiting:
            client.write(DONE)

    def all(self) -> bytes:
        """What was appended."""
        return os.pread(self._descriptor, self._size, 0)


class BareConnection(asyncio.Protocol):
    """One client."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's call."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none of asyncio's classes.

    def data_received(self, data: bytes) -> None:
        """asyncio's call."""
        data = self._rest + data
        while len(data) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(data)[0]
            if end > len(data):
                break
            if end == LENGTH.size:
                self._transport.write(self._disk.all() + DONE)
            else:
                self._disk.append(data[:end], self._transport)
            data = data[end:]
        self._rest = data


async def serve(directory: str, port: int) -> None:
    """Until the process is ended."""
    disk = Disk(f"{directory}/bare")
    server = await asyncio.get_running_loop().create_server(lambda: BareConnection(disk), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2])))
