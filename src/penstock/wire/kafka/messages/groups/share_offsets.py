"""Start offsets of share groups (KIP-932): to describe, alter and delete them."""

from typing import Annotated

from penstock.wire.kafka.fields import (
    NO_UUID,
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


class DescribeShareGroupOffsetsRequestTopic(Part):
    """The topics to describe offsets for, or null for all topic-partitions."""

    topic_name: String = ""
    partitions: list[Int32] = []


class DescribeShareGroupOffsetsRequestGroup(Part):
    """The groups to describe offsets for."""

    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = []


@api(90, versions=(0, 1), flexible=0)
class DescribeShareGroupOffsetsRequest(KafkaMessage):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = []


class DescribeShareGroupOffsetsResponsePartition(Part):
    """The results for each partition."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, Versions(1)] = -1
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Part):
    """The results for each topic."""

    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponseGroup(Part):
    """The results for each group."""

    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: Int16 = 0
    error_message: String | None = None


@api(90, versions=(0, 1), flexible=0)
class DescribeShareGroupOffsetsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []


class AlterShareGroupOffsetsRequestPartition(Part):
    """Each partition to alter offsets for."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Part):
    """The topics to alter offsets for."""

    topic_name: String = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []


@api(91, versions=(0, 0), flexible=0)
class AlterShareGroupOffsetsRequest(KafkaMessage):
    group_id: String = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = []


class AlterShareGroupOffsetsResponsePartition(Part):
    """The results for each partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(Part):
    """The results for each topic."""

    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []


@api(91, versions=(0, 0), flexible=0)
class AlterShareGroupOffsetsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = []


class DeleteShareGroupOffsetsRequestTopic(Part):
    """The topics to delete offsets for."""

    topic_name: String = ""


@api(92, versions=(0, 0), flexible=0)
class DeleteShareGroupOffsetsRequest(KafkaMessage):
    group_id: String = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []


class DeleteShareGroupOffsetsResponseTopic(Part):
    """The results for each topic."""

    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


@api(92, versions=(0, 0), flexible=0)
class DeleteShareGroupOffsetsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
