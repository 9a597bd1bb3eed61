"""Where a log begins and ends, and where a time is in it.

ListOffsets, OffsetForLeaderEpoch, DeleteRecords.
"""

from typing import Annotated

from penstock.wire.kafka.fields import Int8, Int16, Int32, Int64, KafkaMessage, Part, String, Versions, api


class ListOffsetsPartition(Part):
    """Each partition in the request."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Versions(4)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Part):
    """Each topic in the request."""

    name: String = ""
    partitions: list[ListOffsetsPartition] = []


@api(2, versions=(1, 11), flexible=6)
class ListOffsetsRequest(KafkaMessage):
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


@api(2, versions=(1, 11), flexible=6)
class ListOffsetsResponse(KafkaMessage):
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


@api(23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest(KafkaMessage):
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


@api(23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse(KafkaMessage):
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


@api(21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest(KafkaMessage):
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


@api(21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = []
