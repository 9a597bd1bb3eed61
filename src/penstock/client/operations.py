"""The operations of a broker at the end of a connection.

    RemoteOperations ──> CALL by name (``calls.py``) ──┐
                    ├──> Publisher                     ├──> Session ──> Connection
                    └──> RemoteConsumer                ┘

What may be sent again after a lost connection is decided here, by name:

    LOOKS      change nothing
    TWICE      change something, and twice is the same as once
    DONE       a repeat that finds it done, by this error, is done
    the rest   are not repeated: ``OutcomeUnknown``
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from penstock.api.operations import ConsumerOperations, ProducerOperations, Wrap
from penstock.client.consume.consumer import RemoteConsumer
from penstock.client.consume.receiver import Receiver
from penstock.client.publish.producer import RemoteProducer, check_compression
from penstock.client.publish.publisher import Publisher
from penstock.client.session import NOTHING, ClientSession
from penstock.client.work import work
from penstock.config.broker import PARTITIONS_MAX, Compression, GroupOptions, Start, TopicOptions
from penstock.errors import GroupNotFound, IdentityNotFound, InvalidValue, TopicExists, TopicNotFound
from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo
from penstock.model.info import (
    BrokerInfo,
    Cancelled,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    Fetched,
    GroupInfo,
    Redrive,
    Restore,
    ScheduledMessage,
    StagedPublish,
    TopicInfo,
)
from penstock.model.message import Message, Receipt, StoredMessage
from penstock.model.placing import placed
from penstock.model.trace import Trace
from penstock.operations.calls import CALLS, decode_answer, plain, wire_message
from penstock.types import Duration, Instant, check_fetch, check_name, missing_topic, whole_number
from penstock.wire.native import ACKS_DURABLE, UINT32_MAX, decode_fetched, encode_fetch
from penstock.wire.native_bodies import OpenConsumer, encode_call

LOOKS: Final = frozenset({
    "topics", "describe_topic", "describe_group", "read", "peek", "trace", "scheduled", "scheduled_count",
    "dead_letters", "dead_letter_errors", "stats", "published_version", "offsets", "delivery_states",
    "keys", "users",
})  # fmt: skip
TWICE: Final = frozenset({
    "alter_topic", "create_group", "seek", "reschedule", "stage", "publish_staged", "commit_offsets",
    "begin_restore", "restore", "set_user",
})  # fmt: skip
DONE: Final = {
    "create_topic": frozenset({TopicExists.code}),
    "delete_topic": frozenset({TopicNotFound.code}),
    "delete_group": frozenset({GroupNotFound.code}),
    "revoke_key": frozenset({IdentityNotFound.code}),
    "delete_user": frozenset({IdentityNotFound.code}),
}
STAGED_MS_MAX: Final = 3600 * 1000  # A staged publish may be large.
REDRIVE_MS_MAX: Final = 24 * 3600 * 1000  # A redrive may be slow on purpose.


class RemoteOperations:
    def __init__(self, session: ClientSession, publisher: Publisher) -> None:
        self.session = session
        self.publisher = publisher

    async def _call(self, operation: str, *, wait_ms: int = 0, **arguments: Any) -> Any:
        """Call an operation by its name; its arguments are checked where they can be named."""
        told = checked_arguments(operation, arguments)
        body = await self.session.call(
            operation,
            lambda correlation: encode_call(correlation, operation, told),
            changes=operation not in LOOKS,
            repeat=operation in LOOKS or operation in TWICE or operation in DONE,
            wait_ms=wait_ms,
            done=DONE.get(operation, NOTHING),
        )
        return decode_answer(operation, memoryview(body)[4:]) if body else None

    # Topics.

    @work
    async def create_topic(self, name: str, options: TopicOptions) -> None:
        await self._call("create_topic", name=name, options=options)

    @work
    async def alter_topic(self, name: str, options: TopicOptions) -> None:
        await self._call("alter_topic", name=name, options=options)

    @work
    async def delete_topic(self, name: str) -> None:
        await self._call("delete_topic", name=name)

    @work
    async def topics(self) -> list[str]:
        """The names of all topics."""
        names: list[str] = await self._call("topics")
        return names

    @work
    async def describe_topic(self, name: str) -> TopicInfo:
        info: TopicInfo = await self._call("describe_topic", name=name)
        return info

    # Publishing.

    @work
    async def publish(self, topic: str, message: Message, acks: int = ACKS_DURABLE) -> Receipt:
        [receipt] = await self.publisher.start(topic, [message], acks)
        return receipt

    @work
    async def publish_batch(
        self, topic: str, messages: Iterable[Message | bytes], acks: int = ACKS_DURABLE
    ) -> list[Receipt]:
        batch = list(messages)
        if not batch:
            await self.publisher.metadata(topic)  # The topic must exist all the same.
            return []
        return await self.publisher.start(topic, batch, acks)

    @work
    async def flush(self) -> None:
        """Wait until everything published so far is answered."""
        await self.publisher.flush()

    @work
    async def append(self, topic: str, partition: int, batch: bytes) -> Receipt:
        """A record batch as it is."""
        return await self.publisher.append(topic, partition, batch)

    @work
    async def producer(self, compression: Compression) -> ProducerOperations:
        check_compression(compression)
        return RemoteProducer(self.publisher, await self.publisher.facts.new_producer_id(), compression)

    @work
    async def stage(self, topic: str, batch: bytes) -> int:
        """Batches put aside; those of a repeat lie there unnamed."""
        first: int = await self._call("stage", topic=topic, batch=batch)
        return first

    @work
    async def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> StagedPublish:
        """What tasks have staged, all of it and once."""
        done: StagedPublish = await self._call(
            "publish_staged",
            wait_ms=STAGED_MS_MAX,
            topic=topic,
            application=application,
            version=version,
            staged=staged,
        )
        return done

    @work
    async def published_version(self, topic: str, application: str) -> int | None:
        """The last version of an application."""
        version: int | None = await self._call("published_version", topic=topic, application=application)
        return version

    # Groups and their consumers.

    @work
    async def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
        prefetch: int = 0,
        heartbeat: bool = True,
    ) -> ConsumerOperations:
        """A consumer of a group, which is made at first use."""
        whole_number("prefetch", prefetch, 0)
        if not isinstance(topic, str):
            raise missing_topic(topic)
        check_name("group", group)
        if consumer_id is not None:
            check_name("consumer", consumer_id)
        if max_in_flight is not None and type(max_in_flight) is not int:
            whole_number("max_in_flight", max_in_flight, 1)  # The limit is the server's to say.
        wish = OpenConsumer(
            topic=topic,
            group=group,
            consumer_id=consumer_id,
            max_in_flight=max_in_flight,
            options=encodable("options", dict(options)),
            assignments=True,
        )
        receiver = Receiver(self.session, wish, wrap, prefetch, heartbeat)
        await receiver.open()
        return RemoteConsumer(receiver)

    @work
    async def create_group(self, topic: str, group: str, options: GroupOptions) -> None:
        """Make a group, or change its settings."""
        await self._call("create_group", topic=topic, group=group, options=options)

    @work
    async def delete_group(self, topic: str, group: str) -> None:
        await self._call("delete_group", topic=topic, group=group)

    @work
    async def describe_group(self, topic: str, group: str) -> GroupInfo:
        """How far a group is."""
        info: GroupInfo = await self._call("describe_group", topic=topic, group=group)
        return info

    @work
    async def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> list[DeliveryState]:
        """What became of a range of messages."""
        states: list[DeliveryState] = await self._call(
            "delivery_states", topic=topic, group=group, partition=partition, start=start, end=end
        )
        return states

    @work
    async def seek(self, topic: str, group: str, to: Start | str | Instant, partition: int | None) -> None:
        await self._call("seek", topic=topic, group=group, to=to, partition=partition)

    @work
    async def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        """Say how far a reader from outside has come."""
        await self._call("commit_offsets", topic=topic, group=group, offsets=offsets)

    @work
    async def begin_restore(self, topic: str, partition: int, start: int) -> Restore:
        """Be ready for deleted messages."""
        begun: Restore = await self._call("begin_restore", topic=topic, partition=partition, start=start)
        return begun

    @work
    async def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> int:
        following: int = await self._call(
            "restore", topic=topic, partition=partition, restore=restore, batches=batches
        )
        return following

    @work
    async def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, hold: Duration
    ) -> None:
        """Put them back for a group."""
        await self._call(
            "finish_restore", topic=topic, partition=partition, restore=restore, group=group, hold=hold
        )

    # Looking.

    @work
    async def fetch(self, topic: str, partition: int, offset: int, max_bytes: int, journal: bool) -> Fetched:
        """Batches as they lie in the log."""
        if not isinstance(topic, str) or not topic.isascii():
            raise missing_topic(topic)
        check_fetch(partition, offset, max_bytes)
        most = min(max_bytes, UINT32_MAX)
        body = await self.session.call(
            "fetch",
            lambda correlation: encode_fetch(correlation, topic, partition, offset, most, bool(journal)),
            changes=False,
        )
        start, end, following, batches = decode_fetched(body)
        return Fetched(start=start, end=end, next_offset=following, batches=batches)

    @work
    async def offsets(self, topic: str, at: str | Instant, journal: bool) -> dict[int, int]:
        """Which offset a time is, by partition."""
        offsets: dict[int, int] = await self._call("offsets", topic=topic, at=at, journal=journal)
        return offsets

    @work
    async def read(
        self,
        topic: str,
        partition: int | None,
        offset: int | None,
        from_time: Instant | None,
        to_time: Instant | None,
        limit: int,
    ) -> list[StoredMessage]:
        """Stored messages from a place on."""
        messages: list[StoredMessage] = await self._call(
            "read",
            topic=topic,
            partition=partition,
            offset=offset,
            from_time=from_time,
            to_time=to_time,
            limit=limit,
        )
        return messages

    @work
    async def peek(self, topic: str, count: int, partition: int | None) -> list[StoredMessage]:
        messages: list[StoredMessage] = await self._call(
            "peek", topic=topic, count=count, partition=partition
        )
        return messages

    @work
    async def trace(self, topic: str, partition: int | None, offset: int | None) -> Trace:
        """Everything that happened to a message."""
        trace: Trace = await self._call("trace", topic=topic, partition=partition, offset=offset)
        return trace

    # The schedule.

    @work
    async def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> str:
        """Publish a message again and again."""
        placed(topic, message, PARTITIONS_MAX)
        schedule_id: str = await self._call(
            "schedule", topic=topic, message=wire_message(message), cron=cron, timezone=timezone
        )
        return schedule_id

    @work
    async def scheduled(self, topic: str, limit: int) -> list[ScheduledMessage]:
        """Messages that wait for their time."""
        waiting: list[ScheduledMessage] = await self._call("scheduled", topic=topic, limit=limit)
        return waiting

    @work
    async def scheduled_count(self, topic: str) -> int:
        """How many messages wait for their time."""
        count: int = await self._call("scheduled_count", topic=topic)
        return count

    @work
    async def cancel(self, schedule_id: str) -> Cancelled:
        """Take a scheduled message back."""
        cancelled: Cancelled = await self._call("cancel", schedule_id=schedule_id)
        return cancelled

    @work
    async def reschedule(self, schedule_id: str, delay: Duration | None, deliver_at: Instant | None) -> bool:
        """Give a scheduled message another time."""
        moved: bool = await self._call(
            "reschedule", schedule_id=schedule_id, delay=delay, deliver_at=deliver_at
        )
        return moved

    # Dead letters.

    @work
    async def dead_letters(self, topic: str, limit: int) -> list[DeadLetter]:
        """The dead letters that were not redriven yet."""
        letters: list[DeadLetter] = await self._call("dead_letters", topic=topic, limit=limit)
        return letters

    @work
    async def dead_letter_errors(self, topic: str | None) -> list[DeadLetterErrors]:
        """Dead letters by their error."""
        kinds: list[DeadLetterErrors] = await self._call("dead_letter_errors", topic=topic)
        return kinds

    @work
    async def redrive(
        self,
        topic: str,
        limit: int,
        rate: float | None,
        dry_run: bool,
        error: str | None,
        group: str | None,
    ) -> Redrive:
        redriven: Redrive = await self._call(
            "redrive",
            wait_ms=REDRIVE_MS_MAX,
            topic=topic,
            limit=limit,
            rate=rate,
            dry_run=dry_run,
            error=error,
            group=group,
        )
        return redriven

    # Who may come.

    @work
    async def create_key(self, name: str, grants: Sequence[Grant], quota: Quota | None) -> NewKey:
        made: NewKey = await self._call("create_key", name=name, grants=grants, quota=quota)
        return made

    @work
    async def keys(self) -> list[KeyInfo]:
        """The API keys there are."""
        keys: list[KeyInfo] = await self._call("keys")
        return keys

    @work
    async def revoke_key(self, key_id: str) -> None:
        await self._call("revoke_key", key_id=key_id)

    @work
    async def set_user(self, name: str, password: str, grants: Sequence[Grant], quota: Quota | None) -> None:
        """Make a user, or change one."""
        await self._call("set_user", name=name, password=password, grants=grants, quota=quota)

    @work
    async def users(self) -> list[UserInfo]:
        users: list[UserInfo] = await self._call("users")
        return users

    @work
    async def delete_user(self, name: str) -> None:
        await self._call("delete_user", name=name)

    # The broker itself.

    @work
    async def stats(self) -> BrokerInfo:
        """The broker at a glance."""
        info: BrokerInfo = await self._call("stats")
        return info


def checked_arguments(operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call as they travel; what cannot travel is refused by its name."""
    told = {name: encodable(name, value) for name, value in arguments.items()}
    for name in ("topic", "name"):
        if name in told and not isinstance(told[name], str | None) and operation != "create_topic":
            raise missing_topic(told[name])
    for name, field in CALLS[operation].arguments.__annotations__.items():
        if name in told and not isinstance(told[name], msgspec.Struct):
            try:
                msgspec.convert(told[name], field)
            except msgspec.ValidationError as problem:
                raise InvalidValue(name=name, value=told[name], why=str(problem)) from None
    return told


def encodable(name: str, value: Any) -> Any:
    """An argument as msgpack has it."""
    told = plain(value)
    try:
        msgspec.msgpack.encode(told)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidValue(name=name, value=value, why="it cannot be sent to a server") from None
    return told
