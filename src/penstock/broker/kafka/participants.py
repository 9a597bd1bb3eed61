"""Partitions in transactions that another node of a cluster coordinates.

    first batch of a transaction   admit    asks the coordinator whether it has enlisted it (KIP-890)
    later ones                              the partition remembers the answer (``Partition.verified``)
    before a commit with acks      hold     reserves the acked messages (``queue/transactional_acks.py``)
    the decision                   finish   a marker to each partition, the offsets of groups, and acks

A partition must not accept a batch of a transaction that has ended, because no marker would ever follow and
its readers would wait forever; and a marker must not end a later transaction of the same producer.
Requests may be delayed, repeated, or sent by a coordinator that was replaced without knowing it.
Therefore:

    P1  every answer and decision has the epoch of the coordinator: one that is older than the newest epoch
        that this node has seen, in messages or in the metadata, is refused.  A node that has taken over a
        partition has applied the entries before, so it knows every coordinator that its predecessor knew.
    P2  every answer and decision has the number of the transaction.  After the decision about a number, an
        answer or a ``hold`` with the same or a lower one is refused, and so is a decision with a lower one.
    P3  a decision and a ``hold`` name the epoch of each partition, so one that was meant for an earlier time
        of this node as the owner is refused.
    P4  a decision about acks is taken only within the lease of the node: a former owner, which has nothing to
        release, must not answer for the next one.

``verified`` and the numbers are only in memory: after a takeover the next batch is verified again.

Cost: one request to the coordinator for each partition of a transaction, at the same time as the batches of
other producers are written; and one to each owner at the end.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.broker.publish.incoming import Look
from penstock.broker.publish.publishing import Publishing
from penstock.broker.queue.transactional_acks import TransactionalAcks
from penstock.broker.registry.transaction_peers import GroupOffsets
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Durable, Steps
from penstock.broker.stream.commits import OffsetCommits
from penstock.errors import (
    NotOwner,
    OutcomeUnknown,
    PenstockError,
    RequestError,
    ServerUnreachable,
    TransactionNotOpen,
)
from penstock.groups.transactions import AckedRun, Claim, Decision, Enlisted, Enlisting, log_partition
from penstock.types import TRANSACTIONS
from penstock.wire.records import TRANSACTIONAL

logger = logging.getLogger("penstock")

NUMBERS_MAX: Final = 10_000  # Producers whose last transaction is remembered; the oldest are forgotten.

OwnedRun = tuple[int, AckedRun]  # With the epoch of its partition.


class Participants:
    """The partition owners' side of transactions."""

    def __init__(
        self, state: State, publishing: Publishing, commits: OffsetCommits, acks: TransactionalAcks
    ) -> None:
        self._state = state
        self._publishing = publishing
        self._commits = commits
        self._acks = acks
        self._epochs: dict[int, int] = {}  # By partition of the transaction log: the newest epoch seen.
        self._numbers: dict[int, tuple[int, bool]] = {}  # By producer: transaction, whether ended.

    # Batches.

    def admit(
        self, topic: Topic, looks: list[Look], name: str, enlisting: Enlisting, claim: Claim
    ) -> Steps[None]:
        """Ask the coordinator to confirm transactions that partitions do not know, or refuse batches."""
        for look in looks:
            header = look.header
            if look.refusal is not None or header is None or not header.attributes & TRANSACTIONAL:
                continue
            try:
                yield from self.verify(
                    topic, look.number, name, header.producer_id, header.producer_epoch, enlisting, claim
                )
            except PenstockError as error:
                look.refusal = error

    def verify(
        self,
        topic: Topic,
        number: int,
        name: str,
        producer_id: int,
        epoch: int,
        enlisting: Enlisting,
        claim: Claim,
    ) -> Steps[None]:
        """Ask the coordinator to confirm that a transaction writes to a partition."""
        peers = self._state.transaction_peers
        assert peers is not None, "only in a cluster"
        partition = topic.partition(number)
        if partition.verified.get(producer_id) == epoch:
            return
        try:
            numbered = (topic.name, number)
            enlisted = yield from peers.confirm(name, producer_id, epoch, numbered, enlisting, claim)
        except (
            NotOwner,
            OutcomeUnknown,
            ServerUnreachable,
        ) as error:  # The coordinator is unavailable: clients retry.
            raise NotOwner(topic=topic.name, partition=number, owner=-1, epoch=0) from error
        self._check_confirmed(log_partition(name), producer_id, enlisted)
        partition.verified[producer_id] = epoch

    def _check_confirmed(self, coordinator: int, producer_id: int, enlisted: Enlisted) -> None:
        self._check_coordinator(coordinator, enlisted.coordinator_epoch)
        self._check_not_ended(producer_id, enlisted.number, "a batch that was delayed")

    def _check_not_ended(self, producer_id: int, transaction: int, what: str) -> None:
        number, ended = self._numbers.get(producer_id, (-1, False))
        if (transaction, False) < (number, ended):  # P2
            raise TransactionNotOpen(what=what, state="ended")
        self._remember(producer_id, transaction, ended=False)

    # The end.

    def hold(self, decision: Decision, acks: Sequence[OwnedRun]) -> Steps[None]:
        """Reserve acked messages for a commit that is about to be decided; all of them, or an error."""
        self._check_coordinator(decision.coordinator, decision.coordinator_epoch)
        for epoch, run in acks:
            self._owned(run.topic, run.partition, epoch)
        self._check_not_ended(decision.producer_id, decision.number, "an ack that was delayed")
        yield from self._acks.prepare(decision.producer_id, decision.number, acks)

    def finish(
        self,
        decision: Decision,
        partitions: Sequence[tuple[str, int, int]],
        commits: Sequence[GroupOffsets],
        acks: Sequence[OwnedRun],
    ) -> Steps[None]:
        """Write the markers of a transaction to partitions of this node, each given with its epoch.

        Idempotent.  ``NotOwner``: nothing was done.
        """
        self._check_coordinator(decision.coordinator, decision.coordinator_epoch)
        number, _ = self._numbers.get(decision.producer_id, (-1, False))
        if decision.number < number:
            return  # P2: it was delayed; all of it is done already.
        found = [self._owned(*each) for each in partitions]
        for epoch, run in acks:
            self._owned(run.topic, run.partition, epoch)
            self._state.readable(run.topic, run.partition)  # P4
        self._remember(decision.producer_id, decision.number, ended=True)
        for partition in found:
            self._mark(partition, decision)
        yield from self.commit(commits)
        yield from self._acks.conclude(decision.producer_id, [run for _, run in acks], decision.commit)
        for partition in found:
            if partition.log.config.durability != "memory":
                yield Durable(partition.log)

    def _mark(self, partition: Partition, decision: Decision) -> None:
        producer_id = decision.producer_id
        partition.verified.pop(producer_id, None)
        if producer_id in partition.log.transactions.open:
            self.end_on(partition, producer_id, decision.epoch, decision.commit)

    def end_on(self, partition: Partition, producer_id: int, epoch: int, commit: bool) -> None:
        """Write one marker."""
        now_ms = self._state.clock.wall_ms()
        partition.log.end_transaction(producer_id, epoch, commit, now_ms)
        partition.producers.end_epoch(producer_id, epoch, now_ms)
        self._publishing.appended(partition, 0)

    def commit(self, commits: Iterable[GroupOffsets]) -> Steps[None]:
        """Commit offsets; one whose topic or group was deleted is logged and skipped."""
        for group, topic, offsets in commits:
            try:
                yield from self._commits.commit(topic, group, offsets)
            except RequestError as error:
                logger.warning(
                    "a transaction could not commit an offset of group %s on %s: %s", group, topic, error
                )

    # Checks of the coordinator.

    def _owned(self, topic: str, number: int, epoch: int) -> Partition:
        partition = self._state.topic(topic).partition(number)
        if partition.epoch != epoch:  # P3
            raise NotOwner(topic=topic, partition=number, owner=-1, epoch=partition.epoch)
        return partition

    def _check_coordinator(self, coordinator: int, epoch: int) -> None:
        owner = self._state.registry.owner(TRANSACTIONS, coordinator)
        newest = max(self._epochs.get(coordinator, 0), 0 if owner is None else owner[1])
        if epoch < newest:  # P1
            raise NotOwner(topic=TRANSACTIONS, partition=coordinator, owner=-1, epoch=newest)
        self._epochs[coordinator] = epoch

    def _remember(self, producer_id: int, number: int, *, ended: bool) -> None:
        self._numbers.pop(producer_id, None)
        self._numbers[producer_id] = number, ended
        if len(self._numbers) > NUMBERS_MAX:
            del self._numbers[next(iter(self._numbers))]
