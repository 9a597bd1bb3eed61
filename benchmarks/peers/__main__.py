"""The command: starts one system after the other, three times over, and compares.

Systems take turns within a round, so that a slow minute of the machine hits
all of them.  A run that others disturbed is repeated, twice at most; the least
disturbed counts, and what others used of the CPU stands beside its figures.  A
run of more than ten seconds (delays of ten seconds, a million messages) is made
once.  A round that would take it beyond 25 minutes is not begun.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.machine import Foreign, describe
from benchmarks.peers import clients, report
from benchmarks.peers.rows import Measured, Outcome
from benchmarks.peers.servers import NotStartedError, Started
from benchmarks.peers.systems import SYSTEMS, System
from benchmarks.peers.versions import versions
from benchmarks.peers.workloads import FULL, QUICK, TINY, WORKLOADS, Place, Sizes, Workload

ROUNDS = 3
REPEATS = 2  # Of a run that others disturbed; full sizes only.
FOREIGN_CORES_MAX = 0.25
LONG_S = 10.0
BUDGET_S = 45 * 60.0

Cell = tuple[Workload, int]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with --page write the page."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that what was started is ended.
    if options.render:
        report.write(report.load())
        return 0
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    systems = [each for each in SYSTEMS if _chosen(each.name, options.system)]
    workloads = [each for each in WORKLOADS if not options.only or each.name in options.only]
    started = time.monotonic()
    run = Run(systems, workloads, sizes, options.rounds or (1 if options.quick else ROUNDS))
    run.all()
    machine = describe() | {
        "sizes": "tiny" if options.tiny else "quick" if options.quick else "full",
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    outcome = Outcome(run.measured, run.notes, machine, versions())
    print(report.text(outcome))
    if options.page:
        report.write(outcome)
    return 1 if any(each.figures.lost for each in run.measured) else 0


def _chosen(name: str, beginnings: Sequence[str] | None) -> bool:
    return not beginnings or any(name.startswith(each) for each in beginnings)


class Run:
    """Everything that is measured in one go, and what went wrong."""

    def __init__(
        self, systems: Sequence[System], workloads: Sequence[Workload], sizes: Sizes, rounds: int
    ) -> None:
        self._systems, self._workloads, self._sizes, self._rounds = systems, workloads, sizes, rounds
        self.measured: list[Measured] = []
        self.notes = {each.name: f"not installed: {each.missing()}" for each in systems if each.missing()}
        self._done: set[tuple[System, Workload, int]] = set()  # Not again: too long, or it failed.

    def all(self) -> None:
        """Round by round, system by system."""
        clients.prepare([each.adapter for each in self._systems if each.name not in self.notes])
        started = time.monotonic()
        for number in range(self._rounds):
            again_s = sum(each.seconds for each in self.measured if each.seconds <= LONG_S) / max(number, 1)
            if number and time.monotonic() - started + again_s > BUDGET_S:
                self.notes["rounds"] = f"{number}, because another would have taken too long"
                return
            for system in self._systems:
                if system.name in self.notes:
                    continue
                try:
                    self._system(system, number)
                except NotStartedError as error:
                    self.notes[system.name] = str(error)

    def _system(self, system: System, number: int) -> None:
        cells = [(workload, size) for workload in self._workloads for size in workload.sizes]
        shared: Started | None = None
        with ExitStack() as stack:
            for workload, size in cells:
                if workload.refusal(system) or (system, workload, size) in self._done:
                    continue
                alone = workload.name == "W10" or not system.slow_start
                if not alone and shared is None:
                    shared = stack.enter_context(_fresh(system))
                try:
                    made = self._undisturbed(system, workload, size, None if alone else shared)
                except NotStartedError:
                    raise
                except (RuntimeError, AssertionError, OSError) as error:
                    self._failed(system, workload, size, error)
                    shared = None
                    continue
                self.measured.append(made)
                if made.seconds > LONG_S:
                    self._done.add((system, workload, size))
                print(f"{number + 1} {report.line(made)}", file=sys.stderr, flush=True)

    def _failed(self, system: System, workload: Workload, size: int, error: Exception) -> None:
        last = (str(error).strip() or repr(error)).splitlines()[-1]
        self.notes[f"{system.name} in {workload.name} with {size} B"] = f"failed: {last}"
        self._done.add((system, workload, size))
        print(f"{system.name} {workload.name} {size}: {last}", file=sys.stderr, flush=True)

    def _undisturbed(self, system: System, workload: Workload, size: int, shared: Started | None) -> Measured:
        runs: list[Measured] = []
        for _ in range(1 + (REPEATS if self._sizes is FULL else 0)):
            with ExitStack() as stack:
                server = shared or stack.enter_context(_fresh(system, filling=workload.name == "W10"))
                runs.append(_measure(system, workload, Place(system, server, self._sizes, size)))
            if runs[-1].foreign <= FOREIGN_CORES_MAX or runs[-1].seconds > LONG_S:
                break
        return min(runs, key=lambda run: run.foreign)


@contextmanager
def _fresh(system: System, *, filling: bool = False) -> Iterator[Started]:
    with (
        tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as directory,
        system.started(Path(directory), filling=filling) as server,
    ):
        yield server


def _measure(system: System, workload: Workload, place: Place) -> Measured:
    foreign, before = Foreign(), place.server.cpu_s()
    started = time.perf_counter()
    figures = workload.run(place)
    seconds = time.perf_counter() - started
    used = place.server.cpu_s() - before
    others = (foreign.cores() or 0.0) - (used + place.clients_cpu_s) / seconds
    return Measured(
        system=system, workload=workload, size=place.size, figures=figures, foreign=max(others, 0.0),
        seconds=seconds, server_cpu_s=used,
    )  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Penstock beside other brokers"
    )
    names = [each.name for each in WORKLOADS]
    made.add_argument("--only", action="append", choices=names, metavar="W", help="a workload; repeatable")
    made.add_argument("--system", action="append", metavar="NAME", help="systems that begin so; repeatable")
    made.add_argument("--quick", action="store_true", help="small sizes, once: does it run, roughly how fast")
    made.add_argument("--tiny", action="store_true", help="next to nothing, for the tests")
    made.add_argument("--rounds", type=int, default=0, help="measurements of each (default 3)")
    made.add_argument(
        "--page", action="store_true", help="write docs/benchmarks/peers.* and the summary beside it"
    )
    made.add_argument("--render", action="store_true", help="write them again from the JSON; measure nothing")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
