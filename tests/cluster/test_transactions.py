"""Kafka transactions while coordinators and owners of partitions are killed: each is whole, or not there.

writers     write the same value to several partitions in a transaction, and commit it or abort it
a pipeline  reads orders, and writes two bills for each with the offsets of its group, in transactions
"""

import asyncio
import random
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.cluster.load import everything
from tests.cluster.nodes import PARTITIONS, TOPIC, Nodes
from tests.server.process import until

BILLS = "bills"
GROUP = "billing"
ORDERS = 400  # For the pipeline; more than it bills in a short test.
WAIT_S = 90.0
CLIENT = {"socket.timeout.ms": 3000, "reconnect.backoff.max.ms": 500, "log_level": 0}
SOAK_ROUNDS = 40


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, f"file://{tmp_path}/store") as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
            broker.create_topic("input", partitions=2)
            broker.create_topic(BILLS, partitions=2)
            for number in range(ORDERS):
                broker.publish("input", b"%d" % number, partition=number % 2)
        yield nodes


class Transactions:
    """Clients in threads, and what became of each transaction."""

    def __init__(self, nodes: Nodes) -> None:
        self.servers = ",".join(f"{each.host}:{each.ports['kafka']}" for each in nodes.servers)
        self.outcomes: dict[str, str] = {}  # By value: committed, aborted or unknown.
        self.failures: list[str] = []
        self.billed = 0
        self._stop = threading.Event()
        works = [
            *(lambda n=n: self._write(f"confluent-{n}") for n in range(2)),
            self._write_async,
            self._bill,
        ]
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # The test fails with it.
            self.failures.append(repr(error))
            raise

    def committed(self) -> int:
        return sum(outcome == "committed" for outcome in self.outcomes.values())

    def wait_for(self, more: int) -> None:
        """Until every client has ended so many more transactions."""
        before, billed = Counter(each.split(":")[0] for each in self.outcomes), self.billed

        def done() -> bool:
            now = Counter(each.split(":")[0] for each in self.outcomes)
            ended = self.billed >= min(billed + more, ORDERS) and len(now) == 3
            return bool(self.failures) or (ended and all(now[each] >= before[each] + more for each in now))

        until(done)

    # Writers.

    def _producer(self, name: str) -> Producer:
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": name, **CLIENT})
        producer.init_transactions(WAIT_S)
        return producer

    def _write(self, name: str) -> None:
        producer, chance, number = self._producer(name), random.Random(name), 0
        while not self._stop.is_set():
            number += 1
            value = f"{name}:{number}"
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, value, partition=partition)
            self.outcomes[value] = ended(producer, commit=chance.random() < 0.7)

    def _write_async(self) -> None:
        asyncio.run(self._write_with_aiokafka("aiokafka"))

    async def _write_with_aiokafka(self, name: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.servers, transactional_id=name, request_timeout_ms=3000
        )
        await producer.start()
        number = 0
        try:
            while not self._stop.is_set():
                number += 1
                value = f"{name}:{number}"
                await producer.begin_transaction()
                try:
                    for partition in range(PARTITIONS):
                        await producer.send_and_wait(TOPIC, value.encode(), partition=partition)
                    await producer.commit_transaction()
                except KafkaError:
                    await producer.abort_transaction()
                    self.outcomes[value] = "unknown"
                else:
                    self.outcomes[value] = "committed"
        finally:
            await producer.stop()

    # The pipeline.

    def _bill(self) -> None:
        producer = self._producer("pipeline")
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers, "group.id": GROUP, "enable.auto.commit": False,
                "isolation.level": "read_committed", "auto.offset.reset": "earliest", **CLIENT,
            }
        )  # fmt: skip
        consumer.subscribe(["input"])
        while not self._stop.is_set() and self.billed < ORDERS:
            orders = [each for each in consumer.consume(5, 0.5) if each.error() is None]
            if not orders:
                continue
            producer.begin_transaction()
            for order in orders:
                for partition in range(2):
                    producer.produce(BILLS, order.value(), partition=partition)
            if self._commit(producer, consumer) == "committed":
                self.billed += len(orders)
            else:
                self._rewind(consumer)
        consumer.close()

    def _commit(self, producer: Producer, consumer: Consumer) -> str:
        try:
            positions = consumer.position(consumer.assignment())
            metadata = consumer.consumer_group_metadata()
            retried(lambda: producer.send_offsets_to_transaction(positions, metadata, WAIT_S))
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            return ended(producer, commit=False)
        return ended(producer, commit=True)

    def _rewind(self, consumer: Consumer) -> None:
        """Begin again behind the last transaction that was committed."""
        for each in consumer.committed(consumer.assignment(), WAIT_S):
            consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))


def retried(call: Callable[[], Any]) -> None:
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def ended(producer: Producer, *, commit: bool) -> str:
    """End a transaction as its program would; how it ended."""
    if commit:
        try:
            retried(lambda: producer.commit_transaction(WAIT_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        else:
            return "committed"
    retried(lambda: producer.abort_transaction(WAIT_S))
    return "aborted"


def check(nodes: Nodes, load: Transactions) -> None:
    """Nothing is torn, lost, or there twice; and nothing that was aborted is seen."""
    assert load.failures == []
    with nodes.connect(1) as broker:
        found = Counter((value.decode(), number) for (number, _), value in everything(broker).items())
        bills = Counter(
            (message.partition, int(message.value))
            for number in range(2)
            for message in broker.read(BILLS, partition=number, offset=0, limit=10 * ORDERS)
        )
    assert set(found.values()) <= {1}
    for value, outcome in load.outcomes.items():
        count = sum(found[value, number] for number in range(PARTITIONS))
        expected = {"committed": {PARTITIONS}, "aborted": {0}, "unknown": {0, PARTITIONS}}[outcome]
        assert count in expected, f"{value} was {outcome}, and is in {count} partitions"
    assert set(bills.values()) <= {1}
    assert {number for partition, number in bills if partition == 0} == {
        number for partition, number in bills if partition == 1
    }
    assert len(bills) == 2 * load.billed


def kill(nodes: Nodes, index: int, load: Transactions, more: int) -> None:
    nodes.servers[index].kill()
    load.wait_for(more)
    shutil.rmtree(nodes.servers[index].data)
    nodes.servers[index].start()


def balance(nodes: Nodes, entry: int) -> None:
    """Have the node that has come back own partitions again."""
    with nodes.connect(entry) as broker:
        until(lambda: [node.state for node in broker.cluster_info().nodes] == ["up"] * 3)
        broker.balance_partitions()


@pytest.mark.slow
def test_transactions_are_whole_whichever_node_is_killed(nodes: Nodes) -> None:
    with Transactions(nodes) as load:
        load.wait_for(3)
        for index in range(3):
            kill(nodes, index, load, 3)
            balance(nodes, 1 + (index + 1) % 3)
        load.wait_for(3)

    check(nodes, load)


@pytest.mark.soak
def test_a_soak_of_kills_and_pauses_leaves_transactions_whole(nodes: Nodes) -> None:
    chance = random.Random(1)
    with Transactions(nodes) as load:
        for _ in range(SOAK_ROUNDS):
            index = chance.randrange(3)
            if chance.random() < 0.6:
                kill(nodes, index, load, 3)
            else:
                nodes.servers[index].signal(signal.SIGSTOP)
                load.wait_for(3)
                nodes.servers[index].signal(signal.SIGCONT)
            balance(nodes, 1 + (index + 1) % 3)
            load.wait_for(3)

    check(nodes, load)
