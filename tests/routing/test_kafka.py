"""Kafka clients of a cluster: they find the leaders and coordinators, and follow them."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from tests.clustered import Node, open_nodes
from tests.stalls import watched

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import KafkaSettings, LimitSettings
from penstock.frontends.kafka.server import KafkaListener
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway

T = TypeVar("T")
PARTITIONS = 6
NODES = (1, 2, 3)
SETTINGS = KafkaSettings(initial_rebalance_delay_ms=0)


def place(_: str, partition: int) -> int:
    return NODES[partition % len(NODES)]


class KafkaCluster:
    """Three nodes with Kafka listeners on one loop."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.nodes: list[Node] = []
        self._watching = ExitStack()
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    async def _start(self) -> None:
        self.nodes = await open_nodes(len(NODES), place, lambda _: EmbeddedAsyncBroker.open())
        self._listeners = []
        for node in self.nodes:
            gateway = AuthGateway(node.broker)
            listener = KafkaListener(node.broker, LimitSettings(), Connections(100), gateway, SETTINGS)
            server: Any = await self.loop.create_server(listener.connect, "127.0.0.1", 0)
            self._listeners.append((listener, server))
            addresses = node.table.addresses
            port = server.sockets[0].getsockname()[1]
            addresses[node.number] = addresses[node.number]._replace(kafka=port)
        await self.nodes[0].broker.create_topic("orders", partitions=PARTITIONS)
        self._watching.enter_context(watched())

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self.nodes[0].table.addresses[node].kafka}"

    def close(self) -> None:
        try:
            self.run(self._stop())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    async def _stop(self) -> None:
        for listener, server in self._listeners:
            server.close()
            listener.abort()
        for node in self.nodes:
            await node.stop()
            await node.broker.close(timeout=1)
        self._watching.close()  # Fails if the loop stood still.

    async def move(self, partition: int, source: int, target: int) -> None:
        """An empty partition gets another owner, and a new epoch."""
        old, new = self.nodes[source - 1].broker, self.nodes[target - 1].broker
        await old.run(old._core.close_partition("orders", partition, target, 2))
        await new.run(new._core.open_partition("orders", partition, 2))
        before = self.nodes[0].table.place
        for node in self.nodes:
            node.table.epochs["orders", partition] = 2
            node.table.change(lambda topic, number: target if number == partition else before(topic, number))


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    made = KafkaCluster()
    yield made
    made.close()


def stored(cluster: KafkaCluster, node: int) -> dict[int, int]:
    topic = cluster.nodes[node - 1].broker._core.state.topics["orders"]
    return {partition.number: partition.log.high for partition in topic.partitions.owned}


@pytest.mark.parametrize("entry", NODES)
def test_every_node_tells_the_leaders_and_their_addresses(cluster: KafkaCluster, entry: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address(entry)})

    found = admin.list_topics("orders", timeout=10)

    leaders = {number: each.leader for number, each in found.topics["orders"].partitions.items()}
    assert leaders == {number: place("orders", number) for number in range(PARTITIONS)}
    assert {f"{each.host}:{each.port}" for each in found.brokers.values()} == {
        cluster.address(node) for node in NODES
    }
    assert found.controller_id in NODES  # Any node is the controller; librdkafka asks whichever it chooses.
    described = admin.describe_cluster().result(10)
    assert sorted(node.id for node in described.nodes) == list(NODES)


def produce(producer: Producer, partition: int, count: int) -> None:
    failures: list[Any] = []
    for number in range(count):
        producer.produce(
            "orders",
            b"%d" % number,
            partition=partition,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failures == []


def test_records_go_to_the_leader_and_come_from_it(cluster: KafkaCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.address(2), "enable.idempotence": True})
    for partition in range(PARTITIONS):
        produce(producer, partition, 5)

    for node in NODES:
        assert stored(cluster, node) == {
            number: 5 for number in range(PARTITIONS) if place("", number) == node
        }

    consumer = Consumer(
        {"bootstrap.servers": cluster.address(3), "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    received = consumed(consumer, 5 * PARTITIONS)
    consumer.commit(asynchronous=False)
    consumer.close()

    assert sorted(received) == sorted((number, offset) for number in range(PARTITIONS) for offset in range(5))
    info = cluster.run(cluster.nodes[0].broker.describe_group("orders", "billing"))
    assert info.lag == 0
    # Whoever comes next begins behind them, at whichever node it asks.
    again = Consumer({"bootstrap.servers": cluster.address(1), "group.id": "billing"})
    again.subscribe(["orders"])
    produce(producer, 4, 1)
    assert consumed(again, 1) == [(4, 5)]
    again.close()


def consumed(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Partition and offset of the next messages."""
    received: list[tuple[int, int]] = []
    for _ in range(200):
        for message in consumer.consume(count - len(received), timeout=0.2):
            assert message.error() is None, message.error()
            received.append((message.partition() or 0, message.offset() or 0))
        if len(received) >= count:
            break
    return received


def test_clients_follow_a_partition_to_its_new_leader(cluster: KafkaCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.address(1), "enable.idempotence": True})
    consumer = Consumer(
        {"bootstrap.servers": cluster.address(1), "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    produce(producer, 1, 1)  # Both know the leaders now.
    assert consumed(consumer, 1) == [(1, 0)]

    cluster.run(cluster.move(0, 1, 3))
    produce(producer, 0, 10)

    assert stored(cluster, 3)[0] == 10
    assert sorted(consumed(consumer, 10)) == [(0, offset) for offset in range(10)]
    consumer.close()


def test_aiokafka_reads_and_writes_at_the_leaders(cluster: KafkaCluster) -> None:
    async def work() -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.address(1))
        await producer.start()
        for partition in range(PARTITIONS):
            await producer.send_and_wait("orders", b"x", partition=partition)
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.address(2), auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition("orders", number) for number in range(PARTITIONS)])
        received = []
        async for message in consumer:
            received.append((message.partition, message.offset))
            if len(received) == PARTITIONS:
                break
        await consumer.stop()
        return received

    received = asyncio.run(asyncio.wait_for(work(), 30))

    assert sorted(received) == [(number, 0) for number in range(PARTITIONS)]


def test_transactions_over_several_nodes_are_refused(cluster: KafkaCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.address(1), "transactional.id": "billing"})

    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(10)

    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
