# Generated from operations/spec.py by `make generate`; change it there.
"""The methods of ``AsyncBroker`` that only call an operation."""

from collections.abc import Iterable, Sequence
from typing import Unpack

from penstock.api.operations import AsyncDriver, Operations
from penstock.config.broker import GroupOptions, Start, TopicOptions
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
from penstock.model.trace import Trace
from penstock.operations.call import FETCH_BYTES, HOLD, LIST_LIMIT
from penstock.types import Duration, Instant


class AsyncBrokerCalls:
    _operations: Operations
    _driver: AsyncDriver

    async def alter_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Change settings of a topic.  Its number of partitions can only grow."""
        await self._driver.run(self._operations.alter_topic(name, options))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages and groups."""
        await self._driver.run(self._operations.delete_topic(name))

    async def topics(self) -> list[str]:
        """The names of all topics."""
        return await self._driver.run(self._operations.topics())

    async def topic_exists(self, topic: str) -> bool:
        """Whether there is a topic of this name."""
        return await self._driver.run(self._operations.topic_exists(topic))

    async def describe_topic(self, name: str) -> TopicInfo:
        """Settings, sizes and counts of a topic."""
        return await self._driver.run(self._operations.describe_topic(name))

    async def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Publish many messages at once; one receipt each, in their order."""
        return await self._driver.run(self._operations.publish_batch(topic, messages))

    async def append(self, topic: str, partition: int, batch: bytes) -> Receipt:
        """Append an encoded record batch (RecordBatch v2) as it is; the offset is its first record's."""
        return await self._driver.run(self._operations.append(topic, partition, batch))

    async def stage(self, topic: str, batch: bytes) -> int:
        """Store record batches for a topic without publishing them; returns the offset of the first one.

        ``batch`` is made by ``wire/staged.py``.  What is not published within a day is deleted.
        """
        return await self._driver.run(self._operations.stage(topic, batch))

    async def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> StagedPublish:
        """Publish staged batches, all of them and once; offsets by token.

        If the version is not above the application's last one, it was published before: nothing happens.
        """
        return await self._driver.run(self._operations.publish_staged(topic, application, version, staged))

    async def published_version(self, topic: str, application: str) -> int | None:
        """The last version that an application published, or None."""
        return await self._driver.run(self._operations.published_version(topic, application))

    async def create_group(self, topic: str, group: str, **options: Unpack[GroupOptions]) -> None:
        """Create a group, or change its settings, without consuming."""
        await self._driver.run(self._operations.create_group(topic, group, options))

    async def delete_group(self, topic: str, group: str) -> None:
        """Delete a group and its position; its consumers are closed."""
        await self._driver.run(self._operations.delete_group(topic, group))

    async def describe_group(self, topic: str, group: str) -> GroupInfo:
        """How far a group is, what is in its way, how fast it goes, and a verdict on all that."""
        return await self._driver.run(self._operations.describe_group(topic, group))

    async def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> list[DeliveryState]:
        """What became of the messages from ``start`` up to ``end`` in a group, in ranges that are alike."""
        return await self._driver.run(self._operations.delivery_states(topic, group, partition, start, end))

    async def seek(
        self, topic: str, group: str, to: Start | str | Instant, *, partition: int | None = None
    ) -> None:
        """Move a group to "earliest", "latest", an offset or a time, on one partition or on all."""
        await self._driver.run(self._operations.seek(topic, group, to, partition))

    async def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        """Commit offsets, by partition, of a reader that tracks its own position.

        The group is a stream group without members, created at first use; its lag is reported as usual.
        """
        await self._driver.run(self._operations.commit_offsets(topic, group, offsets))

    async def begin_restore(self, topic: str, partition: int, start: int) -> Restore:
        """Prepare to restore what retention deleted, from ``start`` up to where the log begins.

        Until it is finished, or nothing was received for ten minutes, retention leaves the partition alone.
        """
        return await self._driver.run(self._operations.begin_restore(topic, partition, start))

    async def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> int:
        """Hand over record batches with their old offsets, ascending; returns the offset after the last.

        Offsets that no batch has are holes.  What was handed over before is not taken twice.
        """
        return await self._driver.run(self._operations.restore(topic, partition, restore, batches))

    async def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, *, hold: Duration = HOLD
    ) -> None:
        """Put the messages back into the log, and move the group to the first of them.

        Retention waits for the group, up to ``hold``, until it is past all that the log has now.
        """
        await self._driver.run(self._operations.finish_restore(topic, partition, restore, group, hold))

    async def fetch(
        self, topic: str, partition: int, offset: int, *, max_bytes: int = FETCH_BYTES, journal: bool = False
    ) -> Fetched:
        """Record batches as they are in the log, from the one with ``offset`` on; none at the end.

        At least one whole batch, and as many as fit into ``max_bytes``; with ``journal`` those of the
        partition's journal, whose records are the events of ``penstock.delivery.events``.
        """
        return await self._driver.run(self._operations.fetch(topic, partition, offset, max_bytes, journal))

    async def offsets(self, topic: str, at: str | Instant, *, journal: bool = False) -> dict[int, int]:
        """By partition, the offset of "earliest", "latest", or of the first message not older than a time."""
        return await self._driver.run(self._operations.offsets(topic, at, journal))

    async def read(
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
        return await self._driver.run(
            self._operations.read(topic, partition, offset, from_time, to_time, limit)
        )

    async def peek(self, topic: str, count: int = 10, *, partition: int | None = None) -> list[StoredMessage]:
        """The last ``count`` messages, the oldest of them first."""
        return await self._driver.run(self._operations.peek(topic, count, partition))

    async def trace(self, topic: str, partition: int | None = None, offset: int | None = None) -> Trace:
        """Everything that happened to a message, named by its place, its id or its schedule id."""
        return await self._driver.run(self._operations.trace(topic, partition, offset))

    async def scheduled(self, topic: str, limit: int = LIST_LIMIT) -> list[ScheduledMessage]:
        """Messages that are not due yet, in the order in which they were accepted."""
        return await self._driver.run(self._operations.scheduled(topic, limit))

    async def scheduled_count(self, topic: str) -> int:
        """How many messages are not due yet."""
        return await self._driver.run(self._operations.scheduled_count(topic))

    async def cancel(self, schedule_id: str) -> Cancelled:
        """Cancel a scheduled message: "cancelled", or "delivered" or "unknown" if it cannot be."""
        return await self._driver.run(self._operations.cancel(schedule_id))

    async def reschedule(
        self, schedule_id: str, *, delay: Duration | None = None, deliver_at: Instant | None = None
    ) -> bool:
        """Give a scheduled message another time; False if it was delivered or cancelled."""
        return await self._driver.run(self._operations.reschedule(schedule_id, delay, deliver_at))

    async def dead_letters(self, topic: str, limit: int = LIST_LIMIT) -> list[DeadLetter]:
        """The dead letters of a topic that were not redriven yet."""
        return await self._driver.run(self._operations.dead_letters(topic, limit))

    async def dead_letter_errors(self, topic: str | None = None) -> list[DeadLetterErrors]:
        """Dead letters counted by error, the most frequent first; of one topic or of all."""
        return await self._driver.run(self._operations.dead_letter_errors(topic))

    async def redrive(
        self,
        topic: str,
        *,
        limit: int = 1000000,
        rate: float | None = None,
        dry_run: bool = False,
        error: str | None = None,
        group: str | None = None,
    ) -> Redrive:
        """Send dead letters back to their topic: all, or those of one error or group.

        ``error`` is a fingerprint, the class of an error, or the id of one message; ``rate`` is messages a
        second; a dry run only counts.
        """
        return await self._driver.run(self._operations.redrive(topic, limit, rate, dry_run, error, group))

    async def create_key(self, name: str, grants: Sequence[Grant], *, quota: Quota | None = None) -> NewKey:
        """Create an API key.  Its secret is in the result and is not stored anywhere."""
        return await self._driver.run(self._operations.create_key(name, grants, quota))

    async def keys(self) -> list[KeyInfo]:
        """The API keys, the oldest first."""
        return await self._driver.run(self._operations.keys())

    async def revoke_key(self, key_id: str) -> None:
        """Revoke an API key, by its id; connections that use it are closed."""
        await self._driver.run(self._operations.revoke_key(key_id))

    async def set_user(
        self, name: str, password: str, grants: Sequence[Grant], *, quota: Quota | None = None
    ) -> None:
        """Create a user, or change the password and grants of one; its connections are closed."""
        await self._driver.run(self._operations.set_user(name, password, grants, quota))

    async def users(self) -> list[UserInfo]:
        """All users."""
        return await self._driver.run(self._operations.users())

    async def delete_user(self, name: str) -> None:
        """Delete a user; its connections are closed."""
        await self._driver.run(self._operations.delete_user(name))

    async def stats(self) -> BrokerInfo:
        """The broker at a glance: version, uptime, sizes, counts."""
        return await self._driver.run(self._operations.stats())
