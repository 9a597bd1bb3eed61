"""Transactions of native clients and over HTTP: begin, publish, ack, commit, abort.

They use the same machinery as Kafka's (``broker/kafka/transactions.py``).  Messages go into the logs at
once, as batches of the transaction, and become visible with its commit marker.  The broker encodes and
numbers the batches: a client that does not know whether a publish arrived aborts.

Each ``begin`` takes the next epoch of its transactional id, which aborts the id's open transaction.  A
request of an earlier transaction, however late, is refused with ``TransactionAborted``.  Only ``begin``
starts a transaction: a publish that is late or repeated after the end is refused, whereas in Kafka it would
open the next transaction of its epoch.

A partially written publish aborts the transaction, so that a part of it cannot be committed.

Not possible within a transaction: a delay, because a schedule has no markers; and a dedup id, because an
aborted message would be remembered as published.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from penstock.broker.kafka.transactions import Transactions
from penstock.broker.publish.preparing import prepare_all
from penstock.broker.publish.publishing import Publishing, batch_attributes
from penstock.broker.publish.values import Values
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Durable, Steps
from penstock.broker.topic.missing import MissingTopics
from penstock.broker.topic.waiting import wait_for_room_for_all
from penstock.errors import (
    InvalidValue,
    OutcomeUnknown,
    PenstockError,
    ProducerFenced,
    ProducerUnknown,
    TransactionAborted,
)
from penstock.groups.transactions import GENERATED, TIMEOUT_MS_MAX, AckedRun, Claim
from penstock.model.info import OpenTransaction
from penstock.model.message import Message, Receipt
from penstock.model.placing import Placed
from penstock.types import Duration, duration_ms
from penstock.wire.native import Run
from penstock.wire.records import DEDUP, EXPIRES, TRANSACTIONAL, BatchBuilder

SPOILED_MAX: Final = 10_000  # The oldest are forgotten: they have timed out.


class ClientTransactions:
    """Transactions whose messages the broker encodes."""

    def __init__(
        self,
        state: State,
        publishing: Publishing,
        missing: MissingTopics,
        transactions: Transactions,
        values: Values,
    ) -> None:
        self._state = state
        self._publishing = publishing
        self._missing = missing
        self._transactions = transactions
        self._values = values
        # By id: producer id and epoch of a transaction with a partial publish, which must be aborted.
        self._spoiled: dict[str, tuple[int, int]] = {}

    def begin(self, name: str | None, timeout: Duration, claim: Claim) -> Steps[OpenTransaction]:
        """Begin a transaction; an open one of the same id is aborted."""
        timeout_ms = duration_ms("timeout", timeout)
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise InvalidValue(name="timeout", value=timeout, why="it is at most 15 minutes, and not zero")
        chosen = new_transactional_id() if name is None else name
        producer_id, epoch = yield from self._transactions.begin(chosen, timeout_ms, claim)
        self._spoiled.pop(chosen, None)
        return OpenTransaction(transactional_id=chosen, producer_id=producer_id, epoch=epoch)

    def publish(
        self, topic: Any, messages: Iterable[Any], name: str, producer_id: int, epoch: int, claim: Claim
    ) -> Steps[list[Receipt]]:
        """Write messages that become visible with the commit; returns a receipt for each."""
        found = self._state.find(topic)
        if found is None:
            found = yield from self._missing.create(topic)
        batch = [each if isinstance(each, Message) else Message(each) for each in messages]
        _check_options(batch)
        self._check_whole(name, producer_id, epoch)
        if found.settings.depth_max is not None:
            yield from wait_for_room_for_all(self._state, found, batch)
        prepared = prepare_all(found, batch, self._state.clock.wall_ms())
        if found.settings.validation != "off":
            yield from self._values.check_all(found, prepared)
        numbers = sorted({item.partition for item in prepared})
        for number in numbers:
            found.partition(number)  # Before anything is enlisted: another node may own it.
        with _told_as_aborted(name):
            yield from self._transactions.join(found, numbers, name, producer_id, epoch, claim)
        partitions = [found.partition(number) for number in numbers]
        try:
            receipts = self._append(found, prepared, producer_id, epoch)
        except PenstockError:
            try:
                yield from self._abort(name, producer_id, epoch, claim)
            except PenstockError:  # Such as a full disk: aborted at its commit, or timeout.
                self._spoil(name, producer_id, epoch)
            raise
        for partition in partitions:
            if partition.log.config.durability != "memory":
                yield Durable(partition.log)
        return receipts

    def ack(
        self,
        topic: str,
        group: str,
        runs: list[Run],
        name: str,
        producer_id: int,
        epoch: int,
        claim: Claim,
    ) -> Steps[None]:
        """Ack messages of leases with the commit."""
        yield from self.stage_acks(acked_runs(topic, group, runs), name, producer_id, epoch, claim)

    def stage_acks(
        self, acks: list[AckedRun], name: str, producer_id: int, epoch: int, claim: Claim
    ) -> Steps[None]:
        """``ack`` without the check that they are leased, which their owners have done."""
        with _told_as_aborted(name):
            yield from self._transactions.enlist_acks(acks, name, producer_id, epoch, claim)

    def end(self, name: str, producer_id: int, epoch: int, commit: bool, claim: Claim) -> Steps[None]:
        """Commit or abort; returns when every reader can see the outcome.

        ``OutcomeUnknown``: the commit is decided, and finished later if it is durable.
        """
        if commit and self._spoiled.get(name) == (producer_id, epoch):
            with suppress(PenstockError):
                yield from self._abort(name, producer_id, epoch, claim)
            self._check_whole(name, producer_id, epoch)
        try:
            yield from self._transactions.end(name, producer_id, epoch, commit, claim)
        except (ProducerFenced, ProducerUnknown):
            if commit:
                raise TransactionAborted(transactional_id=name) from None
        except PenstockError as error:  # With any other error nothing has changed, and it can be aborted.
            if commit and self._transactions.is_committing(name, producer_id, epoch):
                raise OutcomeUnknown(operation="a commit", server="the broker") from error
            raise

    def _abort(self, name: str, producer_id: int, epoch: int, claim: Claim) -> Steps[None]:
        """Abort, wherever the transaction is coordinated."""
        peers = self._state.transaction_peers
        if peers is None:
            return self.end(name, producer_id, epoch, False, claim)
        return peers.abort_transaction(name, producer_id, epoch, claim)

    def _spoil(self, name: str, producer_id: int, epoch: int) -> None:
        self._spoiled[name] = producer_id, epoch
        if len(self._spoiled) > SPOILED_MAX:
            del self._spoiled[next(iter(self._spoiled))]

    def _check_whole(self, name: str, producer_id: int, epoch: int) -> None:
        if self._spoiled.get(name) == (producer_id, epoch):
            raise TransactionAborted(transactional_id=name)

    # Writing.

    def _append(self, topic: Topic, prepared: list[Placed], producer_id: int, epoch: int) -> list[Receipt]:
        """Append one batch for each partition and lane; returns the receipts in the order of the messages."""
        batches: dict[tuple[int, int], list[int]] = {}
        for index, item in enumerate(prepared):
            batches.setdefault((item.partition, item.attributes & ~(EXPIRES | DEDUP)), []).append(index)
        receipts: dict[int, Receipt] = {}
        for (number, _), indexes in batches.items():
            items = [prepared[index] for index in indexes]
            first, timestamp = self._append_batch(topic.partitions[number], items, producer_id, epoch)
            for offset, index in enumerate(indexes, first):
                receipts[index] = Receipt(topic.name, number, offset, timestamp)
        return [receipts[index] for index in range(len(prepared))]

    def _append_batch(
        self, partition: Partition, items: list[Placed], producer_id: int, epoch: int
    ) -> tuple[int, int]:
        now_ms = self._state.clock.wall_ms()
        timestamp = max(now_ms, partition.log.last_timestamp)
        builder = BatchBuilder()
        attributes = batch_attributes(partition.topic) | TRANSACTIONAL
        for item in items:
            builder.add(item.key, item.value, item.headers)
            attributes |= item.attributes
        sequence = partition.producers.next_sequence(producer_id, epoch)
        offset = partition.log.append(
            builder.build(timestamp, timestamp, attributes, producer_id, epoch, sequence)
        )
        partition.producers.record(producer_id, epoch, sequence, len(items), offset, now_ms)
        self._publishing.appended(partition, len(items))
        return offset, timestamp


def new_transactional_id() -> str:
    """A random transactional id, for a program that passes none."""
    return f"{GENERATED}{secrets.token_hex(16)}"


def acked_runs(topic: str, group: str, runs: list[Run]) -> list[AckedRun]:
    return [AckedRun(topic, group, *run) for run in runs]


def _check_options(messages: list[Message]) -> None:
    for message in messages:
        for option in ("delay", "deliver_at", "dedup_id"):
            if getattr(message, option) is not None:
                why = "messages of a transaction have neither a delay nor a dedup id; publish it without one"
                raise InvalidValue(name=option, value=getattr(message, option), why=why)


@contextmanager
def _told_as_aborted(name: str) -> Iterator[None]:
    """An epoch that is fenced, or an id that is forgotten, means that the transaction was aborted."""
    try:
        yield
    except (ProducerFenced, ProducerUnknown):
        raise TransactionAborted(transactional_id=name) from None
