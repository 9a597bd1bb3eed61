"""docs/coming-from.md: every command of the page works, against a fresh server, as a newcomer types it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.server.process import PATIENCE_S, Server

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "coming-from.md").read_text()
SECTION: Final = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COMMANDS: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STORIES: Final = {
    title: commands for title, text in SECTION.findall(PAGE) if (commands := "".join(COMMANDS.findall(text)))
}
# What each story must say, besides that every command succeeds.
SAID: Final = {
    "GoMQ": ["topic.durability", "GOMQ_STORAGE", "GOMQ_LISTEN_ADDR"],
    "GoQueue": ["orders:", '{"order_id": 123}', "by order-service"],
    "Queue": ["jobs:0:0", '"receipt"', "PENSTOCK_TOPIC__PARTITIONS"],
    "Simple MQ": ["user-signups:0:0", "new user: alex", '"user-signups-0"'],
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), listeners=("native", "text", "status", "http")) as started:
        yield started


def test_the_page_has_a_section_for_each_system() -> None:
    assert [title for title, _ in SECTION.findall(PAGE)] == [
        "KQueue-Go",
        "GoMQ",
        "GoQueue",
        "Queue",
        "Simple MQ",
    ]
    assert STORIES.keys() == SAID.keys()


@pytest.mark.parametrize("system", SAID)
def test_the_commands_work(system: str, server: Server, tmp_path: Path) -> None:
    commands = STORIES[system].replace("localhost:8080", f"127.0.0.1:{server.ports['http']}")
    commands = commands.replace("localhost:8081", f"127.0.0.1:{server.ports['status']}")
    (tmp_path / "penstock").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    (tmp_path / "penstock").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PENSTOCK_SERVER": server.url}

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert [words for words in SAID[system] if words not in done.stdout] == []
    assert '"code"' not in done.stdout  # Of a problem, which curl does not take for one.
