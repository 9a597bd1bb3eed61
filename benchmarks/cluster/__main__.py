"""Prints the table of docs/benchmarks/cluster.md.

    python -m benchmarks.cluster                         on a directory
    python -m benchmarks.cluster --postgresql            on a new PostgreSQL, without a standby
    python -m benchmarks.cluster --store URL             on another store, in a place that may be filled
    python -m benchmarks.cluster --megabytes 1000        with so much lost cache (default 250)

Each figure stands beside what the store alone takes in the same run: the same bytes in the same objects,
created one after the other by one thread.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.cluster import work
from benchmarks.cluster.nodes import nodes
from benchmarks.durable import scratch
from benchmarks.machine import describe

PARTITIONS = 300
SECONDS = 5.0
SIZES = (1024, 32 * 1024)
FAILOVERS = 3


def row(what: str, measured: str, beside: str, wanted: str) -> None:
    print(f"| {what} | {measured} | {beside} | {wanted} |", flush=True)


def say(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def publishing(folder: Path, places: Iterator[str], _: int) -> None:
    """One node: what a publish costs beside a write to the store."""
    url = next(places)
    store = work.opened(url)
    with nodes(folder, url, 1) as [node]:
        single = work.p50_ms(work.single_publishes(node.url, SIZES[0]))
        raw = work.p50_ms(work.store_writes(store, "raw-single", [SIZES[0]] * work.SINGLE_COUNT))
        beyond = f"+{single - raw:.2f} ms (+0.6 ms wanted)"
        row("one client, 1 KiB, p50", f"{single:.2f} ms", f"{raw:.2f} ms", beyond)
        for size in SIZES:
            before = set(store.list(""))
            rate = asyncio.run(work.many_publishes(node.url, size, SECONDS))
            written = [name for name in store.list("") if "/wal/" in f"/{name}" and name not in before]
            sizes = [len(store.get(name) or b"") for name in written]
            taken = work.store_writes(store, f"raw-{size}", sizes)
            limit = sum(sizes) / sum(taken)
            row(
                f"{work.CLIENTS} clients, {size // 1024} KiB",
                f"{rate:,.0f} msg/s, {rate * size / 1e6:.1f} MB/s",
                f"{limit / 1e6:.1f} MB/s in {len(sizes)} objects of {sum(sizes) // len(sizes) // 1024} KiB",
                f"{rate * size / limit:.0%} (60 % wanted)",
            )


def failover(folder: Path, places: Iterator[str], _: int) -> None:
    paused = [work.failover(folder.with_suffix(f".{n}"), next(places)) for n in range(FAILOVERS)]
    measured = f"{max(paused):.2f} s"
    row(f"longest pause after kill -9, worst of {FAILOVERS}", measured, "", "3 s wanted")


def drain(folder: Path, places: Iterator[str], _: int) -> None:
    ended, served = work.drain(folder, next(places), PARTITIONS)
    beside = f"the process ended after {ended:.2f} s"
    row(f"stop a node of two with {PARTITIONS} partitions", f"{served:.2f} s", beside, "1 s wanted")


def takeover(folder: Path, places: Iterator[str], megabytes: int) -> None:
    size = megabytes * 1_000_000
    seconds, read, reading = work.takeover(folder, next(places), PARTITIONS, size, say)
    beside = f"{read / 1e6:.1f} MB fetched; then an old message of each in {reading:.1f} s"
    row(f"take over {PARTITIONS} partitions, {megabytes} MB of lost cache", f"{seconds:.2f} s", beside, "")


def idle(folder: Path, places: Iterator[str], _: int) -> None:
    rate = work.idle(folder, next(places))
    row("three idle nodes", f"{rate:.2f} requests/s for each", "", "1 wanted")


WORK = {"publishing": publishing, "failover": failover, "drain": drain, "takeover": takeover, "idle": idle}


def main() -> None:
    ask = argparse.ArgumentParser(prog="python -m benchmarks.cluster")
    ask.add_argument("--store", help="URL of a store")
    ask.add_argument("--postgresql", action="store_true")
    ask.add_argument("--megabytes", type=int, default=250)
    ask.add_argument("--only", choices=WORK, action="append", help="one of the measurements; repeatable")
    options = ask.parse_args()
    for name, value in describe().items():
        print(f"{name:12}{value}")
    print("\n| what | measured | the store alone | result |\n|---|---|---|---|")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch()))
        places = stack.enter_context(stores(options, folder))
        for name in options.only or WORK:
            say(name)
            WORK[name](folder / name, places, options.megabytes)


@contextmanager
def stores(options: argparse.Namespace, folder: Path) -> Iterator[Iterator[str]]:
    """URLs of new, empty places."""
    if options.store:
        yield (f"{options.store}/{number}" for number in range(100))
    elif options.postgresql:
        from tests.store.stores import postgresql

        def places() -> Iterator[str]:
            while True:
                with postgresql() as url:
                    yield f"{url}?synchronous=off"

        yield places()
    else:
        yield (f"file://{folder}/store-{number}" for number in range(100))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that the nodes end then, too.
    main()
