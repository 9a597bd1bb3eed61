"""A TCP proxy between nodes and their store: it can be slow, and it can be away."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

CHUNK = 1 << 16


class StoreProxy:
    """Forwards connections to a port of this machine; ``host`` is where it listens."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.delay_s = 0.0  # Of every piece of data that goes to the store.
        self._target = "127.0.0.1", port
        self._listener = socket.create_server((host, 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._away = False
        self._closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut()
        self._thread.join()

    def set_away(self, away: bool) -> None:
        """Break all connections and refuse new ones, or accept them again."""
        self._away = away
        if away:
            self._cut()

    def _cut(self) -> None:
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._away:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.add(one)
            threading.Thread(target=self._forward, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(far, near, False), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, to_store: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if to_store and self.delay_s:
                    time.sleep(self.delay_s)
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()
        self._sockets.discard(source)
