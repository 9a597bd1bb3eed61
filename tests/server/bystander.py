"""A decent client beside the indecent ones: whatever they do, it gets its answers at once."""

import socket
from types import TracebackType
from typing import Self

from tests.server.peer import Peer
from tests.server.process import Server

AT_ONCE_S = 10.0  # Milliseconds, really; the rest is for a machine that does much else.
TOPIC = "calm"


class Bystander:
    """One connection on each listener, opened before the trouble begins."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._native = Peer(server)
        self._native.call("create_topic", name=TOPIC, options={"partitions": 1})
        self._consumer = self._native.open(TOPIC).consumer
        self._text = server.connect("text")
        for each in (self._native.socket, self._text):
            each.settimeout(AT_ONCE_S)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._native.socket.close()
        self._text.close()

    def check(self) -> None:
        """Publish, receive, acknowledge; ask the other listeners."""
        self._count += 1
        value = b"%d" % self._count
        self._native.publish(TOPIC, value)
        [batch] = self._native.receive(self._consumer, 10, round(AT_ONCE_S * 1000))
        assert value in batch.data
        self._native.ack(self._consumer, batch)
        self._text.sendall(b"PING\n")
        assert b"PONG" in self._text.recv(1000)
        assert b"200 OK" in http_get(self._server)


def http_get(server: Server, target: str = "/metrics") -> bytes:
    """The whole answer of the status page."""
    with server.connect("status") as made:
        made.settimeout(AT_ONCE_S)
        made.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return read_all(made)


def read_all(made: socket.socket) -> bytes:
    """Everything up to the end."""
    data = b""
    try:
        while more := made.recv(1 << 16):
            data += more
    except ConnectionResetError:
        pass
    return data
