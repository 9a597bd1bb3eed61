"""Groups whose members are connected to different nodes, and whose partitions have several owners."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from tests.frontends.kafka.raw import Raw
from tests.routing.kafka_cluster import NODES, PARTITIONS, Address, KafkaCluster
from tests.routing.test_clients import broker, impatient, server, url  # noqa: F401 - fixtures
from tests.routing.test_native import NativeServer
from tests.server.process import until

import penstock
from penstock.model.message import Message
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.share import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

MESSAGES = 60
ROUNDS_MAX = 300  # Of 0.2 s or less; far more than it takes.


def fill(cluster: KafkaCluster) -> set[bytes]:
    producer = Producer({"bootstrap.servers": cluster.address(1)})
    values = {b"%d" % number for number in range(MESSAGES)}
    for number, value in enumerate(sorted(values)):
        producer.produce("orders", value, partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    return values


def test_members_of_a_consumer_group_at_different_nodes_share_its_partitions(cluster: KafkaCluster) -> None:
    values = fill(cluster)
    consumers = [
        Consumer(
            {
                "bootstrap.servers": cluster.address(node),
                "group.id": "billing",
                "auto.offset.reset": "earliest",
            }
        )
        for node in NODES
    ]
    for consumer in consumers:
        consumer.subscribe(["orders"])
    received: dict[bytes, int] = {}
    for _ in range(ROUNDS_MAX):
        for number, consumer in enumerate(consumers):
            for message in consumer.consume(100, 0.05):
                assert message.error() is None
                received[message.value() or b""] = number
        counts = [len(consumer.assignment()) for consumer in consumers]
        if counts == [2, 2, 2] and received.keys() == values:
            break
    for consumer in consumers:
        consumer.close()  # It commits.

    assert counts == [2, 2, 2]
    assert received.keys() == values
    assert cluster.run(cluster.nodes[1].broker.describe_group("orders", "billing")).lag == 0


def test_members_of_a_share_group_at_different_nodes_settle_each_message_once(cluster: KafkaCluster) -> None:
    cluster.run(cluster.nodes[0].broker.create_group("orders", "workers", start="earliest"))
    values = fill(cluster)
    consumers = [
        ShareConsumer(
            {
                "bootstrap.servers": cluster.address(node),
                "group.id": "workers",
                "share.acknowledgement.mode": "explicit",
            }
        )
        for node in NODES
    ]
    for consumer in consumers:
        consumer.subscribe(["orders"])
    received: Counter[bytes] = Counter()
    for _ in range(ROUNDS_MAX):
        for consumer in consumers:
            for message in consumer.poll(0.05):
                assert message.error() is None
                received[message.value() or b""] += 1
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            consumer.commit_sync()
        if received.keys() == values:
            break
    for consumer in consumers:
        consumer.close()

    assert received == dict.fromkeys(values, 1)
    assert cluster.run(cluster.nodes[1].broker.describe_group("orders", "workers")).lag == 0


def shared(consumers: list[Any]) -> bool:
    """Whether the partitions are divided; a receive asks for the assignment."""
    for consumer in consumers:
        assert consumer.receive(1, wait=0) == []
    return sorted(consumers[0].assignment + consumers[1].assignment) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["stream", "queue"])
def test_members_of_a_group_at_different_nodes_get_each_message_once(
    server: NativeServer,  # noqa: F811 - a fixture
    broker: Any,  # noqa: F811 - a fixture
    kind: Any,
) -> None:
    broker.create_group("orders", "lake", kind=kind, start="earliest")
    with penstock.connect(url(server, 2)) as other, ThreadPoolExecutor() as threads:
        consumers = [each.consumer("orders", group="lake") for each in (broker, other)]
        if kind == "stream":
            until(lambda: shared(consumers))
        receipts = broker.publish_batch(
            "orders", [Message(b"%d" % each, partition=each % 4) for each in range(40)]
        )

        received: list[list[str]] = [[], []]

        def work(number: int) -> None:
            """Without waiting: time passes only if a test says so."""
            while sum(map(len, received)) < len(receipts):
                messages = consumers[number].receive(3, wait=0)
                received[number] += [message.id for message in messages]
                if kind == "stream":
                    consumers[number].commit()
                elif messages:
                    consumers[number].ack(messages)

        for done in [threads.submit(work, number) for number in (0, 1)]:
            done.result(60)

        assert Counter(received[0] + received[1]) == {receipt.id: 1 for receipt in receipts}
        if kind == "stream":
            assert all(received)
        assert broker.describe_group("orders", "lake").lag == 0
        for consumer in consumers:
            consumer.close()


def test_heartbeats_of_a_share_group_belong_to_its_coordinator(cluster: KafkaCluster) -> None:
    beat = ShareGroupHeartbeatRequest(
        group_id="workers", member_id="m", member_epoch=0, rack_id=None, subscribed_topic_names=["orders"]
    )
    coordinator, _ = cluster.nodes[0].table.coordinator_of("workers")
    answers = {}
    for node in NODES:
        with Raw(Address(cluster.address(node))) as raw:
            answers[node] = raw.ask(beat, ShareGroupHeartbeatResponse, 1).error_code

    assert answers == {node: 0 if node == coordinator else Code.NOT_COORDINATOR for node in NODES}


def test_a_member_whose_group_has_a_new_coordinator_is_not_lost_at_the_old_one(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = ShareGroupHeartbeatRequest(
        group_id="workers", member_id="m", member_epoch=0, rack_id=None, subscribed_topic_names=["orders"]
    )
    table = cluster.nodes[0].table
    coordinator, _ = table.coordinator_of("workers")
    shares = cluster._listeners[coordinator - 1][0].shared.shares
    with Raw(Address(cluster.address(coordinator))) as raw:
        raw.ask(beat, ShareGroupHeartbeatResponse, 1)
        [member] = shares.members("workers")
        lost: list[bool] = []
        monkeypatch.setattr(member, "close", lost.append)

        async def move_and_wait() -> None:
            for node in cluster.nodes:
                node.table.place = lambda *_: coordinator % 3 + 1
            shares.tick(member.deadline_ms)

        cluster.run(move_and_wait())

    assert shares.members("workers") == []
    assert lost == [False]  # Closed, and what it held is no failed attempt.
