"""Membership of a group, by the classic protocol.

FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
"""

from typing import Annotated

from penstock.wire.kafka.fields import (
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    KafkaMessage,
    Part,
    String,
    Versions,
    api,
)


@api(10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest(KafkaMessage):
    key: Annotated[String, Versions(0, 3)] = ""
    key_type: Annotated[Int8, Versions(1)] = 0
    coordinator_keys: Annotated[list[String], Versions(4)] = []


class FoundCoordinator(Part):
    """Each coordinator result in the response."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@api(10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Annotated[Int16, Versions(0, 3)] = 0
    error_message: Annotated[String | None, Versions(1, 3)] = ""
    node_id: Annotated[Int32, Versions(0, 3)] = 0
    host: Annotated[String, Versions(0, 3)] = ""
    port: Annotated[Int32, Versions(0, 3)] = 0
    coordinators: Annotated[list[FoundCoordinator], Versions(4)] = []


class JoinGroupRequestProtocol(Part):
    """The list of protocols that the member supports."""

    name: String = ""
    metadata: Bytes = b""


@api(11, versions=(0, 9), flexible=6)
class JoinGroupRequest(KafkaMessage):
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Versions(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions(5)] = None
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[String | None, Versions(8)] = None


class JoinGroupResponseMember(Part):
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions(5)] = None
    metadata: Bytes = b""


@api(11, versions=(0, 9), flexible=6)
class JoinGroupResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Versions(7)] = None
    protocol_name: Annotated[String | None, Versions(nullable=7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, Versions(9)] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = []


class SyncGroupRequestAssignment(Part):
    member_id: String = ""
    assignment: Bytes = b""


@api(14, versions=(0, 5), flexible=4)
class SyncGroupRequest(KafkaMessage):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions(3)] = None
    protocol_type: Annotated[String | None, Versions(5)] = None
    protocol_name: Annotated[String | None, Versions(5)] = None
    assignments: list[SyncGroupRequestAssignment] = []


@api(14, versions=(0, 5), flexible=4)
class SyncGroupResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Versions(5)] = None
    protocol_name: Annotated[String | None, Versions(5)] = None
    assignment: Bytes = b""


@api(12, versions=(0, 4), flexible=4)
class HeartbeatRequest(KafkaMessage):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions(3)] = None


@api(12, versions=(0, 4), flexible=4)
class HeartbeatResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0


class MemberIdentity(Part):
    """List of leaving member identities."""

    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, Versions(5)] = None


@api(13, versions=(0, 5), flexible=4)
class LeaveGroupRequest(KafkaMessage):
    group_id: String = ""
    member_id: Annotated[String, Versions(0, 2)] = ""
    members: Annotated[list[MemberIdentity], Versions(3)] = []


class MemberResponse(Part):
    """List of leaving member responses."""

    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@api(13, versions=(0, 5), flexible=4)
class LeaveGroupResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Versions(3)] = []
