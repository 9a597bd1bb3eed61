"""docs/cli.md: every command of the page, as a real process against a real server, prints what the page says.

What differs from run to run (times, sizes, rates, addresses) is compared by its
shape.  ``pytest --rewrite tests/cli/test_page.py`` writes what the commands print into the page.
"""

import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import environment

from penstock.cli.main import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
FENCE = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEFAULT = "penstock://127.0.0.1:7070"

# What is compared by its shape: the pattern, and what stands for it.
SHAPES = [
    (r"penstock://127\.0\.0\.1:\d+", DEFAULT),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3})?Z?", "TIME"),
    (r"\d{4}-\d\d-\d\d", "DAY"),
    (r"\d\d:\d\d:\d\d\.\d{3}", "CLOCK"),
    (r"[\d.]+ (ms|s|min|h|d)\b", "DURATION"),
    (r"drained in .*", "drained in ..."),  # By the rates of the last seconds, which may have been none.
    (r"[\d.]+ k?B\b", "SIZE"),
    (r"\b[0-9a-f]{12}\b", "FINGERPRINT"),
    (r"[\d.]+ (published|delivered|acked|failed)", r"RATE \1"),
    (r"\((compiled|interpreted)\)", "(BUILD)"),
    (r"^(publish|consume|latency) .*", r"\1 ..."),
    (r" +", " "),
]


def run(line: str, server: str, folder: Path) -> str:
    """What a line of the page prints, on stdout and stderr alike."""
    done = subprocess.run(
        ["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        cwd=folder, env=environment(server), timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.decode()


def printed(text: str, server: str, folder: Path) -> str:
    """A block of the page as it should be: each command, and below it what it prints now."""
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    return "".join(f"{line}\n{run(line.removeprefix('$ '), server, folder)}" for line in commands)


def shape(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, stands_for in SHAPES:
        text = re.sub(pattern, stands_for, text, flags=re.MULTILINE)
    return text


@pytest.mark.slow
def test_the_page_shows_what_its_commands_print(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = PAGE.read_text()

    def redo(match: re.Match[str]) -> str:
        kind, text = match.groups()
        if kind == "python":
            exec(compile(text.replace(DEFAULT, server), str(PAGE), "exec"), {"__name__": "__main__"})
            return match[0]
        return f"```console\n{printed(text, server, tmp_path)}```".replace(server, DEFAULT)

    now = FENCE.sub(redo, page)

    if request.config.getoption("--rewrite"):
        PAGE.write_text(now)
    assert shape(now) == shape(page)


def test_the_page_has_every_command() -> None:
    page = PAGE.read_text()

    assert [name for name in COMMANDS if f"penstock {name}" not in page] == []


def test_what_the_page_promises_of_its_width_holds() -> None:
    """Tables and timelines of the page fit 80 columns; documents and sentences may be longer."""
    lines = [line for _, text in FENCE.findall(PAGE.read_text()) for line in text.splitlines()]
    too_long = [line for line in lines if len(line) > 80 and not line.startswith(("{", "$ ", "penstock "))]

    assert [line for line in too_long if not line.startswith(" ")] == []
