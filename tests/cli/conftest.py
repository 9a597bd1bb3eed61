"""Commands in this process, against a broker in memory and in virtual time."""

import io
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

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
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Cli:
    """``cli("topic", "list")``: the command as a user types it, with what stdin holds."""

    def connected(server: str) -> Any:
        servers.append(server)
        return nullcontext(penstock)

    monkeypatch.setattr(connecting, "connected", connected)
    monkeypatch.setattr(connecting, "clock", lambda: penstock.clock)
    monkeypatch.setattr(connecting, "pause", lambda seconds: penstock.advance(seconds))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PENSTOCK_SERVER", raising=False)

    def run(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        stdout = sys.stdout
        capfdbinary.readouterr()
        code = main(arguments)
        sys.stdout = stdout  # A command whose reader has gone takes it away.
        stdout.flush()
        shown = capfdbinary.readouterr()
        return Done(code, shown.out.decode("utf-8", "surrogateescape"), shown.err.decode())

    return run
