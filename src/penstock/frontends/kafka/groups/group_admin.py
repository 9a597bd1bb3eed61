"""Looking at groups, and deleting them: DescribeGroups, ListGroups, DeleteGroups.

What a Kafka client calls a group is a membership over topics, and on each topic the stream
group of its name.  One without members is there as long as it has come somewhere.  What it calls a share
group is, on each topic, the queue group of its name."""

from penstock.errors import PenstockError
from penstock.frontends.kafka.authorized import ON_GROUP, authorized
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.groups.membership import group_code
from penstock.groups.rebalance import KafkaGroupState
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

DEAD = "Dead"  # What Kafka calls a group that is not there.


async def describe_groups(call: KafkaCall[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[await _describe(call, name) for name in call.request.groups])


async def _describe(call: KafkaCall[DescribeGroupsRequest], name: str) -> DescribedGroup:
    try:
        state = await call.run(call.operations.member_group(name))
    except PenstockError as error:
        return DescribedGroup(group_id=name, error_code=group_code(error))
    if state is None or state.kind != "classic":
        code = Code.GROUP_ID_NOT_FOUND if call.version >= 6 else Code.NONE
        why = f"There is no classic group {name}." if code else None
        return DescribedGroup(group_id=name, error_code=code, error_message=why, group_state=DEAD)
    return DescribedGroup(
        group_id=name,
        group_state=state.state,
        protocol_type=state.protocol_type,
        protocol_data=state.protocol,
        members=_members(state),
        authorized_operations=authorized(
            call, ON_GROUP, group=name, asked=call.request.include_authorized_operations
        ),
    )


def _members(state: KafkaGroupState) -> list[DescribedGroupMember]:
    """The members; their subscriptions are known after the rebalance."""
    stable = state.state == "Stable"
    return [
        DescribedGroupMember(
            member_id=member.member,
            group_instance_id=member.instance,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata if stable else b"",
            member_assignment=member.assignment if stable else b"",
        )
        for member in state.members
    ]


async def list_groups(call: KafkaCall[ListGroupsRequest]) -> ListGroupsResponse:
    """The groups that this node coordinates, or those in some states, or of some types.

    Clients ask every node, and put the answers together.
    """
    states = {state.lower() for state in call.request.states_filter}
    kinds = {kind.lower() for kind in call.request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=found.group,
                protocol_type=found.protocol_type,
                group_state=found.state,
                group_type=found.kind,
            )
            for found in await call.run(call.operations.member_groups())
            if call.owners.coordinator_of(found.group)[0] == call.owners.node
            and (not states or found.state.lower() in states)
            and (not kinds or found.kind in kinds)
        ]
    )


async def delete_groups(call: KafkaCall[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    """Delete groups without members, on all their topics."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=await _delete(call, name))
            for name in call.request.groups_names
        ]
    )


async def _delete(call: KafkaCall[DeleteGroupsRequest], name: str) -> int:
    try:
        code = await call.run(call.operations.check_delete_group(name))
        if not code:
            operations = call.operations
            placed = await call.run(operations.topics_with_offsets(name))
            for topic in placed or await call.run(operations.queued_topics(name)):
                await call.run(call.operations.delete_group(topic, name))
    except PenstockError as error:
        return group_code(error)
    return code


APIS = (
    Api(DescribeGroupsRequest, DescribeGroupsResponse, describe_groups),
    Api(ListGroupsRequest, ListGroupsResponse, list_groups),
    Api(DeleteGroupsRequest, DeleteGroupsResponse, delete_groups),
)
