"""Groups in which the broker assigns (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe.

One request does it all: a heartbeat joins, reports subscription and assignment, returns the new assignment,
and leaves.  It is always answered at once."""

from collections.abc import Iterable, Mapping

from penstock.errors import InvalidName, PenstockError
from penstock.frontends.kafka.authorized import ON_GROUP, authorized
from penstock.frontends.kafka.call import LATER, Api, KafkaCall, Later
from penstock.frontends.kafka.errors import words_of
from penstock.frontends.kafka.groups.membership import group_code
from penstock.groups.heartbeats import (
    LEAVE_FOR_NOW,
    ConsumerMemberState,
    HeartbeatResult,
    MemberHeartbeat,
)
from penstock.groups.uniform import TopicIdPartition
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
)
from penstock.wire.kafka.messages.parts import (
    AssignedPartitions,
    DescribedAssignment,
    NamedTopicPartitions,
    TopicIdPartitions,
)

CONSUMER = 1  # The type of a member that speaks this protocol.


def consumer_group_heartbeat(call: KafkaCall[ConsumerGroupHeartbeatRequest]) -> Later:
    def then(result: HeartbeatResult | None, error: BaseException | None) -> None:
        if result is not None:
            call.answer(_response(result))
        elif isinstance(error, PenstockError):
            call.answer(
                ConsumerGroupHeartbeatResponse(error_code=group_code(error), error_message=words_of(error))
            )
        elif error is not None:
            call.refuse(error)

    if not call.request.group_id or call.request.member_epoch < LEAVE_FOR_NOW:
        why = "A member has a group and an epoch."
        call.answer(ConsumerGroupHeartbeatResponse(error_code=Code.INVALID_REQUEST, error_message=why))
        return LATER
    try:
        call.start(call.operations.consumer_group_heartbeat(call.request.group_id, _heartbeat(call)), then)
    except PenstockError as error:
        then(None, error)
    return LATER


def _heartbeat(call: KafkaCall[ConsumerGroupHeartbeatRequest]) -> MemberHeartbeat:
    request = call.request
    topics, owned = request.subscribed_topic_names, request.topic_partitions
    return MemberHeartbeat(
        member=request.member_id,
        epoch=request.member_epoch,
        instance=request.instance_id,
        client_id=call.client_id or "",
        client_host=f"/{call.session.address}",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if topics is None else frozenset(topics),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((topic.topic_id, number) for topic in owned for number in topic.partitions),
    )


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = AssignedPartitions(
            topic_partitions=[
                TopicIdPartitions(topic_id=topic, partitions=numbers)
                for topic, numbers in _by_topic(result.assignment).items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.why or None,
        member_id=None if result.error else result.member,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        assignment=assignment,
    )


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def consumer_group_describe(call: KafkaCall[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
    """Describe groups, their members, and their current and target assignments."""
    return ConsumerGroupDescribeResponse(groups=[_describe(call, name) for name in call.request.group_ids])


def _describe(call: KafkaCall[ConsumerGroupDescribeRequest], name: str) -> DescribedConsumerGroup:
    try:
        if not name:
            raise InvalidName(kind="group", name=name, why="it is empty")
        state = call.operations.consumer_group(name)
    except PenstockError as error:
        return DescribedConsumerGroup(
            group_id=name, error_code=group_code(error), error_message=words_of(error)
        )
    if state is None:
        why = f"There is no group {name} in which the broker assigns."
        return DescribedConsumerGroup(group_id=name, error_code=Code.GROUP_ID_NOT_FOUND, error_message=why)
    return DescribedConsumerGroup(
        group_id=name,
        group_state=state.state,
        group_epoch=state.epoch,
        assignment_epoch=state.epoch,
        assignor_name=state.assignor,
        members=[_member(member, call.session.names) for member in state.members],
        authorized_operations=authorized(
            call, ON_GROUP, group=name, asked=call.request.include_authorized_operations
        ),
    )


def _member(member: ConsumerMemberState, names: Mapping[bytes, str]) -> ConsumerGroupMember:
    return ConsumerGroupMember(
        member_id=member.member,
        instance_id=member.instance,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern or "",
        assignment=_assignment(member.assigned, names),
        target_assignment=_assignment(member.target, names),
        member_type=CONSUMER,
    )


def _assignment(partitions: Iterable[TopicIdPartition], names: Mapping[bytes, str]) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            NamedTopicPartitions(topic_id=topic, topic_name=names.get(topic, ""), partitions=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ]
    )


APIS = (
    Api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, consumer_group_heartbeat),
    Api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, consumer_group_describe),
)
