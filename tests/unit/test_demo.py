"""The demo, in virtual time: all of it happens, in order, within 80 columns."""

import io
import re
import sys
from pathlib import Path

import pytest

from penstock.cli import screen
from penstock.cli.main import main
from penstock.cli.server import demo
from penstock.testing import TestBroker

ESCAPE = re.compile(r"\x1b\[\d+m")


def tour(broker: TestBroker, *, colour: bool = False) -> str:
    """What the demo shows."""
    written: list[str] = []
    screen = demo.Screen(written.append, colour=colour, pause=lambda: None)
    demo.Tour(broker, broker.clock, screen).run()
    return "".join(written)


def happened(shown: str) -> list[tuple[str, str]]:
    """(event, message) of each line that says something happened."""
    return re.findall(r"^ +[\d.]+ s  ([\w-]+) +(orders\S+|\d+ messages)", shown, re.MULTILINE)


def test_the_tour_shows_every_step_in_order(penstock: TestBroker) -> None:
    shown = tour(penstock)

    assert re.findall(r"^(\d) ([a-z ]+?)  ", shown, re.MULTILINE) == [
        ("1", "publish"), ("2", "lease"), ("3", "nack and retry"), ("4", "dead letter"),
        ("5", "delay"), ("6", "priority"), ("7", "replay"), ("8", "trace"),
    ]  # fmt: skip


def test_the_tour_says_what_happened_to_each_message(penstock: TestBroker) -> None:
    shown = tour(penstock)

    assert [f"{event} {identity.removeprefix('orders:0:')}" for event, identity in happened(shown)] == [
        "published 0", "published 1", "published 2",
        "leased 0", "acked 0",
        "leased 1", "nacked 1", "leased 2", "nacked 2", "leased 1", "acked 1",
        "leased 2", "nacked 2", "leased 2", "nacked 2", "dead-lettered 2", "redriven orders.dlq:0:0",
        "leased 3", "acked 3",
        "scheduled s1", "published 4", "acked 4",
        "published 5", "published 6", "published 7", "leased 7", "leased 6", "leased 5", "acked 3 messages",
        "leased 7 messages", "acked 7 messages",
    ]  # fmt: skip


def test_the_tour_shows_the_trace_as_it_is_printed(penstock: TestBroker) -> None:
    shown = tour(penstock)

    assert shown.endswith(f'>>> print(broker.trace("orders:0:2"))\n{penstock.trace("orders:0:2")}\n')


def test_the_waits_of_the_tour_are_its_backoffs_and_its_delay(penstock: TestBroker) -> None:
    """300 ms and 100 ms before the retries, and 500 ms of delay: it never polls and never sleeps."""
    start_ms = penstock.clock.steady_ms()

    tour(penstock)

    assert penstock.clock.steady_ms() - start_ms == 300 + 100 + 500


def test_a_second_tour_on_the_same_data_goes_on_where_the_first_ended(penstock: TestBroker) -> None:
    first = happened(tour(penstock))

    second = happened(tour(penstock))

    assert [event for event, _ in second] == [event for event, _ in first]
    assert second[0] == ("published", "orders:0:8")


def test_every_line_fits_a_terminal_of_80_columns(penstock: TestBroker) -> None:
    shown = tour(penstock)

    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_colour_changes_nothing_but_the_colour(penstock: TestBroker) -> None:
    with TestBroker.open() as other:
        plain = tour(other)

    coloured = tour(penstock, colour=True)

    assert ESCAPE.search(plain) is None
    assert len(ESCAPE.findall(coloured)) > 100
    assert ESCAPE.sub("", coloured) == plain


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False), ("TERM", "xterm", True)],
)
def test_colour_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "stdout", Terminal())

    assert screen.wants_colour() is expected


def test_output_that_is_no_terminal_has_no_colour() -> None:
    assert screen.wants_colour() is False


@pytest.mark.slow
def test_the_command_runs_on_a_real_disk_and_keeps_the_directory_it_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", str(tmp_path / "data")]) == 0

    shown = capsys.readouterr().out
    assert "dead-lettered" in shown
    assert f"The data is kept in {tmp_path / 'data'}" in shown
    assert (tmp_path / "data" / "topics" / "orders" / "topic.json").exists()


@pytest.mark.slow
def test_without_a_directory_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert main(["demo"]) == 0

    assert "The data was deleted" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
