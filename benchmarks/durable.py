"""Durable publishing (fsync), beside raw appends and fdatasync in the same directory.

The disk's speed drifts by the second, so broker and raw loop take turns in short
chunks, and a round is the median chunk of each.  The raw loop writes what the
broker writes, batch by batch: the same number of bytes, to a file that grows, with
one fdatasync each.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median

import penstock
from benchmarks.model import Benchmark, Round, Rounds, Target
from penstock.wire.records import encode_values

VALUE = b"x" * 100
BATCH = 1000
CHUNK_BATCHES = 10  # A turn of 10 syncs is 5 to 50 ms: shorter than the disk's moods.
CHUNK_SINGLES = 20
PUBLISHERS = 64

_sync_data = getattr(os, "fdatasync", os.fsync)


@contextmanager
def scratch() -> Iterator[str]:
    """A directory on a real disk that is gone afterwards, whatever happens.

    ``PENSTOCK_BENCH_DIRECTORY`` says where; /tmp may be memory.
    """
    directory = tempfile.mkdtemp(prefix="penstock-bench-", dir=os.environ.get("PENSTOCK_BENCH_DIRECTORY"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class RawFile:
    """The limit: a file that grows by whole writes, each made durable."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        self._size = 0

    def append(self, data: bytes) -> None:
        """Write and wait for the disk."""
        os.pwrite(self._descriptor, data, self._size)
        _sync_data(self._descriptor)
        self._size += len(data)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def sync_ms(path: str, rate: int, percent: int = 50) -> float:
    """A raw append and fdatasync, as often as messages come: back to back the disk is quicker."""
    raw = RawFile(path)
    times = []
    due = time.perf_counter()
    for _ in range(rate):
        due += 1 / rate
        time.sleep(max(due - time.perf_counter(), 0))
        started = time.perf_counter()
        raw.append(VALUE)
        times.append((time.perf_counter() - started) * 1000)
    raw.close()
    return sorted(times)[len(times) * percent // 100]


@contextmanager
def broker_and_raw() -> Iterator[tuple[penstock.Broker, RawFile]]:
    """Both in one directory."""
    with scratch() as directory:
        raw = RawFile(f"{directory}/raw")
        try:
            with penstock.open(f"{directory}/data") as broker:
                broker.create_topic("numbers")
                yield broker, raw
        finally:
            raw.close()


def batches(size: int) -> Rounds:
    """``size`` batches of 1,000 messages, in chunks that alternate with raw ones; MB/s of log."""
    data = bytes(encode_values([VALUE] * BATCH, time.time_ns() // 1_000_000))
    values = [VALUE] * BATCH
    chunk = min(CHUNK_BATCHES, size)
    megabytes = len(data) * chunk / 1e6
    while True:
        with broker_and_raw() as (broker, raw):
            measured: list[float] = []
            limit: list[float] = []
            for _ in range(max(size // chunk, 1)):
                started = time.perf_counter()
                for _ in range(chunk):
                    broker.publish_batch("numbers", values)
                measured.append(megabytes / (time.perf_counter() - started))
                started = time.perf_counter()
                for _ in range(chunk):
                    raw.append(data)
                limit.append(megabytes / (time.perf_counter() - started))
            written = broker.describe_topic("numbers").bytes
            assert written == len(data) * chunk * len(measured), "both sides write the same bytes"
        yield Round(measured=median(measured), limit=median(limit))


def singles(size: int) -> Rounds:
    """``size`` messages one by one, in chunks that alternate with raw ones; p50 in microseconds."""
    data = bytes(encode_values([VALUE], time.time_ns() // 1_000_000))
    while True:
        with broker_and_raw() as (broker, raw):
            measured: list[float] = []
            limit: list[float] = []
            for _ in range(max(size // CHUNK_SINGLES, 1)):
                for _ in range(CHUNK_SINGLES):
                    started = time.perf_counter()
                    broker.publish("numbers", VALUE)
                    measured.append(time.perf_counter() - started)
                for _ in range(CHUNK_SINGLES):
                    started = time.perf_counter()
                    raw.append(data)
                    limit.append(time.perf_counter() - started)
        yield Round(measured=median(measured) * 1e6, limit=median(limit) * 1e6)


def concurrent(size: int) -> Rounds:
    """64 async publishers, ``size`` messages in all, beside one alone; messages a second."""
    for number in count():
        with scratch() as directory:
            yield asyncio.run(_concurrent(f"{directory}/{number}", size))


async def _concurrent(directory: str, size: int) -> Round:
    each = max(size // PUBLISHERS, 1)
    async with penstock.aio.open(directory) as broker:
        await broker.create_topic("numbers")

        async def publish(messages: int) -> None:
            for _ in range(messages):
                await broker.publish("numbers", VALUE)

        alone: list[float] = []
        together: list[float] = []
        for _ in range(4):  # Turns, so that both see the same disk.
            started = time.perf_counter()
            await publish(each)
            alone.append(each / (time.perf_counter() - started))
            started = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(PUBLISHERS):
                    tasks.create_task(publish(each))
            together.append(each * PUBLISHERS / (time.perf_counter() - started))
    return Round(measured=median(together), limit=median(alone))


BENCHMARKS = [
    Benchmark(
        name="durable-batch",
        what="on disk, fsync: publish_batch of 1,000 values of 100 bytes",
        unit="MB/s",
        limit="raw append and fdatasync",
        run=batches,
        sizes={"tiny": 2, "quick": 60, "full": 400},
        target=Target(value=0.6, direction="at least", of="ratio"),
    ),
    Benchmark(
        name="durable-one",
        what="on disk, fsync: publish, one by one, p50",
        unit="us",
        limit="raw append and fdatasync, p50",
        run=singles,
        sizes={"tiny": 20, "quick": 100, "full": 1000},
        target=Target(value=1.5, direction="at most", of="ratio"),
    ),
    Benchmark(
        name="durable-64-publishers",
        what="on disk, fsync: 64 async publishers, one message at a time each",
        unit="msg/s",
        limit="one async publisher",
        run=concurrent,
        sizes={"tiny": 64, "quick": 64 * 20, "full": 64 * 100},
        target=Target(value=20, direction="at least", of="ratio"),
    ),
]
