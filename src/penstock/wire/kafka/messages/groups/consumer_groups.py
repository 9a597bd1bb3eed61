"""Membership of a group, by the newer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from typing import Annotated, ClassVar

from msgspec import field

from penstock.wire.kafka.fields import (
    NO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    KafkaMessage,
    Part,
    String,
    Uuid,
    Versions,
)


class ConsumerGroupHeartbeatRequestTopicPartitions(Part):
    """null if it didn't change since the last heartbeat; the partitions owned by the member."""

    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class ConsumerGroupHeartbeatRequest(KafkaMessage):
    KEY: ClassVar = 68
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 0

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, Versions(1)] = None
    server_assignor: String | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Part):
    """The partitions assigned to the member that can be used immediately."""

    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class ConsumerGroupHeartbeatResponseAssignment(Part):
    """null if not provided; the assignment otherwise."""

    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = []


class ConsumerGroupHeartbeatResponse(KafkaMessage):
    KEY: ClassVar = 68
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = None


class ConsumerGroupDescribeRequest(KafkaMessage):
    KEY: ClassVar = 69
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 0

    group_ids: list[String] = []
    include_authorized_operations: Bool = False


class ConsumerGroupDescribeResponseTopicPartitions(Part):
    """The assigned topic-partitions to the member."""

    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: list[Int32] = []


class ConsumerGroupDescribeResponseAssignment(Part):
    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = []


class ConsumerGroupMember(Part):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = []
    subscribed_topic_regex: String | None = None
    assignment: ConsumerGroupDescribeResponseAssignment = field(
        default_factory=ConsumerGroupDescribeResponseAssignment
    )
    target_assignment: ConsumerGroupDescribeResponseAssignment = field(
        default_factory=ConsumerGroupDescribeResponseAssignment
    )
    member_type: Annotated[Int8, Versions(1)] = -1


class DescribedConsumerGroup(Part):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[ConsumerGroupMember] = []
    authorized_operations: Int32 = -2147483648


class ConsumerGroupDescribeResponse(KafkaMessage):
    KEY: ClassVar = 69
    VERSIONS: ClassVar = (0, 1)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup] = []
