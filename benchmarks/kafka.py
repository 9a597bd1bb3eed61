"""Kafka's own clients on a server, and requests of one record: what a message costs the broker.

The client is usually the limit, so the judge beside the rate is the server's CPU time: the column ``cpu``
is what a core of the server alone could do.  The limit is the same work on memory: the bytes of the
messages, copied."""

import socket
import struct
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.durable import scratch, sync_ms
from benchmarks.kafka_clients import RATE
from benchmarks.machine import TICKS
from benchmarks.model import Benchmark, Round, Rounds, Target
from benchmarks.processes import KafkaClientProcess, ServerProcess
from penstock.wire.kafka.codec import encode
from penstock.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.wire.records import encode_values

VALUE = b"x" * 100
TOPIC = "numbers"
PARTITIONS = 6
PIPELINED = 100  # Requests under way at once.
MEMORY = ":memory:"
_COPY = "copying the bytes"


def copied(count: int) -> float:
    """So many values, copied; values a second."""
    started = time.perf_counter()
    for _ in range(count // 1000 or 1):
        bytearray().join([VALUE] * 1000)
    return max(count, 1000) / (time.perf_counter() - started)


def produce(address: str, count: int, linger_ms: int) -> None:
    """Messages by confluent-kafka, all of them acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": linger_ms,
            "acks": "all",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number in range(count):
        if number % 1000 == 0:
            producer.poll(0)
        while True:
            try:
                producer.produce(TOPIC, VALUE)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(60) == 0


def consume(address: str, count: int) -> None:
    """All messages, a thousand at a time."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    while count > 0:
        count -= len(consumer.consume(1000, timeout=10))
    consumer.close()


def single_requests(address: str, count: int) -> None:
    """Produce requests of one record each, many under way, on one connection."""
    records = bytes(encode_values([VALUE], 0))
    partition = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])])
    body = struct.pack(">hhih", request.KEY, 9, 1, -1) + b"\0" + b"".join(encode(request, 9))
    frame = struct.pack(">i", len(body)) + body
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answers:
        for _ in range(max(count // PIPELINED, 1)):
            connection.sendall(frame * PIPELINED)
            for _ in range(PIPELINED):
                answers.read(struct.unpack(">i", answers.read(4))[0])


def rounds(
    work: Callable[[str, int], None], before: Callable[[str, int], None] | None = None, data: str = ""
) -> Callable[[int], Rounds]:
    """Rounds of a work on servers of their own; messages a second."""

    def run(size: int) -> Rounds:
        while True:
            with scratch() as directory, ServerProcess(data or f"{directory}/data", kafka=True) as server:
                produce(server.kafka, 1, 0)  # It makes the topic.
                if before is not None:
                    before(server.kafka, size)
                used, started = server.cpu_seconds(), time.perf_counter()
                work(server.kafka, size)
                seconds = time.perf_counter() - started
                used = server.cpu_seconds() - used
            yield Round(measured=size / seconds, limit=copied(size), cpu=size / max(used, 1 / TICKS))

    return run


def sync_latency(size: int) -> Rounds:
    """Milliseconds of produce and flush, one after the other, p50."""
    while True:
        with ServerProcess(MEMORY, kafka=True) as server:
            producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 0})
            seconds = []
            for _ in range(size + 1):
                started = time.perf_counter()
                producer.produce(TOPIC, VALUE)
                assert producer.flush(20) == 0
                seconds.append(time.perf_counter() - started)
        yield Round(measured=sorted(seconds[1:])[size // 2] * 1000, limit=1000 / copied(1000))


def end_to_end(size: int) -> Rounds:
    """Milliseconds from when a message should be sent until it is consumed, in three processes, p99."""
    while True:
        with scratch() as directory, ServerProcess(f"{directory}/data", kafka=True) as server:
            produce(server.kafka, 1, 0)  # It makes the topic.
            with (
                KafkaClientProcess("follow", server.kafka, TOPIC, size) as follower,
                KafkaClientProcess("send", server.kafka, TOPIC, size) as sender,
            ):
                for client in (follower, sender):
                    client.wait_ready()
                    client.begin()
                taken: list[float] = sorted(follower.result())
            limit = sync_ms(f"{directory}/raw", RATE, 99)
        yield Round(measured=taken[size * 99 // 100], limit=limit)


BENCHMARKS = [
    Benchmark(
        name="kafka-produce",
        what="confluent-kafka produces values of 100 bytes, linger 50 ms, acks=all, durable",
        unit="msg/s",
        limit=_COPY,
        run=rounds(lambda address, count: produce(address, count, 50)),
        sizes={"tiny": 1_000, "quick": 200_000, "full": 2_000_000},
        target=Target(value=300_000, direction="at least"),
    ),
    Benchmark(
        name="kafka-consume",
        what="confluent-kafka consumes them, consume(1000)",
        unit="msg/s",
        limit=_COPY,
        run=rounds(consume, lambda address, count: produce(address, count, 50)),
        sizes={"tiny": 1_000, "quick": 200_000, "full": 2_000_000},
        target=Target(value=200_000, direction="at least"),
    ),
    Benchmark(
        name="kafka-requests",
        what="produce requests of one record, 100 under way, in memory",
        unit="req/s",
        limit=_COPY,
        run=rounds(single_requests, data=MEMORY),
        sizes={"tiny": 200, "quick": 20_000, "full": 200_000},
        target=Target(value=40_000, direction="at least"),
    ),
    Benchmark(
        name="kafka-sync",
        what="confluent-kafka produces and flushes one message after the other, in memory, p50",
        unit="ms",
        limit=_COPY,
        run=sync_latency,
        sizes={"tiny": 50, "quick": 1_000, "full": 5_000},
        target=Target(value=0.25, direction="at most"),
    ),
    Benchmark(
        name="kafka-end-to-end",
        what="confluent-kafka to confluent-kafka at 1,000 msg/s, durable, from the intended time, p99",
        unit="ms",
        limit="fdatasync p99 at that rate",
        run=end_to_end,
        sizes={"tiny": 50, "quick": 3_000, "full": 20_000},
        target=Target(value=5, direction="at most"),
    ),
]
