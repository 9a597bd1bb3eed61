"""The broker at the end of the gRPC API, with the names of every other one.

    Broker (the facade) ──> GrpcOperations ──> stubs ──> the real listener, in virtual time

An operation is a call, and its answer is read back into what the facade returns.
A consumer is a stream.  Nothing is added: a refusal is the error of its code, and
what the API does not have (producers, staged batches) is not here.
"""

import queue
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import grpc
import msgspec
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from tests.client.served import VirtualServer
from tests.contract.one_step import result_of
from tests.contract.over_http import error_of

from penstock.api.broker import Broker
from penstock.api.operations import Wrap
from penstock.api.work import Work
from penstock.config.broker import backoff_text, start_text
from penstock.config.server import TlsSettings
from penstock.errors import Closed, PenstockError, TopicNotFound
from penstock.frontends.grpc.errors import DETAILS
from penstock.frontends.grpc.server import GrpcListener
from penstock.frontends.listener import Connections
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import AdminStub, ConsumerStub, PublisherStub
from penstock.model.info import (
    BrokerInfo,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    GroupInfo,
    Redrive,
    ScheduledMessage,
    TopicInfo,
)
from penstock.model.message import Delivered, Delivery, Message, Receipt, StoredMessage
from penstock.model.trace import Trace, TraceEvent
from penstock.types import LANES, duration_ms, instant_ms, lane_number
from penstock.wire.records import LANE_MASK, LANE_SHIFT, Record

T = TypeVar("T")
P = ParamSpec("P")

PATIENCE_S = 60.0
NO_LIMIT = -1


class GrpcServer(VirtualServer):
    """The server in virtual time, with its gRPC listener."""

    async def start(self) -> None:
        """Listen there, too."""
        await super().start()
        self._grpc = GrpcListener(self.broker, self._limits, Connections(self._limits.connections_max))
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        self.grpc_port = reserved.getsockname()[1]
        await self._grpc.listen(reserved, TlsSettings())

    async def stop(self) -> None:
        """Nor any more."""
        await self._grpc.drain()
        await super().stop()


def connect_over_grpc(server: GrpcServer) -> Broker:
    """A broker whose every operation is a call."""
    calling = Calling(server.grpc_port)
    return Broker(GrpcOperations(calling), calling)  # type: ignore[arg-type]


class Calling:
    """A channel; and the facade's driver, since a call is answered before it returns."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self.closed = False
        self.consumers: list[GrpcConsumer] = []

    def run(self, work: Work[T]) -> T:
        """Work that waits for nothing."""
        if self.closed:
            raise Closed(what="broker")
        return result_of(work)

    def close(self, timeout_ms: int | None) -> None:
        """End the streams, and hang up."""
        self.closed = True
        for consumer in self.consumers:
            consumer.end()
        self.channel.close()


def called(function: Callable[P, T]) -> Callable[P, Work[T]]:
    """Calls as the work that a facade hands to its driver; a refusal is its error."""

    @wraps(function)
    def work(*args: P.args, **options: P.kwargs) -> Work[T]:
        yield from ()
        try:
            return function(*args, **options)
        except grpc.RpcError as refused:
            raise refusal(refused) from None

    return work


def refusal(refused: grpc.RpcError) -> PenstockError:
    assert isinstance(refused, grpc.Call)
    details = dict(refused.trailing_metadata() or ())
    assert DETAILS in details, refused
    info = ErrorInfo()
    Status.FromString(details[DETAILS]).details[0].Unpack(info)
    return error_of({"code": info.reason, "detail": refused.details()})


class GrpcOperations:
    """What the API has, by the names of the broker's operations."""

    def __init__(self, calling: Calling) -> None:
        self._calling = calling
        self._publisher = PublisherStub(calling.channel)
        self._admin = AdminStub(calling.channel)

    # Topics.

    @called
    def create_topic(self, name: str, options: Any) -> None:
        self._admin.CreateTopic(pb.TopicSettingsRequest(topic=name, settings=topic_settings(options)))

    @called
    def alter_topic(self, name: str, options: Any) -> None:
        self._admin.AlterTopic(pb.TopicSettingsRequest(topic=name, settings=topic_settings(options)))

    @called
    def delete_topic(self, name: str) -> None:
        self._admin.DeleteTopic(pb.TopicRequest(topic=name))

    @called
    def topics(self) -> list[str]:
        return list(self._admin.ListTopics(pb.Empty()).topics)

    @called
    def topic_exists(self, topic: str) -> bool:
        try:
            self._admin.DescribeTopic(pb.TopicRequest(topic=topic))
        except grpc.RpcError as refused:
            if refusal(refused).code == TopicNotFound.code:
                return False
            raise
        return True

    @called
    def describe_topic(self, name: str) -> TopicInfo:
        return told(self._admin.DescribeTopic(pb.TopicRequest(topic=name)), TopicInfo)

    # Publishing.

    @called
    def publish(self, topic: str, message: Message) -> Receipt:
        return receipt(topic, self._publisher.Publish(pb.PublishRequest(topic=topic, message=sent(message))))

    @called
    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        request = pb.PublishBatchRequest(topic=topic, messages=map(sent, messages))
        return [receipt(topic, each) for each in self._publisher.PublishBatch(request).receipts]

    # Groups.

    @called
    def consumer(
        self, topic: str, group: str, consumer_id: Any, max_in_flight: Any, options: Any, wrap: Wrap
    ) -> "GrpcConsumer":
        wanted = pb.Open(
            topic=topic,
            group=group,
            consumer_id=consumer_id or "",
            max_in_flight=max_in_flight,
            settings=group_settings(options),
        )
        return GrpcConsumer(self._calling, wanted, wrap)

    @called
    def create_group(self, topic: str, group: str, options: Any) -> None:
        settings = group_settings(options)
        self._admin.CreateGroup(pb.GroupSettingsRequest(topic=topic, group=group, settings=settings))

    @called
    def delete_group(self, topic: str, group: str) -> None:
        self._admin.DeleteGroup(pb.GroupRequest(topic=topic, group=group))

    @called
    def describe_group(self, topic: str, group: str) -> GroupInfo:
        return told(self._admin.DescribeGroup(pb.GroupRequest(topic=topic, group=group)), GroupInfo)

    @called
    def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> list[DeliveryState]:
        request = pb.DeliveryStatesRequest(
            topic=topic, group=group, partition=partition, start=start, end=end
        )
        found = self._admin.DeliveryStates(request).states
        return [DeliveryState(each.start, each.end, each.state, each.attempts) for each in found]

    @called
    def seek(self, topic: str, group: str, to: Any, partition: int | None) -> None:
        request = pb.SeekRequest(topic=topic, group=group, partition=partition)
        if to in ("earliest", "latest"):
            request.position = to
        elif isinstance(to, int):
            request.offset = to
        else:
            request.time_ms = instant_ms("to", to)
        self._admin.Seek(request)

    @called
    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        self._admin.CommitOffsets(pb.CommitOffsetsRequest(topic=topic, group=group, offsets=offsets))

    # Looking.

    @called
    def read(
        self, topic: str, partition: Any, offset: Any, from_time: Any, to_time: Any, limit: int
    ) -> list[StoredMessage]:
        request = pb.ReadRequest(
            topic=topic,
            partition=partition,
            offset=offset,
            from_time_ms=None if from_time is None else instant_ms("from_time", from_time),
            to_time_ms=None if to_time is None else instant_ms("to_time", to_time),
            limit=limit,
        )
        return list(map(stored, self._admin.Read(request).messages))

    @called
    def peek(self, topic: str, count: int, partition: int | None) -> list[StoredMessage]:
        request = pb.PeekRequest(topic=topic, count=count, partition=partition)
        return list(map(stored, self._admin.Peek(request).messages))

    @called
    def offsets(self, topic: str, at: Any, journal: bool) -> dict[int, int]:
        assert not journal
        request = pb.OffsetsRequest(topic=topic)
        if at in ("earliest", "latest"):
            request.position = at
        else:
            request.time_ms = instant_ms("at", at)
        return dict(self._admin.Offsets(request).offsets)

    @called
    def trace(self, topic: str, partition: int | None, offset: int | None) -> Trace:
        identity = topic if partition is None else f"{topic}:{partition}:{offset}"
        found = self._admin.Trace(pb.TraceRequest(id=identity))
        made = Trace(
            topic=found.topic,
            partition=found.partition,
            offset=found.offset,
            key=found.key if found.HasField("key") else None,
            events=[told(event, TraceEvent) for event in found.events],
            schedule=found.schedule,
        )
        assert str(made) == found.text
        return made

    # The schedule.

    @called
    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> str:
        request = pb.ScheduleRequest(topic=topic, message=sent(message), cron=cron, timezone=timezone)
        return self._admin.Schedule(request).id

    @called
    def scheduled(self, topic: str, limit: int) -> list[ScheduledMessage]:
        found = self._admin.ListScheduled(pb.ScheduledRequest(topic=topic, limit=limit)).messages
        return [told(each, ScheduledMessage) for each in found]

    @called
    def scheduled_count(self, topic: str) -> int:
        return self._admin.ListScheduled(pb.ScheduledRequest(topic=topic)).count

    @called
    def cancel(self, schedule_id: str) -> str:
        return self._admin.CancelScheduled(pb.ScheduleId(id=schedule_id)).outcome

    @called
    def reschedule(self, schedule_id: str, delay: Any, deliver_at: Any) -> bool:
        request = pb.RescheduleRequest(
            id=schedule_id,
            delay_ms=None if delay is None else duration_ms("delay", delay),
            deliver_at_ms=None if deliver_at is None else instant_ms("deliver_at", deliver_at),
        )
        return self._admin.Reschedule(request).rescheduled

    # Dead letters.

    @called
    def dead_letters(self, topic: str, limit: int) -> list[DeadLetter]:
        found = self._admin.ListDeadLetters(pb.DeadLettersRequest(topic=topic, limit=limit)).dead_letters
        return [
            DeadLetter(
                message=stored(each.message),
                **{
                    field: getattr(each, field)
                    for field in DeadLetter.__struct_fields__
                    if field != "message"
                },
            )
            for each in found
        ]

    @called
    def dead_letter_errors(self, topic: str | None) -> list[DeadLetterErrors]:
        found = self._admin.ListDeadLetterErrors(pb.DeadLetterErrorsRequest(topic=topic)).errors
        return [told(each, DeadLetterErrors) for each in found]

    @called
    def redrive(
        self, topic: str, limit: int, rate: Any, dry_run: bool, error: str | None, group: str | None
    ) -> Redrive:
        request = pb.RedriveRequest(
            topic=topic, limit=limit, rate=rate, dry_run=dry_run, error=error, group=group
        )
        return told(self._admin.Redrive(request), Redrive)

    # The broker itself.

    @called
    def stats(self) -> BrokerInfo:
        return told(self._admin.Stats(pb.Empty()), BrokerInfo)


class GrpcConsumer:
    """A consumer on a stream, with one request at a time."""

    def __init__(self, calling: Calling, wanted: pb.Open, wrap: Wrap) -> None:
        self.settler: Any = None
        self.closed = False
        self._wrap = wrap
        self._topic = wanted.topic
        self._group = wanted.group
        self._requests: queue.SimpleQueue[pb.ConsumeRequest | None] = queue.SimpleQueue()
        self._answers = ConsumerStub(calling.channel).Consume(self._sending())
        self._sent = 0
        self._received: dict[int, int] = {}  # Stream groups: by partition, the offset after the last message.
        opened = self._ask(open=wanted).opened
        self.identity = opened.consumer_id
        self._kind = opened.kind
        self.assignment = list(opened.assignment)
        calling.consumers.append(self)

    def _sending(self) -> Iterator[pb.ConsumeRequest]:
        while (request := self._requests.get()) is not None:
            yield request

    def _ask(self, **request: Any) -> pb.ConsumeResponse:
        if self.closed:
            raise Closed(what="consumer")
        self._sent += 1
        self._requests.put(pb.ConsumeRequest(id=self._sent, **request))
        for answer in self._answers:
            if answer.HasField("assignment"):
                self.assignment = list(answer.assignment.partitions)
            if answer.id == self._sent:
                if answer.HasField("error"):
                    raise error_of({"code": answer.error.code, "detail": answer.error.message})
                return answer
        raise AssertionError("the stream has ended")

    @called
    def receive(self, max_messages: Any, wait_ms: int) -> list[Any]:
        answer = self._ask(receive=pb.Receive(max_messages=max_messages, wait_ms=wait_ms))
        found: list[Any] = []
        for leased in answer.received.leases:
            where = leased.range
            delivery = Delivery(
                self._topic, where.partition, self._group, where.lease, where.start, where.end,
                leased.attempt, self.settler,
            )  # fmt: skip
            found += self._wrap(delivery, [record(each) for each in leased.messages])
            self._received[where.partition] = where.end
        return found

    @called
    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> None:
        if self._kind == "stream":
            offsets: dict[int, int] = {}
            for message in messages:
                offsets[message.partition] = max(offsets.get(message.partition, 0), message.offset + 1)
            self._ask(commit=pb.Commit(offsets=offsets))
            return
        given = [pb.Output(topic=topic, message=sent(message)) for topic, message in outputs]
        self._ask(ack=pb.Settle(ranges=map(place, messages), outputs=given))
        for message in messages:
            message.mark_settled()

    @called
    def nack(self, message: Any, delay: Any, error: BaseException | str | None) -> None:
        words = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
        delay_ms = None if delay is None else duration_ms("delay", delay)
        self._ask(nack=pb.Failed(ranges=[place(message)], delay_ms=delay_ms, error=words or ""))
        message.mark_settled()

    @called
    def reject(self, message: Any, reason: str) -> None:
        self._ask(reject=pb.Refused(ranges=[place(message)], reason=reason))
        message.mark_settled()

    @called
    def extend(self, message: Any, duration: Any) -> None:
        duration_in_ms = duration_ms("duration", duration)
        self._ask(extend=pb.Longer(ranges=[place(message)], duration_ms=duration_in_ms))

    @called
    def commit(self) -> None:
        """Of the partitions that it still has."""
        offsets = {number: end for number, end in self._received.items() if number in self.assignment}
        self._ask(commit=pb.Commit(offsets=offsets))

    @called
    def close(self) -> None:
        self.end()

    def end(self) -> None:
        """Close this side, and hear that the other one is closed, too."""
        if not self.closed:
            self.closed = True
            self._requests.put(None)
            assert [answer for answer in self._answers if answer.id == 0][-1].HasField("closed")


# There and back.


def place(message: Delivered) -> pb.LeaseRange:
    offset, delivery = message.offset, message.delivery
    return pb.LeaseRange(partition=message.partition, lease=delivery.lease, start=offset, end=offset + 1)


def topic_settings(options: dict[str, Any]) -> pb.TopicSettings:
    return pb.TopicSettings(**dict(setting(item, pb.TopicSettings) for item in options.items()))


def group_settings(options: dict[str, Any]) -> pb.GroupSettings:
    given = dict(options)
    if "backoff" in given:
        given["backoff"] = backoff_text(given["backoff"])
    if "start" in given:
        given["start"] = start_text(given["start"])
    return pb.GroupSettings(**dict(setting(item, pb.GroupSettings) for item in given.items()))


def setting(item: tuple[str, Any], kind: Any) -> tuple[str, Any]:
    name, value = item
    if f"{name}_ms" in kind.DESCRIPTOR.fields_by_name:
        return f"{name}_ms", NO_LIMIT if value is None else duration_ms(name, value)
    return name, NO_LIMIT if value is None else value


def sent(message: Message | bytes) -> pb.Message:
    if isinstance(message, bytes):
        return pb.Message(value=message)
    lane = lane_number(message.priority)
    return pb.Message(
        value=message.value,
        tombstone=message.value is None,
        key=message.key.encode() if isinstance(message.key, str) else message.key,
        headers=message.headers,
        priority={number: name for name, number in LANES.items()}[lane],
        ttl_ms=None if message.ttl is None else duration_ms("ttl", message.ttl),
        delay_ms=None if message.delay is None else duration_ms("delay", message.delay),
        deliver_at_ms=None if message.deliver_at is None else instant_ms("deliver_at", message.deliver_at),
        dedup_id=message.dedup_id,
        partition=message.partition,
    )


def receipt(topic: str, given: pb.Receipt) -> Receipt:
    offset = None if given.offset < 0 else given.offset
    made = Receipt(
        topic, given.partition, offset, given.timestamp_ms, given.schedule_id or None, given.duplicate
    )
    assert made.id == given.id
    return made


def record(given: pb.StoredMessage) -> Record:
    return Record(
        given.offset,
        given.timestamp_ms,
        given.key if given.HasField("key") else None,
        None if given.tombstone else given.value,
        [(name, value.encode()) for name, value in given.headers.items()],
        LANES[given.priority or "normal"] << LANE_SHIFT & LANE_MASK,
    )


def stored(given: pb.StoredMessage) -> StoredMessage:
    return StoredMessage(given.topic, given.partition, record(given))


def told(given: Any, kind: type[T]) -> T:
    """A description, by the names of its fields."""
    return msgspec.convert(plain(given), kind)


def plain(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in given.DESCRIPTOR.fields:
        value = getattr(given, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = dict(value)
        elif field.is_repeated:
            found[field.name] = [plain(each) if field.message_type else each for each in value]
        elif field.has_presence and (not given.HasField(field.name) or value == NO_LIMIT):
            found[field.name] = None
        else:
            found[field.name] = plain(value) if field.message_type else value
    return found
