"""Groups of Kafka Streams in which the broker assigns tasks (KIP-1071).

StreamsGroupHeartbeat, StreamsGroupDescribe.
"""

from msgspec import field

from penstock.wire.kafka.fields import (
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    String,
    UInt16,
    api,
)
from penstock.wire.kafka.messages.parts import TopicPartitions

NOT_ASKED = -(2**31)  # Operations that were not asked for.


class KeyValue(Part):
    key: String = ""
    value: String = ""


class StreamsTopicInfo(Part):
    """A topic that is made for the application."""

    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = []


class CopartitionGroup(Part):
    """Topics that must be partitioned alike, by their places in the lists of the subtopology."""

    source_topics: list[Int16] = []
    source_topic_regex: list[Int16] = []
    repartition_source_topics: list[Int16] = []


class RequestedSubtopology(Part):
    """A part of the application that works on its own."""

    subtopology_id: String = ""
    source_topics: list[String] = []
    source_topic_regex: list[String] = []
    state_changelog_topics: list[StreamsTopicInfo] = []
    repartition_sink_topics: list[String] = []
    repartition_source_topics: list[StreamsTopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


class RequestedTopology(Part):
    """What the application reads, writes and keeps."""

    epoch: Int32 = 0
    subtopologies: list[RequestedSubtopology] = []


class TaskIds(Part):
    subtopology_id: String = ""
    partitions: list[Int32] = []


class StreamsEndpoint(Part):
    """Where a member answers queries."""

    host: String = ""
    port: UInt16 = 0


class TaskOffset(Part):
    """How far a task is."""

    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


@api(88, versions=(0, 0), flexible=0)
class StreamsGroupHeartbeatRequest(KafkaMessage):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: RequestedTopology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: Bool = False


class StreamsStatus(Part):
    """Something that keeps the group from working."""

    status_code: Int8 = 0
    status_detail: String = ""


class EndpointToPartitions(Part):
    """What a member can be asked about."""

    user_endpoint: StreamsEndpoint = field(default_factory=StreamsEndpoint)
    active_partitions: list[TopicPartitions] = []
    standby_partitions: list[TopicPartitions] = []


@api(88, versions=(0, 0), flexible=0)
class StreamsGroupHeartbeatResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[StreamsStatus] | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


@api(89, versions=(0, 0), flexible=0)
class StreamsGroupDescribeRequest(KafkaMessage):
    group_ids: list[String] = []
    include_authorized_operations: Bool = False


class DescribedSubtopology(Part):
    """A part of the application that works on its own."""

    subtopology_id: String = ""
    source_topics: list[String] = []
    repartition_sink_topics: list[String] = []
    state_changelog_topics: list[StreamsTopicInfo] = []
    repartition_source_topics: list[StreamsTopicInfo] = []


class DescribedTopology(Part):
    """What the application reads, writes and keeps."""

    epoch: Int32 = 0
    subtopologies: list[DescribedSubtopology] | None = None


class StreamsAssignment(Part):
    """The tasks of a member."""

    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


class StreamsMember(Part):
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: StreamsEndpoint | None = None
    client_tags: list[KeyValue] = []
    task_offsets: list[TaskOffset] = []
    task_end_offsets: list[TaskOffset] = []
    assignment: StreamsAssignment = field(default_factory=StreamsAssignment)
    target_assignment: StreamsAssignment = field(default_factory=StreamsAssignment)
    is_classic: Bool = False


class DescribedStreamsGroup(Part):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: DescribedTopology | None = None
    members: list[StreamsMember] = []
    authorized_operations: Int32 = NOT_ASKED


@api(89, versions=(0, 0), flexible=0)
class StreamsGroupDescribeResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedStreamsGroup] = []
