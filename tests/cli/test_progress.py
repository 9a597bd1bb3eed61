"""The bar on stderr: for terminals, after two seconds, and gone at the end."""

import io
import sys
import threading

import pytest

from penstock.cli import progress
from penstock.cli.progress import ProgressBar


class Terminal(io.StringIO):
    """A stderr that says it is a terminal, and when something was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "working" in text:
            self.drawn.set()
        return super().write(text)


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stderr, for the length of a test; called in it, because pytest sets its own before."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def test_a_quick_command_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)

    with ProgressBar("working", total=10) as bar:
        bar.advance(10)

    assert terminal.getvalue() == ""


def test_a_long_command_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 0.0)

    with ProgressBar("working", total=200, unit="messages") as bar:
        bar.advance(50)
        assert terminal.drawn.wait(60)
        bar.advance(50)

    assert "messages" in terminal.getvalue()
    assert "50%" in terminal.getvalue()


@pytest.mark.parametrize("unit", ["messages", "bytes", ""])
def test_without_a_total_it_shows_that_something_goes_on(
    unit: progress.Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = at_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 0.0)

    with ProgressBar("working", unit=unit):
        assert terminal.drawn.wait(60)


def test_where_nobody_looks_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 0.0)
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)

    with ProgressBar("working") as bar:
        bar.advance(1)
        assert not bar.waiting

    assert stderr.getvalue() == ""
