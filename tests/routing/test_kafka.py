"""Kafka clients of a cluster: they find the leaders and coordinators, and follow them."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from tests.frontends.kafka.raw import Raw
from tests.routing.kafka_cluster import NODES, PARTITIONS, Address, KafkaCluster, place

from penstock.wire.kafka.messages.groups.group_admin import ListGroupsRequest, ListGroupsResponse


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


def test_a_group_is_listed_by_its_coordinator_and_deleted_there(cluster: KafkaCluster) -> None:
    """Although it has come somewhere only on a partition that another node owns."""
    group = next(name for name in map("group-{}".format, range(50)) if coordinator(cluster, name) == 3)
    admin = AdminClient({"bootstrap.servers": cluster.address(1)})
    consumer = Consumer({"bootstrap.servers": cluster.address(1), "group.id": group})
    consumer.assign([Place("orders", 0)])  # Of node 1.
    consumer.commit(offsets=[Place("orders", 0, 0)], asynchronous=False)
    consumer.close()

    assert [listed(cluster, node) for node in NODES] == [[], [], [group]]
    described = admin.describe_consumer_groups([group])[group].result(10)
    assert described.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(10)
    assert [listed(cluster, node) for node in NODES] == [[], [], []]
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([group])[group].result(10)


def test_a_group_with_members_is_not_deleted_whatever_node_has_its_offsets(cluster: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address(1)})
    consumer = Consumer(
        {"bootstrap.servers": cluster.address(1), "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    produce(Producer({"bootstrap.servers": cluster.address(2)}), 0, 1)
    assert consumed(consumer, 1) == [(0, 0)]
    consumer.commit(asynchronous=False)

    described = admin.describe_consumer_groups(["billing"])["billing"].result(10)
    assert (described.state.name, len(described.members)) == ("STABLE", 1)
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups(["billing"])["billing"].result(10)
    consumer.close()
    admin.delete_consumer_groups(["billing"])["billing"].result(10)


def coordinator(cluster: KafkaCluster, group: str) -> int:
    return cluster.nodes[0].table.coordinator_of(group)[0]


def listed(cluster: KafkaCluster, node: int) -> list[str]:
    """What one node answers; clients put the answers of all nodes together."""
    with Raw(Address(cluster.address(node))) as raw:
        found = raw.ask(ListGroupsRequest(), ListGroupsResponse, 4)
    return [each.group_id for each in found.groups]
