"""What the machine is and what else it did meanwhile; Linux, with blanks elsewhere.

``Foreign`` answers how many cores other processes used between two points: the
busy time of all cores (/proc/stat) without that of this process and of the
children it has waited for.  Time stolen by the hypervisor counts as foreign,
and is told by itself, too: it is nobody's on this machine.
"""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from penstock.version import version_line

ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
_STAT = Path("/proc/stat")


class Foreign:
    """Counts the CPU time of others from its making on."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._busy, self._stolen = _busy_and_stolen_seconds()
        self._own = _own_seconds()

    def stolen(self) -> float:
        """How many cores the hypervisor gave to other machines while this one wanted them; 0 if unknown."""
        _, stolen = _busy_and_stolen_seconds()
        return (stolen - self._stolen) / max(time.perf_counter() - self._started, 1e-9)

    def cores(self) -> float | None:
        """How many cores others used on the average since then."""
        busy, _ = _busy_and_stolen_seconds()
        elapsed = time.perf_counter() - self._started
        if busy is None or self._busy is None or elapsed <= 0:
            return None
        return max((busy - self._busy - (_own_seconds() - self._own)) / elapsed, 0.0)


def _busy_and_stolen_seconds() -> tuple[float | None, float]:
    if not _STAT.exists():
        return None, 0.0
    user, nice, system, _idle, _wait, irq, soft_irq, steal = map(int, _STAT.read_text().split()[1:9])
    return (user + nice + system + irq + soft_irq + steal) / TICKS, steal / TICKS


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def cpu_seconds(pid: int) -> float:
    """What a process used so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid: int | Literal["self"] = "self") -> int:
    """The memory of a process that is in RAM now; 0 where nobody tells."""
    told = Path(f"/proc/{pid}/statm")
    return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if told.exists() else 0


def describe() -> dict[str, Any]:
    """What a reader must know of the machine to compare numbers; no names of hosts or paths."""
    return {
        "penstock": version_line(),
        "commit": _commit(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "optimised": not __debug__,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _commit() -> str:
    """Of the sources, with a plus if they were changed since; empty without git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours in a process of its own, as this one runs."""
    flags = ["-O"] if not __debug__ else []
    return [sys.executable, *flags, "-m", module, *arguments]
