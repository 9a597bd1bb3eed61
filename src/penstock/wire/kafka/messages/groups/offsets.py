"""How far a group is in its partitions: OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Annotated

from penstock.wire.kafka.fields import (
    NEVER,
    NO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    String,
    Uuid,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import PartitionError


class OffsetCommitRequestPartition(Part):
    """Each partition to commit offsets for."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions(6)] = -1
    committed_metadata: String | None = ""


class OffsetCommitRequestTopic(Part):
    """The topics to commit offsets for."""

    name: Annotated[String, Versions(0, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = []


@api(8, versions=(2, 10), flexible=8)
class OffsetCommitRequest(KafkaMessage):
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions(7)] = None
    retention_time_ms: Annotated[Int64, Versions(0, 4)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponseTopic(Part):
    """The responses for each topic."""

    name: Annotated[String, Versions(0, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partitions: list[PartitionError] = []


@api(8, versions=(2, 10), flexible=8)
class OffsetCommitResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    topics: list[OffsetCommitResponseTopic] = []


class OffsetFetchRequestTopic(Part):
    """Each topic we would like to fetch offsets for, or null to fetch offsets for all topics."""

    name: Annotated[String, Versions(0, 7)] = ""
    partition_indexes: Annotated[list[Int32], Versions(0, 7)] = []


class OffsetFetchRequestTopics(Part):
    """Each topic we would like to fetch offsets for, or null to fetch offsets for all topics."""

    name: Annotated[String, Versions(0, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partition_indexes: list[Int32] = []


class OffsetFetchRequestGroup(Part):
    """Each group we would like to fetch offsets for."""

    group_id: String = ""
    member_id: Annotated[String | None, Versions(9)] = None
    member_epoch: Annotated[Int32, Versions(9)] = -1
    topics: list[OffsetFetchRequestTopics] | None = []


@api(9, versions=(1, 10), flexible=6)
class OffsetFetchRequest(KafkaMessage):
    group_id: Annotated[String, Versions(0, 7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Versions(0, 7, nullable=2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], Versions(8)] = []
    require_stable: Annotated[Bool, Versions(7)] = False


class OffsetFetchResponsePartition(Part):
    partition_index: Annotated[Int32, Versions(0, 7)] = 0
    committed_offset: Annotated[Int64, Versions(0, 7)] = 0
    committed_leader_epoch: Annotated[Int32, Versions(5, 7)] = -1
    metadata: Annotated[String | None, Versions(0, 7)] = ""
    error_code: Annotated[Int16, Versions(0, 7)] = 0


class OffsetFetchResponseTopic(Part):
    name: Annotated[String, Versions(0, 7)] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], Versions(0, 7)] = []


class OffsetFetchResponsePartitions(Part):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Part):
    name: Annotated[String, Versions(0, 9)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = []


class OffsetFetchResponseGroup(Part):
    """The responses per group id."""

    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = []
    error_code: Int16 = 0


@api(9, versions=(1, 10), flexible=6)
class OffsetFetchResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Versions(0, 7)] = []
    error_code: Annotated[Int16, Versions(2, 7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Versions(8)] = []


class OffsetDeleteRequestPartition(Part):
    """Each partition to delete offsets for."""

    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Part):
    """The topics to delete offsets for."""

    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = []


@api(47, versions=(0, 0), flexible=NEVER)
class OffsetDeleteRequest(KafkaMessage):
    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponseTopic(Part):
    """The responses for each topic."""

    name: String = ""
    partitions: list[PartitionError] = []


@api(47, versions=(0, 0), flexible=NEVER)
class OffsetDeleteResponse(KafkaMessage):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
