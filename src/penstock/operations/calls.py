# Generated from operations/spec.py by `make generate`; change it there.
"""The operations that clients call by name."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock.errors import GroupNotFound, IdentityNotFound, TopicExists, TopicNotFound
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
from penstock.operations.call import (
    HOLD,
    IDEMPOTENT,
    LIST_LIMIT,
    NOT_REPEATED,
    PUBLISH_STAGED_MS_MAX,
    READ_ONLY,
    REDRIVE_MS_MAX,
    Call,
    NoArguments,
    done_when,
)
from penstock.wire.native_bodies import WireMessage


class CreateTopicArguments(msgspec.Struct, frozen=True):
    name: str
    options: dict[str, Any] = {}


class AlterTopicArguments(msgspec.Struct, frozen=True):
    name: str
    options: dict[str, Any] = {}


class DeleteTopicArguments(msgspec.Struct, frozen=True):
    name: str


class TopicExistsArguments(msgspec.Struct, frozen=True):
    topic: str


class DescribeTopicArguments(msgspec.Struct, frozen=True):
    name: str


class StageArguments(msgspec.Struct, frozen=True):
    topic: str
    batch: bytes


class PublishStagedArguments(msgspec.Struct, frozen=True):
    topic: str
    application: str
    version: int
    staged: dict[str, list[tuple[int, int]]]


class PublishedVersionArguments(msgspec.Struct, frozen=True):
    topic: str
    application: str


class CreateGroupArguments(msgspec.Struct, frozen=True):
    topic: str
    group: str
    options: dict[str, Any] = {}


class DeleteGroupArguments(msgspec.Struct, frozen=True):
    topic: str
    group: str


class DescribeGroupArguments(msgspec.Struct, frozen=True):
    topic: str
    group: str


class DeliveryStatesArguments(msgspec.Struct, frozen=True):
    topic: str
    group: str
    partition: int
    start: int
    end: int


class SeekArguments(msgspec.Struct, frozen=True):
    topic: str
    group: str
    to: str | int | float
    partition: int | None = None


class CommitOffsetsArguments(msgspec.Struct, frozen=True):
    topic: str
    group: str
    offsets: dict[int, int]


class BeginRestoreArguments(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    start: int


class RestoreArguments(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    restore: int
    batches: bytes


class FinishRestoreArguments(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    restore: int
    group: str
    hold: str | int | float = HOLD


class OffsetsArguments(msgspec.Struct, frozen=True):
    topic: str
    at: str | int | float
    journal: bool = False


class ReadArguments(msgspec.Struct, frozen=True):
    topic: str
    partition: int | None = None
    offset: int | None = None
    from_time: str | int | float | None = None
    to_time: str | int | float | None = None
    limit: int = 100


class PeekArguments(msgspec.Struct, frozen=True):
    topic: str
    count: int = 10
    partition: int | None = None


class TraceArguments(msgspec.Struct, frozen=True):
    topic: str
    partition: int | None = None
    offset: int | None = None


class ScheduleArguments(msgspec.Struct, frozen=True):
    topic: str
    message: WireMessage
    cron: str
    timezone: str = "UTC"


class ScheduledArguments(msgspec.Struct, frozen=True):
    topic: str
    limit: int = LIST_LIMIT


class ScheduledCountArguments(msgspec.Struct, frozen=True):
    topic: str


class CancelArguments(msgspec.Struct, frozen=True):
    schedule_id: str


class RescheduleArguments(msgspec.Struct, frozen=True):
    schedule_id: str
    delay: str | int | float | None = None
    deliver_at: str | int | float | None = None


class DeadLettersArguments(msgspec.Struct, frozen=True):
    topic: str
    limit: int = LIST_LIMIT


class DeadLetterErrorsArguments(msgspec.Struct, frozen=True):
    topic: str | None = None


class RedriveArguments(msgspec.Struct, frozen=True):
    topic: str
    limit: int = 1000000
    rate: float | None = None
    dry_run: bool = False
    error: str | None = None
    group: str | None = None


class CreateKeyArguments(msgspec.Struct, frozen=True):
    name: str
    grants: list[Grant]
    quota: Quota | None = None


class RevokeKeyArguments(msgspec.Struct, frozen=True):
    key_id: str


class SetUserArguments(msgspec.Struct, frozen=True):
    name: str
    password: str
    grants: list[Grant]
    quota: Quota | None = None


class DeleteUserArguments(msgspec.Struct, frozen=True):
    name: str


CALLS: Final[Mapping[str, Call]] = {
    "create_topic": Call(CreateTopicArguments, None, done_when(TopicExists)),
    "alter_topic": Call(AlterTopicArguments, None, IDEMPOTENT),
    "delete_topic": Call(DeleteTopicArguments, None, done_when(TopicNotFound)),
    "topics": Call(NoArguments, list[str], READ_ONLY),
    "topic_exists": Call(TopicExistsArguments, bool, READ_ONLY),
    "describe_topic": Call(DescribeTopicArguments, TopicInfo, READ_ONLY),
    "stage": Call(StageArguments, int, IDEMPOTENT),
    "publish_staged": Call(PublishStagedArguments, StagedPublish, IDEMPOTENT, wait_ms=PUBLISH_STAGED_MS_MAX),
    "published_version": Call(PublishedVersionArguments, int | None, READ_ONLY),
    "create_group": Call(CreateGroupArguments, None, IDEMPOTENT),
    "delete_group": Call(DeleteGroupArguments, None, done_when(GroupNotFound)),
    "describe_group": Call(DescribeGroupArguments, GroupInfo, READ_ONLY),
    "delivery_states": Call(DeliveryStatesArguments, list[DeliveryState], READ_ONLY),
    "seek": Call(SeekArguments, None, IDEMPOTENT),
    "commit_offsets": Call(CommitOffsetsArguments, None, IDEMPOTENT),
    "begin_restore": Call(BeginRestoreArguments, Restore, IDEMPOTENT),
    "restore": Call(RestoreArguments, int, IDEMPOTENT),
    "finish_restore": Call(FinishRestoreArguments, None, NOT_REPEATED),
    "offsets": Call(OffsetsArguments, dict[int, int], READ_ONLY),
    "read": Call(ReadArguments, list[StoredMessage], READ_ONLY),
    "peek": Call(PeekArguments, list[StoredMessage], READ_ONLY),
    "trace": Call(TraceArguments, Trace, READ_ONLY),
    "schedule": Call(ScheduleArguments, str, NOT_REPEATED),
    "scheduled": Call(ScheduledArguments, list[ScheduledMessage], READ_ONLY),
    "scheduled_count": Call(ScheduledCountArguments, int, READ_ONLY),
    "cancel": Call(CancelArguments, Cancelled, NOT_REPEATED),
    "reschedule": Call(RescheduleArguments, bool, IDEMPOTENT),
    "dead_letters": Call(DeadLettersArguments, list[DeadLetter], READ_ONLY),
    "dead_letter_errors": Call(DeadLetterErrorsArguments, list[DeadLetterErrors], READ_ONLY),
    "redrive": Call(RedriveArguments, Redrive, NOT_REPEATED, wait_ms=REDRIVE_MS_MAX),
    "create_key": Call(CreateKeyArguments, NewKey, NOT_REPEATED),
    "keys": Call(NoArguments, list[KeyInfo], READ_ONLY),
    "revoke_key": Call(RevokeKeyArguments, None, done_when(IdentityNotFound)),
    "set_user": Call(SetUserArguments, None, IDEMPOTENT),
    "users": Call(NoArguments, list[UserInfo], READ_ONLY),
    "delete_user": Call(DeleteUserArguments, None, done_when(IdentityNotFound)),
    "stats": Call(NoArguments, BrokerInfo, READ_ONLY),
}
