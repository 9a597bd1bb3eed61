"""The operations of a broker in this process: each one calls its service.

    LocalOperations ──> catalogue, publishing, groups, schedules, dead letters, tracing, access
    LocalConsumer   ──> queues, or streams
    protocols.py    ──> operations for front ends of other protocols

Every public method has an entry in ``operations/spec.py``; the operations that
front ends call (``frontends/security/guarded.py``) are generated from that entry
and from the signature here.  An operation that waits, here or for another node of a
cluster, is a generator of steps; one that does not (``waits=False`` in its entry) is
made one, to run under the lock.
"""

from typing import Any

from penstock.api.operations import ConsumerOperations, ProducerOperations, Wrap
from penstock.broker.access.scram import Scram
from penstock.broker.consumers import BrokerConsumer
from penstock.broker.core import Core
from penstock.broker.observability.measuring import Family
from penstock.broker.observability.tracing import parse_id
from penstock.broker.producers import ProducerSteps
from penstock.broker.protocols import ProtocolOperations
from penstock.broker.publish.publishing import Appended
from penstock.broker.steps import Steps
from penstock.config.broker import Compression, GroupOptions, Start, TopicOptions, TopicSettings
from penstock.errors import NotACluster, PenstockError, TopicNotFound
from penstock.groups.transactions import ANYBODY, Claim
from penstock.model.access import Acl, Grant, KeyInfo, NewKey, Quota, UserInfo
from penstock.model.cluster import ClusterInfo, Moved, TopicOwners
from penstock.model.info import (
    BrokerInfo,
    Cancelled,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    GroupInfo,
    OpenTransaction,
    Overview,
    Redrive,
    Restore,
    ScheduledMessage,
    StagedPublish,
    TopicInfo,
)
from penstock.model.message import LeaseRun, Message, Receipt, StoredMessage
from penstock.model.owners import OneNode, Owners
from penstock.model.schemas import (
    Compatibility,
    NewSchema,
    ReadValue,
    SchemaInfo,
    SchemaSettings,
    SchemaVerdict,
)
from penstock.model.trace import Trace
from penstock.operations.call import DEFAULT_GROUP
from penstock.types import Duration, Instant


class LocalConsumer(BrokerConsumer):
    """One consumer of the program itself, which receives messages."""

    @property
    def settler(self) -> Any:
        """What settles received messages: the consumer itself."""
        return self._state.settler

    @settler.setter
    def settler(self, settler: Any) -> None:
        self._state.settler = settler

    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> Steps[None]:
        """Ack these messages; of a stream group, commit up to and including them."""
        if self.kind == "stream" and not outputs:
            return self._core.streams.commit(self._state, messages)
        ack = self._core.queues.ack(self._state, messages, outputs)
        return self.publishing(outputs, ack) if outputs else ack

    def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> Steps[None]:
        return self._core.queues.nack(self._state, message, delay, error)

    def reject(self, message: Any, reason: Any) -> Steps[None]:
        return self._core.queues.reject(self._state, message, reason)

    def extend(self, message: Any, duration: Duration) -> Steps[None]:
        """Extend the lease of the message, counted from now."""
        return self._core.queues.extend(self._state, message, duration)

    def commit(self) -> Steps[None]:
        """Commit everything received so far."""
        return self._core.streams.commit(self._state, None)

    def answered(self, runs: list[LeaseRun]) -> Steps[None]:  # noqa: ARG002
        """Called for messages that a transaction acks: the broker has settled them already."""
        yield from ()


class LocalOperations(ProtocolOperations):
    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.server_counts = core.state.server_counts  # A server sets these.
        self.access = core.access  # These are no operations, but for the front ends of a server.
        self.audit = core.audit
        self.lag = core.state.lag
        self.owners: Owners = OneNode()
        # By name, without a call between: these are the busiest.
        self.publish = core.publishing.publish
        self.publish_batch = core.publishing.publish_batch
        self.append = core.publishing.append
        self.fetch = core.fetching.fetch

    # Topics.

    def create_topic(self, name: str, options: TopicOptions) -> Steps[None]:
        return self._core.topics.create(name, options)

    def is_creatable(self, name: str) -> bool:
        """Whether using this topic would create it; for front ends, not an operation."""
        return self._core.missing.is_creatable(name)

    def auto_create_topic(self, name: str, options: TopicOptions) -> Steps[None]:
        """Create a missing topic on first use, unless automatic creation is off."""
        yield from self._core.missing.create(name, options=options)

    def alter_topic(self, name: str, options: TopicOptions) -> Steps[None]:
        return self._core.topics.alter(name, options)

    def delete_topic(self, name: str) -> Steps[None]:
        return self._core.topics.delete(name)

    def topics(self) -> list[str]:
        return sorted(name for name in self._core.state.topics if not name.startswith("__"))

    def queues(self) -> Steps[list[str]]:
        yield from ()
        self._core.state.check_all_loaded()
        return [name for name in self._core.coordination.topics(DEFAULT_GROUP, "queue") if name[:2] != "__"]

    def topic_exists(self, topic: str) -> bool:
        try:
            self._core.state.topic(topic)
        except TopicNotFound:
            return False
        return True

    def topic_owners(self, topic: str) -> TopicOwners:
        self._core.state.topic(topic)
        return TopicOwners()

    def describe_topic(self, name: str) -> Steps[TopicInfo]:
        yield from ()
        return self._core.describe_topic(name)

    def producer(self, compression: Compression) -> ProducerOperations:
        return ProducerSteps(self._core, compression)

    def stage(self, topic: str, batch: bytes) -> Steps[int]:
        return self._core.staging.stage(topic, batch)

    def publish_staged(
        self, topic: str, application: str, version: int, staged: dict[str, list[tuple[int, int]]]
    ) -> Steps[StagedPublish]:
        return self._core.staging.publish(topic, application, version, staged)

    def published_version(self, topic: str, application: str) -> Steps[int | None]:
        yield from ()
        return self._core.staging.version(topic, application)

    # Record batches, for front ends.

    def metadata(self, topic: str) -> Steps[tuple[int, TopicSettings]]:
        """The version of a topic's settings, and the settings: the first step of a publish."""
        found = self._core.state.find(topic) or (yield from self._core.missing.create(topic))
        return found.version, found.settings

    def new_producer_id(self) -> int:
        """An id that no other producer of this data directory has."""
        return self._core.state.registry.new_producer_id()

    def append_batches(
        self, topic: str, version: int, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Receipt | PenstockError]]:
        """Take batches, each for a partition; see ``Publishing.append_batches``."""
        return self._core.publishing.append_batches(topic, version, batches, wait)

    def append_records(
        self, topic: str, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Appended | PenstockError]]:
        """Take batches of another protocol, each for a partition; see ``Publishing.append_records``."""
        return self._core.publishing.append_records(topic, batches, wait)

    # Groups and their consumers.

    def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
    ) -> Steps[ConsumerOperations]:
        """A consumer of a group, which is created at first use."""
        made = yield from self._core.groups.consumer(topic, group, consumer_id, max_in_flight, wrap, options)
        return LocalConsumer(self._core, made)

    def create_group(self, topic: str, group: str, options: GroupOptions) -> Steps[None]:
        return self._core.groups.create(topic, group, options)

    def delete_group(self, topic: str, group: str) -> Steps[None]:
        return self._core.groups.delete(topic, group)

    def describe_group(self, topic: str, group: str) -> Steps[GroupInfo]:
        yield from ()
        return self._core.progress.describe(topic, group)

    def delivery_states(
        self, topic: str, group: str, partition: int, start: int, end: int
    ) -> Steps[list[DeliveryState]]:
        return self._core.deliveries.states(topic, group, partition, start, end)

    def seek(self, topic: str, group: str, to: Start | str | Instant, partition: int | None) -> Steps[None]:
        return self._core.groups.seek(topic, group, to, partition)

    def commit_offsets(self, topic: str, group: str, offsets: dict[int, int]) -> Steps[None]:
        return self._core.commits.commit_offsets(topic, group, offsets)

    def begin_restore(self, topic: str, partition: int, start: int) -> Steps[Restore]:
        yield from ()
        return self._core.restoring.begin(topic, partition, start)

    def restore(self, topic: str, partition: int, restore: int, batches: bytes) -> Steps[int]:
        return self._core.restoring.add(topic, partition, restore, batches)

    def finish_restore(
        self, topic: str, partition: int, restore: int, group: str, hold: Duration
    ) -> Steps[None]:
        return self._core.restoring.finish(topic, partition, restore, group, hold)

    # Looking.

    def offsets(self, topic: str, at: str | Instant, journal: bool) -> Steps[dict[int, int]]:
        return self._core.fetching.offsets(topic, at, journal)

    def read(
        self,
        topic: str,
        partition: int | None,
        offset: int | None,
        from_time: Instant | None,
        to_time: Instant | None,
        limit: int,
    ) -> Steps[list[StoredMessage]]:
        yield from ()
        return self._core.browsing.read(topic, partition, offset, from_time, to_time, limit)

    def peek(self, topic: str, count: int, partition: int | None) -> Steps[list[StoredMessage]]:
        yield from ()
        return self._core.browsing.peek(topic, partition, count)

    def trace(self, topic: str, partition: int | None, offset: int | None) -> Steps[Trace]:
        yield from ()
        return self._core.tracing.trace(topic, partition, offset)

    # The schedule.

    def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> Steps[str]:
        return self._core.schedules.add_recurring(topic, message, cron, timezone)

    def scheduled(self, topic: str, limit: int) -> Steps[list[ScheduledMessage]]:
        yield from ()
        return list(self._core.schedules.list(topic, limit))

    def scheduled_count(self, topic: str) -> Steps[int]:
        yield from ()
        return self._core.schedules.count(topic)

    def cancel(self, schedule_id: str) -> Steps[Cancelled]:
        return self._core.schedules.cancel(schedule_id)

    def reschedule(self, schedule_id: str, delay: Duration | None, deliver_at: Instant | None) -> Steps[bool]:
        return self._core.schedules.reschedule(schedule_id, delay, deliver_at)

    # Dead letters.

    def dead_letters(self, topic: str, limit: int) -> Steps[list[DeadLetter]]:
        yield from ()
        return list(self._core.dead_letters.list(topic, limit))

    def dead_letter(self, topic: str, identity: str) -> Steps[DeadLetter]:
        """One dead letter, also if it was redriven."""
        yield from ()
        return self._core.dead_letters.find(topic, parse_id(identity))

    def dead_letter_errors(self, topic: str | None) -> Steps[list[DeadLetterErrors]]:
        return self._core.triage.errors(topic)

    def redrive(
        self,
        topic: str,
        limit: int,
        rate: float | None,
        dry_run: bool,
        error: str | None,
        group: str | None,
    ) -> Steps[Redrive]:
        return self._core.dead_letters.redrive(
            topic, limit=limit, per_second=rate, dry_run=dry_run, error=error, group=group
        )

    # Schemas.

    def register_schema(self, subject: str, schema: NewSchema) -> Steps[SchemaInfo]:
        return self._core.schemas.register(subject, schema)

    def find_schema(self, subject: str, schema: NewSchema, deleted: bool) -> Steps[SchemaInfo]:
        return self._core.schemas.find(subject, schema, deleted=deleted)

    def check_schema(
        self, subject: str, schema: NewSchema, version: int | str | None, level: Compatibility | None
    ) -> Steps[SchemaVerdict]:
        return self._core.schemas.check(subject, schema, version, level)

    def read_values(self, topic: str, values: list[bytes]) -> Steps[list[ReadValue]]:
        self._core.state.any_topic(topic)  # Raises if there is none.
        return self._core.values.read(topic, values)

    def schema(self, subject: str, version: int | str, deleted: bool) -> SchemaInfo:
        return self._core.schemas.known().version(subject, version, deleted=deleted)

    def schema_versions(self, subject: str, deleted: bool) -> list[SchemaInfo]:
        return self._core.schemas.known().versions(subject, deleted=deleted)

    def schemas(self, deleted: bool) -> list[SchemaInfo]:
        return self._core.schemas.all(deleted=deleted)

    def schema_uses(self, schema_id: int, deleted: bool) -> list[SchemaInfo]:
        return list(self._core.schemas.known().uses(schema_id, deleted=deleted))

    def schema_references(self, subject: str, version: int | str) -> list[int]:
        return self._core.schemas.known().referenced_by(subject, version)

    def delete_schema(self, subject: str, version: int | str | None, permanent: bool) -> Steps[list[int]]:
        return self._core.schemas.delete(subject, version, permanent=permanent)

    def schema_settings(self, subject: str | None, effective: bool) -> SchemaSettings:
        return self._core.schemas.known().settings(subject, effective=effective)

    def alter_schema_settings(
        self, subject: str | None, settings: SchemaSettings, force: bool
    ) -> Steps[None]:
        return self._core.schemas.alter(subject, settings, force=force)

    def reset_schema_setting(self, subject: str | None, setting: str) -> Steps[SchemaSettings]:
        return self._core.schemas.reset(subject, setting)

    # Who may come.

    def create_key(self, name: str, grants: Any, quota: Any, signing: bool) -> Steps[NewKey]:
        return self._core.access.create_key(name, grants, quota, signing)

    def keys(self) -> list[KeyInfo]:
        return self._core.access.keys()

    def revoke_key(self, key_id: str) -> Steps[None]:
        return self._core.access.revoke_key(key_id)

    def set_user(self, name: str, password: str, grants: Any, quota: Any) -> Steps[None]:
        return self._core.access.set_user(name, password, grants, quota)

    def alter_user(self, name: str, grants: list[Grant], quota: Quota) -> Steps[None]:
        """Change what a user may do."""
        return self._core.access.alter_user(name, grants, quota)

    def acls(self) -> list[Acl]:
        return self._core.access.acls()

    def create_acls(self, acls: list[Acl]) -> Steps[None]:
        return self._core.access.create_acls(acls)

    def delete_acls(self, acls: list[Acl]) -> Steps[None]:
        return self._core.access.delete_acls(acls)

    def set_scram(self, name: str, mechanism: str, scram: Scram) -> Steps[None]:
        """Set a password that the client has salted and hashed."""
        return self._core.access.set_scram(name, mechanism, scram)

    def drop_scram(self, name: str, mechanism: str) -> Steps[None]:
        return self._core.access.drop_scram(name, mechanism)

    def scrams(self) -> dict[str, dict[str, int]]:
        return self._core.access.scrams()

    def users(self) -> list[UserInfo]:
        return self._core.access.users()

    def delete_user(self, name: str) -> Steps[None]:
        return self._core.access.delete_user(name)

    # Transactions.

    def begin_transaction(
        self, transactional_id: str | None, abort_after: Duration, claim: Claim = ANYBODY
    ) -> Steps[OpenTransaction]:
        return self._core.client_transactions.begin(transactional_id, abort_after, claim)

    def publish_in_transaction(
        self,
        topic: str,
        messages: list[Message],
        transactional_id: str,
        producer_id: int,
        epoch: int,
        claim: Claim = ANYBODY,
    ) -> Steps[list[Receipt]]:
        publish = self._core.client_transactions.publish
        return publish(topic, messages, transactional_id, producer_id, epoch, claim)

    def ack_in_transaction(
        self,
        topic: str,
        group: str,
        runs: list[tuple[int, int, int, int]],
        transactional_id: str,
        producer_id: int,
        epoch: int,
        claim: Claim = ANYBODY,
    ) -> Steps[None]:
        ack = self._core.client_transactions.ack
        return ack(topic, group, runs, transactional_id, producer_id, epoch, claim)

    def commit_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        return self._core.client_transactions.end(transactional_id, producer_id, epoch, True, claim)

    def abort_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        return self._core.client_transactions.end(transactional_id, producer_id, epoch, False, claim)

    # A cluster, which this is not: see cluster/routing.

    def cluster_info(self) -> Steps[ClusterInfo]:
        raise NotACluster(operation="cluster_info")

    def drain_node(self, node: int, undo: bool) -> Steps[Moved]:  # noqa: ARG002
        raise NotACluster(operation="drain_node")

    def remove_node(self, node: int) -> Steps[None]:  # noqa: ARG002
        raise NotACluster(operation="remove_node")

    def move_partition(self, topic: str, partition: int, node: int) -> Steps[Moved]:  # noqa: ARG002
        raise NotACluster(operation="move_partition")

    def balance_partitions(self, dry_run: bool) -> Steps[Moved]:  # noqa: ARG002
        raise NotACluster(operation="balance_partitions")

    # The broker itself.

    def stats(self) -> Steps[BrokerInfo]:
        yield from ()
        return self._core.stats(self.server_counts.connections())

    def metrics(self) -> Steps[list[Family]]:
        """All metrics; for front ends in this process, not for connections."""
        counts = self.server_counts
        return self._core.measuring.metrics(counts.connections(), counts.tasks())

    def overview(self) -> Steps[Overview]:
        """A line per topic and group; for front ends in this process, not for connections."""
        return self._core.overviews.overview()

    def lanes(self, topic: str) -> Steps[dict[str, int]]:
        """Stored messages by lane; for front ends in this process, not for connections."""
        yield from ()
        return self._core.facts.lanes(topic)

    def waiting(self) -> Steps[dict[tuple[str, int], int]]:
        """Waiting messages by partition; for front ends in this process, not for connections."""
        yield from ()
        return self._core.facts.waiting()
