"""Replicas and log directories: DescribeLogDirs, ElectLeaders, partition reassignments.

DescribeLogDirs, AlterReplicaLogDirs, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.

A partition has one owner, which is its leader and its only replica; the copies are in the store of the
cluster.  So a reassignment is a move to the first of the new replicas, and an election one to the node that
should own the partition.  A node has one directory.  Without a cluster nothing is elected, and nothing moves.
"""

import asyncio
from functools import partial
from typing import Any, Final, NamedTuple

from penstock.errors import PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall, by_partition
from penstock.frontends.kafka.errors import cluster_code, code_of
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from penstock.wire.kafka.messages.parts import PartitionError


class Target(NamedTuple):
    """The node that a partition moves to; -1: it stays, for the reason in the code."""

    code: int
    node: int


LOG_DIR: Final = "data"  # A name for it; clients do not see where it is on the server's disk.


async def describe_log_dirs(call: KafkaCall[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    asked = call.request.topics
    if asked is None:
        wanted = dict.fromkeys(call.operations.topics())
    else:
        wanted = {topic.topic: topic.partitions for topic in asked}
    topics = []
    for name, numbers in wanted.items():
        try:
            info = await call.run(call.operations.describe_topic(name))
        except PenstockError:  # What is not there, or not for this client, is not in the directory.
            continue
        sizes = [
            DescribeLogDirsPartition(partition_index=each.partition, partition_size=each.bytes)
            for each in info.partitions
            if (numbers is None or each.partition in numbers)
            and call.owners.owner_of(name, each.partition)[0] == call.owners.node
        ]
        topics.append(DescribeLogDirsTopic(name=name, partitions=sizes))
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=LOG_DIR, topics=topics)])


def alter_replica_log_dirs(call: KafkaCall[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
    """Accept the directory where replicas already are, and refuse all others."""
    results = []
    for directory in call.request.dirs:
        asked = ((topic.name, topic.partitions) for topic in directory.topics)
        results += by_partition(asked, AlterReplicaLogDirTopicResult, partial(_placed, call, directory.path))
    return AlterReplicaLogDirsResponse(results=results)


def _placed(call: KafkaCall[AlterReplicaLogDirsRequest], path: str, name: str, number: int) -> PartitionError:
    code = Code.LOG_DIR_NOT_FOUND if path != LOG_DIR else _missing(call, name, number)
    return PartitionError(number, code)


async def elect_leaders(call: KafkaCall[ElectLeadersRequest]) -> ElectLeadersResponse:
    """Move partitions to their preferred nodes."""
    asked = call.request.topic_partitions
    if asked is None:  # All: those that need no election are left out.
        wanted = {name: numbers for name in call.operations.topics() if (numbers := _misplaced(call, name))}
    else:
        wanted = {topic.topic: topic.partitions for topic in asked}
    moves = [(name, number, _elected(call, name, number)) for name in wanted for number in wanted[name]]
    codes = await asyncio.gather(*(_move(call, *move) for move in moves))
    found = {(name, number): code for (name, number, _), code in zip(moves, codes, strict=True)}
    return ElectLeadersResponse(
        replica_election_results=by_partition(
            wanted.items(),
            ReplicaElectionResult,
            lambda name, number: PartitionResult(
                partition_id=number, error_code=found[name, number], error_message=None
            ),
        )
    )


def _misplaced(call: KafkaCall[Any], name: str) -> list[int]:
    """The partitions of a topic that are not owned by their preferred node."""
    owners = call.owners
    return [
        number
        for number in range(call.operations.layout(name).partitions)
        if owners.preferred_of(name, number) not in (-1, owners.owner_of(name, number)[0])
    ]


def _elected(call: KafkaCall[ElectLeadersRequest], name: str, number: int) -> Target:
    code = _missing(call, name, number)
    if not code and number not in _misplaced(call, name):
        code = Code.ELECTION_NOT_NEEDED
    return Target(code, call.owners.preferred_of(name, number) if not code else -1)


async def _move(call: KafkaCall[Any], name: str, number: int, target: Target) -> int:
    if target.code or target.node < 0:
        return target.code
    try:
        await call.run(call.operations.move_partition(name, number, target.node))
    except PenstockError as error:
        return cluster_code(error)
    return Code.NONE


async def alter_partition_reassignments(
    call: KafkaCall[AlterPartitionReassignmentsRequest],
) -> AlterPartitionReassignmentsResponse:
    """Move each partition to the first of its new replicas; the store keeps the copies."""
    moves = [
        (topic.name, wanted.partition_index, _reassigned(call, topic.name, wanted))
        for topic in call.request.topics
        for wanted in topic.partitions
    ]
    codes = await asyncio.gather(*(_move(call, *move) for move in moves))
    found = {(name, number): code for (name, number, _), code in zip(moves, codes, strict=True)}
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        responses=by_partition(
            ((topic.name, topic.partitions) for topic in call.request.topics),
            ReassignableTopicResponse,
            lambda name, wanted: ReassignablePartitionResponse(
                partition_index=wanted.partition_index,
                error_code=found[name, wanted.partition_index],
                error_message=None,
            ),
        ),
    )


def _reassigned(
    call: KafkaCall[AlterPartitionReassignmentsRequest], name: str, wanted: ReassignablePartition
) -> Target:
    number, replicas = wanted.partition_index, wanted.replicas
    code = _missing(call, name, number)
    if code:
        return Target(code, -1)
    owner, _ = call.owners.owner_of(name, number)
    if replicas is None:  # Cancel: it stays where it is.
        moving = number in _misplaced(call, name)
        return Target(Code.NONE, owner) if moving else Target(Code.NO_REASSIGNMENT_IN_PROGRESS, -1)
    nodes = call.session.brokers
    if not replicas or len(set(replicas)) < len(replicas) or not set(replicas) <= nodes.keys():
        return Target(Code.INVALID_REPLICA_ASSIGNMENT, -1)
    # Also one that is there already: it is to stay.
    return Target(Code.NONE, replicas[0] if call.owners.nodes() else -1)


def _missing(call: KafkaCall[Any], name: str, number: int) -> int:
    """Why a requested partition is refused."""
    try:
        there = 0 <= number < call.operations.layout(name).partitions
    except PenstockError as error:
        return code_of(error)
    return Code.NONE if there else Code.UNKNOWN_TOPIC_OR_PARTITION


def list_partition_reassignments(
    call: KafkaCall[ListPartitionReassignmentsRequest],
) -> ListPartitionReassignmentsResponse:
    """The partitions that are being moved."""
    asked = call.request.topics
    if asked is None:
        wanted = {name: _misplaced(call, name) for name in call.operations.topics()}
    else:
        wanted = {
            topic.name: sorted({*topic.partition_indexes} & {*_misplaced(call, topic.name)})
            for topic in asked
            if not _missing(call, topic.name, 0)
        }
    topics = ((name, numbers) for name, numbers in wanted.items() if numbers)
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=by_partition(topics, OngoingTopicReassignment, partial(_ongoing, call))
    )


def _ongoing(
    call: KafkaCall[ListPartitionReassignmentsRequest], name: str, number: int
) -> OngoingPartitionReassignment:
    owner, _ = call.owners.owner_of(name, number)
    target = call.owners.preferred_of(name, number)
    return OngoingPartitionReassignment(
        partition_index=number, replicas=[target, owner], adding_replicas=[target], removing_replicas=[owner]
    )


APIS = (
    Api(DescribeLogDirsRequest, DescribeLogDirsResponse, describe_log_dirs),
    Api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, alter_replica_log_dirs),
    Api(ElectLeadersRequest, ElectLeadersResponse, elect_leaders),
    Api(
        AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, alter_partition_reassignments
    ),
    Api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, list_partition_reassignments),
)
