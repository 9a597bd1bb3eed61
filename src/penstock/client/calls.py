# Generated from operations/spec.py by `make generate`; change it there.
"""The operations of a broker at the end of a connection that are plain calls."""

from collections.abc import Sequence

from penstock.client.calling import Caller
from penstock.client.work import work
from penstock.config.broker import GroupOptions, Start, TopicOptions
from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo
from penstock.model.info import (
    BrokerInfo,
    Cancelled,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    GroupInfo,
    Redrive,
    Restore,
    ScheduledMessage,
    StagedPublish,
    TopicInfo,
)
from penstock.model.message import StoredMessage
from penstock.model.trace import Trace
from penstock.types import Duration, Instant


class RemoteCalls(Caller):
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
        answer: list[str] = await self._call("topics")
        return answer

    @work
    async def topic_exists(self, topic: str) -> bool:
        answer: bool = await self._call("topic_exists", topic=topic)
        return answer

    @work
    async def describe_topic(self, name: str) -> TopicInfo:
        answer: TopicInfo = await self._call("describe_topic", name=name)
        return answer

    @work
    async def stage(self, topic: str, batch: bytes) -> int:
        answer: int = await self._call("stage", topic=topic, batch=batch)
        return answer

    @work
    async def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> StagedPublish:
        answer: StagedPublish = await self._call(
            "publish_staged", topic=topic, application=application, version=version, staged=staged
        )
        return answer

    @work
    async def published_version(self, topic: str, application: str) -> int | None:
        answer: int | None = await self._call("published_version", topic=topic, application=application)
        return answer

    @work
    async def create_group(self, topic: str, group: str, options: GroupOptions) -> None:
        await self._call("create_group", topic=topic, group=group, options=options)

    @work
    async def delete_group(self, topic: str, group: str) -> None:
        await self._call("delete_group", topic=topic, group=group)

    @work
    async def describe_group(self, topic: str, group: str) -> GroupInfo:
        answer: GroupInfo = await self._call("describe_group", topic=topic, group=group)
        return answer

    @work
    async def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> list[DeliveryState]:
        answer: list[DeliveryState] = await self._call(
            "delivery_states", topic=topic, group=group, partition=partition, start=start, end=end
        )
        return answer

    @work
    async def seek(self, topic: str, group: str, to: Start | str | Instant, partition: int | None) -> None:
        await self._call("seek", topic=topic, group=group, to=to, partition=partition)

    @work
    async def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> None:
        await self._call("commit_offsets", topic=topic, group=group, offsets=offsets)

    @work
    async def begin_restore(self, topic: str, partition: int, start: int) -> Restore:
        answer: Restore = await self._call("begin_restore", topic=topic, partition=partition, start=start)
        return answer

    @work
    async def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> int:
        answer: int = await self._call(
            "restore", topic=topic, partition=partition, restore=restore, batches=batches
        )
        return answer

    @work
    async def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, hold: Duration
    ) -> None:
        await self._call(
            "finish_restore", topic=topic, partition=partition, restore=restore, group=group, hold=hold
        )

    @work
    async def offsets(self, topic: str, at: str | Instant, journal: bool) -> dict[int, int]:
        answer: dict[int, int] = await self._call("offsets", topic=topic, at=at, journal=journal)
        return answer

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
        answer: list[StoredMessage] = await self._call(
            "read",
            topic=topic,
            partition=partition,
            offset=offset,
            from_time=from_time,
            to_time=to_time,
            limit=limit,
        )
        return answer

    @work
    async def peek(self, topic: str, count: int, partition: int | None) -> list[StoredMessage]:
        answer: list[StoredMessage] = await self._call("peek", topic=topic, count=count, partition=partition)
        return answer

    @work
    async def trace(self, topic: str, partition: int | None, offset: int | None) -> Trace:
        answer: Trace = await self._call("trace", topic=topic, partition=partition, offset=offset)
        return answer

    @work
    async def scheduled(self, topic: str, limit: int) -> list[ScheduledMessage]:
        answer: list[ScheduledMessage] = await self._call("scheduled", topic=topic, limit=limit)
        return answer

    @work
    async def scheduled_count(self, topic: str) -> int:
        answer: int = await self._call("scheduled_count", topic=topic)
        return answer

    @work
    async def cancel(self, schedule_id: str) -> Cancelled:
        answer: Cancelled = await self._call("cancel", schedule_id=schedule_id)
        return answer

    @work
    async def reschedule(self, schedule_id: str, delay: Duration | None, deliver_at: Instant | None) -> bool:
        answer: bool = await self._call(
            "reschedule", schedule_id=schedule_id, delay=delay, deliver_at=deliver_at
        )
        return answer

    @work
    async def dead_letters(self, topic: str, limit: int) -> list[DeadLetter]:
        answer: list[DeadLetter] = await self._call("dead_letters", topic=topic, limit=limit)
        return answer

    @work
    async def dead_letter_errors(self, topic: str | None) -> list[DeadLetterErrors]:
        answer: list[DeadLetterErrors] = await self._call("dead_letter_errors", topic=topic)
        return answer

    @work
    async def redrive(
        self, topic: str, limit: int, rate: float | None, dry_run: bool, error: str | None, group: str | None
    ) -> Redrive:
        answer: Redrive = await self._call(
            "redrive", topic=topic, limit=limit, rate=rate, dry_run=dry_run, error=error, group=group
        )
        return answer

    @work
    async def create_key(self, name: str, grants: Sequence[Grant], quota: Quota | None) -> NewKey:
        answer: NewKey = await self._call("create_key", name=name, grants=grants, quota=quota)
        return answer

    @work
    async def keys(self) -> list[KeyInfo]:
        answer: list[KeyInfo] = await self._call("keys")
        return answer

    @work
    async def revoke_key(self, key_id: str) -> None:
        await self._call("revoke_key", key_id=key_id)

    @work
    async def set_user(self, name: str, password: str, grants: Sequence[Grant], quota: Quota | None) -> None:
        await self._call("set_user", name=name, password=password, grants=grants, quota=quota)

    @work
    async def users(self) -> list[UserInfo]:
        answer: list[UserInfo] = await self._call("users")
        return answer

    @work
    async def delete_user(self, name: str) -> None:
        await self._call("delete_user", name=name)

    @work
    async def stats(self) -> BrokerInfo:
        answer: BrokerInfo = await self._call("stats")
        return answer
