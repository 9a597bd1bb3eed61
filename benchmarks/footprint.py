"""Memory of a broker with much to do, and the time to open a long log after kill -9.

Each is measured in a fresh process (``children.py``).  The limit of a memory
figure is the bare array of numbers that the same knowledge needs at least: a
start, an end and a deadline for each lease of 100; a due time and a number for
each scheduled message; offset, position and time for each 4 KB of log.  The
limit of opening is to read and check the one segment that may be torn, with the
page cache as warm as it is for the broker.
"""

import json
import signal
import subprocess
import time
from statistics import median

from benchmarks.durable import scratch
from benchmarks.machine import ROOT, python_command
from benchmarks.model import Benchmark, Round, Rounds, Target
from benchmarks.processes import Process, said_until_ready

MEGABYTE = 1_000_000
MESSAGE_BYTES = 114  # Of the log, in batches of 10: 100 of value, 8 of framing, its share of the header.
INDEX_BYTES = 4096  # Of the log for each entry of its index.
CHILD_SECONDS = 1800  # A child that takes longer hangs.


def _child(work: str, size: int, directory: str) -> dict[str, float]:
    """Run a piece of work to its end; its last line is the answer."""
    command = python_command("benchmarks.children", work, str(size), directory)
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=CHILD_SECONDS
    )
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _memory(work: str, size: int, bare_numbers: int) -> Rounds:
    while True:
        with scratch() as directory:
            measured = _child(work, size, f"{directory}/data")["bytes"]
            limit = _child("numbers", bare_numbers, directory)["bytes"]
        yield Round(measured=measured / MEGABYTE, limit=limit / MEGABYTE)


def backlog(size: int) -> Rounds:
    """``size`` messages on disk that a group has before it, written and read through once; MB of growth."""
    return _memory("backlog", size, 3 * size * MESSAGE_BYTES // INDEX_BYTES)


def in_flight(size: int) -> Rounds:
    """``size`` messages in leases of 100; MB of growth."""
    return _memory("in-flight", size, 3 * size // 100)


def scheduled(size: int) -> Rounds:
    """``size`` messages that wait for their time; MB of growth."""
    return _memory("scheduled", size, 2 * size)


def reopen(size: int) -> Rounds:
    """A log of ``size`` bytes whose writer is killed in the middle of writing; seconds to open."""
    with scratch() as directory:
        _write_and_kill(size, f"{directory}/data")
        while True:
            answer = _child("open-log", size, f"{directory}/data")
            yield Round(measured=answer["seconds"], limit=answer["limit_seconds"])


def _write_and_kill(size: int, directory: str) -> None:
    command = python_command("benchmarks.children", "write-log", str(size), directory)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            line = writer.stdout.readline()
        finally:
            writer.send_signal(signal.SIGKILL)
    assert line, "the writer ended before it had written enough; its error is above"


BENCHMARKS = [
    Benchmark(
        name="backlog-memory",
        what="10,000,000 messages on disk before a group, written by tens, read once: growth of memory",
        unit="MB",
        limit="bare index numbers",
        run=backlog,
        sizes={"tiny": 2000, "quick": 500_000, "full": 10_000_000},
        target=Target(value=50, direction="at most"),
        grows="messages of backlog",
    ),
    Benchmark(
        name="in-flight-memory",
        what="1,000,000 messages in flight in leases of 100: growth of memory",
        unit="MB",
        limit="three bare numbers a lease",
        run=in_flight,
        sizes={"tiny": 2000, "quick": 100_000, "full": 1_000_000},
        target=Target(value=10, direction="at most"),
        grows="messages in flight",
    ),
    Benchmark(
        name="scheduled-memory",
        what="1,000,000 scheduled messages over 30 days: growth of memory",
        unit="MB",
        limit="two bare numbers a message",
        run=scheduled,
        sizes={"tiny": 2000, "quick": 50_000, "full": 1_000_000},
        target=Target(value=50, direction="at most"),
        grows="messages scheduled",
    ),
    Benchmark(
        name="reopen",
        what="opening a log of 5 GB, its last 250 MB written one by one, after kill -9; page cache warm",
        unit="s",
        limit="read and check the last segment",
        run=reopen,
        sizes={"tiny": 1_000_000, "quick": 100_000_000, "full": 5_000_000_000},
        target=Target(value=3, direction="at most"),
        grows="bytes of log",
    ),
]


# What a server can serve: the cost of each is what it takes beside the native protocol alone.
PROTOCOLS = ("text", "status", "kafka", "http")
SETTLE_SECONDS = 1.0
SERVERS = 3  # Of each kind; the median counts.


def protocols() -> list[tuple[str, float, float]]:
    """What is on, and the memory and the time to start of an idle server, as (name, MB, ms)."""
    kinds: list[tuple[str, tuple[str, ...]]] = [("native", ("native",))]
    kinds += [(f"native + {name}", ("native", name)) for name in PROTOCOLS]
    kinds += [("all", ("native", *PROTOCOLS))]
    rows = []
    for name, listeners in kinds:
        memory, start = [], []
        for _ in range(SERVERS):
            settings = {
                f"PENSTOCK_LISTEN__{each.upper()}": "127.0.0.1:0" if each in listeners else "off"
                for each in ("native", *PROTOCOLS)
            }
            with scratch() as directory:
                command = ["-m", "penstock", "serve", "--data", f"{directory}/data"]
                with Process(command, settings) as server:
                    said_until_ready(server.line)
                    start.append((time.perf_counter() - server.started) * 1000)
                    time.sleep(SETTLE_SECONDS)
                    memory.append(server.resident_mb())
        rows.append((name, median(memory), median(start)))
    return rows


def protocols_table() -> str:
    """As Markdown: ``python -m benchmarks.footprint``."""
    rows = protocols()
    least = rows[0][1]
    lines = ["| on | memory | more than native alone | start |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {megabytes:.1f} MB | {megabytes - least:+.1f} MB | {ms:.0f} ms |"
        for name, megabytes, ms in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(protocols_table())
