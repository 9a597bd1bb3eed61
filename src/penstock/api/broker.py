# Generated from its asyncio version by `make generate`; change it there.
"""A broker, for programs with threads.

    with penstock.open("data") as broker:
        broker.create_topic("orders", partitions=6)
        broker.publish("orders", b"...", key="order-123")
        with broker.consumer("orders", group="processors") as consumer:
            for message in consumer:
                with message:
                    work(message.value)

Every method may be called from any thread.  A method returns when its result is as
durable as the topic promises.  ``penstock.connect(url)`` gives the same class over a
connection, and ``penstock.aio`` the same methods for asyncio (``aio.py``).
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from penstock.api.broker_calls import BrokerCalls
from penstock.api.handles import Consumer, Producer
from penstock.api.operations import Driver, Operations
from penstock.api.spans import traced
from penstock.config.broker import QUEUE_PARTITIONS, Compression, GroupOptions, TopicOptions
from penstock.errors import TopicExists
from penstock.model.info import TopicInfo
from penstock.model.message import Message, Receipt, received
from penstock.operations.call import DEFAULT_GROUP
from penstock.types import Duration, Instant, Priority, duration_ms


class Broker(BrokerCalls):
    """A message broker, in this process or over a connection; use it with ``with``, or call ``close``."""

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

    def create_topic(self, name: str, *, exist_ok: bool = False, **options: Unpack[TopicOptions]) -> None:
        """Create a topic; see ``TopicOptions`` for its settings.

        With ``exist_ok`` a topic of that name may exist already, and stays as it is.
        """
        try:
            self._driver.run(self._operations.create_topic(name, options))
        except TopicExists:
            if not exist_ok:
                raise

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

    def producer(self, *, compression: Compression = "none") -> Producer:
        """An idempotent producer with an id of its own."""
        return Producer(self._driver.run(self._operations.producer(compression)), self._driver)

    def consumer(
        self,
        topic: str,
        *,
        group: str = "default",
        consumer_id: str | None = None,
        max_in_flight: int | None = None,
        **options: Unpack[GroupOptions],
    ) -> Consumer:
        """A consumer of a group; the group is created at first use, and changed by options that are given."""
        made = self._driver.run(
            self._operations.consumer(topic, group, consumer_id, max_in_flight, options, received)
        )
        return Consumer(made, self._driver)

    def groups(self, topic: str) -> list[str]:
        """The names of a topic's groups."""
        info = self.describe_topic(topic)
        return info.groups

    def purge(self, topic: str, group: str) -> int:
        """Settle all messages that wait for the group; returns how many there were."""
        depth = self.depth(topic, group)
        self.seek(topic, group, "latest")
        return depth

    def depth(self, topic: str, group: str | None = None) -> int:
        """Messages that wait for a group, or for the slowest one."""
        if group is None:
            topic_info = self.describe_topic(topic)
            return topic_info.depth
        group_info = self.describe_group(topic, group)
        return group_info.lag

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

    # GoMQ's words.

    def queue(self, name: str, **options: Unpack[TopicOptions]) -> "Queue":
        """A point-to-point queue: a topic with the one group ``default``; created if it does not exist.

        It has one partition, and so is first in, first out, unless you ask for more with ``partitions``.
        """
        self._ensure_topic(name, {"partitions": QUEUE_PARTITIONS, **options})
        queue = Queue(self, name)
        queue.prepare()
        return queue

    def topic(self, name: str, **options: Unpack[TopicOptions]) -> "TopicHandle":
        """A publish-subscribe topic: a group for each subscriber; created if it does not exist."""
        self._ensure_topic(name, options)
        return TopicHandle(self, name)

    def _ensure_topic(self, name: str, options: TopicOptions) -> None:
        if name not in self.topics():
            self.create_topic(name, exist_ok=True, **options)  # Another client may be quicker.


class Queue:
    """A topic worked by its one group ``default``."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self.name = name

    def prepare(self) -> None:
        """Make the group, so that messages count as waiting from now on."""
        if DEFAULT_GROUP not in self._broker.groups(self.name):
            self._broker.create_group(self.name, DEFAULT_GROUP)

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
