"""Replicas, and where they are.

DescribeLogDirs, AlterReplicaLogDirs, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.
"""

from typing import Annotated

from penstock.wire.kafka.fields import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    String,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import (
    NamePartitionIndexes,
    NamePartitions,
    PartitionError,
    TopicPartitions,
)


@api(35, versions=(1, 4), flexible=2)
class DescribeLogDirsRequest(KafkaMessage):
    topics: list[TopicPartitions] | None = []


class DescribeLogDirsPartition(Part):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(Part):
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Part):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[Int64, Versions(4)] = -1
    usable_bytes: Annotated[Int64, Versions(4)] = -1


@api(35, versions=(1, 4), flexible=2)
class DescribeLogDirsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(3)] = 0
    results: list[DescribeLogDirsResult] = []


@api(43, versions=(0, 2), flexible=2)
class ElectLeadersRequest(KafkaMessage):
    election_type: Annotated[Int8, Versions(1)] = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: Int32 = 60000


class PartitionResult(Part):
    """The results for each partition."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(Part):
    """The election results, or an empty array if the requester did not have permission and the request asks
    for all partitions."""

    topic: String = ""
    partition_result: list[PartitionResult] = []


@api(43, versions=(0, 2), flexible=2)
class ElectLeadersResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []


class ReassignablePartition(Part):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class ReassignableTopic(Part):
    name: String = ""
    partitions: list[ReassignablePartition] = []


@api(45, versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsRequest(KafkaMessage):
    timeout_ms: Int32 = 60000
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(Part):
    """The responses to partitions to reassign."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(Part):
    """The responses to topics to reassign."""

    name: String = ""
    partitions: list[ReassignablePartitionResponse] = []


@api(45, versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = []


@api(46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest(KafkaMessage):
    timeout_ms: Int32 = 60000
    topics: list[NamePartitionIndexes] | None = None


class OngoingPartitionReassignment(Part):
    """The ongoing reassignments for each partition."""

    partition_index: Int32 = 0
    replicas: list[Int32] = []
    adding_replicas: list[Int32] = []
    removing_replicas: list[Int32] = []


class OngoingTopicReassignment(Part):
    """The ongoing reassignments for each topic."""

    name: String = ""
    partitions: list[OngoingPartitionReassignment] = []


@api(46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = []


class AlterReplicaLogDir(Part):
    """The alterations to make for each directory."""

    path: String = ""
    topics: list[NamePartitions] = []


@api(34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsRequest(KafkaMessage):
    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirTopicResult(Part):
    """The results for each topic."""

    topic_name: String = ""
    partitions: list[PartitionError] = []


@api(34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
