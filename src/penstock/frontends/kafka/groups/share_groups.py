"""Members of share groups: ShareGroupHeartbeat, ShareGroupDescribe.

One request does it all, as in KIP-848: a heartbeat joins, keeps the membership, leaves, and returns the
partitions.  Every member reads all of them."""

from collections.abc import Mapping

from penstock.errors import Forbidden, InvalidName, NotOwner, PenstockError
from penstock.frontends.kafka.authorized import ON_GROUP, authorized
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.frontends.kafka.groups.membership import group_code
from penstock.groups.shares import CLOSE, OPEN, Assignment, ShareMember
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.share import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupMember,
)
from penstock.wire.kafka.messages.parts import (
    AssignedPartitions,
    DescribedAssignment,
    NamedTopicPartitions,
    TopicIdPartitions,
)

TOPICS_MAX = 10_000  # Of one member.


async def share_group_heartbeat(call: KafkaCall[ShareGroupHeartbeatRequest]) -> ShareGroupHeartbeatResponse:
    request = call.request
    if not request.group_id or not request.member_id or request.member_epoch < CLOSE:
        return _refused(Code.INVALID_REQUEST, "a member has a group, an id and an epoch")
    if request.member_epoch == OPEN and not request.subscribed_topic_names:
        return _refused(Code.INVALID_REQUEST, "a member that joins must name its topics")
    if len(request.subscribed_topic_names or ()) > TOPICS_MAX:
        return _refused(Code.INVALID_REQUEST, f"a member has {TOPICS_MAX} topics at most")
    try:
        _check_coordinator(call)
        code = call.operations.check_share_group(request.group_id) if request.member_epoch == OPEN else 0
        if code:
            return _refused(code, f"{request.group_id} is a group of another type; take another name")
        return await _heartbeat(call)
    except PenstockError as error:
        return _refused(group_code(error), words_of(error))


def _check_coordinator(call: KafkaCall[ShareGroupHeartbeatRequest]) -> None:
    """Only members are at the coordinator; records are fetched from every owner."""
    node, epoch = call.owners.coordinator_of(call.request.group_id)
    if node != call.owners.node:
        raise NotOwner(topic=call.request.group_id, partition=0, owner=node, epoch=epoch)


async def _heartbeat(call: KafkaCall[ShareGroupHeartbeatRequest]) -> ShareGroupHeartbeatResponse:
    request, shares = call.request, call.shared.shares
    epoch = request.member_epoch
    member = shares.heartbeat(call.operations, request.group_id, request.member_id, epoch)
    if isinstance(member, Code):
        return _refused(member, "the member is not in the group at that epoch; join again")
    if epoch == CLOSE:
        return ShareGroupHeartbeatResponse(member_id=member.identity, member_epoch=CLOSE)
    call.shared.broker.keep_share_member(shares, member)
    _note(call, member)
    try:
        changed = await member.assign()
    except Forbidden as error:  # The group is its own; so it is a topic.
        return _refused(code_of(error), words_of(error))
    if changed or not member.epoch:
        member.advance()
    _, rules = call.operations.group_config(member.group)
    news = member.epoch != epoch or request.subscribed_topic_names is not None
    return ShareGroupHeartbeatResponse(
        member_id=member.identity,
        member_epoch=member.epoch,
        heartbeat_interval_ms=rules.share_heartbeat_ms,
        assignment=_assignment(member.assignment) if news else None,
    )


def _note(call: KafkaCall[ShareGroupHeartbeatRequest], member: ShareMember) -> None:
    request = call.request
    member.client_id = call.client_id or ""
    member.client_host = f"/{call.session.address}"
    if request.rack_id is not None:
        member.rack = request.rack_id
    if request.subscribed_topic_names is not None:
        member.topics = frozenset(request.subscribed_topic_names)


def _assignment(assignment: Assignment) -> AssignedPartitions:
    return AssignedPartitions(
        topic_partitions=[
            TopicIdPartitions(topic_id=topic_id, partitions=list(range(count)))
            for topic_id, count in assignment.items()
        ]
    )


def _refused(code: int, why: str) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=why)


async def share_group_describe(call: KafkaCall[ShareGroupDescribeRequest]) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[await _describe(call, name) for name in call.request.group_ids])


async def _describe(call: KafkaCall[ShareGroupDescribeRequest], name: str) -> DescribedShareGroup:
    try:
        if not name:
            raise InvalidName(kind="group", name=name, why="it is empty")
        state = await call.run(call.operations.member_group(name))
    except PenstockError as error:
        return DescribedShareGroup(group_id=name, error_code=group_code(error), error_message=words_of(error))
    members = call.shared.shares.members(name)
    if (state is None or state.kind != "share") and not members:
        why = f"There is no share group {name}."
        return DescribedShareGroup(group_id=name, error_code=Code.GROUP_ID_NOT_FOUND, error_message=why)
    epoch = max((member.epoch for member in members), default=0)
    return DescribedShareGroup(
        group_id=name,
        group_state="Stable" if members else "Empty",
        group_epoch=epoch,
        assignment_epoch=epoch,
        assignor_name="simple",
        members=[_member(member, call.session.names) for member in members],
        authorized_operations=authorized(
            call, ON_GROUP, group=name, asked=call.request.include_authorized_operations
        ),
    )


def _member(member: ShareMember, names: Mapping[bytes, str]) -> ShareGroupMember:
    parts = [
        NamedTopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=list(range(count)))
        for topic_id, count in member.assignment.items()
        if topic_id in names
    ]
    return ShareGroupMember(
        member_id=member.identity,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=DescribedAssignment(topic_partitions=parts),
    )


APIS = (
    Api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, share_group_heartbeat),
    Api(ShareGroupDescribeRequest, ShareGroupDescribeResponse, share_group_describe),
)
