"""Kafka's producers, and a server that is killed again and again: nothing twice, nothing missing."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tests.server.process import LISTENERS, Server

import penstock

PARTITIONS = 3
TIMEOUT_S = 60
KILLS = 4
UNANSWERED_MAX = 2000
TRANSACTIONS_MAX = 10_000
QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "message.timeout.ms": TIMEOUT_S * 1000,
    "log_level": 0,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, listeners=(*LISTENERS, "kafka")) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic("orders", partitions=PARTITIONS)
        yield server


class Killer:
    """Kills the server while a test works, and starts it again; ``kill`` may do it another way."""

    def __init__(self, server: Server, seed: int, kill: Callable[[], None] | None = None) -> None:
        self._server = server
        self._kill = kill or server.kill
        self._random = Random(seed)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = 0

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    @property
    def done(self) -> bool:
        return self.kills >= KILLS

    def _run(self) -> None:
        while not self.done and not self._enough.wait(self._random.uniform(0.05, 0.5)):
            self._kill()
            self._server.start()
            self.kills += 1


def written(server: Server) -> list[list[bytes]]:
    """What readers see of each partition."""
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    with penstock.connect(server.url) as broker, broker.consumer("orders", group="check") as consumer:
        while messages := consumer.receive(1000, wait="1s"):
            for message in messages:
                found[message.partition].append(message.value or b"")
            consumer.ack(messages)
    return found


@pytest.mark.slow
def test_an_idempotent_producer_writes_everything_once_and_in_order(server: Server) -> None:
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{server.ports['kafka']}", "enable.idempotence": True, **QUICK}
    )
    told: list[Any] = []
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    with Killer(server, seed=1) as killer:
        number = 0
        while not killer.done:
            if producer.poll(0) == 0 and len(producer) > UNANSWERED_MAX:
                producer.poll(0.01)
                continue
            value = b"%d" % number
            producer.produce(
                "orders",
                value,
                partition=number % PARTITIONS,
                on_delivery=lambda error, _: told.append(error),
            )
            sent[number % PARTITIONS].append(value)
            number += 1
        assert producer.flush(TIMEOUT_S) == 0

    assert killer.kills == KILLS
    assert told == [None] * number
    assert written(server) == sent


@pytest.mark.slow
def test_a_transaction_is_there_whole_or_not_at_all(server: Server) -> None:
    with Killer(server, seed=2) as killer:
        history = run_transactions(server, killer)

    history.check(server)


@dataclass
class History:
    """What a transactional producer was answered."""

    committed: list[bytes] = field(default_factory=list)
    aborted: set[bytes] = field(default_factory=set)

    def check(self, server: Server) -> None:
        """Each transaction wrote its value to every partition, so all partitions are equal."""
        transactional(server)  # Ends whatever the last producer had left open.
        found = written(server)
        assert found == [found[0]] * PARTITIONS
        assert found[0] == sorted(set(found[0]))
        assert set(self.committed) <= set(found[0])
        assert not self.aborted & set(found[0])


def run_transactions(server: Server, killer: Killer) -> History:
    """Commit two of three transactions and abort the third, until the server was killed often enough."""
    history = History()
    producer: Producer | None = None
    number = 0
    while not killer.done and number < TRANSACTIONS_MAX:
        value = b"%06d" % number
        number += 1
        try:
            producer = producer or transactional(server)
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce("orders", value, partition=partition)
            if number % 3 == 0:
                history.aborted.add(value)
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
                history.committed.append(value)
        except KafkaException:
            producer = None  # The next one fences it, and what it left is aborted, or was committed.
    assert killer.done
    return history


def transactional(server: Server) -> Producer:
    address = f"127.0.0.1:{server.ports['kafka']}"
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t", **QUICK})
    producer.init_transactions(TIMEOUT_S)
    return producer
