"""What is asked of many brokers and disks.

DescribeLogDirs, AlterReplicaLogDirs, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.

Here there is one broker with one directory, so nothing is elected, nothing moves, and every partition is
where it is.
"""

from functools import partial
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall, by_partition
from penstock.frontends.kafka.errors import code_of
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirPartitionResult,
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
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)

LOG_DIR: Final = "data"  # A name for it; where it is on the server's disk is nobody's business.


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
            if numbers is None or each.partition in numbers
        ]
        topics.append(DescribeLogDirsTopic(name=name, partitions=sizes))
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=LOG_DIR, topics=topics)])


def alter_replica_log_dirs(call: KafkaCall[AlterReplicaLogDirsRequest]) -> AlterReplicaLogDirsResponse:
    """To the directory where they are already, or not at all."""
    results = []
    for directory in call.request.dirs:
        asked = ((topic.name, topic.partitions) for topic in directory.topics)
        results += by_partition(asked, AlterReplicaLogDirTopicResult, partial(_placed, call, directory.path))
    return AlterReplicaLogDirsResponse(results=results)


def _placed(
    call: KafkaCall[AlterReplicaLogDirsRequest], path: str, name: str, number: int
) -> AlterReplicaLogDirPartitionResult:
    code = Code.LOG_DIR_NOT_FOUND if path != LOG_DIR else _missing(call, name, number)
    return AlterReplicaLogDirPartitionResult(number, code)


def elect_leaders(call: KafkaCall[ElectLeadersRequest]) -> ElectLeadersResponse:
    """There is one, and it is the best."""
    asked = call.request.topic_partitions
    if asked is None:  # All: those that need no election are not told.
        return ElectLeadersResponse()
    topics = ((topic.topic, topic.partitions) for topic in asked)
    return ElectLeadersResponse(
        replica_election_results=by_partition(topics, ReplicaElectionResult, partial(_elected, call))
    )


def _elected(call: KafkaCall[ElectLeadersRequest], name: str, number: int) -> PartitionResult:
    code = _missing(call, name, number) or Code.ELECTION_NOT_NEEDED
    return PartitionResult(partition_id=number, error_code=code, error_message=None)


def alter_partition_reassignments(
    call: KafkaCall[AlterPartitionReassignmentsRequest],
) -> AlterPartitionReassignmentsResponse:
    """To where they are already, or not at all."""
    asked = ((topic.name, topic.partitions) for topic in call.request.topics)
    return AlterPartitionReassignmentsResponse(
        error_message=None, responses=by_partition(asked, ReassignableTopicResponse, partial(_moved, call))
    )


def _moved(
    call: KafkaCall[AlterPartitionReassignmentsRequest], name: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    code = _missing(call, name, wanted.partition_index)
    if not code and wanted.replicas is None:
        code = Code.NO_REASSIGNMENT_IN_PROGRESS
    elif not code and wanted.replicas != [call.owners.owner_of(name, wanted.partition_index)[0]]:
        code = Code.INVALID_REPLICA_ASSIGNMENT
    return ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_code=code, error_message=None
    )


def _missing(call: KafkaCall[Any], name: str, number: int) -> int:
    """What is wrong with a partition that is asked for."""
    try:
        there = 0 <= number < call.operations.layout(name).partitions
    except PenstockError as error:
        return code_of(error)
    return Code.NONE if there else Code.UNKNOWN_TOPIC_OR_PARTITION


def list_partition_reassignments(
    call: KafkaCall[ListPartitionReassignmentsRequest],  # noqa: ARG001 - whatever is asked for.
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)


APIS = (
    Api(request=DescribeLogDirsRequest, response=DescribeLogDirsResponse, handler=describe_log_dirs),
    Api(
        request=AlterReplicaLogDirsRequest,
        response=AlterReplicaLogDirsResponse,
        handler=alter_replica_log_dirs,
    ),
    Api(request=ElectLeadersRequest, response=ElectLeadersResponse, handler=elect_leaders),
    Api(
        request=AlterPartitionReassignmentsRequest,
        response=AlterPartitionReassignmentsResponse,
        handler=alter_partition_reassignments,
    ),
    Api(
        request=ListPartitionReassignmentsRequest,
        response=ListPartitionReassignmentsResponse,
        handler=list_partition_reassignments,
    ),
)
