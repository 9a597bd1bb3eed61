"""``make run`` as a newcomer has it: what the start screen says to type is typed, and then Ctrl-C."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.server.process import environment
from tests.spark.cluster import PATIENCE_S, eventually

from penstock.cli.main import main
from penstock.spark.lake.table import LakeTable

ROOT = Path(__file__).parents[2]
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command at a terminal, in a process group of its own, and what it shows."""

    def __init__(self, *command: str) -> None:
        ours, its = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, cwd=ROOT, start_new_session=True,
            env=environment() | {"COLUMNS": "200", "TERM": "xterm"},
        )  # fmt: skip
        os.close(its)
        self._shown = b""
        self._ours = ours
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # Nobody is at the other end any more.
                return
            if not data:
                return
            self._shown += data

    @property
    def screen(self) -> str:
        return COLOURS.sub("", self._shown.decode("utf-8", "replace"))

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(PATIENCE_S)
        os.close(self._ours)


def typed(command: str) -> str:
    """What a line of the screen answers in another terminal."""
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def archived(lake: Path) -> int:
    return sum(LakeTable.open(str(lake), "orders").row_counts().values())


def gone(group: int) -> bool:
    """Is nobody left of a process group: no server, no pipeline, no JVM?"""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.jvm
@pytest.mark.slow
def test_a_newcomer_publishes_consumes_and_asks_the_lake_and_ctrl_c_ends_it_all(tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("penstock"))
    listen = (
        "--native", "127.0.0.1:0", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off",
    )  # fmt: skip
    terminal = Terminal(program, "serve", "--data", str(tmp_path / "data"), "--archive", *listen)
    try:
        eventually(lambda: " demo" in terminal.screen)
        lines = [line.strip() for line in terminal.screen.splitlines()]
        produce, consume, ask, info = [line for line in lines if " --server " in line]

        assert typed(produce).startswith("orders:")
        assert "two books" in typed(consume)
        eventually(
            lambda: sum(LakeTable.open(str(tmp_path / "data/lake"), "orders").row_counts().values()) > 0
        )
        assert "two books" in typed(ask)
        assert "orders" in typed(info)
        maps = Path(f"/proc/{terminal.process.pid}/maps")
        assert not maps.exists() or "arrow" not in maps.read_text(), "a broker loads nothing of Spark"

        os.killpg(terminal.process.pid, signal.SIGINT)

        assert terminal.process.wait(PATIENCE_S) == 0
        eventually(lambda: gone(terminal.process.pid))  # The JVM ends itself when its driver has ended.
        assert "Traceback" not in terminal.screen
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--data", ":memory:"], "--archive needs a lake, and this server keeps nothing on disk"),
        (["--native", "off"], "--archive talks to the native listener; do not turn it off"),
    ],
)
def test_an_archive_that_cannot_be_is_told_before_the_server_starts(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["serve", "--archive", *flags])

    assert code == 2
    assert words in capsys.readouterr().err
