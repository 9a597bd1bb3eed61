# Generated from operations/spec.py by `make generate`; change it there.
"""The broker's operations as one identity may call them."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.api.operations import ConsumerOperations, ProducerOperations, Wrap
from penstock.broker.access.scram import Scram
from penstock.broker.batches import BatchConsumer
from penstock.broker.observability.measuring import Family
from penstock.broker.operations import LocalOperations
from penstock.broker.publish.publishing import Appended
from penstock.broker.steps import Steps
from penstock.broker.stream.fetching import At, Layout, Position, RawFetched
from penstock.config.broker import Compression, GroupOptions, Start, TopicOptions, TopicSettings
from penstock.errors import PenstockError
from penstock.frontends.security.guard import Guard, filtered, topic_of
from penstock.frontends.security.results import (
    GuardedProducer,
    guarded_consumer,
    readable_errors,
    visible_counts,
    visible_group_names,
    visible_groups,
    visible_metrics,
    visible_overview,
    visible_stats,
    visible_topics,
    visible_transaction,
    visible_transactional_ids,
)
from penstock.groups.commits import Commit
from penstock.groups.configs import GroupConfig, GroupRules
from penstock.groups.heartbeats import ConsumerGroupState, HeartbeatResult, MemberHeartbeat
from penstock.groups.rebalance import (
    Committer,
    JoinRequest,
    JoinResult,
    KafkaGroupState,
    SyncRequest,
    SyncResult,
)
from penstock.groups.transactions import ActiveProducer, TransactionState
from penstock.model.access import Acl, Grant, KeyInfo, NewKey, Quota, UserInfo
from penstock.model.info import (
    BrokerInfo,
    Cancelled,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    Fetched,
    GroupInfo,
    Overview,
    Redrive,
    Restore,
    ScheduledMessage,
    StagedPublish,
    TopicInfo,
)
from penstock.model.message import Message, Receipt, StoredMessage
from penstock.model.trace import Trace
from penstock.types import Duration, Instant
from penstock.wire.kafka.codes import Code


class GuardedOperations(Guard):
    """Every operation of ``LocalOperations``, with the checks of its entry in ``operations/spec.py``."""

    def create_topic(self, name: str, options: TopicOptions) -> Steps[None]:
        if name not in self._allowed["create_topic"]:
            self._check_topic("create_topic", name)
        self._check_dead_letter_topic("create_topic", options)
        return self._audited("create_topic", (name,), self._operations.create_topic, name, options)

    def alter_topic(self, name: str, options: TopicOptions) -> Steps[None]:
        if name not in self._allowed["alter_topic"]:
            self._check_topic("alter_topic", name)
        self._check_dead_letter_topic("alter_topic", options)
        return self._audited("alter_topic", (name,), self._operations.alter_topic, name, options)

    def delete_topic(self, name: str) -> Steps[None]:
        if name not in self._allowed["delete_topic"]:
            self._check_topic("delete_topic", name)
        return self._audited("delete_topic", (name,), self._operations.delete_topic, name)

    def topics(self) -> Steps[list[str]]:
        self._check("topics")
        return filtered(visible_topics, self, self._operations.topics())

    def topic_exists(self, topic: str) -> Steps[bool]:
        if topic not in self._allowed["topic_exists"]:
            self._check_topic("topic_exists", topic)
        return self._operations.topic_exists(topic)

    def describe_topic(self, name: str) -> Steps[TopicInfo]:
        if name not in self._allowed["describe_topic"]:
            self._check_topic("describe_topic", name)
        return self._operations.describe_topic(name)

    def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> Steps[list[Receipt]]:
        if topic not in self._allowed["publish_batch"]:
            self._check_topic("publish_batch", topic)
        if self._limited:
            self._meter_messages(messages)
        if self._operations.is_creatable(topic):
            return self._after_creating(topic, self._operations.publish_batch, topic, messages)
        return self._operations.publish_batch(topic, messages)

    def append(self, topic: str, partition: int, batch: bytes) -> Steps[Receipt]:
        if topic not in self._allowed["append"]:
            self._check_topic("append", topic)
        if self._limited:
            self._meter_batch(batch)
        if self._operations.is_creatable(topic):
            return self._after_creating(topic, self._operations.append, topic, partition, batch)
        return self._operations.append(topic, partition, batch)

    def stage(self, topic: str, batch: bytes) -> Steps[int]:
        if topic not in self._allowed["stage"]:
            self._check_topic("stage", topic)
        if self._limited:
            self._meter_batch(batch)
        return self._operations.stage(topic, batch)

    def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> Steps[StagedPublish]:
        if topic not in self._allowed["publish_staged"]:
            self._check_topic("publish_staged", topic)
        return self._operations.publish_staged(topic, application, version, staged)

    def published_version(self, topic: str, application: str) -> Steps[int | None]:
        if topic not in self._allowed["published_version"]:
            self._check_topic("published_version", topic)
        return self._operations.published_version(topic, application)

    def publish(self, topic: str, message: Message) -> Steps[Receipt]:
        if topic not in self._allowed["publish"]:
            self._check_topic("publish", topic)
        if self._limited:
            self._meter_message(message)
        if self._operations.is_creatable(topic):
            return self._after_creating(topic, self._operations.publish, topic, message)
        return self._operations.publish(topic, message)

    def producer(self, compression: Compression) -> Steps[ProducerOperations]:
        self._check("producer")
        return filtered(GuardedProducer, self, self._operations.producer(compression))

    def create_group(self, topic: str, group: str, options: GroupOptions) -> Steps[None]:
        self._check("create_group", topic, group)
        return self._operations.create_group(topic, group, options)

    def delete_group(self, topic: str, group: str) -> Steps[None]:
        self._check("delete_group", topic, group)
        return self._operations.delete_group(topic, group)

    def describe_group(self, topic: str, group: str) -> Steps[GroupInfo]:
        self._check("describe_group", topic, group)
        return self._operations.describe_group(topic, group)

    def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> Steps[list[DeliveryState]]:
        self._check("delivery_states", topic, group)
        return self._operations.delivery_states(topic, group, partition, start, end)

    def seek(self, topic: str, group: str, to: Start | str | Instant, partition: int | None) -> Steps[None]:
        self._check("seek", topic, group)
        return self._operations.seek(topic, group, to, partition)

    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> Steps[None]:
        self._check("commit_offsets", topic, group)
        return self._operations.commit_offsets(topic, group, offsets)

    def begin_restore(self, topic: str, partition: int, start: int) -> Steps[Restore]:
        if topic not in self._allowed["begin_restore"]:
            self._check_topic("begin_restore", topic)
        return self._audited(
            "begin_restore", (topic,), self._operations.begin_restore, topic, partition, start
        )

    def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> Steps[int]:
        if topic not in self._allowed["restore"]:
            self._check_topic("restore", topic)
        return self._operations.restore(topic, partition, restore, batches)

    def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, hold: Duration
    ) -> Steps[None]:
        self._check("finish_restore", topic, group)
        return self._audited(
            "finish_restore",
            (
                topic,
                group,
            ),
            self._operations.finish_restore,
            topic,
            partition,
            restore,
            group,
            hold,
        )

    def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
    ) -> Steps[ConsumerOperations]:
        self._check("consumer", topic, group)
        if self._operations.is_creatable(topic):
            return filtered(
                guarded_consumer,
                self,
                self._after_creating(
                    topic, self._operations.consumer, topic, group, consumer_id, max_in_flight, options, wrap
                ),
            )
        return filtered(
            guarded_consumer,
            self,
            self._operations.consumer(topic, group, consumer_id, max_in_flight, options, wrap),
        )

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int, journal: bool) -> Steps[Fetched]:
        if topic not in self._allowed["fetch"]:
            self._check_topic("fetch", topic)
        return self._operations.fetch(topic, partition, offset, max_bytes, journal)

    def offsets(self, topic: str, at: str | Instant, journal: bool) -> Steps[dict[int, int]]:
        if topic not in self._allowed["offsets"]:
            self._check_topic("offsets", topic)
        return self._operations.offsets(topic, at, journal)

    def read(
        self,
        topic: str,
        partition: int | None,
        offset: int | None,
        from_time: Instant | None,
        to_time: Instant | None,
        limit: int,
    ) -> Steps[list[StoredMessage]]:
        if topic not in self._allowed["read"]:
            self._check_topic("read", topic)
        return self._operations.read(topic, partition, offset, from_time, to_time, limit)

    def peek(self, topic: str, count: int, partition: int | None) -> Steps[list[StoredMessage]]:
        if topic not in self._allowed["peek"]:
            self._check_topic("peek", topic)
        return self._operations.peek(topic, count, partition)

    def trace(self, topic: str, partition: int | None, offset: int | None) -> Steps[Trace]:
        self._check("trace", topic_of(topic))
        return self._operations.trace(topic, partition, offset)

    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> Steps[str]:
        if topic not in self._allowed["schedule"]:
            self._check_topic("schedule", topic)
        if self._limited:
            self._meter_message(message)
        if self._operations.is_creatable(topic):
            return self._after_creating(topic, self._operations.schedule, topic, message, cron, timezone)
        return self._operations.schedule(topic, message, cron, timezone)

    def scheduled(self, topic: str, limit: int) -> Steps[list[ScheduledMessage]]:
        if topic not in self._allowed["scheduled"]:
            self._check_topic("scheduled", topic)
        return self._operations.scheduled(topic, limit)

    def scheduled_count(self, topic: str) -> Steps[int]:
        if topic not in self._allowed["scheduled_count"]:
            self._check_topic("scheduled_count", topic)
        return self._operations.scheduled_count(topic)

    def cancel(self, schedule_id: str) -> Steps[Cancelled]:
        self._check("cancel", topic_of(schedule_id))
        return self._operations.cancel(schedule_id)

    def reschedule(self, schedule_id: str, delay: Duration | None, deliver_at: Instant | None) -> Steps[bool]:
        self._check("reschedule", topic_of(schedule_id))
        return self._operations.reschedule(schedule_id, delay, deliver_at)

    def dead_letters(self, topic: str, limit: int) -> Steps[list[DeadLetter]]:
        if topic not in self._allowed["dead_letters"]:
            self._check_topic("dead_letters", topic)
        return self._operations.dead_letters(topic, limit)

    def dead_letter_errors(self, topic: str | None) -> Steps[list[DeadLetterErrors]]:
        if topic not in self._allowed["dead_letter_errors"]:
            self._check_topic("dead_letter_errors", topic)
        return filtered(readable_errors, self, self._operations.dead_letter_errors(topic))

    def redrive(
        self, topic: str, limit: int, rate: float | None, dry_run: bool, error: str | None, group: str | None
    ) -> Steps[Redrive]:
        self._check("redrive", topic, group)
        return self._audited(
            "redrive",
            (
                topic,
                group,
            ),
            self._operations.redrive,
            topic,
            limit,
            rate,
            dry_run,
            error,
            group,
        )

    def create_key(self, name: str, grants: Any, quota: Any) -> Steps[NewKey]:
        self._check("create_key")
        return self._audited("create_key", (name,), self._operations.create_key, name, grants, quota)

    def keys(self) -> Steps[list[KeyInfo]]:
        self._check("keys")
        return self._operations.keys()

    def revoke_key(self, key_id: str) -> Steps[None]:
        self._check("revoke_key")
        return self._audited("revoke_key", (key_id,), self._operations.revoke_key, key_id)

    def set_user(self, name: str, password: str, grants: Any, quota: Any) -> Steps[None]:
        self._check("set_user")
        return self._audited("set_user", (name,), self._operations.set_user, name, password, grants, quota)

    def users(self) -> Steps[list[UserInfo]]:
        self._check("users")
        return self._operations.users()

    def delete_user(self, name: str) -> Steps[None]:
        self._check("delete_user")
        return self._audited("delete_user", (name,), self._operations.delete_user, name)

    def stats(self) -> Steps[BrokerInfo]:
        self._check("stats")
        return filtered(visible_stats, self, self._operations.stats())

    def auto_create_topic(self, name: str, options: TopicOptions) -> Steps[None]:
        if name not in self._allowed["auto_create_topic"]:
            self._check_topic("auto_create_topic", name)
        return self._audited("auto_create_topic", (name,), self._operations.auto_create_topic, name, options)

    def metadata(self, topic: str) -> Steps[tuple[int, TopicSettings]]:
        if topic not in self._allowed["metadata"]:
            self._check_topic("metadata", topic)
        if self._operations.is_creatable(topic):
            return self._after_creating(topic, self._operations.metadata, topic)
        return self._operations.metadata(topic)

    def topic_names(self) -> Steps[Mapping[bytes, str]]:
        self._check("topic_names")
        return self._operations.topic_names()

    def cluster_id(self) -> Steps[str]:
        self._check("cluster_id")
        return self._operations.cluster_id()

    def layout(self, topic: str) -> Steps[Layout]:
        if topic not in self._allowed["layout"]:
            self._check_topic("layout", topic)
        return self._operations.layout(topic)

    def lanes(self, topic: str) -> Steps[dict[str, int]]:
        if topic not in self._allowed["lanes"]:
            self._check_topic("lanes", topic)
        return self._operations.lanes(topic)

    def append_batches(
        self, topic: str, version: int, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Receipt | PenstockError]]:
        if topic not in self._allowed["append_batches"]:
            self._check_topic("append_batches", topic)
        if self._limited:
            self._meter_batches(batches)
        if self._operations.is_creatable(topic):
            return self._after_creating(topic, self._operations.append_batches, topic, version, batches, wait)
        return self._operations.append_batches(topic, version, batches, wait)

    def append_records(
        self, topic: str, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Appended | PenstockError]]:
        if topic not in self._allowed["append_records"]:
            self._check_topic("append_records", topic)
        if self._limited:
            self._meter_batches(batches)
        return self._operations.append_records(topic, batches, wait)

    def read_records(
        self, topic: str, partition: int, offset: int, max_bytes: int, committed: bool
    ) -> Steps[RawFetched]:
        if topic not in self._allowed["read_records"]:
            self._check_topic("read_records", topic)
        return self._operations.read_records(topic, partition, offset, max_bytes, committed)

    def arrival(self, topic: str, until_ms: int) -> Steps[None]:
        if topic not in self._allowed["arrival"]:
            self._check_topic("arrival", topic)
        return self._operations.arrival(topic, until_ms)

    def position(self, topic: str, partition: int, at: At, committed: bool) -> Steps[Position]:
        if topic not in self._allowed["position"]:
            self._check_topic("position", topic)
        return self._operations.position(topic, partition, at, committed)

    def delete_records(self, topic: str, partition: int, offset: int | None) -> Steps[int]:
        if topic not in self._allowed["delete_records"]:
            self._check_topic("delete_records", topic)
        return self._audited(
            "delete_records", (topic,), self._operations.delete_records, topic, partition, offset
        )

    def batch_consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
    ) -> Steps[BatchConsumer]:
        self._check("batch_consumer", topic, group)
        if self._operations.is_creatable(topic):
            return filtered(
                guarded_consumer,
                self,
                self._after_creating(
                    topic, self._operations.batch_consumer, topic, group, consumer_id, max_in_flight, options
                ),
            )
        return filtered(
            guarded_consumer,
            self,
            self._operations.batch_consumer(topic, group, consumer_id, max_in_flight, options),
        )

    def dead_letter(self, topic: str, identity: str) -> Steps[DeadLetter]:
        if topic not in self._allowed["dead_letter"]:
            self._check_topic("dead_letter", topic)
        return self._operations.dead_letter(topic, identity)

    def new_producer_id(self) -> Steps[int]:
        self._check("new_producer_id")
        return self._operations.new_producer_id()

    def init_producer(
        self, known_as: str | None, timeout_ms: int, producer_id: int, epoch: int
    ) -> Steps[tuple[int, int]]:
        self._check("init_producer")
        return self._operations.init_producer(known_as, timeout_ms, producer_id, epoch, self._claim(known_as))

    def enlist(
        self, topic: str, numbers: list[int], known_as: str, producer_id: int, epoch: int
    ) -> Steps[None]:
        if topic not in self._allowed["enlist"]:
            self._check_topic("enlist", topic)
        return self._operations.enlist(topic, numbers, known_as, producer_id, epoch, self._claim(known_as))

    def append_in_transaction(
        self, topic: str, batches: list[tuple[int, bytes]], wait: bool, known_as: str
    ) -> Steps[list[Appended | PenstockError]]:
        if topic not in self._allowed["append_in_transaction"]:
            self._check_topic("append_in_transaction", topic)
        if self._limited:
            self._meter_batches(batches)
        return self._operations.append_in_transaction(topic, batches, wait, known_as, self._claim(known_as))

    def enlist_group(self, known_as: str, producer_id: int, epoch: int, group_name: str) -> Steps[None]:
        self._check("enlist_group")
        return self._operations.enlist_group(known_as, producer_id, epoch, group_name, self._claim(known_as))

    def enlist_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        known_as: str,
        producer_id: int,
        epoch: int,
        by: Committer,
    ) -> Steps[Code]:
        self._check("enlist_commits", topic, group)
        return self._operations.enlist_commits(
            topic, group, commits, known_as, producer_id, epoch, by, self._claim(known_as)
        )

    def end_transaction(
        self, known_as: str, producer_id: int, epoch: int, commit: bool
    ) -> Steps[tuple[int, int]]:
        self._check("end_transaction")
        return self._operations.end_transaction(known_as, producer_id, epoch, commit, self._claim(known_as))

    def end_epoch(self, known_as: str, producer_id: int, epoch: int, commit: bool) -> Steps[tuple[int, int]]:
        self._check("end_epoch")
        return self._operations.end_epoch(known_as, producer_id, epoch, commit, self._claim(known_as))

    def transaction(self, transactional_id: str) -> Steps[TransactionState | None]:
        self._check("transaction")
        return filtered(visible_transaction, self, self._operations.transaction(transactional_id))

    def transactional_ids(self, pattern: str) -> Steps[list[str]]:
        self._check("transactional_ids")
        return filtered(visible_transactional_ids, self, self._operations.transactional_ids(pattern))

    def active_producers(self, topic: str, partition: int) -> Steps[list[ActiveProducer]]:
        if topic not in self._allowed["active_producers"]:
            self._check_topic("active_producers", topic)
        return self._operations.active_producers(topic, partition)

    def join_group(self, group: str, told: JoinRequest) -> Steps[JoinResult]:
        self._check("join_group", None, group)
        return self._operations.join_group(group, told)

    def sync_group(self, group: str, told: SyncRequest) -> Steps[SyncResult]:
        self._check("sync_group", None, group)
        return self._operations.sync_group(group, told)

    def heartbeat_group(self, group: str, member: str, instance: str | None, generation: int) -> Steps[Code]:
        self._check("heartbeat_group", None, group)
        return self._operations.heartbeat_group(group, member, instance, generation)

    def leave_group(self, group: str, leavers: list[tuple[str, str | None]]) -> Steps[list[Code]]:
        self._check("leave_group", None, group)
        return self._operations.leave_group(group, leavers)

    def beat_group(self, group: str, told: MemberHeartbeat) -> Steps[HeartbeatResult]:
        self._check("beat_group", None, group)
        return self._operations.beat_group(group, told)

    def consumer_group(self, group: str) -> Steps[ConsumerGroupState | None]:
        self._check("consumer_group", None, group)
        return self._operations.consumer_group(group)

    def check_reader(self, group: str, member: str, epoch: int) -> Steps[Code]:
        self._check("check_reader", None, group)
        return self._operations.check_reader(group, member, epoch)

    def commit_places(self, topic: str, group: str, commits: dict[int, Commit], by: Committer) -> Steps[Code]:
        self._check("commit_places", topic, group)
        return self._operations.commit_places(topic, group, commits, by)

    def places(self, topic: str, group: str) -> Steps[dict[int, Commit]]:
        self._check("places", topic, group)
        return self._operations.places(topic, group)

    def unsettled_places(self, topic: str, group: str, partitions: list[int]) -> Steps[list[int]]:
        self._check("unsettled_places", topic, group)
        return self._operations.unsettled_places(topic, group, partitions)

    def placed_topics(self, group: str) -> Steps[list[str]]:
        self._check("placed_topics", None, group)
        return filtered(visible_topics, self, self._operations.placed_topics(group))

    def queued_topics(self, group: str) -> Steps[list[str]]:
        self._check("queued_topics", None, group)
        return filtered(visible_topics, self, self._operations.queued_topics(group))

    def check_share_group(self, group: str) -> Steps[Code]:
        self._check("check_share_group", None, group)
        return self._operations.check_share_group(group)

    def forget_places(self, topic: str, group: str, partitions: list[int]) -> Steps[Code]:
        self._check("forget_places", topic, group)
        return self._operations.forget_places(topic, group, partitions)

    def member_groups(self) -> Steps[list[KafkaGroupState]]:
        self._check("member_groups")
        return filtered(visible_groups, self, self._operations.member_groups())

    def member_group(self, group: str) -> Steps[KafkaGroupState | None]:
        self._check("member_group", None, group)
        return self._operations.member_group(group)

    def group_config(self, group: str) -> Steps[tuple[GroupConfig, GroupRules]]:
        self._check("group_config", None, group)
        return self._operations.group_config(group)

    def alter_group_config(self, group: str, said: GroupConfig) -> Steps[None]:
        self._check("alter_group_config", None, group)
        return self._audited("alter_group_config", (group,), self._operations.alter_group_config, group, said)

    def configured_groups(self) -> Steps[list[str]]:
        self._check("configured_groups")
        return filtered(visible_group_names, self, self._operations.configured_groups())

    def check_delete_group(self, group: str) -> Steps[Code]:
        self._check("check_delete_group", None, group)
        return self._operations.check_delete_group(group)

    def alter_user(self, name: str, grants: list[Grant], quota: Quota) -> Steps[None]:
        self._check("alter_user")
        return self._audited("alter_user", (name,), self._operations.alter_user, name, grants, quota)

    def acls(self) -> Steps[list[Acl]]:
        self._check("acls")
        return self._operations.acls()

    def create_acls(self, acls: list[Acl]) -> Steps[None]:
        self._check("create_acls")
        return self._audited("create_acls", (acls,), self._operations.create_acls, acls)

    def delete_acls(self, acls: list[Acl]) -> Steps[None]:
        self._check("delete_acls")
        return self._audited("delete_acls", (acls,), self._operations.delete_acls, acls)

    def set_scram(self, name: str, mechanism: str, scram: Scram) -> Steps[None]:
        self._check("set_scram")
        return self._audited("set_scram", (name,), self._operations.set_scram, name, mechanism, scram)

    def drop_scram(self, name: str, mechanism: str) -> Steps[None]:
        self._check("drop_scram")
        return self._audited("drop_scram", (name,), self._operations.drop_scram, name, mechanism)

    def scrams(self) -> Steps[dict[str, dict[str, int]]]:
        self._check("scrams")
        return self._operations.scrams()

    def waiting(self) -> Steps[dict[tuple[str, int], int]]:
        self._check("waiting")
        return filtered(visible_counts, self, self._operations.waiting())

    def overview(self) -> Steps[Overview]:
        self._check("overview")
        return filtered(visible_overview, self, self._operations.overview())

    def metrics(self) -> Steps[list[Family]]:
        self._check("metrics")
        return filtered(visible_metrics, self, self._operations.metrics())


BrokerOperations = LocalOperations | GuardedOperations  # What a front end calls.
