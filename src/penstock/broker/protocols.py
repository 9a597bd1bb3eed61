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
from penstock.broker.steps import Steps
from penstock.broker.stream.fetching import At, Layout, Position, RawFetched
from penstock.config.broker import GroupOptions
from penstock.errors import InvalidValue, PenstockError
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
from penstock.groups.transactions import ANYBODY, ActiveProducer, Claim, TransactionState
from penstock.wire.kafka.codes import Code


class ProtocolOperations:
    """The part of ``LocalOperations`` that speaks of batches, members and transactional ids."""

    def __init__(self, core: Core) -> None:
        self._core = core

    # Topics and partitions.

    def cluster_id(self) -> str:
        """By which Kafka's clients know this broker's directory."""
        return self._core.state.registry.cluster_id

    def topic_names(self) -> Mapping[bytes, str]:
        """The names of all topics by id, as they are at any time; for the doors of this process."""
        return self._core.fetching.names

    def layout(self, topic: str) -> Layout:
        return self._core.fetching.layout(topic)

    def read_records(
        self, topic: str, partition: int, offset: int, max_bytes: int, committed: bool
    ) -> RawFetched:
        """Record batches as they lie in the log."""
        return self._core.fetching.fetch_raw(topic, partition, offset, max_bytes, committed)

    def append_output(self, topic: str, partition: int, batch: bytes) -> Steps[None]:
        """Take a batch from the outbox of a partition that another node owns."""
        return self._core.publishing.append_output(topic, partition, batch)

    def arrival(self, topic: str, until_ms: int) -> Steps[None]:
        """Wait until something happens on a topic."""
        return self._core.fetching.arrival(topic, until_ms)

    def delete_records(self, topic: str, partition: int, offset: int | None) -> int:
        """Let a partition begin later; returns where it begins."""
        found = self._core.state.topic(topic)
        return self._core.maintenance.delete_records(found, found.partition(partition), offset)

    def position(self, topic: str, partition: int, at: At, committed: bool) -> Position:
        """Which offset a time is."""
        return self._core.fetching.position(topic, partition, at, committed)

    def batch_consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
    ) -> Steps[BatchConsumer]:
        """A consumer that is lent record batches."""
        return self.own_consumer(topic, group, consumer_id, max_in_flight, options)

    def own_consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
    ) -> Steps[BatchConsumer]:
        """The same for the partitions of this node only, also in a cluster."""
        made = yield from self._core.groups.consumer(
            topic, group, consumer_id, max_in_flight, no_messages, options
        )
        return BatchConsumer(self._core, made)

    def settle_place(
        self, topic: str, group: str, partition: int, lease: int, offset: int, last: bool
    ) -> Steps[bool]:
        """Ack a received message by its place, whoever received it; see ``Queues.settle_place``."""
        return self._core.queues.settle_place(topic, group, partition, lease, offset, last)

    def retime_place(
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
        """Give a received message another visibility timeout; see ``Queues.retime_place``."""
        return self._core.queues.retime_place(
            topic, group, partition, lease, offset, visibility_ms, counts, last
        )

    # Transactions.

    def init_producer(
        self, known_as: str | None, timeout_ms: int, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """An id and an epoch for a producer, which may have a name: its transactional id."""
        return self._core.transactions.init_producer(known_as, timeout_ms, producer_id, epoch, claim)

    def enlist(
        self,
        topic: str,
        numbers: list[int],
        known_as: str,
        producer_id: int,
        epoch: int,
        claim: Claim = ANYBODY,
    ) -> Steps[None]:
        """A transaction writes to these partitions."""
        return self._core.transactions.enlist(topic, numbers, known_as, producer_id, epoch, claim)

    def enlist_group(
        self, known_as: str, producer_id: int, epoch: int, group_name: str, claim: Claim = ANYBODY
    ) -> Steps[None]:
        """A transaction commits offsets of a group ..."""
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
        claim: Claim = ANYBODY,
    ) -> Steps[Code]:
        """... and these are they, says one of its members."""
        return self._core.transactions.enlist_commits(
            topic, group, commits, known_as, producer_id, epoch, by, claim
        )

    def append_in_transaction(
        self,
        topic: str,
        batches: list[tuple[int, bytes]],
        wait: bool,
        known_as: str,
        claim: Claim = ANYBODY,
    ) -> Steps[list[Appended | PenstockError]]:
        """Append batches of a transaction, whose partitions need not be enlisted before."""
        return self._core.transactions.append(topic, batches, wait, known_as, claim)

    def end_transaction(
        self, known_as: str, producer_id: int, epoch: int, commit: bool, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """It counts, or it does not."""
        return self._core.transactions.end(known_as, producer_id, epoch, commit, claim)

    def end_epoch(
        self, known_as: str, producer_id: int, epoch: int, commit: bool, claim: Claim = ANYBODY
    ) -> Steps[tuple[int, int]]:
        """The same, and the producer has the next epoch from then on, which is the answer."""
        return self._core.transactions.end(known_as, producer_id, epoch, commit, claim, next_epoch=True)

    def transaction(self, transactional_id: str) -> TransactionState | None:
        """What is known of a transactional id."""
        return self._core.transactions.describe(transactional_id)

    def transactional_ids(self, pattern: str) -> Steps[list[str]]:
        """Those that match a regular expression, which is valid; all of them if it is empty."""
        names = self._core.transactions.names()
        if not pattern:
            return names
        tried = yield from self._core.matching.match({pattern: names})
        if tried is None:
            raise InvalidValue(name="pattern", value=pattern[:40], why=TOO_LONG)
        return [name for name in names if tried.matches(pattern, name)]

    def active_producers(self, topic: str, partition: int) -> list[ActiveProducer]:
        """Who writes to a partition under numbers."""
        return self._core.transactions.producers(topic, partition)

    # Groups as Kafka has them: membership and committed offsets.

    def join_group(self, group: str, request: JoinRequest) -> Steps[JoinResult]:
        """Be in the next generation of a group."""
        return self._core.coordination.join(group, request)

    def sync_group(self, group: str, request: SyncRequest) -> Steps[SyncResult]:
        """Get what is assigned in it."""
        return self._core.coordination.sync(group, request)

    def heartbeat_group(self, group: str, member: str, instance: str | None, generation: int) -> Code:
        return self._core.coordination.heartbeat(group, member, instance, generation)

    def leave_group(self, group: str, leavers: list[tuple[str, str | None]]) -> list[Code]:
        return self._core.coordination.leave(group, leavers)

    def commit_group_offsets(
        self, topic: str, group: str, commits: dict[int, Commit], by: Committer
    ) -> Steps[Code]:
        """Say where a group has come, as one of its members."""
        return self._core.coordination.commit(topic, group, commits, by)

    def store_offsets(self, topic: str, group: str, commits: dict[int, Commit]) -> Steps[None]:
        """The same on partitions of this node, for the group's coordinator, which has checked the member."""
        return self._core.commits.commit(topic, group, commits)

    def consumer_group_heartbeat(self, group: str, request: MemberHeartbeat) -> Steps[HeartbeatResult]:
        """Join, stay in or leave a group in which the broker assigns."""
        return self._core.coordination.consumer_heartbeat(group, request)

    def consumer_group(self, group: str) -> ConsumerGroupState | None:
        """Such a group, with its members."""
        return self._core.coordination.consumers(group)

    def check_reader(self, group: str, member: str, epoch: int) -> Code:
        """Whether somebody is in such a group, and may use its offsets."""
        return self._core.coordination.check_reader(group, member, epoch)

    def committed_offsets(self, topic: str, group: str) -> Steps[dict[int, Commit]]:
        """Where a group has come."""
        yield from ()
        return self._core.commits.read(topic, group)

    def unsettled_offsets(self, topic: str, group: str, partitions: list[int]) -> list[int]:
        """Of these, the offsets that an open transaction may still commit."""
        return [number for number in partitions if self._core.commits.unsettled(topic, group, number)]

    def topics_with_offsets(self, group: str) -> Steps[list[str]]:
        """The topics on which a group may have come somewhere."""
        yield from ()
        return self._core.coordination.topics(group)

    def queued_topics(self, group: str) -> Steps[list[str]]:
        """The topics on which a group is a queue group."""
        yield from ()
        return self._core.coordination.topics(group, "queue")

    def check_share_group(self, group: str) -> Code:
        """Whether Kafka's clients may have a share group of that name."""
        return self._core.coordination.check_share(group)

    def forget_offsets(self, topic: str, group: str, partitions: list[int]) -> Steps[Code]:
        """A group has come nowhere."""
        return self._core.coordination.forget(topic, group, partitions)

    def member_groups(self) -> list[KafkaGroupState]:
        """All that Kafka's clients call a group."""
        return self._core.coordination.groups()

    def member_group(self, group: str) -> KafkaGroupState | None:
        return self._core.coordination.describe(group)

    def group_config(self, group: str) -> tuple[GroupConfig, GroupRules]:
        """What was said about one of them, and what counts."""
        return self._core.group_configs.said(group), self._core.group_configs.counting(group)

    def alter_group_config(self, group: str, said: GroupConfig) -> Steps[None]:
        return self._core.group_configs.alter(group, said)

    def configured_groups(self) -> list[str]:
        """The groups about which something was said."""
        return self._core.group_configs.names()

    def check_delete_group(self, group: str) -> Code:
        """Whether nobody is in it, so that it may be deleted from its topics."""
        return self._core.coordination.check_delete(group)
