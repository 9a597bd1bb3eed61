"""A broker, for programs with threads.

    with penstock.open("data") as broker:
        broker.create_topic("orders", partitions=6)
        broker.publish("orders", b"...", key="order-123")
        with broker.consumer("orders", group="processors") as consumer:
            for message in consumer:
                with message:
                    work(message.value)

Every method may be called from any thread.  A method returns when what it
says is true and as durable as the topic promises.  ``penstock.connect(url)``
gives the same class over a connection, and ``penstock.aio`` its twin for
asyncio, with the same names.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from penstock.api.handles import Consumer, Producer
from penstock.api.operations import Driver, Operations
from penstock.api.spans import traced
from penstock.config.broker import QUEUE_PARTITIONS, Compression, GroupOptions, Start, TopicOptions
from penstock.errors import TopicExists
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
from penstock.model.message import Message, Receipt, StoredMessage, received
from penstock.model.trace import Trace
from penstock.types import Duration, Instant, Priority, duration_ms

DEFAULT_GROUP = "default"
LIST_LIMIT = 1000  # Entries a listing returns unless asked for more.
HOLD = "7d"  # How long retention waits for a group that was given what it had deleted.
FETCH_BYTES = 4 * 1024 * 1024  # Read and sent in about a millisecond, so that others do not wait for long.


class Broker:
    """A message broker, here or at the end of a connection; use it with ``with``, or call ``close``."""

    def __init__(self, operations: Operations, driver: Driver) -> None:
        self._operations = traced(operations)
        self._driver = driver

    def close(self, timeout: Duration | None = None) -> None:
        """Finish what is in hand, up to ``timeout``; release unfinished leases; write everything down."""
        self._driver.close(None if timeout is None else duration_ms("timeout", timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Topics.

    def create_topic(self, name: str, *, exist_ok: bool = False, **options: Unpack[TopicOptions]) -> None:
        """Make a topic; see ``TopicOptions`` for what can be set.

        With ``exist_ok`` a topic of that name may exist already, and stays as it is.
        """
        try:
            self._driver.run(self._operations.create_topic(name, options))
        except TopicExists:
            if not exist_ok:
                raise

    def alter_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Change settings of a topic; partitions may only become more."""
        self._driver.run(self._operations.alter_topic(name, options))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its messages and groups."""
        self._driver.run(self._operations.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics."""
        return self._driver.run(self._operations.topics())

    def describe_topic(self, name: str) -> TopicInfo:
        """Settings, sizes and counts of a topic."""
        return self._driver.run(self._operations.describe_topic(name))

    # Publishing.

    def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        ttl: Duration | None = None,
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Publish one message; the receipt means it is as durable as the topic promises."""
        message = Message(value, key, headers, priority, ttl, delay, deliver_at, dedup_id, partition)
        return self._driver.run(self._operations.publish(topic, message))

    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Publish many messages at once; one receipt each, in their order."""
        return self._driver.run(self._operations.publish_batch(topic, messages))

    def append(self, topic: str, partition: int, batch: bytes) -> Receipt:
        """Append an encoded record batch (RecordBatch v2) as it is; the offset is its first record's."""
        return self._driver.run(self._operations.append(topic, partition, batch))

    def producer(self, *, compression: Compression = "none") -> Producer:
        """An idempotent producer with an id of its own."""
        return Producer(self._driver.run(self._operations.producer(compression)), self._driver)

    def stage(self, topic: str, batch: bytes) -> int:
        """Put record batches aside for a topic, where nobody reads them; the offset of the first one there.

        ``batch`` is made by ``wire/staged.py``.  What is not published within a day is deleted.
        """
        return self._driver.run(self._operations.stage(topic, batch))

    def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> StagedPublish:
        """Publish what was staged, all of it and once; offsets by token.

        A version that is not above the application's last one was published before: nothing happens.
        """
        return self._driver.run(self._operations.publish_staged(topic, application, version, staged))

    def published_version(self, topic: str, application: str) -> int | None:
        """The last version that an application published; None if there is none."""
        return self._driver.run(self._operations.published_version(topic, application))

    # Consuming.

    def consumer(
        self,
        topic: str,
        *,
        group: str = "default",
        consumer_id: str | None = None,
        max_in_flight: int | None = None,
        **options: Unpack[GroupOptions],
    ) -> Consumer:
        """A consumer of a group; the group is made at first use, and changed by options that are given."""
        made = self._driver.run(
            self._operations.consumer(topic, group, consumer_id, max_in_flight, options, received)
        )
        return Consumer(made, self._driver)

    def create_group(self, topic: str, group: str, **options: Unpack[GroupOptions]) -> None:
        """Make a group, or change its settings, without consuming."""
        self._driver.run(self._operations.create_group(topic, group, options))

    def delete_group(self, topic: str, group: str) -> None:
        """Forget a group and where it was; its consumers are closed."""
        self._driver.run(self._operations.delete_group(topic, group))

    def groups(self, topic: str) -> list[str]:
        """The names of a topic's groups."""
        return self.describe_topic(topic).groups

    def describe_group(self, topic: str, group: str) -> GroupInfo:
        """How far a group is, what is in its way, how fast it goes, and a verdict on all that."""
        return self._driver.run(self._operations.describe_group(topic, group))

    def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> list[DeliveryState]:
        """What became of the messages from ``start`` up to ``end`` in a group, in ranges that are alike."""
        return self._driver.run(self._operations.delivery_states(topic, group, partition, start, end))

    def seek(
        self, topic: str, group: str, to: Start | str | Instant, *, partition: int | None = None
    ) -> None:
        """Move a group to "earliest", "latest", an offset or a time, on one partition or on all."""
        self._driver.run(self._operations.seek(topic, group, to, partition))

    def purge(self, topic: str, group: str) -> int:
        """Settle everything the group has before it; returns how many messages that were."""
        depth = self.depth(topic, group)
        self.seek(topic, group, "latest")
        return depth

    def depth(self, topic: str, group: str | None = None) -> int:
        """Messages that wait for a group, or for the slowest one."""
        return self.describe_topic(topic).depth if group is None else self.describe_group(topic, group).lag

    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        """Say how far a reader that keeps its own place has come, by partition.

        The group is a stream group without members, made at first use; its lag is told like any other's.
        """
        self._driver.run(self._operations.commit_offsets(topic, group, offsets))

    def begin_restore(self, topic: str, partition: int, start: int) -> Restore:
        """Be ready to put back what retention deleted, from ``start`` up to where the log begins.

        Until it is finished, or nothing was heard for ten minutes, retention leaves the partition alone.
        """
        return self._driver.run(self._operations.begin_restore(topic, partition, start))

    def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> int:
        """Hand over record batches with their old offsets, rising; returns the offset after the last.

        Offsets that no batch has are holes.  What was handed over before is not taken twice.
        """
        return self._driver.run(self._operations.restore(topic, partition, restore, batches))

    def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, *, hold: Duration = HOLD
    ) -> None:
        """Put the messages back into the log, and move the group to the first of them.

        Retention waits for the group, up to ``hold``, until it is past all that the log has now.
        """
        self._driver.run(self._operations.finish_restore(topic, partition, restore, group, hold))

    # Looking, which changes nothing.

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = FETCH_BYTES,
        journal: bool = False,
    ) -> Fetched:
        """Record batches as they lie in the log, from the one that holds ``offset`` on; nothing at the end.

        At least one whole batch, and as many as fit into ``max_bytes``; with ``journal`` those of the
        partition's journal, whose records are the events of ``penstock.delivery.events``.
        """
        return self._driver.run(self._operations.fetch(topic, partition, offset, max_bytes, journal))

    def offsets(self, topic: str, at: str | Instant, *, journal: bool = False) -> dict[int, int]:
        """By partition, the offset of "earliest", "latest", or of the first message not older than a time."""
        return self._driver.run(self._operations.offsets(topic, at, journal))

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int | None = None,
        from_time: Instant | None = None,
        to_time: Instant | None = None,
        limit: int = 100,
    ) -> list[StoredMessage]:
        """Up to ``limit`` stored messages from an offset or a time on, before ``to_time``; fewer if large."""
        return self._driver.run(self._operations.read(topic, partition, offset, from_time, to_time, limit))

    def peek(self, topic: str, count: int = 10, *, partition: int | None = None) -> list[StoredMessage]:
        """The last ``count`` messages, oldest of them first."""
        return self._driver.run(self._operations.peek(topic, count, partition))

    def trace(self, topic: str, partition: int | None = None, offset: int | None = None) -> Trace:
        """Everything that happened to a message, named by its place, its id or its schedule id."""
        return self._driver.run(self._operations.trace(topic, partition, offset))

    # The schedule.

    def schedule(
        self,
        topic: str,
        value: bytes | None,
        *,
        cron: str,
        timezone: str = "UTC",
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        partition: int | None = None,
    ) -> str:
        """Publish a message again and again, at the times of a cron expression; returns the schedule id."""
        message = Message(value, key, headers, priority, partition=partition)
        return self._driver.run(self._operations.schedule(topic, message, cron, timezone))

    def scheduled(self, topic: str, limit: int = LIST_LIMIT) -> list[ScheduledMessage]:
        """Messages that wait for their time, in the order they were accepted."""
        return self._driver.run(self._operations.scheduled(topic, limit))

    def scheduled_count(self, topic: str) -> int:
        """How many messages wait for their time."""
        return self._driver.run(self._operations.scheduled_count(topic))

    def cancel(self, schedule_id: str) -> Cancelled:
        """Take a scheduled message back: "cancelled", or "delivered" or "unknown" if it cannot be."""
        return self._driver.run(self._operations.cancel(schedule_id))

    def reschedule(
        self, schedule_id: str, *, delay: Duration | None = None, deliver_at: Instant | None = None
    ) -> bool:
        """Give a scheduled message another time; False if it is not waiting any more."""
        return self._driver.run(self._operations.reschedule(schedule_id, delay, deliver_at))

    # Dead letters.

    def dead_letters(self, topic: str, limit: int = LIST_LIMIT) -> list[DeadLetter]:
        """The dead letters of a topic that were not redriven yet."""
        return self._driver.run(self._operations.dead_letters(topic, limit))

    def dead_letter_errors(self, topic: str | None = None) -> list[DeadLetterErrors]:
        """The same counted by error, the most frequent first; of one topic or of all."""
        return self._driver.run(self._operations.dead_letter_errors(topic))

    def redrive(
        self,
        topic: str,
        *,
        limit: int = 1_000_000,
        rate: float | None = None,
        dry_run: bool = False,
        error: str | None = None,
        group: str | None = None,
    ) -> Redrive:
        """Send dead letters back to their topic: all, or of one error or group.

        ``error`` is a fingerprint, the class of an error, or the id of one message; ``rate`` is messages a
        second; a dry run only counts.
        """
        return self._driver.run(self._operations.redrive(topic, limit, rate, dry_run, error, group))

    # Who may come, by the listeners of a server that asks for keys.

    def create_key(self, name: str, grants: Sequence[Grant], *, quota: Quota | None = None) -> NewKey:
        """Make an API key; what is returned is the only place where its secret ever is."""
        return self._driver.run(self._operations.create_key(name, grants, quota))

    def keys(self) -> list[KeyInfo]:
        """The API keys there are, the oldest first."""
        return self._driver.run(self._operations.keys())

    def revoke_key(self, key_id: str) -> None:
        """End an API key, by its id; whoever is connected with it is cut off."""
        self._driver.run(self._operations.revoke_key(key_id))

    def set_user(
        self, name: str, password: str, grants: Sequence[Grant], *, quota: Quota | None = None
    ) -> None:
        """Make a user, or give one another password and other grants; whoever has logged in is cut off."""
        self._driver.run(self._operations.set_user(name, password, grants, quota))

    def users(self) -> list[UserInfo]:
        """The users there are."""
        return self._driver.run(self._operations.users())

    def delete_user(self, name: str) -> None:
        """End a user; whoever has logged in is cut off."""
        self._driver.run(self._operations.delete_user(name))

    # The broker itself.

    def stats(self) -> BrokerInfo:
        """The broker at a glance: version, uptime, sizes, counts."""
        return self._driver.run(self._operations.stats())

    # GoMQ's words.

    def queue(self, name: str, **options: Unpack[TopicOptions]) -> "Queue":
        """A point-to-point queue: a topic with the one group ``default``; created if it does not exist.

        It has one partition, and so is first in, first out, unless you ask for more with ``partitions``.
        """
        self._ensure_topic(name, {"partitions": QUEUE_PARTITIONS, **options})
        return Queue(self, name)

    def topic(self, name: str, **options: Unpack[TopicOptions]) -> "TopicHandle":
        """A publish-subscribe topic: a group for each subscriber; made if it does not exist."""
        self._ensure_topic(name, options)
        return TopicHandle(self, name)

    def _ensure_topic(self, name: str, options: TopicOptions) -> None:
        if name not in self.topics():
            self.create_topic(name, exist_ok=True, **options)  # Somebody may be quicker.


class Queue:
    """A topic worked by its one group ``default``."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self.name = name
        if DEFAULT_GROUP not in broker.groups(name):
            broker.create_group(name, DEFAULT_GROUP)

    def publish(self, value: bytes, **options: Any) -> Receipt:
        """Publish one message; the options are those of ``Broker.publish``."""
        return self._broker.publish(self.name, value, **options)

    def publish_batch(self, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Publish many messages at once."""
        return self._broker.publish_batch(self.name, messages)

    def subscribe(self, consumer_id: str | None = None, **options: Unpack[GroupOptions]) -> Consumer:
        """A consumer that shares the queue's messages with the others."""
        return self._broker.consumer(self.name, group=DEFAULT_GROUP, consumer_id=consumer_id, **options)

    def depth(self) -> int:
        """Messages not settled yet."""
        return self._broker.depth(self.name, DEFAULT_GROUP)

    def purge(self) -> int:
        """Settle everything that waits; returns how many messages that were."""
        return self._broker.purge(self.name, DEFAULT_GROUP)

    def stats(self) -> TopicInfo:
        """Sizes and counts."""
        return self._broker.describe_topic(self.name)


class TopicHandle:
    """A topic whose every subscriber gets every message."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self.name = name

    def publish(self, value: bytes, **options: Any) -> Receipt:
        """Publish one message; the options are those of ``Broker.publish``."""
        return self._broker.publish(self.name, value, **options)

    def subscribe(self, subscriber_id: str, **options: Unpack[GroupOptions]) -> Consumer:
        """A subscription of its own, from now on (or from where the subscriber was)."""
        if subscriber_id not in self._broker.groups(self.name):
            options.setdefault("start", "latest")
        return self._broker.consumer(self.name, group=subscriber_id, consumer_id=subscriber_id, **options)

    def unsubscribe(self, subscriber_id: str) -> None:
        """End a subscription and forget where it was."""
        self._broker.delete_group(self.name, subscriber_id)

    def subscriber_count(self) -> int:
        """How many subscribers the topic has."""
        return len(self._broker.groups(self.name))

    def stats(self) -> TopicInfo:
        """Sizes and counts."""
        return self._broker.describe_topic(self.name)
