"""Runs a pipeline in a child process of a server, restarts it when it fails, and stops it.

    server ready            starts ``penstock pipeline run archive`` without waiting for it
    pipeline failed         restarts it after half a minute; the delay grows with each failure
    server stopping         stops the pipeline first, while the broker can accept its last batch

The server never loads PySpark, and a failure of the pipeline does not affect it.  A pipeline that was stopped
(Ctrl-C, SIGTERM, ``penstock pipeline stop``), or whose command line is invalid, is not restarted.

Both processes are in one process group, so Ctrl-C on a terminal reaches both.  On Linux the pipeline is
killed with the server.
"""

import ctypes
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Final

from penstock.errors import ExtraMissing

logger = logging.getLogger(__name__)

# Tests set both.
STOP_S = 30.0  # The current batch takes seconds to finish; stopping Spark takes one.
PAUSE_S = 30.0  # Before a pipeline that has failed is started again; twice as long each time,
PAUSE_MAX_S: Final = 600.0  # up to this: Spark's start keeps a small machine busy for some seconds.
MEANT: Final = frozenset({0, 2, 130, -signal.SIGINT, -signal.SIGTERM})  # Ends that are not failures.
PDEATHSIG: Final = 1  # prctl's name for "send me this signal when my parent dies", which is a thread.


class PipelineBeside:
    """One pipeline, for as long as a server runs."""

    def __init__(self, name: str, **settings: str) -> None:
        if find_spec("pyspark") is None:
            raise ExtraMissing(what="PySpark", extra="spark")
        self._name = name
        self._settings = [f"--set={setting}={value}" for setting, value in settings.items()]
        self._keeper: threading.Thread | None = None
        self._lock = threading.Lock()  # Of the next two.
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def start(self, server: str) -> None:
        """Start it in the background."""
        command = [sys.executable, "-m", "penstock", "pipeline", "run", self._name, "--server", server]
        command += self._settings
        self._keeper = threading.Thread(target=self._keep, args=(command,), name="pipeline", daemon=True)
        self._keeper.start()

    def stop(self) -> None:
        """Stop it and wait for its end; kill it if that takes too long."""
        if self._keeper is None:
            return
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._keeper.join()

    def _keep(self, command: list[str]) -> None:
        """Run the pipeline and restart it when it fails; runs in its own thread."""
        pause_s = PAUSE_S
        while (failure := self._run(command)) and not self._stopping.is_set():
            logger.warning("the pipeline %s %s; it is restarted in %.0f s", self._name, failure, pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _run(self, command: list[str]) -> str:
        """Run it to its end; returns the failure, if any."""
        try:
            process = self._begin(command)
        except (OSError, subprocess.SubprocessError) as error:
            return f"cannot be started ({error})"
        code = 0 if process is None else process.wait()
        return "" if code in MEANT else f"ended with exit code {code}"

    def _begin(self, command: list[str]) -> "subprocess.Popen[bytes] | None":
        """Start a process, unless the server is stopping."""
        with self._lock:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent())
            return self._process


def die_with_parent() -> Callable[[], object] | None:
    """For a new process: end it when the thread that started it ends; None where the system cannot.

    Looked up here: in the new process, before it is another program, as little as possible is done.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return None if prctl is None else partial(prctl, PDEATHSIG, signal.SIGTERM)
