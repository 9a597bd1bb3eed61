"""Commands in this process against a broker in virtual time, and in processes of their own against a server.

cli       quick, for breadth: a command's function runs here
server    a real ``penstock serve``, one for each file of tests; ``environment`` lets commands find it
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.stalls import check_logged

from penstock.cli import connecting
from penstock.cli.main import main
from penstock.testing import TestBroker


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """What it printed, as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def lines(self) -> list[str]:
        """What it printed, without the spaces between columns."""
        return [" ".join(line.split()) for line in self.out.splitlines()]


class Keyboard(io.TextIOWrapper):
    """A stdin that says it is a terminal."""

    def isatty(self) -> bool:
        return True


Cli = Callable[..., Done]


@pytest.fixture
def servers() -> list[str]:
    """The servers that commands have connected to."""
    return []


@pytest.fixture
def cli(
    penstock: TestBroker,
    servers: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Cli:
    """``cli("topic", "list")``: the command as a user types it, with what stdin or the keyboard brings."""

    def connected(server: str, *, progress: bool = True, **login: str) -> Any:
        servers.append(server)
        return nullcontext(penstock)

    monkeypatch.setattr(connecting, "connected", connected)
    monkeypatch.setattr(connecting, "clock", lambda: penstock.clock)
    monkeypatch.setattr(connecting, "pause", lambda seconds: penstock.advance(seconds))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PENSTOCK_SERVER", raising=False)

    def run(*arguments: str, stdin: bytes = b"", keyboard: bytes | None = None) -> Done:
        typed = io.TextIOWrapper(io.BytesIO(stdin)) if keyboard is None else Keyboard(io.BytesIO(keyboard))
        monkeypatch.setattr(sys, "stdin", typed)
        stdout = sys.stdout
        capsysbinary.readouterr()
        try:
            code = main(arguments)
        except SystemExit as ending:  # Shell completion ends like this.
            code = int(ending.code or 0)
        sys.stdout = stdout  # A command whose reader has gone takes it away.
        stdout.flush()
        shown = capsysbinary.readouterr()
        return Done(code, shown.out.decode("utf-8", "surrogateescape"), shown.err.decode())

    return run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of its own."""
    folder = tmp_path_factory.mktemp("server")
    data, log = folder / "data", folder / "server.log"
    command = [sys.executable, "-m", "penstock", "serve", "--data", str(data), "--native", "127.0.0.1:0"]
    command += ["--text", "off", "--status", "off", "--http", "off", "--kafka", "off"]
    with log.open("w") as lines:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=lines, text=True)
    assert process.stdout is not None
    try:
        facts = dict(line.split(maxsplit=1) for line in iter(process.stdout.readline, "ready\n"))
        yield facts["native"].strip()
        process.terminate()
        assert process.wait(timeout=60) == 0
        check_logged(log.read_text())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def environment(server: str) -> dict[str, str]:
    """For commands in processes of their own: they are on the path, and this is their server."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PENSTOCK_SERVER": server,
        "COLUMNS": "80",
        "TZ": "Asia/Tokyo",  # All times are UTC, whatever this is.
    }
