"""A pipeline in a process of its own beside a server, which starts it and ends it.

    serve is ready ──> starts ``penstock pipeline run archive``, and goes on at once
    serve shall end ──> the pipeline ends first, while there is a broker for its last batch; then the broker

A broker never loads PySpark, and what goes wrong there is not its end: the
pipeline says what it was, and the server goes on.

Both are in one process group, so Ctrl-C at a terminal reaches both, the second
one too.  A server that is killed takes the pipeline along where the system
can do that (Linux).
"""

import ctypes
import signal
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from typing import Final

from penstock.errors import ExtraMissing

STOP_S: Final = 30.0  # A batch in hand takes seconds; Spark's own end takes one.
PDEATHSIG: Final = 1  # prctl's name for "send me this signal when my parent dies".


class PipelineBeside:
    """One pipeline, for as long as a server runs."""

    def __init__(self, name: str) -> None:
        if find_spec("pyspark") is None:
            raise ExtraMissing(what="PySpark", extra="spark")
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, server: str) -> None:
        """Begin, and do not wait for it."""
        command = [sys.executable, "-m", "penstock", "pipeline", "run", self._name, "--server", server]
        # Looked up here: in the new process, before it is another program, as little as possible is done.
        prctl = getattr(ctypes.CDLL(None), "prctl", None)
        die_with_parent = None if prctl is None else partial(prctl, PDEATHSIG, signal.SIGTERM)
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def stop(self) -> None:
        """Ask it to end, and return when it has; one that does not end in time is ended."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
