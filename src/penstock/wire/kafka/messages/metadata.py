"""Which topics and partitions there are: Metadata, DescribeTopicPartitions."""

from typing import Annotated

from penstock.wire.kafka.fields import (
    NO_UUID,
    Bool,
    Int16,
    Int32,
    KafkaMessage,
    Part,
    String,
    Uuid,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import TopicCursor


class MetadataRequestTopic(Part):
    """The topics to fetch metadata for."""

    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    name: Annotated[String | None, Versions(nullable=10)] = ""


@api(3, versions=(0, 13), flexible=9)
class MetadataRequest(KafkaMessage):
    topics: Annotated[list[MetadataRequestTopic] | None, Versions(nullable=1)] = []
    allow_auto_topic_creation: Annotated[Bool, Versions(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, Versions(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, Versions(8)] = False


class MetadataResponseBroker(Part):
    """A list of brokers present in the cluster."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, Versions(1)] = None


class MetadataResponsePartition(Part):
    """Each partition in the topic."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Versions(7)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], Versions(5)] = []


class MetadataResponseTopic(Part):
    """Each topic in the response."""

    error_code: Int16 = 0
    name: Annotated[String | None, Versions(nullable=12)] = ""
    topic_id: Annotated[Uuid, Versions(10)] = NO_UUID
    is_internal: Annotated[Bool, Versions(1)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, Versions(8)] = -2147483648


@api(3, versions=(0, 13), flexible=9)
class MetadataResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(3)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[String | None, Versions(2)] = None
    controller_id: Annotated[Int32, Versions(1)] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, Versions(8, 10)] = -2147483648
    error_code: Annotated[Int16, Versions(13)] = 0


class TopicRequest(Part):
    """The topics to fetch details for."""

    name: String = ""


@api(75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest(KafkaMessage):
    topics: list[TopicRequest] = []
    response_partition_limit: Int32 = 2000
    cursor: TopicCursor | None = None


class DescribeTopicPartitionsResponsePartition(Part):
    """Each partition in the topic."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = []


class DescribeTopicPartitionsResponseTopic(Part):
    """Each topic in the response."""

    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = NO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: Int32 = -2147483648


@api(75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: TopicCursor | None = None
