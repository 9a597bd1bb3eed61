"""An archiver in a process of its own, to be killed: the pipeline as it is, but with threads for Spark.

    python archive_process.py SERVERS LAKE TOPIC [once]

Starting a JVM takes longer than a kill needs, and what is to be proved is between
the archiver, the broker and the table.  Batches are tiny and files are joined
after every pass, so that wherever a kill comes there is something to break.
"""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import penstock
from penstock.client.sync import RemoteBroker
from penstock.clock import SystemClock
from penstock.errors import ServerUnreachable
from penstock.spark.lake import archiving, compaction
from penstock.spark.pipelines import archive, maintenance
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.run.progress import RunProgress
from penstock.spark.pipelines.run.settings import RunSettings

RANGE_BYTES = 20_000


class WithoutSpark(Context):
    """A context whose tasks run in this process."""

    @property
    def spark(self) -> Any:
        return None


def run_tasks(_spark: Any, work: Any, tasks: Any) -> list[Any]:
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(work, tasks))


def connected(servers: str) -> RemoteBroker:
    """A broker, which may be down just now."""
    for _ in range(9):
        with suppress(ServerUnreachable):
            return penstock.connect(servers)
        threading.Event().wait(1)
    return penstock.connect(servers)


@contextmanager
def changed(run_tasks: Any) -> Iterator[None]:
    """Tiny pieces, until the end of the block: a test may run it in its own process."""
    changes: list[tuple[Any, str, Any]] = [
        (archive, "run_tasks", run_tasks),
        (maintenance, "run_tasks", run_tasks),
        (maintenance, "JOIN_MS", 0),
        (compaction, "FILES_MIN", 3),
        (archiving, "RANGE_BYTES", RANGE_BYTES),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def run(servers: str, lake: str, topic: str, *, once: bool, run_tasks: Any = run_tasks) -> None:
    settings = archive.Settings(topic=[topic], interval_ms=1, batch_bytes=4 * RANGE_BYTES)
    clock = SystemClock()
    with connected(servers) as broker, changed(run_tasks):
        told = RunSettings(name="archive", lake=lake)
        archive.run(settings, WithoutSpark(told, broker, servers, clock, RunProgress(clock), once=once))


if __name__ == "__main__":
    run(*sys.argv[1:4], once=sys.argv[4:] == ["once"])
