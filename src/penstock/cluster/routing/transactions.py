"""Transactions over several nodes.

    client ── InitProducerId, AddPartitionsToTxn, EndTxn ──> coordinator: it owns the id's part of the log
       │                                                        │  ▲
       │                            finish_transaction (markers)│  │confirm_enlisted (first batch)
       │                                                        ▼  │
       ├── Produce ─────────────────────────────────────────> owner of the partition
       └── TxnOffsetCommit ─────> coordinator of the group ──> stage_commits at the coordinator

Clients find the coordinator (FindCoordinator), and other nodes refuse.  ``broker/kafka/transactions.py``
and ``broker/kafka/participants.py`` implement the two sides.

Native clients and HTTP programs do not know coordinators: the node that they are connected to asks the
coordinator and the owners for them.

    begin_transaction        the coordinator
    publish_in_transaction   the owners of the partitions, which have the coordinator enlist them
    ack_in_transaction       the owners of the messages (check_acks), then the coordinator (stage_acks)
    commit_transaction       the coordinator, which has the owners of acked messages keep them (hold_acks)
                             and then carry out the decision (finish_transaction)
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from penstock.broker.kafka.client_transactions import acked_runs, new_transactional_id
from penstock.broker.registry.transaction_peers import GroupOffsets
from penstock.broker.steps import Steps
from penstock.cluster.routing.connection import Answer
from penstock.cluster.routing.router import Local, Router, Split, receipts_of
from penstock.errors import NotOwner, OutcomeUnknown, PenstockError
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.groups.transactions import (
    ANYBODY,
    LOG_PARTITIONS,
    AckedRun,
    Claim,
    Decision,
    Enlisted,
    Enlisting,
    TopicPartition,
    checked_name,
    log_partition,
)
from penstock.model.info import OpenTransaction
from penstock.model.message import Message, Receipt
from penstock.operations.call import IDEMPOTENT, NOT_REPEATED, READ_ONLY, RetryClass
from penstock.operations.codec import receipt_of
from penstock.types import TRANSACTIONS, Duration
from penstock.wire.kafka.codes import Code

CONFIRM_MS_MAX: Final = 3_000  # Batches of other producers wait behind; the client sends its batch again.


class OwnerShare:
    """The work of one owner at the end of a transaction."""

    def __init__(self) -> None:
        self.partitions: list[tuple[str, int, int]] = []
        self.commits: list[GroupOffsets] = []
        self.acks: list[tuple[int, AckedRun]] = []  # With the epochs of their partitions.


class TransactionRouter(Router):
    """See ``TransactionPeers``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._core.state.transaction_peers = self

    def check_transaction_coordinator(self, name: str | None) -> None:
        if name is None:
            return  # A producer without a transactional id: every node has ids for those.
        number = log_partition(name)
        node, epoch = self.owners.owner_of(TRANSACTIONS, number)
        if node != self.owners.node:
            raise NotOwner(topic=TRANSACTIONS, partition=number, owner=node, epoch=epoch)

    def _at_coordinator(
        self, number: int, name: str, local: Local[Any], arguments: tuple[Any, ...]
    ) -> Callable[[], Steps[Any]]:
        """An attempt at an operation at the owner of a partition of the transaction log."""
        return lambda: self.at_node(self.owners.owner_of(TRANSACTIONS, number)[0], name, local, arguments)

    # Partitions.

    def confirm(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        enlisting: Enlisting,
        claim: Claim,
    ) -> Steps[Enlisted]:
        arguments = (name, producer_id, epoch, partition, enlisting, claim)
        local = self._local.confirm_enlisted
        attempt = self._at_coordinator(log_partition(name), "confirm_enlisted", local, arguments)
        return self.routed(attempt, IDEMPOTENT, CONFIRM_MS_MAX)

    def hold(self, decision: Decision, acks: Iterable[AckedRun]) -> Steps[None]:
        runs = list(acks)

        def attempt() -> Steps[None]:
            for run in runs:
                self._core.state.topic(run.topic)  # Raises if it was deleted.
            shares = self._owner_shares([], [], runs)
            local = self._local.hold_acks
            arguments = {node: (decision, share.acks) for node, share in shares.items()}
            yield from self.at_each("hold_acks", local, arguments)

        return self.routed(attempt, IDEMPOTENT)

    def finish(
        self,
        decision: Decision,
        partitions: Iterable[TopicPartition],
        commits: Iterable[GroupOffsets],
        acks: Iterable[AckedRun],
    ) -> Steps[None]:
        marked, committed, acked = list(partitions), list(commits), list(acks)

        def attempt() -> Steps[None]:
            shares = self._owner_shares(marked, committed, acked)
            local = self._local.finish_transaction
            arguments = {
                node: (decision, share.partitions, share.commits, share.acks)
                for node, share in shares.items()
            }
            yield from self.at_each("finish_transaction", local, arguments)

        return self.routed(attempt, IDEMPOTENT)

    def _owner_shares(
        self, partitions: list[TopicPartition], commits: list[GroupOffsets], acks: list[AckedRun]
    ) -> dict[int, OwnerShare]:
        """The work by node, from the current metadata; a deleted topic needs none."""
        shares: dict[int, OwnerShare] = defaultdict(OwnerShare)
        for topic, number in partitions:
            node, epoch = self.owners.owner_of(topic, number)
            if epoch:
                shares[node].partitions.append((topic, number, epoch))
        for group, topic, offsets in commits:
            by_node: dict[int, dict[int, Commit]] = defaultdict(dict)
            for number, commit in offsets.items():
                node, epoch = self.owners.owner_of(topic, number)
                if epoch:
                    by_node[node][number] = commit
            for node, some in by_node.items():
                shares[node].commits.append((group, topic, some))
        for run in acks:
            node, epoch = self.owners.owner_of(run.topic, run.partition)
            if epoch:
                shares[node].acks.append((epoch, run))
        return shares

    # Programs that do not know coordinators.

    def _coordinate(
        self, name: Any, operation: str, local: Local[Any], arguments: tuple[Any, ...], retry: RetryClass
    ) -> Steps[Any]:
        """An operation at the coordinator of a transactional id."""
        number = log_partition(checked_name(name))
        yield from self._local.prepare_transactions()
        return (yield from self.routed(self._at_coordinator(number, operation, local, arguments), retry))

    def begin_transaction(
        self, transactional_id: str | None, abort_after: Duration, claim: Claim = ANYBODY
    ) -> Steps[OpenTransaction]:
        name = new_transactional_id() if transactional_id is None else transactional_id
        local, arguments = self._local.begin_transaction, (name, abort_after, claim)
        return self._coordinate(name, "begin_transaction", local, arguments, IDEMPOTENT)

    def commit_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        local, arguments = self._local.commit_transaction, (transactional_id, producer_id, epoch, claim)
        return self._coordinate(transactional_id, "commit_transaction", local, arguments, IDEMPOTENT)

    def abort_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, claim: Claim = ANYBODY
    ) -> Steps[None]:
        local, arguments = self._local.abort_transaction, (transactional_id, producer_id, epoch, claim)
        return self._coordinate(transactional_id, "abort_transaction", local, arguments, IDEMPOTENT)

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
        acks = acked_runs(topic, group, runs)

        def check() -> Steps[None]:
            by_node: dict[int, list[AckedRun]] = defaultdict(list)
            for run in acks:
                by_node[self.owner(topic, run.partition)].append(run)
            arguments = {node: (share,) for node, share in by_node.items()}
            yield from self.at_each("check_acks", self._local.check_acks, arguments)

        yield from self.routed(check, READ_ONLY)
        staged = (acks, transactional_id, producer_id, epoch, claim)
        local = self._local.stage_acks
        yield from self._coordinate(transactional_id, "stage_acks", local, staged, NOT_REPEATED)

    def publish_in_transaction(
        self,
        topic: str,
        messages: list[Message],
        transactional_id: str,
        producer_id: int,
        epoch: int,
        claim: Claim = ANYBODY,
    ) -> Steps[list[Receipt]]:
        name, which = "publish_in_transaction", (transactional_id, producer_id, epoch, claim)
        yield from self._local.prepare_transactions()
        _, settings = yield from self.metadata(topic)
        numbers, there = self.placed_messages(topic, messages, settings.partitions)

        def send(node: int, some: list[Message]) -> Answer:
            return self._ask(node, name, (topic, some, *which))

        def here(some: list[Message]) -> Steps[list[Receipt]]:
            return self._local.publish_in_transaction(topic, some, *which)

        def read(body: bytes) -> list[Receipt]:
            return [receipt_of(topic, each) for each in self._answered(name, body)]

        split = Split(send, here, read)
        try:
            return receipts_of((yield from self._split(topic, numbers, there, split, NOT_REPEATED, {})))
        except PenstockError as error:
            if isinstance(error, OutcomeUnknown) or len({self.owner(topic, each) for each in numbers}) > 1:
                with suppress(PenstockError):  # A part may be written, which must not be committed.
                    yield from self.abort_transaction(*which)
            raise

    # Offsets of groups.

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
        """Checked again before each attempt: the ledger refuses the epoch of a former group coordinator."""
        local, coordination = self._local.stage_commits, self._core.coordination

        def attempt() -> Steps[Code]:
            node, since = self.owners.coordinator_of(group)
            refusal = Code.NOT_COORDINATOR if node != self.owners.node else coordination.check(group, by)
            if refusal:
                return refusal
            arguments = (topic, group, commits, known_as, producer_id, epoch, add, since, claim)
            yield from self._at_coordinator(log_partition(known_as), "stage_commits", local, arguments)()
            # If the member was replaced meanwhile, the next one may have read the offset before: abort.
            return coordination.check(group, by)

        return self.routed(attempt, IDEMPOTENT)

    def unsettled_offsets(self, topic: str, group: str, partitions: list[int]) -> Steps[list[int]]:
        """Ask all coordinators: each knows only the transactions in its part of the log.

        First read the metadata log to its end: then this node is the coordinator of the group at this moment,
        and knows the owners that have got the offsets of every transaction that has ended.
        """
        yield from self._core.state.registry.refresh_topic(topic)

        def attempt() -> Steps[list[int] | None]:
            coordinator, since = self.owners.coordinator_of(group)
            if coordinator != self.owners.node:
                return None
            shares: dict[int, list[int]] = defaultdict(list)
            for number in range(LOG_PARTITIONS):
                node, epoch = self.owners.owner_of(TRANSACTIONS, number)
                if epoch:
                    shares[node].append(number)
            local, held = self._local.held_offsets, set[int]()
            for node, ledgers in shares.items():
                arguments = (topic, group, partitions, ledgers, since)
                held |= set((yield from self.at_node(node, "held_offsets", local, arguments)))
            return sorted(held)

        found = yield from self.routed(attempt, READ_ONLY)
        if found is None:
            self.check_coordinator(group)  # Raises at once: clients look for the other one.
        return found or []
