"""The processes a server is measured with: itself, the raw loop beside it, and clients.

All of them are started here, on loopback and on free ports, and ended when the block ends.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from benchmarks.machine import ROOT, cpu_seconds, resident_bytes
from benchmarks.raw_server import APPEND, ECHO, FRAME, NUMBER, SEND

READY = "ready"
START_SECONDS_MAX = 20.0


class Process:
    """A child and what it says, a line at a time."""

    def __init__(self, arguments: Sequence[str], settings: Mapping[str, str] | None = None) -> None:
        self.started = time.perf_counter()
        # As it is installed: with its bytecode kept.
        environment = {**os.environ, **(settings or {})}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._child = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.pid

    def line(self) -> str:
        """The next line it prints."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"a child ended with {self._child.wait()}")
        return line.strip()

    def tell(self, line: str) -> None:
        """Say something to it."""
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def cpu_seconds(self) -> float:
        """What it used so far, in user and system mode."""
        return cpu_seconds(self.pid)

    def resident_mb(self) -> float:
        """Its memory, in MB."""
        return resident_bytes(self.pid) / 1e6

    def kill(self) -> None:
        """End it as a crash would: it finishes nothing."""
        self._child.kill()
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for pipe in (self._child.stdout, self._child.stdin):
            if pipe is not None:
                pipe.close()


def said_until_ready(line: Callable[[], str]) -> dict[str, str]:
    """What ``penstock serve`` prints, a line at a time, until it serves: by its first word, the rest."""
    said: dict[str, str] = {}
    while READY not in said:
        name, _, value = line().partition(" ")
        said[name] = value
    return said


class ServerProcess(Process):
    """``penstock serve`` on a directory, with its native listener only, or with others."""

    def __init__(
        self,
        directory: str,
        settings: Mapping[str, str] | None = None,
        *,
        http: bool = False,
        kafka: bool = False,
        grpc: bool = False,
    ) -> None:
        others = ("--text", "off", "--status", "off", "--kafka", "127.0.0.1:0" if kafka else "off")
        chosen = ("--native", "127.0.0.1:0", "--http", "127.0.0.1:0" if http else "off")
        flags = ("--data", directory, *chosen, "--grpc", "127.0.0.1:0" if grpc else "off", *others)
        super().__init__(["-m", "penstock", "serve", *flags], settings)
        said = said_until_ready(self.line)
        self.ready_seconds = time.perf_counter() - self.started
        self.url = said["native"]
        self.kafka = said.get("kafka", "")
        self.http_port = int(said["http"].split("/")[2].rpartition(":")[2]) if http else 0
        self.grpc_port = int(said["grpc"].rpartition(":")[2]) if grpc else 0


class RawClient:
    """A blocking socket to the raw loop."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")

    def send(self, opcode: int, body: bytes, count: int = 1) -> None:
        """``count`` equal frames at once."""
        self._socket.sendall((FRAME.pack(opcode, len(body)) + body) * count)

    def answer(self, count: int = 1) -> None:
        """Read so many answers."""
        for _ in range(count):
            _, length = FRAME.unpack(self._stream.read(FRAME.size))
            self._stream.read(length)

    def append(self, body: bytes, count: int = 1) -> None:
        """Have it written and synced; several at once share a sync."""
        self.send(APPEND, body, count)
        self.answer(count)

    def echo(self, body: bytes, count: int = 1) -> None:
        """Have it read, and thrown away."""
        self.send(ECHO, body, count)
        self.answer(count)

    def fetch(self, size: int) -> None:
        """Have so many bytes sent."""
        self.send(SEND, NUMBER.pack(size))
        self.answer()

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._socket.close()


@contextmanager
def raw_loop(directory: str) -> Iterator[RawClient]:
    """The raw loop in a process of its own, and a connection to it."""
    with Process(["-m", "benchmarks.raw_server", directory]) as process:
        client = RawClient(int(process.line()))
        try:
            yield client
        finally:
            client.close()


class HttpClients(Process):
    """``benchmarks/http_clients.py``, which does what it is asked for, again and again."""

    module = "benchmarks.http_clients"

    def __init__(self, port: int) -> None:
        super().__init__(["-m", self.module, str(port)])
        assert self.line() == READY

    def seconds(self, work: str, **order: object) -> float:
        """How long it took."""
        self.tell(json.dumps({"work": work, **order}))
        taken: float = json.loads(self.line())["seconds"]
        return taken


class GrpcClients(HttpClients):
    """The same of ``benchmarks/grpc_clients.py``."""

    module = "benchmarks.grpc_clients"


class ClientProcess(Process):
    """Work of ``benchmarks/clients.py`` in a process of its own; it says when it is ready, and its result."""

    module = "benchmarks.clients"

    def __init__(self, work: str, *arguments: object) -> None:
        super().__init__(["-m", self.module, work, *map(str, arguments)])

    def wait_ready(self) -> None:
        """Until it has connected."""
        line = self.line()
        assert line == READY, line

    def begin(self) -> None:
        """Let it go."""
        self.tell("go")

    def result(self) -> Any:
        """What it measured."""
        return json.loads(self.line())


class KafkaClientProcess(ClientProcess):
    """The same of ``benchmarks/kafka_clients.py``."""

    module = "benchmarks.kafka_clients"
