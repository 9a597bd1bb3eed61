"""Operations of a broker for front ends of other protocols, mainly Kafka.

    ProtocolOperations ──> fetching, transactions, coordination, commits, group_configs

Programs and clients of Penstock cannot call them.  Each has an entry in
``operations/spec.py``, which names the arguments that permissions depend on.
"""

from collections.abc import Mapping

from penstock.broker.batches import BatchConsumer, no_messages
from penstock.broker.core import Core
from penstock.broker.kafka.matching import TOO_LONG
from penstock.broker.publish.publishing import Appended
from penstock.broker.registry.staging_peers import StagingRoom
from penstock.broker.steps import Steps
from penstock.broker.stream.fetching import At, Layout, Position, RawFetched
from penstock.errors import InvalidValue, NotOwner, PenstockError
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
from penstock.groups.transactions import (
    ANYBODY,
    AckedRun,
    ActiveProducer,
    Claim,
    Decision,
    Enlisted,
    Enlisting,
    TransactionState,
)
from penstock.operations.consumers import ConsumerOptions
from penstock.wire.kafka.codes import Code


class ProtocolOperations:
    """The part of ``LocalOperations`` about batches, group members and transactional ids."""

    def __init__(self, core: Core) -> None:
        self._core = core

    # Topics and partitions.

    def cluster_id(self) -> str:
        """The cluster id that Kafka clients see."""
        return self._core.state.registry.cluster_id

    def topic_names(self) -> Mapping[bytes, str]:
        """The names of all topics by id, always up to date; for the front ends of this process."""
        return self._core.fetching.names

    def layout(self, topic: str) -> Layout:
        return self._core.fetching.layout(topic)

    def read_records(
        self, topic: str, partition: int, offset: int, max_bytes: int, committed: bool
    ) -> RawFetched:
        """Record batches as they are stored."""
        return self._core.fetching.fetch_raw(topic, partition, offset, max_bytes, committed)

    def append_output(self, topic: str, partition: int, batch: bytes) -> Steps[None]:
        """Append a batch from the outbox of a partition that another node owns."""
        return self._core.publishing.append_output(topic, partition, batch)

    def arrival(self, topic: str, until_ms: int) -> Steps[None]:
        """Wait until something is published to a topic, or its state changes."""
        return self._core.fetching.arrival(topic, until_ms)

    def delete_records(self, topic: str, partition: int, offset: int | None) -> int:
        """Delete the records below an offset; returns the new start of the partition."""
        found = self._core.state.topic(topic)
        return self._core.maintenance.delete_records(found, found.partition(partition), offset)

    def position(self, topic: str, partition: int, at: At, committed: bool) -> Position:
        """The offset of "earliest", "latest", "newest" or a time."""
        return self._core.fetching.position(topic, partition, at, committed)

    def batch_consumer(self, topic: str, group: str, options: ConsumerOptions) -> Steps[BatchConsumer]:
        """Open a consumer that leases record batches."""
        return self.own_consumer(topic, group, options)

    def own_consumer(self, topic: str, group: str, options: ConsumerOptions) -> Steps[BatchConsumer]:
        """``batch_consumer`` for the partitions of this node only, also in a cluster."""
        made = yield from self._core.groups.consumer(
            topic, group, options.consumer_id, options.max_in_flight, no_messages, options.group
        )
        return BatchConsumer(self._core, made)

    def ack_by_lease(
        self, topic: str, group: str, partition: int, lease: int, offset: int, last: bool
    ) -> Steps[bool]:
        """Ack a message of any consumer by its lease and offset; see ``Queues.ack_by_lease``."""
        return self._core.queues.ack_by_lease(topic, group, partition, lease, offset, last)

    def change_visibility(
        self,
        topic: str,
        group: str,
        partition: int,
        lease: int,
        offset: int,
        visibility_ms: int,
        counts: bool,
        last: bool,
    ) -> Steps[bool]:
        """Give a received message another visibility timeout; see ``Queues.change_visibility``."""
        return self._core.queues.change_visibility(
            topic, group, partition, lease, offset, visibility_ms, counts, last
        )

    # Between the nodes of a cluster.

    def check_owned(self, topic: str, partitions: list[tuple[int, int]]) -> Steps[None]:
        """Raise ``NotOwner`` unless this node owns these partitions, each since the given epoch."""
        yield from ()
        found = self._core.state.topic(topic)
        for number, epoch in partitions:
            if found.partition(number).epoch != epoch:
                raise NotOwner(topic=topic, partition=number, owner=-1, epoch=epoch)

    # Staged publishes, between the nodes of a cluster.

    def read_staged(self, offset: int, end: int) -> Steps[bytes]:
        """Staged batches from an offset on, as they are stored, up to ``end`` or beyond, in pieces."""
        return self._core.staging.read(offset, end)

    def staging_rooms(self, topic: str) -> Steps[dict[int, StagingRoom]]:
        """What each partition can take, for a staged publish that is about to be decided."""
        yield from ()
        return self._core.staging.rooms(topic)

    def place_staged(
        self, topic: str, batches: dict[int, list[tuple[int, bytes]]], producer_id: int, time_ms: int
    ) -> Steps[None]:
        """Append batches of an intent to partitions of this node."""
        return self._core.staging.place(topic, batches, producer_id, time_ms)

    def release_staged(self, ranges: list[tuple[int, int]]) -> Steps[None]:
        """Note that staged offsets were published and may be deleted."""
        yield from ()
        self._core.staging.release(ranges)

    # Transactions.

    def init_producer(
        self, known_as: str | None, timeout_ms: int, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """Assign a producer id and epoch; with a transactional id, its next epoch."""
        return self._core.transactions.init_producer(known_as, timeout_ms, producer_id, epoch, claim)

    def prepare_transactions(self) -> Steps[None]:
        """Create the transaction log, whose partitions have the coordinators, if it is missing."""
        return self._core.transactions.prepare()

    def confirm_enlisted(
        self,
        known_as: str,
        producer_id: int,
        epoch: int,
        partition: tuple[str, int],
        enlisting: Enlisting,
        claim: Claim,
    ) -> Steps[Enlisted]:
        """Confirm to the owner of a partition that a transaction writes to it."""
        return self._core.transactions.confirm(known_as, producer_id, epoch, partition, enlisting, claim)

    def finish_transaction(
        self,
        decision: Decision,
        partitions: list[tuple[str, int, int]],
        commits: list[tuple[str, str, dict[int, Commit]]],
        acks: list[tuple[int, AckedRun]],
    ) -> Steps[None]:
        """Write markers, offsets of groups and acks to partitions of this node."""
        return self._core.participants.finish(decision, partitions, commits, acks)

    def hold_acks(self, decision: Decision, acks: list[tuple[int, AckedRun]]) -> Steps[None]:
        """Keep messages of this node for the commit of a transaction."""
        return self._core.participants.hold(decision, acks)

    def check_acks(self, acks: list[AckedRun]) -> Steps[None]:
        """Refuse acks of messages of this node that are not leased."""
        yield from ()
        self._core.transactions.check_acks(acks)

    def stage_acks(
        self, acks: list[AckedRun], known_as: str, producer_id: int, epoch: int, claim: Claim
    ) -> Steps[None]:
        """Add acks to a transaction; the owners have confirmed that the messages are leased."""
        return self._core.client_transactions.stage_acks(acks, known_as, producer_id, epoch, claim)

    def stage_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        known_as: str,
        producer_id: int,
        epoch: int,
        add: bool,
        group_epoch: int,
        claim: Claim,
    ) -> Steps[None]:
        """Add committed offsets to a transaction; the group's coordinator has checked the member.

        ``group_epoch`` says since when it has coordinated the group; a former coordinator is refused.
        """
        return self._core.transactions.stage_commits(
            topic, group, commits, known_as, producer_id, epoch, add, group_epoch, claim
        )

    def held_offsets(
        self, topic: str, group: str, partitions: list[int], ledgers: list[int], group_epoch: int
    ) -> Steps[list[int]]:
        """The partitions whose offsets may still be committed by transactions that this node coordinates."""
        yield from ()
        return self._core.transactions.held_offsets(topic, group, partitions, ledgers, group_epoch)

    def enlist(
        self,
        topic: str,
        numbers: list[int],
        known_as: str,
        producer_id: int,
        epoch: int,
        claim: Claim = ANYBODY,
    ) -> Steps[None]:
        """Add partitions to a transaction."""
        return self._core.transactions.enlist(topic, numbers, known_as, producer_id, epoch, claim)

    def enlist_group(
        self, known_as: str, producer_id: int, epoch: int, group_name: str, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """Add a group to a transaction, which will commit offsets of it."""
        return self._core.transactions.enlist_group(known_as, producer_id, epoch, group_name, claim)

    def enlist_commits(
        self,
        topic: str,
        group: str,
        commits: dict[int, Commit],
        known_as: str,
        producer_id: int,
        epoch: int,
        by: Committer,
        add: bool,
        claim: Claim = ANYBODY,
    ) -> Steps[Code]:
        """Add offsets to commit to a transaction, on behalf of a member of the group.

        With ``add`` the group need not be enlisted before.
        """
        return self._core.transactions.enlist_commits(
            topic, group, commits, known_as, producer_id, epoch, by, add, claim
        )

    def append_in_transaction(
        self,
        topic: str,
        batches: list[tuple[int, bytes]],
        wait: bool,
        known_as: str,
        add: bool,
        claim: Claim = ANYBODY,
    ) -> Steps[list[Appended | PenstockError]]:
        """Append batches of a transaction; with ``add`` their partitions need not be enlisted before."""
        return self._core.transactions.append(topic, batches, wait, known_as, add, claim)

    def end_transaction(
        self, known_as: str, producer_id: int, epoch: int, commit: bool, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """Commit or abort a transaction."""
        return self._core.transactions.end(known_as, producer_id, epoch, commit, claim)

    def end_epoch(
        self, known_as: str, producer_id: int, epoch: int, commit: bool, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """Commit or abort a transaction, and begin the next epoch; returns the producer's id and epoch."""
        return self._core.transactions.end(known_as, producer_id, epoch, commit, claim, next_epoch=True)

    def transaction(self, transactional_id: str) -> TransactionState | None:
        return self._core.transactions.describe(transactional_id)

    def transactional_ids(self, pattern: str) -> Steps[list[str]]:
        """Transactional ids that match a valid regular expression; all of them if it is empty."""
        names = self._core.transactions.names()
        if not pattern:
            return names
        tried = yield from self._core.matching.match({pattern: names})
        if tried is None:
            raise InvalidValue(name="pattern", value=pattern[:40], why=TOO_LONG)
        return [name for name in names if tried.matches(pattern, name)]

    def active_producers(self, topic: str, partition: int) -> list[ActiveProducer]:
        """The producers that have recently written to a partition with sequence numbers."""
        return self._core.transactions.producers(topic, partition)

    # Groups as Kafka has them: membership and committed offsets.

    def join_group(self, group: str, request: JoinRequest) -> Steps[JoinResult]:
        """Join a classic group; returns when the next generation begins."""
        return self._core.coordination.join(group, request)

    def sync_group(self, group: str, request: SyncRequest) -> Steps[SyncResult]:
        """Get the assignment of the current generation; the leader sends it."""
        return self._core.coordination.sync(group, request)

    def heartbeat_group(self, group: str, member: str, instance: str | None, generation: int) -> Code:
        return self._core.coordination.heartbeat(group, member, instance, generation)

    def leave_group(self, group: str, leavers: list[tuple[str, str | None]]) -> list[Code]:
        return self._core.coordination.leave(group, leavers)

    def commit_group_offsets(
        self, topic: str, group: str, commits: dict[int, Commit], by: Committer
    ) -> Steps[Code]:
        """Commit offsets of a group, as one of its members."""
        return self._core.coordination.commit(topic, group, commits, by)

    def store_offsets(self, topic: str, group: str, commits: dict[int, Commit], epoch: int) -> Steps[None]:
        """Store committed offsets of partitions of this node; the group's coordinator has checked the member.

        ``epoch`` says since when it has coordinated the group; a former coordinator is refused.
        """
        return self._core.commits.commit(topic, group, commits, epoch)

    def consumer_group_heartbeat(self, group: str, request: MemberHeartbeat) -> Steps[HeartbeatResult]:
        """Join, stay in or leave a KIP-848 group."""
        return self._core.coordination.consumer_heartbeat(group, request)

    def consumer_group(self, group: str) -> ConsumerGroupState | None:
        """Describe a KIP-848 group; None if there is none."""
        return self._core.coordination.consumers(group)

    def check_reader(self, group: str, member: str, epoch: int) -> Code:
        """Check that a member of a KIP-848 group may fetch offsets."""
        return self._core.coordination.check_reader(group, member, epoch)

    def committed_offsets(self, topic: str, group: str) -> Steps[dict[int, Commit]]:
        """The committed offsets of a group on a topic, by partition."""
        yield from ()
        return self._core.commits.read(topic, group)

    def unsettled_offsets(self, topic: str, group: str, partitions: list[int]) -> Steps[list[int]]:
        """The partitions whose committed offset may still be changed by an open transaction.

        Ask before the offsets are read: a transaction that ends in between has changed them.
        """
        yield from ()
        return [number for number in partitions if self._core.commits.unsettled(topic, group, number)]

    def topics_with_offsets(self, group: str) -> Steps[list[str]]:
        """The topics on which a group may have committed offsets."""
        yield from ()
        self._core.state.check_all_loaded()
        return self._core.coordination.topics(group)

    def queued_topics(self, group: str) -> Steps[list[str]]:
        """The topics on which a group of that name is a queue group."""
        yield from ()
        self._core.state.check_all_loaded()
        return self._core.coordination.topics(group, "queue")

    def check_share_group(self, group: str) -> Code:
        """Check that a group of that name may be a share group."""
        return self._core.coordination.check_share(group)

    def forget_offsets(self, topic: str, group: str, partitions: list[int]) -> Steps[Code]:
        """Delete the committed offsets of a group on partitions of a topic."""
        return self._core.coordination.forget(topic, group, partitions)

    def member_groups(self) -> Steps[list[KafkaGroupState]]:
        """All that Kafka's clients call a group."""
        yield from ()
        self._core.state.check_all_loaded()
        return self._core.coordination.groups()

    def member_group(self, group: str) -> Steps[KafkaGroupState | None]:
        yield from ()
        if group not in self._core.state.kafka_groups:  # Then its partitions say whether there is one.
            self._core.state.check_all_loaded()
        return self._core.coordination.describe(group)

    def group_config(self, group: str) -> tuple[GroupConfig, GroupRules]:
        """The settings of a group: those that operators have made, and those in effect."""
        return self._core.group_configs.said(group), self._core.group_configs.counting(group)

    def alter_group_config(self, group: str, said: GroupConfig) -> Steps[None]:
        return self._core.group_configs.alter(group, said)

    def configured_groups(self) -> list[str]:
        """The groups that have settings of their own."""
        return self._core.group_configs.names()

    def check_delete_group(self, group: str) -> Steps[Code]:
        """Whether the group has no members, so that it may be deleted from its topics."""
        state = yield from self.member_group(group)
        return self._core.coordination.check_delete(group, state)
