# Generated from operations/spec.py by `make generate`; change it there.
"""The operations that are declared in full; the others are in ``operations.py``."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock.api.work import Work
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
from penstock.types import Duration, Instant


class DeclaredOperations(Protocol):
    def create_topic(self, name: str, options: TopicOptions) -> Work[None]: ...

    def alter_topic(self, name: str, options: TopicOptions) -> Work[None]: ...

    def delete_topic(self, name: str) -> Work[None]: ...

    def topics(self) -> Work[list[str]]: ...

    def describe_topic(self, name: str) -> Work[TopicInfo]: ...

    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> Work[list[Receipt]]: ...

    def append(self, topic: str, partition: int, batch: bytes) -> Work[Receipt]: ...

    def stage(self, topic: str, batch: bytes) -> Work[int]: ...

    def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> Work[StagedPublish]: ...

    def published_version(self, topic: str, application: str) -> Work[int | None]: ...

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

    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> Work[str]: ...

    def scheduled(self, topic: str, limit: int) -> Work[list[ScheduledMessage]]: ...

    def scheduled_count(self, topic: str) -> Work[int]: ...

    def cancel(self, schedule_id: str) -> Work[Cancelled]: ...

    def reschedule(
        self, schedule_id: str, delay: Duration | None, deliver_at: Instant | None
    ) -> Work[bool]: ...

    def dead_letters(self, topic: str, limit: int) -> Work[list[DeadLetter]]: ...

    def dead_letter_errors(self, topic: str | None) -> Work[list[DeadLetterErrors]]: ...

    def redrive(
        self, topic: str, limit: int, rate: float | None, dry_run: bool, error: str | None, group: str | None
    ) -> Work[Redrive]: ...

    def create_key(self, name: str, grants: Sequence[Grant], quota: Quota | None) -> Work[NewKey]: ...

    def keys(self) -> Work[list[KeyInfo]]: ...

    def revoke_key(self, key_id: str) -> Work[None]: ...

    def set_user(
        self, name: str, password: str, grants: Sequence[Grant], quota: Quota | None
    ) -> Work[None]: ...

    def users(self) -> Work[list[UserInfo]]: ...

    def delete_user(self, name: str) -> Work[None]: ...

    def stats(self) -> Work[BrokerInfo]: ...
