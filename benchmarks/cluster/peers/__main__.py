"""The command: each system in turn, round by round, each time with new nodes."""

import argparse
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.cluster.peers import report
from benchmarks.cluster.peers.clusters import CANDIDATES, Candidate
from benchmarks.cluster.peers.work import FULL, QUICK, RUNS, TINY, Figures, Sizes
from benchmarks.machine import describe
from benchmarks.peers import clients

ROUNDS = 3
BUDGET_S = 11.5 * 60  # A round that would take it beyond that is not begun.


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that what was started is ended.
    logging.disable(logging.WARNING)  # What clients say when their node is killed.
    if options.render:
        report.write(report.load())
        return 0
    candidates = [
        each for each in CANDIDATES if not options.system or any(map(each.name.startswith, options.system))
    ]
    sizes = TINY if options.tiny else QUICK if options.quick else FULL
    machine = describe() | {"sizes": "tiny" if options.tiny else "quick" if options.quick else "full"}
    started = time.monotonic()
    figures, notes = measure(candidates, sizes, options.rounds or (ROUNDS if sizes is FULL else 1))
    machine["minutes"] = round((time.monotonic() - started) / 60, 1)
    outcome = report.Outcome(figures, notes, machine, report.versions())
    print(report.text(outcome))
    if options.page:
        report.write(outcome)
    return 1 if any(each.lost for each in figures) else 0


def measure(
    candidates: Sequence[Candidate], sizes: Sizes, rounds: int
) -> tuple[list[Figures], dict[str, str]]:
    """All of them in each round; and what was left out or failed, and why."""
    figures: list[Figures] = []
    notes = {each.name: f"not installed: {each.missing()}" for each in candidates if each.missing()}
    present = [each for each in candidates if each.name not in notes]
    clients.prepare(
        [each.adapter for each in present] + [each.one_by_one for each in present if each.one_by_one]
    )
    started = time.monotonic()
    for number in range(rounds):
        passed = time.monotonic() - started
        if number and passed + passed / number > BUDGET_S:
            notes["rounds"] = f"{number}, because another would have taken too long"
            break
        for candidate in present:
            try:
                for each in one_round(candidate, sizes):
                    figures.append(each)
                    print(f"{number + 1} {report.line(each)}", file=sys.stderr, flush=True)
            except Exception as error:  # noqa: BLE001 - the others go on, and the page says it.
                last = (str(error).strip() or repr(error)).splitlines()[-1]
                notes[f"{candidate.name}, round {number + 1}"] = f"failed: {last}"
                print(f"{number + 1} {candidate.name} failed: {error}", file=sys.stderr, flush=True)
    return figures, notes


def one_round(candidate: Candidate, sizes: Sizes) -> Iterator[Figures]:
    """Everything, on three new nodes."""
    with (
        tempfile.TemporaryDirectory(prefix="cluster-peers-", ignore_cleanup_errors=True) as directory,
        candidate.start(Path(directory)) as cluster,
    ):
        for run in RUNS.values():
            yield from run(candidate, cluster, sizes)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster.peers", description="three nodes of Penstock beside other brokers"
    )
    made.add_argument("--system", action="append", metavar="NAME", help="systems that begin so; repeatable")
    made.add_argument("--quick", action="store_true", help="small sizes, once: does it run, roughly how fast")
    made.add_argument("--tiny", action="store_true", help="next to nothing, for the tests")
    made.add_argument("--rounds", type=int, default=0, help="measurements of each (default 3)")
    made.add_argument("--page", action="store_true", help="write docs/benchmarks/cluster.*")
    made.add_argument("--render", action="store_true", help="write them again from the JSON; measure nothing")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
