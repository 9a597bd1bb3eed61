"""Replicas, and where they are.

DescribeLogDirs, AlterReplicaLogDirs, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.
"""

from typing import Annotated, ClassVar

from penstock.wire.kafka.fields import Bool, Int8, Int16, Int32, Int64, KafkaMessage, Part, String, Versions


class DescribableLogDirTopic(Part):
    """Each topic that we want to describe log directories for, or null for all topics."""

    topic: String = ""
    partitions: list[Int32] = []


class DescribeLogDirsRequest(KafkaMessage):
    KEY: ClassVar = 35
    VERSIONS: ClassVar = (1, 4)
    FLEXIBLE: ClassVar = 2

    topics: list[DescribableLogDirTopic] | None = []


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


class DescribeLogDirsResponse(KafkaMessage):
    KEY: ClassVar = 35
    VERSIONS: ClassVar = (1, 4)
    FLEXIBLE: ClassVar = 2

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(3)] = 0
    results: list[DescribeLogDirsResult] = []


class TopicPartitions(Part):
    """The topic partitions to elect leaders."""

    topic: String = ""
    partitions: list[Int32] = []


class ElectLeadersRequest(KafkaMessage):
    KEY: ClassVar = 43
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 2

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


class ElectLeadersResponse(KafkaMessage):
    KEY: ClassVar = 43
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 2

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Versions(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []


class ReassignablePartition(Part):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class ReassignableTopic(Part):
    name: String = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(KafkaMessage):
    KEY: ClassVar = 45
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

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


class AlterPartitionReassignmentsResponse(KafkaMessage):
    KEY: ClassVar = 45
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = []


class ListPartitionReassignmentsTopics(Part):
    """The topics to list partition reassignments for, or null to list everything."""

    name: String = ""
    partition_indexes: list[Int32] = []


class ListPartitionReassignmentsRequest(KafkaMessage):
    KEY: ClassVar = 46
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


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


class ListPartitionReassignmentsResponse(KafkaMessage):
    KEY: ClassVar = 46
    VERSIONS: ClassVar = (0, 0)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = []


class AlterReplicaLogDirTopic(Part):
    """The topics to add to the directory."""

    name: String = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Part):
    """The alterations to make for each directory."""

    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(KafkaMessage):
    KEY: ClassVar = 34
    VERSIONS: ClassVar = (1, 2)
    FLEXIBLE: ClassVar = 2

    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Part):
    """The results for each partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Part):
    """The results for each topic."""

    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(KafkaMessage):
    KEY: ClassVar = 34
    VERSIONS: ClassVar = (1, 2)
    FLEXIBLE: ClassVar = 2

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
