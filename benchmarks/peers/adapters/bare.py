"""No broker: a blocking socket to a loop that appends and syncs (bare_server.py)."""

import socket
import time
from collections.abc import Sequence

from benchmarks.peers.adapter import Adapter, Received
from benchmarks.peers.bare_server import DONE, LENGTH


class BareAdapter(Adapter):
    """There is one queue, and one way to keep it."""

    def __init__(self, address: str, mode: str) -> None:
        del mode
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread: Received | None = None

    def make(self, queue: str, groups: Sequence[str]) -> None:
        """It is there."""

    def publish(self, queue: str, body: bytes) -> None:
        del queue
        self._socket.sendall(LENGTH.pack(len(body)) + body)
        assert self._socket.recv(LENGTH.size) == DONE

    def subscribe(self, queue: str, group: str) -> None:
        """All is for everybody."""

    def receive(self, count: int, wait_s: float) -> Received:
        if self._unread is None:
            self._socket.sendall(DONE)
            self._unread = self._read()
        found, self._unread = self._unread[:count], self._unread[count:]
        if not found:
            time.sleep(wait_s)
        return found

    def _read(self) -> Received:
        reader = self._socket.makefile("rb")
        found: Received = []
        while length := LENGTH.unpack(reader.read(LENGTH.size))[0]:
            found.append((reader.read(length), None))
        return found

    def close(self) -> None:
        self._socket.close()
