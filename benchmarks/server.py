"""A server and its clients, in processes of their own, beside the raw loop on the same bytes.

Each round starts its server and ends it, on a directory of its own: what it
used of the CPU counts as ours, and no round sees the files of another.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Literal

import penstock
import penstock.aio
from benchmarks import typed_values
from benchmarks.durable import scratch, sync_ms
from benchmarks.machine import TICKS
from benchmarks.model import Benchmark, Round, Rounds, Target
from benchmarks.processes import ClientProcess, RawClient, ServerProcess, raw_loop
from penstock.aio import AsyncBroker
from penstock.model.schemas import SchemaType, value_subject
from penstock.wire.records import encode_values

VALUE = b"x" * 100
BATCH = 1000
RECEIVE = 500
PUBLISHERS = 64
PIPELINED = 4  # Batches under way at once.
TURNS = 4  # Server and raw loop take turns, so that both see the same disk.
RATE = 1000  # Messages a second while latency is measured.
PROCESSES = 2
GROUPS = 10
TOPIC = "numbers"

Durability = Literal["fsync", "os", "memory"]
Start = Literal["from_call", "from_intended"]  # Of publish; when it should have been called.


@contextmanager
def server_and_raw(durability: Durability) -> Iterator[tuple[ServerProcess, RawClient]]:
    """Both on one disk; the server has an empty topic of one partition."""
    with scratch() as directory, ServerProcess(f"{directory}/data") as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic(TOPIC, partitions=1, durability=durability)
        with raw_loop(directory) as raw:
            yield server, raw


def _rate(count: int, started: float) -> float:
    return count / (time.perf_counter() - started)


async def _publish_batches(
    broker: AsyncBroker, each: int, topic: str = TOPIC, values: Sequence[bytes] = (VALUE,) * BATCH
) -> float:
    """Several tasks, each of which publishes batch after batch; messages a second."""

    async def publish() -> None:
        for _ in range(each):
            await broker.publish_batch(topic, values)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(PIPELINED):
            tasks.create_task(publish())
    return _rate(each * PIPELINED * BATCH, started)


def durable_batches(size: int) -> Rounds:
    """``size`` batches of 1,000, several under way, each durable when it is answered; messages a second."""
    data = bytes(encode_values([VALUE] * BATCH, 0))
    each = max(size // TURNS // PIPELINED, 1)

    async def turns(url: str, raw: RawClient) -> tuple[float, float]:
        measured, limit = [], []
        async with penstock.aio.connect(url) as broker:
            for _ in range(TURNS):
                measured.append(await _publish_batches(broker, each))
                started = time.perf_counter()
                for _ in range(each):
                    raw.append(data, PIPELINED)
                limit.append(_rate(each * PIPELINED * BATCH, started))
        return median(measured), median(limit)

    while True:
        with server_and_raw("fsync") as (server, raw):
            before = server.cpu_seconds()
            measured, limit = asyncio.run(turns(server.url, raw))
            cpu = server.cpu_seconds() - before
        yield Round(
            measured=measured, limit=limit, cpu=TURNS * each * PIPELINED * BATCH / max(cpu, 1 / TICKS)
        )


def typed_batches(kind: SchemaType, size: int) -> Rounds:
    """``size`` batches of 1,000 values that are validated, several under way; beside the same without."""
    with scratch() as directory, ServerProcess(f"{directory}/data") as server:
        with penstock.connect(server.url) as broker:
            info = broker.register_schema(value_subject(TOPIC), typed_values.schema_of(kind))
            broker.create_topic(TOPIC, partitions=1, durability="os", validation="reject")
            broker.create_topic("unchecked", partitions=1, durability="os")
        value = typed_values.serializer(kind, info.id)
        values = [value(number) for number in range(BATCH)]

        async def rate(topic: str) -> float:
            async with penstock.aio.connect(server.url) as broker:
                return await _publish_batches(broker, max(size // PIPELINED, 1), topic, values)

        asyncio.run(rate(TOPIC))  # Loads what validates.
        while True:
            yield Round(measured=asyncio.run(rate(TOPIC)), limit=asyncio.run(rate("unchecked")))


def durable_publishers(size: int) -> Rounds:
    """64 publishers, each waits for its durable answer; ``size`` messages in all; messages a second."""
    data = bytes(encode_values([VALUE], 0))
    each = max(size // PUBLISHERS // TURNS, 1)

    async def publishers(url: str, raw: RawClient) -> tuple[float, float]:
        async with penstock.aio.connect(url) as broker:

            async def publish() -> None:
                for _ in range(each):
                    await broker.publish(TOPIC, VALUE)

            measured, limit = [], []
            for _ in range(TURNS):
                started = time.perf_counter()
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(PUBLISHERS):
                        tasks.create_task(publish())
                measured.append(_rate(each * PUBLISHERS, started))
                started = time.perf_counter()
                for _ in range(each):
                    raw.append(data, PUBLISHERS)
                limit.append(_rate(each * PUBLISHERS, started))
            return median(measured), median(limit)

    while True:
        with server_and_raw("fsync") as (server, raw):
            measured, limit = asyncio.run(publishers(server.url, raw))
        yield Round(measured=measured, limit=limit)


def memory_batches(size: int) -> Rounds:
    """``size`` batches of 1,000 into memory, several under way; messages a second."""
    data = bytes(encode_values([VALUE] * BATCH, 0))
    each = max(size // PIPELINED, 1)

    async def publishers(url: str) -> float:
        async with penstock.aio.connect(url) as broker:
            return await _publish_batches(broker, each)

    while True:
        with server_and_raw("memory") as (server, raw):
            before = server.cpu_seconds()
            measured = asyncio.run(publishers(server.url))
            cpu = server.cpu_seconds() - before
            started = time.perf_counter()
            for _ in range(each):
                raw.echo(data, PIPELINED)
            limit = _rate(each * PIPELINED * BATCH, started)
        yield Round(measured=measured, limit=limit, cpu=each * PIPELINED * BATCH / max(cpu, 1 / TICKS))


def receive_and_ack(size: int) -> Rounds:
    """A backlog of ``size`` messages, received and acked 500 at a time; messages a second."""
    data = encode_values([VALUE] * RECEIVE, 0)
    count = max(size // BATCH // PIPELINED, 1) * PIPELINED * BATCH

    async def readers(url: str, server: ServerProcess) -> tuple[float, float]:
        async with penstock.aio.connect(url) as broker:
            await _publish_batches(broker, count // PIPELINED // BATCH)
            consumer = await broker.consumer(TOPIC, group="readers", start="earliest")
            received = 0

            async def work() -> None:
                nonlocal received
                while messages := await consumer.receive(RECEIVE):
                    await consumer.ack(messages)
                    received += len(messages)

            before = server.cpu_seconds()
            started = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(PIPELINED):
                    tasks.create_task(work())
            rate = _rate(received, started)
            assert received == count, "all of it"
            return rate, server.cpu_seconds() - before

    while True:
        with server_and_raw("memory") as (server, raw):
            measured, cpu = asyncio.run(readers(server.url, server))
            started = time.perf_counter()
            for _ in range(count // RECEIVE):
                raw.fetch(len(data))
                raw.echo(b"ack")
            limit = _rate(count, started)
        yield Round(measured=measured, limit=limit, cpu=count / max(cpu, 1 / TICKS))


def latency(durability: Durability, percent: int, start: Start) -> Callable[[int], Rounds]:
    """From publishing to receiving at 1,000 messages a second, in three processes; a percentile in ms.

    The publisher waits for no answer, so a slow message does not hold back those after it.
    """

    def measure(size: int) -> Rounds:
        while True:
            with scratch() as directory:
                times = sorted(_latencies(f"{directory}/data", size, durability, start))
                limit = _latency_limit(f"{directory}/raw", percent) if durability == "fsync" else 0.4
            yield Round(measured=times[len(times) * percent // 100], limit=limit)

    return measure


def _latency_limit(path: str, percent: int) -> float:
    """For the p50, the raw sync's and half a millisecond; the p99 of the raw sync says what the disk does."""
    return sync_ms(path, RATE, percent) + (0.5 if percent == 50 else 0)


def _latencies(directory: str, size: int, durability: Durability, start: Start) -> list[float]:
    with ServerProcess(directory) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic(TOPIC, partitions=1, durability=durability)
        with (
            ClientProcess("follow", server.url, TOPIC, size, 0) as follower,
            ClientProcess("publish", server.url, TOPIC, size, RATE) as publisher,
        ):
            for client in (follower, publisher):
                client.wait_ready()
                client.begin()
            publisher.result()
            times: list[float] = follower.result()[start]
            return times


def fan_out(size: int) -> Rounds:
    """``size`` messages, each to 10 groups in 2 client processes, acked; deliveries a second in all."""
    while True:
        with server_and_raw("memory") as (server, raw), penstock.connect(server.url) as broker:
            for number in range(PROCESSES):
                for index in range(GROUPS // PROCESSES):
                    broker.create_group(TOPIC, f"group-{number}-{index}", start="earliest")
            for _ in range(size // BATCH):
                broker.publish_batch(TOPIC, [VALUE] * BATCH)
            count = size // BATCH * BATCH
            with ExitStack() as stack:
                clients = [
                    stack.enter_context(ClientProcess("drain", server.url, TOPIC, count, number))
                    for number in range(PROCESSES)
                ]
                for client in clients:
                    client.wait_ready()
                before = server.cpu_seconds()
                for client in clients:
                    client.begin()
                results = [client.result() for client in clients]
                cpu = server.cpu_seconds() - before
            seconds = max(each["ended"] for each in results) - min(each["started"] for each in results)
            data = len(encode_values([VALUE] * RECEIVE, 0))
            started = time.perf_counter()
            for _ in range(count // RECEIVE):
                raw.fetch(data)
                raw.echo(b"ack")
            limit = _rate(count, started)
        yield Round(measured=count * GROUPS / seconds, limit=limit, cpu=count * GROUPS / max(cpu, 1 / TICKS))


def start(size: int) -> Rounds:
    """From starting the process of an empty server to its ready line, the median of ``size``, in ms."""
    while True:
        measured, limit = [], []
        for _ in range(size):
            with scratch() as directory:
                started = time.perf_counter()
                subprocess.run([sys.executable, "-c", "pass"], check=True)
                limit.append(time.perf_counter() - started)
                with ServerProcess(f"{directory}/data") as server:
                    measured.append(server.ready_seconds)
        yield Round(measured=median(measured) * 1000, limit=median(limit) * 1000)


def idle(size: int) -> Rounds:
    """What an idle server uses of one core in ``size`` seconds, in percent."""
    while True:
        with scratch() as directory, ServerProcess(f"{directory}/data") as server:
            before = server.cpu_seconds()
            time.sleep(size)
            used = max(server.cpu_seconds() - before, 1 / TICKS)  # Nothing is less than the clock can tell.
        yield Round(measured=used / size * 100, limit=1.0)


def memory(size: int) -> Rounds:
    """The memory of an idle server after ``size`` seconds, in MB."""
    while True:
        with scratch() as directory, ServerProcess(f"{directory}/data") as server:
            time.sleep(size)
            megabytes = server.resident_mb()
        yield Round(measured=megabytes, limit=60.0)


_LOOP = "raw loop, same bytes"

BENCHMARKS = [
    Benchmark(
        name="server-durable-batch",
        what="a client publishes batches of 1,000 values of 100 bytes, durable, four under way",
        unit="msg/s",
        limit=_LOOP,
        run=durable_batches,
        sizes={"tiny": 4, "quick": 100, "full": 800},
        target=Target(value=800_000, direction="at least"),
    ),
    Benchmark(
        name="server-durable-64",
        what="64 publishers of one client, one by one, each waits for its durable answer",
        unit="msg/s",
        limit=_LOOP,
        run=durable_publishers,
        sizes={"tiny": 256, "quick": 8_000, "full": 80_000},
        target=Target(value=20_000, direction="at least"),
    ),
    *(
        Benchmark(
            name=f"server-typed-{kind.lower()}",
            what=f"a client publishes batches of 1,000 {kind} values that are validated, four under way",
            unit="msg/s",
            limit="the same without validation",
            run=partial(typed_batches, kind),
            sizes={"tiny": 4, "quick": 100, "full": 1_000},
            target=Target(value=0.4, direction="at least", of="ratio"),
        )
        for kind in typed_values.KINDS
    ),
    Benchmark(
        name="server-memory-batch",
        what="a client publishes batches of 1,000 into memory, four under way",
        unit="msg/s",
        limit=_LOOP,
        run=memory_batches,
        sizes={"tiny": 4, "quick": 200, "full": 2_000},
        target=Target(value=1_000_000, direction="at least"),
    ),
    Benchmark(
        name="server-receive-ack",
        what="a client receives and acks a backlog, 500 at a time, four tasks",
        unit="msg/s",
        limit=_LOOP,
        run=receive_and_ack,
        sizes={"tiny": 2_000, "quick": 200_000, "full": 1_000_000},
        target=Target(value=800_000, direction="at least"),
        grows="backlog",
    ),
    Benchmark(
        name="server-latency-p50",
        what="publish to receive at 1,000 msg/s, durable, p50",
        unit="ms",
        limit="fdatasync p50 at that rate + 0.5 ms",
        run=latency("fsync", 50, "from_call"),
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
        target=Target(value=1.0, direction="at most", of="ratio"),
    ),
    Benchmark(
        name="server-latency-p99",
        what="publish to receive at 1,000 msg/s, durable, p99",
        unit="ms",
        limit="fdatasync p99 at that rate",
        run=latency("fsync", 99, "from_call"),
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
        target=Target(value=5.0, direction="at most"),
    ),
    Benchmark(
        name="server-latency-memory",
        what="publish to receive at 1,000 msg/s, in memory, p50",
        unit="ms",
        limit="the target",
        run=latency("memory", 50, "from_call"),
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
        target=Target(value=0.4, direction="at most"),
    ),
    Benchmark(
        name="server-latency-p50-intended",
        what="the same, from when it should have been sent, durable, p50",
        unit="ms",
        limit="fdatasync p50 at that rate + 0.5 ms",
        run=latency("fsync", 50, "from_intended"),
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
    ),
    Benchmark(
        name="server-latency-p99-intended",
        what="the same, from when it should have been sent, durable, p99",
        unit="ms",
        limit="fdatasync p99 at that rate",
        run=latency("fsync", 99, "from_intended"),
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
    ),
    Benchmark(
        name="server-latency-memory-intended",
        what="the same, from when it should have been sent, in memory, p50",
        unit="ms",
        limit="the target",
        run=latency("memory", 50, "from_intended"),
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
    ),
    Benchmark(
        name="server-fan-out",
        what="10 groups in 2 client processes, each gets and acks every message",
        unit="msg/s",
        limit="raw loop, one client",
        run=fan_out,
        sizes={"tiny": 1_000, "quick": 50_000, "full": 300_000},
        target=Target(value=1_000_000, direction="at least"),
    ),
    Benchmark(
        name="server-start",
        what="from the start of an empty server's process to its ready line",
        unit="ms",
        limit="an empty Python",
        run=start,
        sizes={"tiny": 1, "quick": 2, "full": 5},
        target=Target(value=500, direction="at most"),
    ),
    Benchmark(
        name="server-idle",
        what="what an idle server uses of one core",
        unit="%",
        limit="the target",
        run=idle,
        sizes={"tiny": 1, "quick": 2, "full": 5},
        target=Target(value=1.0, direction="at most"),
    ),
    Benchmark(
        name="server-memory",
        what="the memory of an idle server",
        unit="MB",
        limit="the target",
        run=memory,
        sizes={"tiny": 1, "quick": 2, "full": 5},
        target=Target(value=60.0, direction="at most"),
    ),
]
