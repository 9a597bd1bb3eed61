"""Everything a broker can do, as an interface: the line between what a program says and where it is done.

    Broker, AsyncBroker      the facades: names, arguments, docstrings             api/
          │ Operations       one method for each thing a broker can do
          ├── LocalOperations    on a broker in this process                       broker/
          └── RemoteOperations   over a connection to a server                     client/

An operation returns ``Work``: something that was begun and must be run to its
end by a driver, which blocks a thread or awaits.  For a broker in this process
it is a generator of steps (``broker/steps.py``), for a connection it is what
``coroutine.__await__()`` gives; the facades do not know which.

Arguments arrive as the program gave them, unchecked; the answers are the
values of ``message``, ``info`` and ``trace``.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from penstock.config.broker import Compression, GroupOptions, Start, TopicOptions
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
from penstock.model.message import Delivery, Message, Receipt, StoredMessage
from penstock.model.trace import Trace
from penstock.types import Duration, Instant
from penstock.wire.records import Record

T = TypeVar("T")

Work = Generator[Any, Any, T]
Wrap = Callable[[Delivery, list[Record]], list[Any]]  # Makes messages of the records of a lease.


class Driver(Protocol):
    """Runs work to its end in the caller's thread."""

    def run(self, work: Work[T]) -> T: ...

    def close(self, timeout_ms: int | None) -> None: ...


class AsyncDriver(Protocol):
    """Runs work to its end on an event loop."""

    def run(self, work: Work[T]) -> Awaitable[T]: ...

    def close(self, timeout_ms: int | None) -> Awaitable[None]: ...


class ConsumerOperations(Protocol):
    """One consumer of a group."""

    settler: Any  # What received messages answer to: the facade's consumer.

    @property
    def identity(self) -> str: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def assignment(self) -> list[int]: ...

    @property
    def closed(self) -> bool: ...

    def receive(self, max_messages: Any, wait_ms: int) -> Work[list[Any]]: ...

    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> Work[None]: ...

    def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> Work[None]: ...

    def reject(self, message: Any, reason: Any) -> Work[None]: ...

    def extend(self, message: Any, duration: Duration) -> Work[None]: ...

    def commit(self) -> Work[None]: ...

    def close(self) -> Work[None]: ...


class ProducerOperations(Protocol):
    """One idempotent producer."""

    @property
    def producer_id(self) -> int: ...

    def publish(self, topic: str, message: Message) -> Work[Receipt]: ...


class Operations(Protocol):
    """One broker."""

    # Topics.

    def create_topic(self, name: str, options: TopicOptions) -> Work[None]: ...

    def alter_topic(self, name: str, options: TopicOptions) -> Work[None]: ...

    def delete_topic(self, name: str) -> Work[None]: ...

    def topics(self) -> Work[list[str]]: ...

    def describe_topic(self, name: str) -> Work[TopicInfo]: ...

    # Publishing.

    def publish(self, topic: str, message: Message) -> Work[Receipt]: ...

    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> Work[list[Receipt]]: ...

    def append(self, topic: str, partition: int, batch: bytes) -> Work[Receipt]: ...

    def producer(self, compression: Compression) -> Work[ProducerOperations]: ...

    def stage(self, topic: str, batch: bytes) -> Work[int]: ...

    def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> Work[StagedPublish]: ...

    def published_version(self, topic: str, application: str) -> Work[int | None]: ...

    # Consuming.

    def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
    ) -> Work[ConsumerOperations]: ...

    def create_group(self, topic: str, group: str, options: GroupOptions) -> Work[None]: ...

    def delete_group(self, topic: str, group: str) -> Work[None]: ...

    def describe_group(self, topic: str, group: str) -> Work[GroupInfo]: ...

    def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> Work[list[DeliveryState]]: ...

    def seek(
        self, topic: str, group: str, to: Start | str | Instant, partition: int | None
    ) -> Work[None]: ...

    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> Work[None]: ...

    def begin_restore(self, topic: str, partition: int, start: int) -> Work[Restore]: ...

    def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> Work[int]: ...

    def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, hold: Duration
    ) -> Work[None]: ...

    # Looking, which changes nothing.

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, journal: bool
    ) -> Work[Fetched]: ...

    def offsets(self, topic: str, at: str | Instant, journal: bool) -> Work[dict[int, int]]: ...

    def read(
        self,
        topic: str,
        partition: int | None,
        offset: int | None,
        from_time: Instant | None,
        to_time: Instant | None,
        limit: int,
    ) -> Work[list[StoredMessage]]: ...

    def peek(self, topic: str, count: int, partition: int | None) -> Work[list[StoredMessage]]: ...

    def trace(self, topic: str, partition: int | None, offset: int | None) -> Work[Trace]: ...

    # The schedule.

    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> Work[str]: ...

    def scheduled(self, topic: str, limit: int) -> Work[list[ScheduledMessage]]: ...

    def scheduled_count(self, topic: str) -> Work[int]: ...

    def cancel(self, schedule_id: str) -> Work[Cancelled]: ...

    def reschedule(
        self, schedule_id: str, delay: Duration | None, deliver_at: Instant | None
    ) -> Work[bool]: ...

    # Dead letters.

    def dead_letters(self, topic: str, limit: int) -> Work[list[DeadLetter]]: ...

    def dead_letter_errors(self, topic: str | None) -> Work[list[DeadLetterErrors]]: ...

    def redrive(
        self,
        topic: str,
        limit: int,
        rate: float | None,
        dry_run: bool,
        error: str | None,
        group: str | None,
    ) -> Work[Redrive]: ...

    # Who may come.

    def create_key(self, name: str, grants: Sequence[Grant], quota: Quota | None) -> Work[NewKey]: ...

    def keys(self) -> Work[list[KeyInfo]]: ...

    def revoke_key(self, key_id: str) -> Work[None]: ...

    def set_user(
        self, name: str, password: str, grants: Sequence[Grant], quota: Quota | None
    ) -> Work[None]: ...

    def users(self) -> Work[list[UserInfo]]: ...

    def delete_user(self, name: str) -> Work[None]: ...

    # The broker itself.

    def stats(self) -> Work[BrokerInfo]: ...
