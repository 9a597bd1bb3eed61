"""Kafka's admin clients see the nodes of a cluster, and move partitions between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.cluster.nodes import Nodes
from tests.frontends.kafka.raw import Raw
from tests.server.process import until

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.kafka.messages.positions import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

TOPIC = "replicated"
PARTITIONS = 3


@dataclass
class Address:
    address: str


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder: Path = tmp_path_factory.mktemp("view")
    with Nodes(folder, f"file://{folder}/store") as nodes:
        admin = AdminClient({"bootstrap.servers": address(nodes, 1).address})
        wanted = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([wanted])[TOPIC].result(30)
        with nodes.connect(1) as broker:
            for number in range(PARTITIONS):
                broker.publish(TOPIC, b"order", partition=number)
        yield nodes


def address(nodes: Nodes, node: int) -> Address:
    server = nodes.servers[node - 1]
    return Address(f"{server.host}:{server.ports['kafka']}")


def leaders(nodes: Nodes) -> dict[int, tuple[int, int]]:
    with nodes.connect(1) as broker:
        found = broker.cluster_info().partitions
    return {each.partition: (each.node, each.epoch) for each in found if each.topic == TOPIC}


def reassign(nodes: Nodes, replicas: dict[int, list[int] | None]) -> list[int]:
    partitions = [ReassignablePartition(number, each) for number, each in replicas.items()]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(TOPIC, partitions)])
    with Raw(address(nodes, 2)) as raw:
        [topic] = raw.ask(request, AlterPartitionReassignmentsResponse, 0).responses
    return [each.error_code for each in topic.partitions]


def test_new_partitions_are_at_the_first_broker_of_their_assignment(nodes: Nodes) -> None:
    admin = AdminClient({"bootstrap.servers": address(nodes, 1).address})
    wanted = NewTopic("assigned", 3, replica_assignment=[[3, 1], [1, 2], [2, 3]])
    unknown = NewTopic("unassigned", 1, replica_assignment=[[1, 9]])

    admin.create_topics([wanted])["assigned"].result(30)
    admin.create_partitions([NewPartitions("assigned", 4, replica_assignment=[[3, 2]])])["assigned"].result(
        30
    )

    with nodes.connect(2) as broker:
        found = broker.cluster_info().partitions
    assigned = [each for each in found if each.topic == "assigned"]
    assert {each.partition: (each.node, each.preferred) for each in assigned} == {
        0: (3, 3), 1: (1, 1), 2: (2, 2), 3: (3, 3),
    }  # fmt: skip
    with pytest.raises(KafkaException, match="different brokers out of 1, 2, 3"):
        admin.create_topics([unknown])["unassigned"].result(30)


def test_a_reassignment_moves_the_partition_to_its_first_replica(nodes: Nodes) -> None:
    replicas: dict[int, list[int] | None] = {
        number: [number + 1, 1 + (number + 1) % 3] for number in range(3)
    }

    codes = reassign(nodes, replicas)

    assert codes == [0, 0, 0]
    until(lambda: {number: node for number, (node, _) in leaders(nodes).items()} == {0: 1, 1: 2, 2: 3})
    with Raw(address(nodes, 3)) as raw:
        listed = raw.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, 0)
        elected = raw.ask(ElectLeadersRequest(), ElectLeadersResponse, 2)
    assert [topic.name for topic in listed.topics] == []
    assert elected.replica_election_results == []


@pytest.mark.parametrize("replicas", [[4], [1, 1], []])
def test_a_reassignment_to_nodes_that_there_are_not_is_refused(nodes: Nodes, replicas: list[int]) -> None:
    assert reassign(nodes, {0: replicas}) == [Code.INVALID_REPLICA_ASSIGNMENT]
    assert reassign(nodes, {7: [1]}) == [Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_node_describes_the_partitions_that_it_owns(nodes: Nodes) -> None:
    found: dict[int, int] = {}
    for node in (1, 2, 3):
        with Raw(address(nodes, node)) as raw:
            [result] = raw.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4).results
        found |= {
            each.partition_index: node
            for topic in result.topics
            if topic.name == TOPIC
            for each in topic.partitions
        }

    assert found == {number: node for number, (node, _) in leaders(nodes).items()}


def test_the_epoch_of_a_former_leader_is_fenced_and_its_records_are_all_there(nodes: Nodes) -> None:
    [before, before_epoch] = leaders(nodes)[0]
    target = 1 + before % 3
    assert reassign(nodes, {0: [target]}) == [0]
    until(lambda: leaders(nodes)[0][0] == target)
    epoch = leaders(nodes)[0][1]

    with Raw(address(nodes, target)) as raw:
        codes = [
            raw.ask(
                ListOffsetsRequest(topics=[ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, known, -1)])]),
                ListOffsetsResponse,
                7,
            )
            .topics[0]
            .partitions[0]
            .error_code
            for known in (before_epoch, epoch, epoch + 1)
        ]
        asked = OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, epoch, before_epoch)])
        ended = raw.ask(OffsetForLeaderEpochRequest(topics=[asked]), OffsetForLeaderEpochResponse, 4)
    with Raw(address(nodes, before)) as raw:
        moved = raw.ask(
            ListOffsetsRequest(topics=[ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, epoch, -1)])]),
            ListOffsetsResponse,
            7,
        )

    assert codes == [Code.FENCED_LEADER_EPOCH, Code.NONE, Code.UNKNOWN_LEADER_EPOCH]
    assert ended.topics[0].partitions[0].end_offset == 1
    assert moved.topics[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER
