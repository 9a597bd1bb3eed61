"""Looking at groups, and deleting them: DescribeGroups, ListGroups, DeleteGroups."""

from typing import Annotated

from penstock.wire.kafka.fields import Bool, Bytes, Int16, Int32, KafkaMessage, Part, String, Versions, api


@api(15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest(KafkaMessage):
    groups: list[String] = []
    include_authorized_operations: Annotated[Bool, Versions(3)] = False


class DescribedGroupMember(Part):
    member_id: String = ""
    group_instance_id: Annotated[String | None, Versions(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Part):
    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, Versions(3)] = -2147483648


@api(15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    groups: list[DescribedGroup] = []


@api(16, versions=(0, 5), flexible=3)
class ListGroupsRequest(KafkaMessage):
    states_filter: Annotated[list[String], Versions(4)] = []
    types_filter: Annotated[list[String], Versions(5)] = []


class ListedGroup(Part):
    """Each group in the response."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, Versions(4)] = ""
    group_type: Annotated[String, Versions(5)] = ""


@api(16, versions=(0, 5), flexible=3)
class ListGroupsResponse(KafkaMessage):
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []


@api(42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest(KafkaMessage):
    groups_names: list[String] = []


class DeletableGroupResult(Part):
    group_id: String = ""
    error_code: Int16 = 0


@api(42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
