"""``penstock worker --reload``: the worker in a child process, restarted when a source file changes.

A look at the files every half second, by their times and sizes: a project has
hundreds, which takes a millisecond or two, and needs no library.  A change ends the
child as SIGTERM does, so running functions finish first.  A child that ends by
itself (a syntax error, a refusal) is started again by the next change.
"""

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

LOOK_S: Final = 0.5
KILL_AFTER_S: Final = 60  # Twice the time that an app gives its functions, if it says nothing else.
# Folders that are not the project's own, or that change without a person.
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})

logger = logging.getLogger("penstock.workers")

Times = dict[str, tuple[int, int]]


def source_times(folder: str) -> Times:
    """The time and size of each source file below a folder."""
    times: Times = {}
    for path in _sources(Path(folder)):
        try:
            status = path.stat()
        except OSError:  # It went while we looked.
            continue
        times[str(path)] = (status.st_mtime_ns, status.st_size)
    return times


def _sources(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for path in entries:
        if path.name.startswith(".") or path.name in SKIPPED:
            continue
        if path.suffix == ".py":
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _sources(path)


def changed_file(before: Times, after: Times) -> str | None:
    """A file that is new, gone or different; None if there is none."""
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            return path
    return None


class Reloader:
    """Runs a command, again and again."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._command = list(command)
        self._folder = folder
        self._ended = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Until SIGTERM or SIGINT; returns the last child's exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._heard)
        while True:
            times = source_times(self._folder)
            self._child = subprocess.Popen(self._command)
            path = self._wait_for_change(times)
            code = self._stop_child()
            if path is None:
                return code
            logger.info("%s has changed; starting again", os.path.relpath(path, self._folder))

    def _wait_for_change(self, times: Times) -> str | None:
        """The file that changed; None if the end was asked for."""
        assert self._child is not None
        reported = False
        while not self._ended.wait(LOOK_S):
            path = changed_file(times, source_times(self._folder))
            if path is not None:
                return path
            if not reported and self._child.poll() is not None:
                reported = True
                logger.warning("the worker has ended; it starts again when a file changes")
        return None

    def _stop_child(self) -> int:
        assert self._child is not None
        if self._child.poll() is None:
            self._child.terminate()
        try:
            return self._child.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if self._ended.is_set() and number == signal.SIGINT and self._child is not None:
            self._child.kill()  # The second Ctrl-C.
        self._ended.set()
