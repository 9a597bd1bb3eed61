"""The gRPC API beside grpc.aio that answers the same calls with nothing behind it.

Server, bare server and load are a process each.  Server and bare server take
turns within a round, so that both see the same machine.  What a round publishes
is durable when it is answered.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import penstock
from benchmarks.durable import scratch
from benchmarks.grpc_clients import BATCH, GROUP, TOPIC, VALUE
from benchmarks.machine import TICKS
from benchmarks.model import Benchmark, Round, Rounds, Target
from benchmarks.processes import GrpcClients, Process, ServerProcess

TURNS = 4
RECEIVED_BYTES = 123_000  # Of an answer with a thousand messages.
PUBLISH = "/penstock.v1.Publisher/Publish"
PUBLISH_STREAM = "/penstock.v1.Publisher/PublishStream"


@contextmanager
def server_and_bare() -> Iterator[tuple[ServerProcess, GrpcClients, GrpcClients]]:
    """Both, each with its load; the server has an empty, durable topic of one partition."""
    with scratch() as directory, ServerProcess(f"{directory}/data", grpc=True) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic(TOPIC, partitions=1, durability="fsync")
        with (
            Process(["-m", "benchmarks.bare_grpc"]) as application,
            GrpcClients(int(application.line())) as bare,
            GrpcClients(server.grpc_port) as load,
        ):
            yield server, load, bare


def alternating(work: str, path: str, bare_path: str, size: int) -> Rounds:
    """Server and bare server by turns; messages a second."""
    each = max(size // TURNS, 64)
    while True:
        measured, limit = [], []
        with server_and_bare() as (server, load, bare):
            before = server.cpu_seconds()
            for _ in range(TURNS):
                measured.append(each / load.seconds(work, path=path, count=each))
                limit.append(each / bare.seconds(work, path=bare_path, count=each))
            cpu = server.cpu_seconds() - before
        yield Round(measured=median(measured), limit=median(limit), cpu=TURNS * each / max(cpu, 1 / TICKS))


def publish(size: int) -> Rounds:
    """A message for each call."""
    return alternating("unary", PUBLISH, "/bare.Bare/Echo", size)


def publish_stream(size: int) -> Rounds:
    """A thousand messages for each message of one stream."""
    return alternating("publish", PUBLISH_STREAM, "/bare.Bare/Count", max(size, TURNS * BATCH))


def consume(size: int) -> Rounds:
    """A backlog of ``size`` messages, received and acked on one stream; messages a second."""
    batches = max(size // BATCH, 1)
    count = batches * BATCH
    while True:
        with server_and_bare() as (server, load, bare):
            with penstock.connect(server.url) as broker:
                broker.create_group(TOPIC, GROUP, start="earliest")
                for _ in range(batches):
                    broker.publish_batch(TOPIC, [VALUE] * BATCH)
            before = server.cpu_seconds()
            measured = count / load.seconds("consume", count=count)
            cpu = server.cpu_seconds() - before
            limit = count / bare.seconds("serve", count=batches, bytes=RECEIVED_BYTES)
        yield Round(measured=measured, limit=limit, cpu=count / max(cpu, 1 / TICKS))


_BARE = "bare grpc.aio"

BENCHMARKS = [
    Benchmark(
        name="grpc-publish",
        what="64 calls at a time publish a message of 100 bytes each, durable",
        unit="msg/s",
        limit=_BARE,
        run=publish,
        sizes={"tiny": 256, "quick": 4_000, "full": 40_000},
        target=Target(value=0.7, direction="at least", of="ratio"),
    ),
    Benchmark(
        name="grpc-publish-stream",
        what="one stream publishes batches of 1,000 messages of 100 bytes, durable",
        unit="msg/s",
        limit=_BARE,
        run=publish_stream,
        sizes={"tiny": 16_000, "quick": 400_000, "full": 4_000_000},
        target=Target(value=150_000, direction="at least"),
    ),
    Benchmark(
        name="grpc-consume-ack",
        what="one stream receives 1,000 messages at a time and acks them",
        unit="msg/s",
        limit=_BARE,
        run=consume,
        sizes={"tiny": 4_000, "quick": 200_000, "full": 2_000_000},
        target=Target(value=100_000, direction="at least"),
    ),
]
