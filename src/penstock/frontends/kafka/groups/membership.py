"""Membership of groups: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A join and a sync are answered when the other members have done their part, so they
have a task; the rest is answered at once.  What the members may do is decided in the broker
(``broker/kafka/coordination.py``); here it gets its names."""

from penstock.errors import Forbidden, InvalidName, NotOwner, PenstockError
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of
from penstock.groups.rebalance import JoinRequest, JoinResult, SyncRequest
from penstock.groups.transactions import log_partition
from penstock.types import TRANSACTIONS
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.membership import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FoundCoordinator,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

OF_GROUP, OF_TRANSACTION, OF_SHARE = 0, 1, 2  # Types of keys of coordinators.
NULLABLE_SINCE = 7  # Of JoinGroup: the protocol may be null.
KEY_TYPES = frozenset({OF_GROUP, OF_TRANSACTION, OF_SHARE})  # All are here.


def group_code(error: PenstockError) -> int:
    """The error code of a group operation."""
    if isinstance(error, Forbidden):
        return Code.GROUP_AUTHORIZATION_FAILED
    if isinstance(error, NotOwner):
        return Code.NOT_COORDINATOR
    return Code.INVALID_GROUP_ID if isinstance(error, InvalidName) else code_of(error)


async def find_coordinator(call: KafkaCall[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    """The node that coordinates a group or a transactional id."""
    keys = call.request.coordinator_keys
    found = [await _found(call, key) for key in keys or [call.request.key]]
    first = found[0]
    return FindCoordinatorResponse(
        error_code=first.error_code,
        error_message=None,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
        coordinators=found if keys else [],
    )


async def _found(call: KafkaCall[FindCoordinatorRequest], key: str) -> FoundCoordinator:
    code: int = _finding_code(call, key)
    node = -1
    if not code:
        try:
            node = await _coordinator(call, key)
        except PenstockError as error:
            code = code_of(error)
    address = call.session.brokers.get(node)
    code = code or (Code.NONE if address else Code.COORDINATOR_NOT_AVAILABLE)
    where = (-1, "", -1) if code or address is None else (node, *address)
    return FoundCoordinator(key, *where, error_code=code, error_message=None)


async def _coordinator(call: KafkaCall[FindCoordinatorRequest], key: str) -> int:
    if call.request.key_type != OF_TRANSACTION:
        return call.owners.coordinator_of(key)[0]
    node, epoch = call.owners.owner_of(TRANSACTIONS, log_partition(key))
    if node < 0 and not epoch:  # The first transactional id of a cluster.
        await call.run(call.operations.prepare_transactions())
        node, _ = call.owners.owner_of(TRANSACTIONS, log_partition(key))
    return node


def _finding_code(call: KafkaCall[FindCoordinatorRequest], key: str) -> Code:
    """The error code if the client may not describe the group or id, as Kafka requires."""
    kind, permissions = call.request.key_type, call.session.identity.permissions
    if kind not in KEY_TYPES:
        return Code.INVALID_REQUEST
    if not call.shared.gateway.required:
        return Code.NONE
    if kind == OF_GROUP and not permissions.allows("describe", None, key):
        return Code.GROUP_AUTHORIZATION_FAILED
    if kind == OF_TRANSACTION and permissions.on_transactional_id(key, "describe") is False:
        return Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Code.NONE


async def join_group(call: KafkaCall[JoinGroupRequest]) -> JoinGroupResponse:
    try:
        joined = await call.run(call.operations.join_group(call.request.group_id, _joining(call)))
    except PenstockError as error:
        return JoinGroupResponse(
            error_code=group_code(error),
            member_id=call.request.member_id,
            protocol_name=_protocol(call, None),
        )
    return _joined(call, joined)


def _protocol(call: KafkaCall[JoinGroupRequest], name: str | None) -> str | None:
    """The protocol of the group; older versions have no null."""
    return name if call.version >= NULLABLE_SINCE else name or ""


def _joining(call: KafkaCall[JoinGroupRequest]) -> JoinRequest:
    request = call.request
    rebalance_ms = request.rebalance_timeout_ms  # In 0 ms no member could sync: treated as unset.
    return JoinRequest(
        member=request.member_id,
        new_member="",  # The broker's to say.
        instance=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=f"/{call.session.address}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_ms if rebalance_ms > 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        id_first=call.version >= 4,
        can_skip=call.version >= 9,
        gather_ms=call.shared.settings.initial_rebalance_delay_ms,
    )


def _joined(call: KafkaCall[JoinGroupRequest], joined: JoinResult) -> JoinGroupResponse:
    members = [
        JoinGroupResponseMember(
            member_id=line.member, group_instance_id=line.instance, metadata=line.metadata
        )
        for line in joined.roster
    ]
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=_protocol(call, joined.protocol),
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member,
        members=members,
    )


async def sync_group(call: KafkaCall[SyncGroupRequest]) -> SyncGroupResponse:
    """Get the assignment of this generation."""
    request = call.request
    sync = SyncRequest(
        member=request.member_id,
        instance=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((given.member_id, given.assignment) for given in request.assignments),
    )
    try:
        synced = await call.run(call.operations.sync_group(request.group_id, sync))
    except PenstockError as error:
        return SyncGroupResponse(error_code=group_code(error))
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def heartbeat(call: KafkaCall[HeartbeatRequest]) -> HeartbeatResponse:
    """Renew the session; the response says whether to join again."""
    request = call.request
    member, instance = request.member_id, request.group_instance_id
    beating = call.operations.heartbeat_group
    try:
        return HeartbeatResponse(
            error_code=beating(request.group_id, member, instance, request.generation_id)
        )
    except PenstockError as error:
        return HeartbeatResponse(error_code=group_code(error))


def leave_group(call: KafkaCall[LeaveGroupRequest]) -> LeaveGroupResponse:
    """Leave the group; from version 3 on, several members at a time."""
    request = call.request
    alone = call.version < 3
    members = [MemberIdentity(member_id=request.member_id)] if alone else request.members
    leavers = [(one.member_id, one.group_instance_id) for one in members]
    try:
        answers = call.operations.leave_group(request.group_id, leavers)
    except PenstockError as error:
        return LeaveGroupResponse(error_code=group_code(error))
    if alone:
        return LeaveGroupResponse(error_code=answers[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member, group_instance_id=instance, error_code=answer)
            for (member, instance), answer in zip(leavers, answers, strict=True)
        ]
    )


APIS = (
    Api(FindCoordinatorRequest, FindCoordinatorResponse, find_coordinator),
    Api(JoinGroupRequest, JoinGroupResponse, join_group, waits=True),
    Api(SyncGroupRequest, SyncGroupResponse, sync_group, waits=True),
    Api(HeartbeatRequest, HeartbeatResponse, heartbeat),
    Api(LeaveGroupRequest, LeaveGroupResponse, leave_group),
)
