"""A real ``penstock serve`` in a process of its own."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.stalls import check_logged

PATIENCE_S = 60  # Far more than anything takes; a test that fails ends.
FREE = (
    "--native",
    "127.0.0.1:0",
    "--text",
    "127.0.0.1:0",
    "--status",
    "127.0.0.1:0",
    "--http",
    "127.0.0.1:0",
    "--kafka",
    "127.0.0.1:0",
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "serve", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """This process's own, without settings that a developer may have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**kept, **variables}


class Process:
    """The server; ``with`` kills what a test leaves."""

    def __init__(self, data: Path, *arguments: str, **variables: str) -> None:
        self._process = subprocess.Popen(
            command("--data", str(data), *(arguments or FREE)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**variables),
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()  # Of stderr.
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=[self._process.stderr])
        self._reader.start()
        self.said = dict(
            line.rstrip().partition(" ")[::2] for line in self._until_ready(self._process.stdout)
        )
        self.pid = self._process.pid

    def _until_ready(self, out: IO[str]) -> list[str]:
        lines: list[str] = []
        for line in out:
            if line == "ready\n":
                return lines
            lines.append(line)
        raise AssertionError(f"it never got ready: {list(self._lines.queue)}")

    def _read(self, errors: IO[str]) -> None:
        for line in errors:
            self._lines.put(line)

    def port(self, listener: str) -> int:
        place = self.said[listener].partition("://")[2] or self.said[listener]
        return int(place.partition("/")[0].rpartition(":")[2])

    def heard(self, words: str) -> None:
        """Wait for a line of the log."""
        while words not in self._lines.get(timeout=PATIENCE_S):
            pass

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        return self._process.wait(PATIENCE_S)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._reader.join()
        if error is None:
            check_logged("".join(self._lines.queue))


def refused(*arguments: str, cwd: Path, **variables: str) -> tuple[int, str]:
    """Start a server that does not start; its exit code, and what it says."""
    done = subprocess.run(
        command(*arguments), cwd=cwd, env=environment(**variables), capture_output=True, text=True,
        check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr
