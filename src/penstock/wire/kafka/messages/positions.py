"""Where a log begins and ends, and where a time is in it.

ListOffsets, OffsetForLeaderEpoch, DeleteRecords.
"""

from typing import Annotated, ClassVar

from penstock.wire.kafka.fields import Int8, Int16, Int32, Int64, KafkaMessage, Part, String, Versions


class ListOffsetsPartition(Part):
    """Each partition in the request."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions(4)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Part):
    """Each topic in the request."""

    name: String = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(KafkaMessage):
    KEY: ClassVar = 2
    VERSIONS: ClassVar = (1, 11)
    FLEXIBLE: ClassVar = 6

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Versions(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[Int32, Versions(10)] = 0


class ListOffsetsPartitionResponse(Part):
    """Each partition in the response."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Versions(4)] = -1


class ListOffsetsTopicResponse(Part):
    """Each topic in the response."""

    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(KafkaMessage):
    KEY: ClassVar = 2
    VERSIONS: ClassVar = (1, 11)
    FLEXIBLE: ClassVar = 6

    throttle_time_ms: Annotated[Int32, Versions(2)] = 0
    topics: list[ListOffsetsTopicResponse] = []


class OffsetForLeaderPartition(Part):
    """Each partition to get offsets for."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Part):
    """Each topic to get offsets for."""

    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(KafkaMessage):
    KEY: ClassVar = 23
    VERSIONS: ClassVar = (2, 4)
    FLEXIBLE: ClassVar = 4

    replica_id: Annotated[Int32, Versions(3)] = -2
    topics: list[OffsetForLeaderTopic] = []


class LeaderEpochEndOffset(Part):
    """Each partition in the topic we fetched offsets for."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Part):
    """Each topic we fetched offsets for."""

    topic: String = ""
    partitions: list[LeaderEpochEndOffset] = []


class OffsetForLeaderEpochResponse(KafkaMessage):
    KEY: ClassVar = 23
    VERSIONS: ClassVar = (2, 4)
    FLEXIBLE: ClassVar = 4

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = []


class DeleteRecordsPartition(Part):
    """Each partition that we want to delete records from."""

    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Part):
    """Each topic that we want to delete records from."""

    name: String = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(KafkaMessage):
    KEY: ClassVar = 21
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 2

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Part):
    """Each partition that we wanted to delete records from."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Part):
    """Each topic that we wanted to delete records from."""

    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(KafkaMessage):
    KEY: ClassVar = 21
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 2

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
