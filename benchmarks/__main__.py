"""Measures core, server and pipeline beside their limits; says what was promised and whether it holds.

    make bench                                   everything, compiled, about twenty minutes
    python -m benchmarks --quick                 small sizes: does it run, roughly how fast
    python -m benchmarks --only publish-batch    just that one (again for more)
    python -m benchmarks --growth                each at a size and at ten times that size
    python -m benchmarks --page                  also write the pages in docs/benchmarks; what was not
                                                 measured this time comes from the last time
    python -m benchmarks --list                  the names

Speed is never asserted in a test: a shared machine has no speed.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from benchmarks import durable, footprint, grpc, hot_modules, http, in_memory, kafka, report, server, spark
from benchmarks.machine import Foreign, describe
from benchmarks.model import (
    REPEATS,
    ROUNDS,
    STOLEN_CORES_MAX,
    Benchmark,
    Result,
    Round,
    SizeName,
    number,
)

# By the page they are told on, in docs/benchmarks.
PAGES: dict[str, list[Benchmark]] = {
    "core": [
        *in_memory.BENCHMARKS,
        *durable.BENCHMARKS,
        *hot_modules.BENCHMARKS,
        *footprint.BENCHMARKS,
    ],
    "server": server.BENCHMARKS,
    "http": http.BENCHMARKS,
    "kafka": kafka.BENCHMARKS,
    "grpc": grpc.BENCHMARKS,
    "spark": spark.BENCHMARKS,
}
BENCHMARKS = [benchmark for benchmarks in PAGES.values() for benchmark in benchmarks]


def main(arguments: Sequence[str]) -> int:
    """The command."""
    options = parser().parse_args(arguments)
    chosen = [benchmark for benchmark in BENCHMARKS if not options.only or benchmark.name in options.only]
    if options.list:
        print("\n".join(f"{benchmark.name:24}{benchmark.what}" for benchmark in chosen))
        return 0
    for name, value in describe().items():
        print(f"{name:12}{value}")
    size: SizeName = "tiny" if options.tiny else "quick" if options.quick else "full"
    if options.growth:
        print(report.text_table(growth(chosen, size)))
        return 0
    results = []
    for benchmark in chosen:
        print(f"... {benchmark.name}: {benchmark.what}", file=sys.stderr, flush=True)
        repeats = REPEATS if size == "full" else 0
        results.append(measure(benchmark, benchmark.sizes[size], options.rounds, repeats))
        report.save(results[-1])
    print(report.table(results))
    if options.page:
        for name, benchmarks in PAGES.items():
            if any(benchmark in chosen for benchmark in benchmarks):
                loaded = [report.load(benchmark, benchmark.sizes[size]) for benchmark in benchmarks]
                report.write_page(name, [result for result in loaded if result is not None], size)
    return 0


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    names = [benchmark.name for benchmark in BENCHMARKS]
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description="speed and memory of core, server and pipeline"
    )
    made.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help="one of --list; repeatable"
    )
    made.add_argument("--quick", action="store_true", help="small sizes, for a smoke run")
    made.add_argument("--tiny", action="store_true", help="no sizes to speak of; numbers mean nothing")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each (default 3)")
    made.add_argument("--growth", action="store_true", help="what grows with ten times the work")
    made.add_argument("--page", action="store_true", help="write the pages in docs/benchmarks and their JSON")
    made.add_argument("--list", action="store_true", help="names and what they measure")
    return made


def measure(benchmark: Benchmark, size: int, rounds: int = ROUNDS, repeats: int = 0) -> Result:
    """Run a benchmark; rounds that were disturbed so often again, and those that were least are kept."""
    measured: list[Round] = []
    with closing(benchmark.run(size)) as running:  # Its scratch directory goes with it.
        while len(measured) < rounds * (1 + repeats):
            foreign = Foreign()
            each = next(running)
            measured.append(replace(each, foreign=foreign.cores(), stolen=foreign.stolen()))
            if sum(each.stolen <= STOLEN_CORES_MAX for each in measured) >= rounds:
                break
    measured.sort(key=lambda each: each.stolen)
    return Result(benchmark=benchmark, size=size, rounds=measured[:rounds], dropped=measured[rounds:])


def growth(chosen: Sequence[Benchmark], size: SizeName) -> list[list[str]]:
    """What ten times the work does to each: a rate or a time a message should not change at all."""
    rows = [["name", "ten times the", "at", "measured", "at", "measured", "factor"]]
    for benchmark in chosen:
        if benchmark.grows:
            print(f"... {benchmark.name}", file=sys.stderr, flush=True)
            small = measure(benchmark, max(benchmark.sizes[size] // 10, 1))
            large = measure(benchmark, small.size * 10)
            rows.append(
                [
                    benchmark.name,
                    benchmark.grows,
                    number(small.size),
                    f"{number(small.measured)} {benchmark.unit}",
                    number(large.size),
                    f"{number(large.measured)} {benchmark.unit}",
                    f"{large.measured / small.measured:.2f}" if small.measured else "-",
                ]
            )
    return rows


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that scratch directories go away then too.
    sys.exit(main(sys.argv[1:]))
