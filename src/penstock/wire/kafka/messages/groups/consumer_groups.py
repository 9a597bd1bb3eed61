"""Membership of a group, by the newer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from typing import Annotated

from msgspec import field

from penstock.wire.kafka.fields import (
    Bool,
    Int8,
    Int16,
    Int32,
    KafkaMessage,
    Part,
    String,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import AssignedPartitions, DescribedAssignment, TopicIdPartitions


@api(68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest(KafkaMessage):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, Versions(1)] = None
    server_assignor: String | None = None
    topic_partitions: list[TopicIdPartitions] | None = None


@api(68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: AssignedPartitions | None = None


@api(69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest(KafkaMessage):
    group_ids: list[String] = []
    include_authorized_operations: Bool = False


class ConsumerGroupMember(Part):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = []
    subscribed_topic_regex: String | None = None
    assignment: DescribedAssignment = field(default_factory=DescribedAssignment)
    target_assignment: DescribedAssignment = field(default_factory=DescribedAssignment)
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


@api(69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedConsumerGroup] = []
