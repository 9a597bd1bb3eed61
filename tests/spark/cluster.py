"""A standalone cluster of Spark on loopback: a master and two workers, each a process of its own.

    with Cluster(tmp_path) as cluster:
        cluster.url                    spark://127.0.0.1:...
        cluster.variables              for the environment of a driver
        cluster.executors()            their pids, while an application runs
        cluster.python_workers()       those of the Python processes below them

The Python of the executors, which Spark also runs beside the driver, has PySpark, PyArrow,
deltalake and what these need.  It has neither Penstock nor what that needs: what is used
of these was shipped.  It is another installation of the driver's version, such as Debian's
Python where the tests run on pyenv's, if the machine has one.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from tests.server.process import environment, free_port

import penstock
from penstock.spark.runtime.java import java_home

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
WORKERS = 2
# A JVM that lives for minutes compiles more than it runs: it shall not try hard.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE_S = 200.0  # JVMs are slow to start on a machine that does much else.

# What every driver of the cluster finds as its spark-defaults.conf.
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.sql.shuffle.partitions": "2",
}
# All that the machines of a cluster need: PySpark, PyArrow and deltalake, and what these need themselves.
INSTALLED = [
    "pyspark",
    "py4j",
    "pyarrow",
    "deltalake",
    "arro3",
    "arro3_core",
    "deprecated",
    "wrapt",
    "typing_extensions",
]
# Without the sources that a developer's PYTHONPATH may name.
PYTHON = """\
#!/bin/sh
PYTHONPATH=$(echo "$PYTHONPATH" | sed 's#{sources}##g') exec {python} "$@"
"""


class Cluster:
    """Master and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"spark://127.0.0.1:{free_port()}"
        write_defaults(folder, SETTINGS)
        self.variables = {"PYSPARK_PYTHON": str(bare_python(folder)), "SPARK_CONF_DIR": str(folder)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def variables_with(self, environment: Mapping[str, str], folder: Path) -> dict[str, str]:
        """The same for a driver whose executors have more in their environment; needs a folder of its own."""
        more = {f"spark.executorEnv.{name}": value for name, value in environment.items()}
        write_defaults(folder, SETTINGS | more)
        return self.variables | dict(environment) | {"SPARK_CONF_DIR": str(folder)}

    def __enter__(self) -> Self:
        port = self.url.rpartition(":")[2]
        at = ("--host", "127.0.0.1", "--webui-port", "0")
        self._start("master.Master", *at, "--port", port)
        eventually(lambda: "I have been elected leader" in self.log("master.Master"), "a master")
        for number in range(WORKERS):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work-{number}"))
            self._start("worker.Worker", *at, *work, self.url)
        registered = "Successfully registered"
        eventually(lambda: self.log("worker.Worker").count(registered) == WORKERS, "two workers")
        return self

    def _start(self, name: str, *arguments: str) -> None:
        own = {
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "PYTHONPATH": "",
        }
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


def write_defaults(folder: Path, settings: Mapping[str, str]) -> None:
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(lines)


def eventually(
    condition: Callable[[], bool],
    what: str,
    *,
    within_s: float = PATIENCE_S,
    unless: Callable[[], str] = str,
) -> None:
    """Look again and again, until it is so; ``unless`` says why it will never be, when it knows."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert not (why := unless()), f"{what}: never, because {why}"
        assert time.monotonic() < deadline, f"{what}: not yet after {within_s:.0f} s"
        time.sleep(0.1)


def bare_python(folder: Path) -> Path:
    """A Python that does not have what is to be shipped."""
    bare = folder / "bare"
    made = [other_python() or sys.executable, "-m", "venv", "--without-pip", str(bare)]
    subprocess.run(made, check=True, timeout=PATIENCE_S)
    [packages] = bare.glob("lib/python*/site-packages")
    for path in Path(pyspark.__file__).parents[1].iterdir():
        if path.name.partition("-")[0].removesuffix(".py") in INSTALLED:
            (packages / path.name).symlink_to(path)
    python = folder / "python"
    sources = Path(penstock.__file__).parents[1]
    python.write_text(PYTHON.format(python=bare / "bin" / "python", sources=sources))
    python.chmod(0o755)
    return python


def other_python() -> str | None:
    """Another installation of this version of Python; Spark refuses other versions."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for folder in [*os.environ["PATH"].split(os.pathsep), "/usr/local/bin", "/usr/bin"]:
        found = shutil.which(name, path=folder)
        if found and base_prefix(found) not in (sys.base_prefix, ""):
            return found
    return None


def base_prefix(python: str | Path) -> str:
    """Where that Python is installed; empty if it cannot be run."""
    asked = [python, "-c", "import sys; print(sys.base_prefix)"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S).stdout.strip()


def below(roots: set[int]) -> list[int]:
    """All descendants of these processes."""
    found: list[int] = []
    while roots:
        roots = {pid for pid in processes() if parent(pid) in roots}
        found += sorted(roots)
    return found


def jvms_below(root: int) -> list[int]:
    """The JVMs among the descendants of a process."""
    return [pid for pid in below({root}) if command(pid).partition(" ")[0].endswith("/java")]


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
