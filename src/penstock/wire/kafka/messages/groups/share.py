"""Groups that share the records of a partition (KIP-932).

ShareGroupHeartbeat, ShareGroupDescribe, ShareFetch, ShareAcknowledge.
"""

from typing import Annotated

from msgspec import field

from penstock.wire.kafka.fields import (
    NO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    Records,
    String,
    Uuid,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import (
    AssignedPartitions,
    DescribedAssignment,
    NodeEndpoint,
    TopicIdPartitions,
)


@api(76, versions=(1, 1), flexible=0)
class ShareGroupHeartbeatRequest(KafkaMessage):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@api(76, versions=(1, 1), flexible=0)
class ShareGroupHeartbeatResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: AssignedPartitions | None = None


@api(77, versions=(1, 1), flexible=0)
class ShareGroupDescribeRequest(KafkaMessage):
    group_ids: list[String] = []
    include_authorized_operations: Bool = False


class ShareGroupMember(Part):
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = []
    assignment: DescribedAssignment = field(default_factory=DescribedAssignment)


class DescribedShareGroup(Part):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[ShareGroupMember] = []
    authorized_operations: Int32 = -2147483648


@api(77, versions=(1, 1), flexible=0)
class ShareGroupDescribeResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedShareGroup] = []


class AcknowledgementBatch(Part):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = []


class ShareFetchPartition(Part):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class ShareFetchTopic(Part):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareFetchPartition] = []


@api(78, versions=(1, 2), flexible=0)
class ShareFetchRequest(KafkaMessage):
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, Versions(2)] = 0
    is_renew_ack: Annotated[Bool, Versions(2)] = False
    topics: list[ShareFetchTopic] = []
    forgotten_topics_data: list[TopicIdPartitions] = []


class ShareLeader(Part):
    """The current leader of the partition; unlike elsewhere, nothing said is 0."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Part):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class ShareFetchResponsePartitionData(Part):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: ShareLeader = field(default_factory=ShareLeader)
    records: Records = b""
    acquired_records: list[AcquiredRecords] = []


class ShareFetchableTopicResponse(Part):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareFetchResponsePartitionData] = []


@api(78, versions=(1, 2), flexible=0)
class ShareFetchResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


class AcknowledgePartition(Part):
    """The partitions containing records to acknowledge."""

    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class AcknowledgeTopic(Part):
    """The topics containing records to acknowledge."""

    topic_id: Uuid = NO_UUID
    partitions: list[AcknowledgePartition] = []


@api(79, versions=(1, 2), flexible=0)
class ShareAcknowledgeRequest(KafkaMessage):
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Bool, Versions(2)] = False
    topics: list[AcknowledgeTopic] = []


class ShareAcknowledgeResponsePartitionData(Part):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: ShareLeader = field(default_factory=ShareLeader)


class ShareAcknowledgeTopicResponse(Part):
    topic_id: Uuid = NO_UUID
    partitions: list[ShareAcknowledgeResponsePartitionData] = []


@api(79, versions=(1, 2), flexible=0)
class ShareAcknowledgeResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, Versions(2)] = 0
    responses: list[ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []
