"""A broker, for programs on asyncio.

    async with penstock.aio.open("data") as broker:
        await broker.create_topic("orders", partitions=6)
        await broker.publish("orders", b"...", key="order-123")
        async with await broker.consumer("orders", group="processors") as consumer:
            async for message in consumer:
                async with message:
                    await work(message.value)

It belongs to the event loop it was opened on.  A call that is cancelled while it
waits may still take effect: what was written stays written.

Methods that only call an operation are generated (``aio_calls.py``); so is the same
class for threads, from this one (``broker.py``).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, Unpack

from msgspec import UNSET, UnsetType

from penstock.api.aio_calls import AsyncBrokerCalls
from penstock.api.aio_handles import AsyncConsumer, AsyncProducer, AsyncTopicsConsumer
from penstock.api.aio_transactions import AsyncTransaction
from penstock.api.operations import AsyncDriver, Operations
from penstock.api.spans import traced
from penstock.config.broker import (
    DEAD_LETTER_RETENTION_MS,
    QUEUE_PARTITIONS,
    Compression,
    GroupOptions,
    TopicOptions,
)
from penstock.errors import InvalidValue, QueueNotFound, TopicExists, TopicNotFound
from penstock.model.ids import (
    SENT_ID,
    SENT_LOOKED_AT_MAX,
    SENT_STEP_MS,
    is_sent_uuid,
    is_uuid,
    kafka_position,
    position_of,
    sent_position,
)
from penstock.model.info import TopicInfo
from penstock.model.message import Message, Receipt, received_async
from penstock.model.tables.frames import MessageList
from penstock.model.trace import Trace
from penstock.operations.call import DEFAULT_GROUP, TRANSACTION_TIMEOUT
from penstock.types import Duration, Instant, Priority, duration_ms


class AsyncBroker(AsyncBrokerCalls):
    """A message broker, in this process or over a connection; use it with ``with``, or call ``close``."""

    def __init__(self, operations: Operations, driver: AsyncDriver) -> None:
        self._operations = traced(operations)
        self._driver = driver
        self._free_ids: list[str] = []  # Transactional ids that the broker chose, to be used again.

    async def close(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109 - as in Broker.
        """Finish what is in progress, up to ``timeout``; release leases; make everything durable."""
        await self._driver.close(None if timeout is None else duration_ms("timeout", timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def create_topic(
        self, name: str, *, exist_ok: bool = False, **options: Unpack[TopicOptions]
    ) -> None:
        """Create a topic; see ``TopicOptions`` for its settings.

        With ``exist_ok``, an existing topic of that name is left unchanged.
        """
        try:
            await self._driver.run(self._operations.create_topic(name, options))
        except TopicExists:
            if not exist_ok:
                raise

    async def publish(
        self,
        topic: str,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        ttl: Duration | None = None,
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Publish one message; the receipt means it is as durable as the topic promises.

        It is ``value``, bytes; or an object as JSON (``json``); or text as UTF-8 (``text``).
        """
        message = Message(
            value, key, headers, priority, ttl, delay, deliver_at, dedup_id, partition, json, text
        )
        return await self._driver.run(self._operations.publish(topic, message))

    async def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int | None = None,
        from_time: Instant | None = None,
        to_time: Instant | None = None,
        limit: int = 100,
    ) -> MessageList:
        """Up to ``limit`` stored messages from an offset or a time on, before ``to_time``; fewer if large."""
        found = self._operations.read(topic, partition, offset, from_time, to_time, limit)
        return MessageList(await self._driver.run(found))

    async def peek(self, topic: str, count: int = 10, *, partition: int | None = None) -> MessageList:
        """The last ``count`` messages, the oldest of them first."""
        return MessageList(await self._driver.run(self._operations.peek(topic, count, partition)))

    async def trace(self, topic: str, partition: int | None = None, offset: int | None = None) -> Trace:
        """Everything that happened to a message, given by its position or by an id of any protocol.

        Ids are those of a message or a schedule, the UUIDs of KQueue and SQS, and orders-0@7 of Kafka's
        clients.  A message of SQS is looked for among the scheduled ones and those stored after it was sent,
        10,000 of each.
        """
        position: tuple[str, int | None, int | None] = topic, partition, offset
        if partition is None:
            position = await self._position(topic) or position
        return await self._driver.run(self._operations.trace(*position))

    async def _position(self, identity: str) -> tuple[str, int | None, int | None] | None:
        """The position of a message that is given by an id of another protocol."""
        if is_uuid(identity):
            return position_of(identity, await self.topics())
        if not is_sent_uuid(identity):
            return kafka_position(identity)
        sent = sent_position(identity, await self.topics())
        if sent is None:
            return None
        topic, sent_ms = sent
        since_s = (sent_ms - SENT_STEP_MS) / 1000
        for stored in await self.read(topic, from_time=since_s, limit=SENT_LOOKED_AT_MAX):
            if stored.headers.get(SENT_ID) == identity:
                return topic, stored.partition, stored.offset
        for waiting in await self.scheduled(topic, SENT_LOOKED_AT_MAX):
            if waiting.headers.get(SENT_ID) == identity:
                return waiting.id, None, None
        return None

    async def producer(self, *, compression: Compression = "none") -> AsyncProducer:
        """An idempotent producer with an id of its own."""
        return AsyncProducer(await self._driver.run(self._operations.producer(compression)), self._driver)

    def transaction(
        self, transactional_id: str | None = None, *, timeout: Duration = TRANSACTION_TIMEOUT
    ) -> AsyncTransaction:
        """Messages and acks that take effect together, when the ``with`` block ends, or not at all.

        ``transactional_id`` is for a program that runs once: beginning a transaction aborts the one that
        an earlier run has left open.  After ``timeout``, up to 15 minutes, the broker aborts it.
        """
        return AsyncTransaction(self._operations, self._driver, transactional_id, timeout, self._free_ids)

    async def consumer(
        self,
        topic: str,
        *,
        group: str = "default",
        consumer_id: str | None = None,
        max_in_flight: int | None = None,
        **options: Unpack[GroupOptions],
    ) -> AsyncConsumer:
        """A consumer of a group; the group is created at first use, and changed by options that are given."""
        made = await self._driver.run(
            self._operations.consumer(topic, group, consumer_id, max_in_flight, options, received_async)
        )
        return AsyncConsumer(made, self._driver)

    async def consumer_of_topics(
        self,
        topics: Sequence[str],
        *,
        group: str = "default",
        consumer_id: str | None = None,
        max_in_flight: int | None = None,
        **options: Unpack[GroupOptions],
    ) -> AsyncTopicsConsumer:
        """A consumer of the groups of that name of several topics; ``max_in_flight`` is for each topic."""
        names = [] if isinstance(topics, str) else list(topics or ())
        if not names or not all(isinstance(topic, str) for topic in names):
            raise InvalidValue(name="topics", value=topics, why="give a list of names, such as ['a', 'b']")
        made: dict[str, AsyncConsumer] = {}
        try:
            for topic in dict.fromkeys(names):
                made[topic] = await self.consumer(
                    topic, group=group, consumer_id=consumer_id, max_in_flight=max_in_flight, **options
                )
        except BaseException:
            await AsyncTopicsConsumer(made).close()
            raise
        return AsyncTopicsConsumer(made)

    async def groups(self, topic: str) -> list[str]:
        """The names of a topic's groups."""
        info = await self.describe_topic(topic)
        return info.groups

    async def purge(self, topic: str, group: str) -> int:
        """Settle all messages that wait for the group; returns how many there were."""
        depth = await self.depth(topic, group)
        await self.seek(topic, group, "latest")
        return depth

    async def depth(self, topic: str, group: str | None = None) -> int:
        """Messages that wait for a group, or for the slowest one."""
        if group is None:
            topic_info = await self.describe_topic(topic)
            return topic_info.depth
        group_info = await self.describe_group(topic, group)
        return group_info.lag

    async def schedule(
        self,
        topic: str,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        cron: str,
        timezone: str = "UTC",
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        partition: int | None = None,
    ) -> str:
        """Publish a message repeatedly, at the times of a cron expression; returns the schedule id."""
        message = Message(value, key, headers, priority, partition=partition, json=json, text=text)
        return await self._driver.run(self._operations.schedule(topic, message, cron, timezone))

    # GoMQ's words.

    async def queue(self, name: str, **options: Unpack[TopicOptions]) -> "AsyncQueue":
        """A point-to-point queue: a topic with the one group ``default``; created if it does not exist.

        By default it has one partition, and is first in, first out.  Its ``dead_letter_topic`` becomes a
        queue, too.
        """
        await self._ensure_topic(name, {"partitions": QUEUE_PARTITIONS, **options})
        dead_letters = options.get("dead_letter_topic")
        if dead_letters:
            letters: TopicOptions = {"retention": timedelta(milliseconds=DEAD_LETTER_RETENTION_MS)}
            if "durability" in options:
                letters["durability"] = options["durability"]
            await self.queue(dead_letters, **letters)
        queue = AsyncQueue(self, name)
        await queue.prepare()
        return queue

    async def topic(self, name: str, **options: Unpack[TopicOptions]) -> "AsyncTopicHandle":
        """A publish-subscribe topic: a group for each subscriber; created if it does not exist."""
        await self._ensure_topic(name, options)
        return AsyncTopicHandle(self, name)

    async def get_queue(self, name: str) -> "AsyncQueue":
        """The queue of that name; raises ``QueueNotFound`` if there is none."""
        if name not in await self.queues():
            raise QueueNotFound(queue=name)
        return AsyncQueue(self, name)

    async def get_topic(self, name: str) -> "AsyncTopicHandle":
        """The topic of that name, which may be a queue; raises ``TopicNotFound`` if there is none."""
        if not await self.topic_exists(name):
            raise TopicNotFound(topic=name)
        return AsyncTopicHandle(self, name)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages; raises ``QueueNotFound`` if there is none."""
        await self.get_queue(name)
        await self.delete_topic(name)

    async def _ensure_topic(self, name: str, options: TopicOptions) -> None:
        if name not in await self.topics():
            await self.create_topic(name, exist_ok=True, **options)  # Another client may be quicker.


class AsyncQueue:
    """A topic with the single group ``default``."""

    def __init__(self, broker: AsyncBroker, name: str) -> None:
        self._broker = broker
        self.name = name

    async def prepare(self) -> None:
        """Make the group, so that messages count as waiting from now on."""
        if DEFAULT_GROUP not in await self._broker.groups(self.name):
            await self._broker.create_group(self.name, DEFAULT_GROUP)

    async def publish(
        self,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        **options: Any,
    ) -> Receipt:
        """Publish one message; the options are those of ``Broker.publish``."""
        return await self._broker.publish(self.name, value, json=json, text=text, **options)

    async def publish_batch(self, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Publish many messages at once."""
        return await self._broker.publish_batch(self.name, messages)

    async def subscribe(
        self, consumer_id: str | None = None, **options: Unpack[GroupOptions]
    ) -> AsyncConsumer:
        """A consumer that shares the queue's messages with the others."""
        return await self._broker.consumer(self.name, group=DEFAULT_GROUP, consumer_id=consumer_id, **options)

    async def depth(self) -> int:
        """How many messages of the topic are not settled yet."""
        return await self._broker.depth(self.name, DEFAULT_GROUP)

    async def purge(self) -> int:
        """Settle everything that waits; returns how many messages that were."""
        return await self._broker.purge(self.name, DEFAULT_GROUP)

    async def stats(self) -> TopicInfo:
        """How many bytes and messages there are, and what was published and delivered."""
        return await self._broker.describe_topic(self.name)


class AsyncTopicHandle:
    """A topic whose every subscriber gets every message."""

    def __init__(self, broker: AsyncBroker, name: str) -> None:
        self._broker = broker
        self.name = name

    async def publish(
        self,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        **options: Any,
    ) -> Receipt:
        """Publish one message; the options are those of ``Broker.publish``."""
        return await self._broker.publish(self.name, value, json=json, text=text, **options)

    async def subscribe(self, subscriber_id: str, **options: Unpack[GroupOptions]) -> AsyncConsumer:
        """A subscription of its own, from now on (or from where the subscriber was)."""
        if subscriber_id not in await self._broker.groups(self.name):
            options.setdefault("start", "latest")
        return await self._broker.consumer(
            self.name, group=subscriber_id, consumer_id=subscriber_id, **options
        )

    async def unsubscribe(self, subscriber_id: str) -> None:
        """End a subscription and forget where it was."""
        await self._broker.delete_group(self.name, subscriber_id)

    async def subscriber_count(self) -> int:
        """How many subscribers the topic has."""
        return len(await self._broker.groups(self.name))

    async def stats(self) -> TopicInfo:
        """How many bytes and messages there are, and what was published and delivered."""
        return await self._broker.describe_topic(self.name)
