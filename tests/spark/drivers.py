"""Drivers of Spark in processes of their own, to be killed: they run the programs of ``driver.py``."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from tests.server.process import Server, environment
from tests.spark.cluster import eventually

PROGRAMS = Path(__file__).with_name("driver.py")
DRIVER_S = 250.0  # The longest that a driver may take: less than a test may.


class Driver:
    """One program, in a process of its own; ``variables`` are added to its environment."""

    def __init__(
        self,
        program: str,
        master: str,
        server: Server,
        folder: Path,
        variables: Mapping[str, str] = MappingProxyType({}),
        within_s: float = DRIVER_S,
    ) -> None:
        self._deadline = time.monotonic() + within_s
        self.log = folder / "driver.log"
        servers = f"127.0.0.1:{server.ports['native']}"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAMS), program, master, servers, str(folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment() | {"SPARK_LOCAL_IP": "127.0.0.1"} | dict(variables),
                start_new_session=True,  # Its JVM goes with it.
            )

    def finish(self) -> str:
        """What it printed, when it has ended well."""
        try:
            output, _ = self.process.communicate(timeout=self.left_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver is not done in time: {self.tail}") from None
        finally:
            self.kill()
        assert self.process.returncode == 0, self.tail
        return output

    def kill(self) -> None:
        """Driver and JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for what it does; it must go on meanwhile."""
        eventually(condition, what, within_s=self.left_s, unless=self._ended)

    @property
    def left_s(self) -> float:
        """How much of its time is left."""
        return max(self._deadline - time.monotonic(), 0.0)

    @property
    def is_done(self) -> bool:
        """Whether it has ended well."""
        return self.process.poll() == 0

    def _ended(self) -> str:
        return "" if self.process.poll() is None else f"the driver has ended: {self.tail}"

    @property
    def tail(self) -> str:
        """The last that it has said of itself."""
        return self.log.read_text()[-5000:]
