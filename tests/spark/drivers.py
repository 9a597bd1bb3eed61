"""Drivers of Spark in processes of their own, to be killed: they run the programs of ``driver.py``."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.server.process import Server, environment

PROGRAMS = Path(__file__).with_name("driver.py")
DRIVER_S = 270.0  # The longest that a driver may take: less than a test may.


class Driver:
    """One program, in a process of its own; ``variables`` are added to its environment."""

    def __init__(self, program: str, master: str, server: Server, folder: Path, **variables: str) -> None:
        self.log = folder / "driver.log"
        servers = f"127.0.0.1:{server.ports['native']}"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAMS), program, master, servers, str(folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment() | {"SPARK_LOCAL_IP": "127.0.0.1"} | variables,
                start_new_session=True,  # Its JVM goes with it.
            )

    def finish(self) -> str:
        """What it printed, when it has ended well."""
        try:
            output, _ = self.process.communicate(timeout=DRIVER_S)
        finally:
            self.kill()
        assert self.process.returncode == 0, self.log.read_text()[-5000:]
        return output

    def kill(self) -> None:
        """Driver and JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    @property
    def running(self) -> bool:
        """It has not ended by itself."""
        return self.process.poll() is None
