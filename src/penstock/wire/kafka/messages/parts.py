"""Parts that messages of several APIs have in common."""

from typing import Final

from penstock.wire.kafka.fields import NO_UUID, Int16, Int32, Part, String, Uuid


class LeaderIdAndEpoch(Part):
    """The current leader of a partition."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


NO_LEADER: Final = LeaderIdAndEpoch()  # Shared by all that name none: never change it.


class NodeEndpoint(Part):
    """Where a leader listens that a response names."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


# Partitions of a topic.  Kafka names the same fields differently from API to API.


class TopicPartitions(Part):
    topic: String = ""
    partitions: list[Int32] = []


class NamePartitions(Part):
    name: String = ""
    partitions: list[Int32] = []


class NamePartitionIndexes(Part):
    name: String = ""
    partition_indexes: list[Int32] = []


class TopicIdPartitions(Part):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class NamedTopicPartitions(Part):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = []


class TopicCursor(Part):
    """Where a list of partitions continues."""

    topic_name: String = ""
    partition_index: Int32 = 0


class AssignedPartitions(Part):
    """The assignment of a group member in the response to its heartbeat."""

    topic_partitions: list[TopicIdPartitions] = []


class DescribedAssignment(Part):
    """The assignment of a group member in the description of its group."""

    topic_partitions: list[NamedTopicPartitions] = []


class PartitionError(Part):
    partition_index: Int32 = 0
    error_code: Int16 = 0
