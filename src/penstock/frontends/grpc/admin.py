"""Topics, groups, stored messages, dead letters, schedules, keys and users: one operation for each method."""

from typing import Any, Final

from penstock.errors import InvalidValue
from penstock.frontends.grpc.call import GrpcCall
from penstock.frontends.grpc.messages import (
    add_stored,
    fill,
    fill_message,
    group_options,
    message_of,
    moment,
    topic_options,
)
from penstock.grpc import penstock_pb2 as pb
from penstock.model.access import ANY, Grant, Quota
from penstock.operations.call import LIST_LIMIT

READ_LIMIT: Final = 100
PEEK_LIMIT: Final = 10
REDRIVE_LIMIT: Final = 1_000_000
EMPTY: Final = pb.Empty()


def given(request: Any, name: str) -> Any:
    """An optional field; None if it is not set."""
    return getattr(request, name) if request.HasField(name) else None


def time_of(request: Any, name: str) -> Any:
    time_ms = given(request, name)
    return None if time_ms is None else moment(time_ms)


# Topics.


async def create_topic(call: GrpcCall, request: pb.TopicSettingsRequest) -> pb.Empty:
    await call.run(call.operations.create_topic(request.topic, topic_options(request.settings)))
    return EMPTY


async def alter_topic(call: GrpcCall, request: pb.TopicSettingsRequest) -> pb.Empty:
    await call.run(call.operations.alter_topic(request.topic, topic_options(request.settings)))
    return EMPTY


async def delete_topic(call: GrpcCall, request: pb.TopicRequest) -> pb.Empty:
    await call.run(call.operations.delete_topic(request.topic))
    return EMPTY


async def list_topics(call: GrpcCall, _: pb.Empty) -> pb.TopicList:
    return pb.TopicList(topics=call.operations.topics())


async def describe_topic(call: GrpcCall, request: pb.TopicRequest) -> pb.TopicInfo:
    made = pb.TopicInfo()
    fill(made, await call.run(call.operations.describe_topic(request.topic)))
    return made


# Groups.


async def create_group(call: GrpcCall, request: pb.GroupSettingsRequest) -> pb.Empty:
    await call.run(
        call.operations.create_group(request.topic, request.group, group_options(request.settings))
    )
    return EMPTY


async def delete_group(call: GrpcCall, request: pb.GroupRequest) -> pb.Empty:
    await call.run(call.operations.delete_group(request.topic, request.group))
    return EMPTY


async def describe_group(call: GrpcCall, request: pb.GroupRequest) -> pb.GroupInfo:
    made = pb.GroupInfo()
    fill(made, await call.run(call.operations.describe_group(request.topic, request.group)))
    return made


async def seek(call: GrpcCall, request: pb.SeekRequest) -> pb.Empty:
    match request.WhichOneof("to"):
        case "position":
            to: Any = request.position
        case "offset":
            to = request.offset
        case "time_ms":
            to = moment(request.time_ms)
        case _:
            raise InvalidValue(name="to", value=None, why="give a position, an offset or a time")
    await call.run(call.operations.seek(request.topic, request.group, to, given(request, "partition")))
    return EMPTY


async def commit_offsets(call: GrpcCall, request: pb.CommitOffsetsRequest) -> pb.Empty:
    await call.run(call.operations.commit_offsets(request.topic, request.group, dict(request.offsets)))
    return EMPTY


async def delivery_states(call: GrpcCall, request: pb.DeliveryStatesRequest) -> pb.DeliveryStateList:
    work = call.operations.delivery_states(
        request.topic, request.group, request.partition, request.start, request.end
    )
    made = pb.DeliveryStateList()
    for state in await call.run(work):
        fill(made.states.add(), state)
    return made


# Stored messages.


async def read(call: GrpcCall, request: pb.ReadRequest) -> pb.MessageList:
    work = call.operations.read(
        request.topic,
        given(request, "partition"),
        given(request, "offset"),
        time_of(request, "from_time_ms"),
        time_of(request, "to_time_ms"),
        request.limit or READ_LIMIT,
    )
    made = pb.MessageList()
    add_stored(made.messages, await call.run(work))
    return made


async def peek(call: GrpcCall, request: pb.PeekRequest) -> pb.MessageList:
    work = call.operations.peek(request.topic, request.count or PEEK_LIMIT, given(request, "partition"))
    made = pb.MessageList()
    add_stored(made.messages, await call.run(work))
    return made


async def offsets(call: GrpcCall, request: pb.OffsetsRequest) -> pb.OffsetList:
    at: Any = moment(request.time_ms) if request.WhichOneof("at") == "time_ms" else request.position
    return pb.OffsetList(
        offsets=await call.run(call.operations.offsets(request.topic, at or "latest", False))
    )


async def trace(call: GrpcCall, request: pb.TraceRequest) -> pb.TraceInfo:
    found = await call.shared.gateway.broker(call.identity).trace(request.id)
    made = pb.TraceInfo(
        id=found.id,
        topic=found.topic,
        partition=found.partition,
        offset=found.offset,
        key=found.key,
        schedule=found.schedule,
        text=str(found),
    )
    for event in found.events:
        fill(made.events.add(), event)
    return made


# Dead letters.


async def list_dead_letters(call: GrpcCall, request: pb.DeadLettersRequest) -> pb.DeadLetterList:
    made = pb.DeadLetterList()
    for letter in await call.run(call.operations.dead_letters(request.topic, request.limit or LIST_LIMIT)):
        one = made.dead_letters.add(
            source=letter.source,
            group=letter.group,
            attempts=letter.attempts,
            reason=letter.reason,
            error=letter.error,
            fingerprint=letter.fingerprint,
            first_failed_ms=letter.first_failed_ms,
            last_failed_ms=letter.last_failed_ms,
        )
        fill_message(one.message, letter.message)
    return made


async def list_dead_letter_errors(
    call: GrpcCall, request: pb.DeadLetterErrorsRequest
) -> pb.DeadLetterErrorList:
    made = pb.DeadLetterErrorList()
    for counted in await call.run(call.operations.dead_letter_errors(given(request, "topic"))):
        fill(made.errors.add(), counted)
    return made


async def redrive(call: GrpcCall, request: pb.RedriveRequest) -> pb.RedriveInfo:
    work = call.operations.redrive(
        request.topic,
        request.limit or REDRIVE_LIMIT,
        given(request, "rate"),
        request.dry_run,
        given(request, "error"),
        given(request, "group"),
    )
    made = pb.RedriveInfo()
    fill(made, await call.run(work))
    return made


# Schedules.


async def schedule(call: GrpcCall, request: pb.ScheduleRequest) -> pb.ScheduleId:
    work = call.operations.schedule(
        request.topic, message_of(request.message), request.cron, request.timezone or "UTC"
    )
    return pb.ScheduleId(id=await call.run(work))


async def list_scheduled(call: GrpcCall, request: pb.ScheduledRequest) -> pb.ScheduledList:
    made = pb.ScheduledList(count=await call.run(call.operations.scheduled_count(request.topic)))
    for message in await call.run(call.operations.scheduled(request.topic, request.limit or LIST_LIMIT)):
        fill(made.messages.add(), message)
    return made


async def cancel_scheduled(call: GrpcCall, request: pb.ScheduleId) -> pb.Cancellation:
    return pb.Cancellation(outcome=await call.run(call.operations.cancel(request.id)))


async def reschedule(call: GrpcCall, request: pb.RescheduleRequest) -> pb.Rescheduled:
    delay_ms = given(request, "delay_ms")
    delay = None if delay_ms is None else delay_ms / 1000
    work = call.operations.reschedule(request.id, delay, time_of(request, "deliver_at_ms"))
    return pb.Rescheduled(rescheduled=await call.run(work))


# Keys and users.


def grants_in(request: Any) -> list[Grant]:
    return [
        Grant(role=each.role, topics=list(each.topics) or [ANY], groups=list(each.groups) or [ANY])
        for each in request.grants
    ]


def quota_in(request: Any) -> Quota:
    return Quota(**{name: given(request.quota, name) for name in Quota.__struct_fields__})


async def create_key(call: GrpcCall, request: pb.CreateKeyRequest) -> pb.NewKey:
    made = pb.NewKey()
    grants, quota = grants_in(request), quota_in(request)
    work = call.operations.create_key(request.name, grants, quota, request.signing)
    fill(made, await call.run(work))
    return made


async def list_keys(call: GrpcCall, _: pb.Empty) -> pb.KeyList:
    made = pb.KeyList()
    known = call.operations.keys()
    for key in known:
        fill(made.keys.add(), key)
    return made


async def revoke_key(call: GrpcCall, request: pb.KeyId) -> pb.Empty:
    await call.run(call.operations.revoke_key(request.id))
    return EMPTY


async def set_user(call: GrpcCall, request: pb.SetUserRequest) -> pb.Empty:
    work = call.operations.set_user(request.name, request.password, grants_in(request), quota_in(request))
    await call.run(work)
    return EMPTY


async def list_users(call: GrpcCall, _: pb.Empty) -> pb.UserList:
    made = pb.UserList()
    for user in call.operations.users():
        fill(made.users.add(), user)
    return made


async def delete_user(call: GrpcCall, request: pb.UserName) -> pb.Empty:
    await call.run(call.operations.delete_user(request.name))
    return EMPTY


# The broker itself.


async def stats(call: GrpcCall, _: pb.Empty) -> pb.BrokerInfo:
    made = pb.BrokerInfo()
    fill(made, await call.run(call.operations.stats()))
    return made
