"""The command: starts one system after the other, three times over, and compares.

Systems take turns within a round, so that a slow minute of the machine hits
all of them.  A run that others disturbed is repeated, twice at most, and what
others used of the CPU stands beside its figures.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import Foreign, describe
from benchmarks.peers import report
from benchmarks.peers.report import Measured
from benchmarks.peers.systems import SYSTEMS, Started, System
from benchmarks.peers.workloads import FULL, QUICK, WORKLOADS, Place, Sizes, Workload

ROUNDS = 3
FOREIGN_CORES_MAX = 0.5


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and with --page write the page."""
    options = parser().parse_args(arguments)
    sizes = QUICK if options.quick else FULL
    systems = [each for each in SYSTEMS if _chosen(each.name, options.system)]
    workloads = [each for each in WORKLOADS if not options.only or each.name in options.only]
    notes = {each.name: f"left out: {each.missing()} not installed" for each in systems if each.missing()}
    measured: list[Measured] = []
    for number in range(options.rounds):
        for system in systems:
            if system.name not in notes:
                try:
                    for each in round_of(system, workloads, sizes):
                        measured.append(each)
                        print(f"{number + 1} {report.line(each)}", file=sys.stderr, flush=True)
                except (RuntimeError, AssertionError, OSError) as error:
                    notes[system.name] = f"failed: {str(error).strip().splitlines()[-1]}"
    print(report.table(measured))
    for name, note in notes.items():
        print(f"{name}: {note}")
    if options.page:
        report.write(measured, notes, describe())
    return 0


def _chosen(name: str, beginnings: Sequence[str] | None) -> bool:
    return not beginnings or any(name.startswith(each) for each in beginnings)


def round_of(system: System, workloads: Sequence[Workload], sizes: Sizes) -> Iterator[Measured]:
    """Every workload that is for this system, once; each on a server of its own."""
    for workload in workloads:
        if system.promise in workload.promises and workload.needs <= system.can:
            for size in workload.sizes:
                yield _undisturbed(system, workload, sizes, size)


def _undisturbed(system: System, workload: Workload, sizes: Sizes, size: int) -> Measured:
    for _ in range(1 + sizes.repeats):
        with (
            tempfile.TemporaryDirectory(prefix="peers-") as directory,
            system.started(Path(directory)) as server,
        ):
            made = _measure(system, workload, Place(system, server, sizes, size), server)
        if made.foreign <= FOREIGN_CORES_MAX:
            break
    return made


def _measure(system: System, workload: Workload, place: Place, server: Started) -> Measured:
    foreign, before = Foreign(), server.cpu_s()
    started = time.perf_counter()
    figures = workload.run(place)
    seconds = time.perf_counter() - started
    others = (foreign.cores() or 0.0) - (server.cpu_s() - before) / seconds
    return Measured(
        system=system, workload=workload, size=place.size, figures=figures, foreign=max(others, 0.0)
    )


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Penstock beside other brokers"
    )
    names = [each.name for each in WORKLOADS]
    made.add_argument("--only", action="append", choices=names, metavar="W", help="a workload; repeatable")
    made.add_argument("--system", action="append", metavar="NAME", help="systems that begin so; repeatable")
    made.add_argument("--quick", action="store_true", help="small sizes, for a smoke run")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each (default 3)")
    made.add_argument(
        "--page", action="store_true", help="write docs/benchmarks/peers.md, its plots and JSON"
    )
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
