"""Producers over a wire that is cut at random points: nothing is there twice, nothing is missing.

The proxy passes bytes on, both ways, and again and again breaks all connections in the middle of some.
A producer that does not know whether a batch was written sends it again, and the broker knows it by
its numbers.
"""

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import kafka as kafka_python
import pytest
from confluent_kafka import KafkaException, Producer
from tests.client.proxy import Proxy
from tests.frontends.kafka.conftest import PARTITIONS, Server, serving

COUNT = {"ci": 20_000, "soak": 200_000}.get(os.environ.get("HYPOTHESIS_PROFILE", "dev"), 4000)
TIMEOUT_S = 60
SEEDS = range({"ci": 4, "soak": 50}.get(os.environ.get("HYPOTHESIS_PROFILE", "dev"), 2))


class Wire:
    """A server behind a proxy, on the server's loop."""

    def __init__(self, kafka: Server) -> None:
        self.kafka = kafka
        self.proxy = Proxy(f"penstock://{kafka.address}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"

    async def open(self) -> None:
        await self.proxy.__aenter__()
        self.kafka.listener.shared.advertised = ("127.0.0.1", self.proxy.port)

    async def close(self) -> None:
        await self.proxy.__aexit__(None, None, None)

    def cut_at_random(self, seed: int, every: int) -> None:
        self.proxy.cut_at_random(Random(seed), every)

    def stop_cutting(self) -> None:
        self.proxy.cut_at_random(Random(), 0)

    def written(self, partition: int) -> list[bytes | None]:
        """What is in the log, read without the wire."""
        found: list[bytes | None] = []
        offset = 0
        while messages := self.kafka.run(
            self.kafka.broker.read("orders", partition=partition, offset=offset, limit=1000)
        ):
            found += [message.value for message in messages]
            offset = messages[-1].offset + 1
        return found


@pytest.fixture(params=["memory", "disk"])
def wire(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Wire]:
    for kafka in serving(None if request.param == "memory" else str(tmp_path)):
        kafka.run(kafka.broker.create_topic("orders", partitions=PARTITIONS))
        wire = Wire(kafka)
        kafka.run(wire.open())
        yield wire
        kafka.run(wire.close())


def check(wire: Wire, sent: list[list[bytes]]) -> None:
    for number, wanted in enumerate(sent):
        assert wire.written(number) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_librdkafka_writes_each_message_once_and_in_order(wire: Wire, seed: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": wire.address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "message.timeout.ms": TIMEOUT_S * 1000,
            "log_level": 0,
        }
    )
    told: list[Any] = []
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    wire.cut_at_random(seed, COUNT * 2)
    for number in range(COUNT):
        value = b"%d" % number
        producer.produce(
            "orders",
            value,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: told.append(error),
        )
        sent[number % PARTITIONS].append(value)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    wire.stop_cutting()

    assert told == [None] * COUNT
    assert wire.proxy.cuts > 0
    check(wire, sent)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_python_writes_each_message_once_and_in_order(wire: Wire, seed: int) -> None:
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=wire.address,
        enable_idempotence=True,
        batch_size=500,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=10,
        retry_backoff_ms=1,
        delivery_timeout_ms=TIMEOUT_S * 1000,
        request_timeout_ms=5000,
    )
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    wire.cut_at_random(seed, COUNT * 2)
    promises = []
    for number in range(COUNT // 4):
        value = b"%d" % number
        promises.append(producer.send("orders", value, partition=number % PARTITIONS))
        sent[number % PARTITIONS].append(value)
    producer.flush(timeout=TIMEOUT_S)
    wire.stop_cutting()

    for promise in promises:
        promise.get(timeout=TIMEOUT_S)
    producer.close(timeout=5)
    check(wire, sent)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_transaction_over_a_wire_that_is_cut_is_there_whole_or_not_at_all(wire: Wire, seed: int) -> None:
    wire.cut_at_random(seed, 12_000)
    committed: set[int] = set()
    aborted: set[int] = set()
    producer: Producer | None = None
    for number in range(30):
        try:
            producer = producer or _transactional(wire)
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce("orders", b"%d" % number, partition=partition)
            if number % 3 == 2:
                aborted.add(number)
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
                committed.add(number)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                producer = None  # The next one fences it.
                continue
            assert producer is not None
            aborted.add(number)
            producer.abort_transaction(TIMEOUT_S)
    wire.stop_cutting()
    _transactional(wire)  # Aborts what is open.

    found = [wire.written(partition) for partition in range(PARTITIONS)]
    assert found == [found[0]] * PARTITIONS
    numbers = [int(value or b"") for value in found[0]]
    assert numbers == sorted(set(numbers))
    assert committed <= set(numbers)
    assert not aborted & set(numbers)


def _transactional(wire: Wire) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": wire.address,
            "transactional.id": "t",
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 10,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer
