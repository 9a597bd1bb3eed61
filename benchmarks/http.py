"""The HTTP API beside Starlette on uvicorn that answers the same requests with nothing behind it.

Server, bare application and load are a process each.  Server and application
take turns within a round, so that both see the same machine.  What a round
publishes is durable when it is answered.
"""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import penstock
from benchmarks.durable import scratch
from benchmarks.machine import TICKS
from benchmarks.model import Benchmark, Round, Rounds, Target
from benchmarks.processes import HttpClients, Process, ServerProcess

VALUE = b"x" * 100
BATCH = 1000
RECEIVE = 100
PUBLISHERS = 64
CONNECTIONS = 4  # Of those that send or receive many messages in a request.
TURNS = 4
TOPIC = "numbers"
PATH = f"/v1/topics/{TOPIC}"

# What the API answers, in bytes; the bare application answers as much.
PUBLISHED = 150
PUBLISHED_BATCH = 67_000
RECEIVED = 37_000
ACKED = 9_800
RECEIPTS = 5_700  # What an ack sends.


class Bare:
    """The application without a broker, and its load."""

    def __init__(self, clients: HttpClients) -> None:
        self._clients = clients

    def seconds(self, body: str, answer_bytes: int, connections: int, count: int) -> float:
        """How long so many requests took."""
        path = f"{PATH}/publish?size={answer_bytes}"
        return self._clients.seconds("post", path=path, body=body, connections=connections, count=count)


@contextmanager
def server_and_bare() -> Iterator[tuple[ServerProcess, HttpClients, Bare]]:
    """Both, each with its load; the server has an empty, durable topic of one partition."""
    with scratch() as directory, ServerProcess(f"{directory}/data", http=True) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic(TOPIC, partitions=1, durability="fsync")
        with (
            Process(["-m", "benchmarks.bare_http"]) as application,
            HttpClients(int(application.line())) as bare_load,
            HttpClients(server.http_port) as load,
        ):
            yield server, load, Bare(bare_load)


def _message() -> dict[str, str]:
    return {"value": base64.b64encode(VALUE).decode()}


def publish(
    path: str, body: str, answer_bytes: int, connections: int, messages: int
) -> Callable[[int], Rounds]:
    """The same request over and over; messages a second."""

    def measure(size: int) -> Rounds:
        each = max(size // TURNS // messages, connections)
        while True:
            measured, limit = [], []
            with server_and_bare() as (server, load, bare):
                before = server.cpu_seconds()
                for _ in range(TURNS):
                    order = {"path": path, "body": body, "connections": connections, "count": each}
                    measured.append(each * messages / load.seconds("post", **order))
                    limit.append(each * messages / bare.seconds(body, answer_bytes, connections, each))
                cpu = server.cpu_seconds() - before
            count = TURNS * each * messages
            yield Round(measured=median(measured), limit=median(limit), cpu=count / max(cpu, 1 / TICKS))

    return measure


def receive_and_ack(size: int) -> Rounds:
    """A backlog of ``size`` messages, received and acked 100 at a time; messages a second."""
    batches = max(size // BATCH, 1)
    count = batches * BATCH
    while True:
        with server_and_bare() as (server, load, bare):
            with penstock.connect(server.url) as broker:
                broker.create_group(TOPIC, "readers", start="earliest")
                for _ in range(batches):
                    broker.publish_batch(TOPIC, [VALUE] * BATCH)
            before = server.cpu_seconds()
            path = f"{PATH}/groups/readers"
            measured = count / load.seconds("drain", path=path, connections=CONNECTIONS, count=count)
            cpu = server.cpu_seconds() - before
            requests = count // RECEIVE
            bare_seconds = bare.seconds("{}", RECEIVED, CONNECTIONS, requests)
            bare_seconds += bare.seconds("x" * RECEIPTS, ACKED, CONNECTIONS, requests)
        yield Round(measured=measured, limit=count / bare_seconds, cpu=count / max(cpu, 1 / TICKS))


_BARE = "bare Starlette on uvicorn"

BENCHMARKS = [
    Benchmark(
        name="http-publish",
        what="64 connections publish a message of 100 bytes for each request, durable",
        unit="msg/s",
        limit=_BARE,
        run=publish(f"{PATH}/publish", json.dumps(_message()), PUBLISHED, PUBLISHERS, 1),
        sizes={"tiny": 256, "quick": 8_000, "full": 80_000},
        target=Target(value=0.5, direction="at least", of="ratio"),
    ),
    Benchmark(
        name="http-publish-batch",
        what="4 connections publish 1,000 messages of 100 bytes for each request, durable",
        unit="msg/s",
        limit=_BARE,
        run=publish(
            f"{PATH}/publish/batch",
            json.dumps({"messages": [_message()] * BATCH}),
            PUBLISHED_BATCH,
            CONNECTIONS,
            BATCH,
        ),
        sizes={"tiny": 16_000, "quick": 200_000, "full": 2_000_000},
        target=Target(value=200_000, direction="at least"),
    ),
    Benchmark(
        name="http-receive-ack",
        what="4 connections receive 100 messages in a request and ack them in the next",
        unit="msg/s",
        limit=_BARE,
        run=receive_and_ack,
        sizes={"tiny": 2_000, "quick": 50_000, "full": 500_000},
        target=Target(value=60_000, direction="at least"),
    ),
]
