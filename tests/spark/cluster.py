"""A standalone cluster of Spark on loopback: a master and two workers, each a process of its own.

    with Cluster(tmp_path) as cluster:
        cluster.url                    spark://127.0.0.1:...
        cluster.python                 what drivers and executors are to run as PYSPARK_PYTHON
        cluster.executors()            their pids, while an application runs
        cluster.python_workers()       those of the Python processes below them

The executors' Python has PySpark and PyArrow and whatever else there is, but
not Penstock and what it is compiled against: what they use of these was
shipped to them.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from tests.server.process import environment, free_port

from penstock.spark.java import java_home
from penstock.spark.shipping import DEPENDENCIES, PACKAGES

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
WORKERS = 2
PATIENCE_S = 200.0  # JVMs are slow to start on a machine that does much else.

# Which of the two it is, executors know by their environment (``Cluster.settings``).
PYTHON = """\
#!/bin/sh
if [ "$BARE" ]; then
    PYTHONPATH="$PYTHONPATH:{packages}" exec {python} -S "$@"
fi
exec {python} "$@"
"""


class Cluster:
    """Master and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"spark://127.0.0.1:{free_port()}"
        self.settings = {"spark.executorEnv.BARE": "yes", "spark.executor.memory": "512m"}
        self.python = str(bare_python(folder))
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2]
        at = ("--host", "127.0.0.1", "--webui-port", "0")
        self._start("master.Master", *at, "--port", port)
        eventually(lambda: "I have been elected leader" in self.log("master.Master"))
        for number in range(WORKERS):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work-{number}"))
            self._start("worker.Worker", *at, *work, self.url)
        eventually(lambda: self.log("worker.Worker").count("Successfully registered") == WORKERS)
        return self

    def _start(self, name: str, *arguments: str) -> None:
        own = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [SPARK_CLASS, f"org.apache.spark.deploy.{name}", *arguments],
                    stdout=log,
                    stderr=log,
                    env=environment() | own,
                    cwd=self.folder,
                    start_new_session=True,  # So that executors end with it, whatever happens.
                )
            )

    def log(self, name: str) -> str:
        """What the processes of that name have written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def executors(self) -> list[int]:
        """The JVMs that run tasks."""
        workers = {process.pid for process in self._processes[1:]}
        return [pid for pid in below(workers) if "CoarseGrainedExecutorBackend" in command(pid)]

    def python_workers(self) -> list[int]:
        """The Python processes that tasks run in, without the daemon that they come from."""
        python = [pid for pid in below(set(self.executors())) if "pyspark" in command(pid)]
        daemons = {parent(pid) for pid in python}
        return [pid for pid in python if pid not in daemons]


def eventually(condition: Callable[[], bool]) -> None:
    """Look again and again, until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.05)


def bare_python(folder: Path) -> Path:
    """A Python that, on executors, does not have what is to be shipped."""
    here = Path(pyspark.__file__).parents[1]
    packages = folder / "packages"
    packages.mkdir()
    for path in here.iterdir():
        if path.suffix != ".pth" and path.name.partition("-")[0] not in (*PACKAGES, *DEPENDENCIES):
            (packages / path.name).symlink_to(path)
    python = folder / "python"
    python.write_text(PYTHON.format(packages=packages, python=sys.executable))
    python.chmod(0o755)
    return python


def below(roots: set[int]) -> list[int]:
    """All descendants of these processes."""
    found: list[int] = []
    while roots:
        roots = {pid for pid in processes() if parent(pid) in roots}
        found += sorted(roots)
    return found


def processes() -> list[int]:
    """All there are."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def parent(pid: int) -> int:
    """The process that a process came from; -1 if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return int(stat.rpartition(")")[2].split()[1])


def command(pid: int) -> str:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
