"""A real server in a real process, for the tests: started, asked, killed, started again.

    with Server(tmp_path) as server:        `python -m penstock serve`, on loopback, its own directory
        server.url                          penstock://127.0.0.1:...
        server.kill()                       SIGKILL, and it is gone
        server.start()                      again, on the same directory and the same ports

The ports are below those that the system gives away by itself, so that
nothing else has them while a server is down.  Everything that waits has a
deadline that is far beyond what it takes; a test that fails ends.
"""

import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.stalls import check_logged

PATIENCE_S = 60.0  # Far more than anything takes, on a machine that does much else.
PORTS = range(12_000, 32_000)
LISTENERS = ("native", "text", "status")
QUIET = ("text", "status", "http", "kafka")  # Off, unless a test asks for them; others may have their ports.


class Server:
    """One server on one directory, with as many lives as a test gives it."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        data: Path | None = None,
        listeners: tuple[str, ...] = LISTENERS,
        program: Sequence[str] = ("-m", "penstock"),
        host: str = "127.0.0.1",
    ) -> None:
        self.host = host
        self._listeners = listeners
        self._program = program
        self.data = data or folder / "data"
        self.log_path = folder / "server.log"
        self.ports: dict[str, int] = {}  # By listener; known after the first start.
        self.facts: dict[str, str] = {}  # What it said of itself when it was ready.
        self._settings = dict(settings or {})
        self._before = before  # Runs in the new process before the server does.

        self._process: subprocess.Popen[str] | None = None
        self._checked = 0  # Characters of the log.

    # Lives.

    def start(self, within_s: float = PATIENCE_S) -> None:
        """Begin a life; returns when the server says that it is ready."""
        assert self._process is None, "it is running"
        for _ in range(20):
            ports = self.ports or {name: free_port() for name in self._listeners}
            process = self._spawn(ports)
            lines = lines_of(process, within_s)
            facts = dict(line.split(" ", 1) for line in lines[:-1])
            if lines[-1:] == ["ready"]:
                self._process, self.ports, self.facts = process, ports, facts
                return
            process.kill()
            process.communicate()
            if self.ports or "address" not in self.log():
                break  # Not a port that somebody else was quicker to take.
        raise AssertionError(f"the server did not start within {within_s:.0f} s: {self.log()[-3000:]}")

    def _spawn(self, ports: dict[str, int]) -> "subprocess.Popen[str]":
        places = dict.fromkeys(QUIET, "off") | {name: f"{self.host}:{port}" for name, port in ports.items()}
        listen = [word for name, place in places.items() for word in (f"--{name}", place)]
        with self.log_path.open("a") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    *self._program,
                    "serve",
                    "--data",
                    str(self.data),
                    *listen,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.log_path.parent,
                env=environment() | self._settings,
                preexec_fn=self._before,
            )

    def stumble(self, seconds: float) -> None:
        """Begin a life that is killed after so long, most likely before it is ready."""
        process = self._spawn(self.ports)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        process.communicate()

    def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: int) -> None:
        """Send a signal; a server that has ended already is not an error here."""
        assert self._process is not None, "it is not running"
        self._process.send_signal(number)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit code, when it has ended."""
        assert self._process is not None, "it is not running"
        code = self._process.wait(timeout_s)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        if error is None:
            check_logged(self.log())

    # What it looks like from outside.

    @property
    def url(self) -> str:
        """For ``penstock.connect``."""
        return f"penstock://{self.host}:{self.ports['native']}"

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None, "it is not running"
        return self._process.pid

    def rss_bytes(self) -> int:
        """Memory of the process, as the system counts it."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def log(self) -> str:
        """What it has written to stderr, in all its lives."""
        return self.log_path.read_text() if self.log_path.exists() else ""

    def check_log(self) -> None:
        """A server logs no bug, whatever it is sent; what was complained of once is not again."""
        text = self.log()[self._checked :]
        self._checked += len(text)
        bugs = ("Traceback", " ERROR ", "Task was destroyed", "never retrieved", "Warning:")
        assert not [bug for bug in bugs if bug in text], text[-6000:]

    def connect(self, listener: str) -> socket.socket:
        """A plain TCP connection."""
        made = socket.create_connection((self.host, self.ports[listener]), timeout=PATIENCE_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def environment() -> dict[str, str]:
    """This process's own, without settings that a developer may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}


def lines_of(process: "subprocess.Popen[str]", within_s: float) -> list[str]:
    """What a process says up to ``ready``, or up to its end, or until it has been given enough time."""
    assert process.stdout is not None
    told: queue.Queue[str | None] = queue.Queue()

    def read(stream: "subprocess.Popen[str]") -> None:
        assert stream.stdout is not None
        for line in stream.stdout:
            told.put(line.rstrip("\n"))
            if line == "ready\n":
                return
        told.put(None)

    reader = threading.Thread(target=read, args=(process,), daemon=True)
    reader.start()
    lines: list[str] = []
    deadline = time.monotonic() + within_s
    with suppress(queue.Empty):
        while (line := told.get(timeout=max(deadline - time.monotonic(), 0))) is not None:
            lines.append(line)
            if line == "ready":
                reader.join()
                break
    return lines


def until(condition: Callable[[], bool]) -> None:
    """Look again and again, until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.01)


def free_port() -> int:
    """A port that nobody has now, and that the system gives to nobody who does not name it."""
    for _ in range(100):
        port = random.choice(PORTS)  # No seed: two runs at a time must not choose the same.
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("a hundred ports are taken")
