"""Acks of queue groups that belong to a transaction: they take effect with its commit, or not at all.

    commit     1  hold       every message must still be leased; from here on no other consumer gets it
               2  the decision is written to the ledger and synced      (broker/kafka/transactions.py)
               3  settle     the journals say that the messages are done
    abort                    nothing: the consumer has its leases as before

Between 1 and 3 neither a visibility timeout nor a closed consumer may return the messages, for however long
another topic of the transaction cannot be written.  So ``hold`` takes them out of their lease
(``DeliveryEngine.hold``).  That is not journaled.  After a crash before the decision was durable, the
messages are leased or due as the journal has them.  After a later crash ``settle`` is repeated when the
broker opens, before there are consumers.

In a cluster the owners of the messages are not the node that decides, and each of them may be lost alone:

    commit     1  prepare    the same as ``hold`` at every owner, and durable: the next owner keeps it, too
               2  the decision is written to the ledger
               3  conclude   the journals say that the messages are done, or that they are due again
    abort      3  conclude   what was prepared is due again; a message that is leased stays leased

A message that is prepared becomes due only by a decision, and whatever settings change meanwhile, it is no
dead letter.  There always is a decision: acks are in the ledger before they are prepared, and a transaction
in the ledger is committed or aborted in the end, at the latest by its time limit.  The decision is
sent to the owners until they have carried it out.

Cost: O(1) for each range, and one write to the journal for each group of a partition.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.broker.queue.queues import Queues, missing_run
from penstock.broker.state import Group, GroupCursor, Partition, State
from penstock.broker.steps import Durable, Steps
from penstock.broker.storage.recovery import open_journal
from penstock.broker.storage.replay import finish
from penstock.broker.topic.groups import journal_durable
from penstock.delivery import events
from penstock.delivery.engine import HELD
from penstock.errors import GroupKindMismatch, PenstockError
from penstock.groups.transactions import AckedRun
from penstock.model.message import LeaseRun

logger = logging.getLogger("penstock")

PREPARED_MAX: Final = 10_000  # Transactions of which it is remembered; the oldest are forgotten.


def waits_for_decision(partition: Partition) -> bool:
    """Whether a group of the partition has messages that are prepared."""
    return any(cursor.engine.prepared_ranges() for cursor in partition.groups.values())


class TransactionalAcks:
    """Holds and settles the messages that transactions ack."""

    def __init__(self, state: State, queues: Queues) -> None:
        self._state = state
        self._queues = queues
        # By producer: the transaction, and what it has prepared; once forgotten, a repeat is refused.
        self._prepared: dict[int, tuple[int, frozenset[tuple[int, AckedRun]]]] = {}

    def check(self, acks: Iterable[AckedRun]) -> None:
        """Refuse acks of messages that are not leased, or of a stream group."""
        for run in acks:
            self._held(run)

    def hold(self, acks: Iterable[AckedRun]) -> None:
        """Take the messages out of their leases, all of them or none."""
        held = [self._held(run) for run in acks]
        for cursor, group, run in held:
            self._queues.free_consumer(cursor, group, run.lease, run.end - run.start)
            cursor.engine.hold(run.lease, run.start, run.end)

    def let_go(self, acks: Iterable[AckedRun]) -> None:
        """Release held messages, which are delivered again: nothing was decided."""
        now_ms = self._state.clock.steady_ms()
        for run in acks:
            cursor = self._cursor(run.topic, run.group, run.partition)
            if cursor is not None:
                cursor.engine.let_go(run.lease, run.start, run.end, now_ms)
                cursor.partition.topic.wake()

    def prepare(self, producer_id: int, number: int, acks: Sequence[tuple[int, AckedRun]]) -> Steps[None]:
        """Keep messages for a decision, each given with the epoch of its partition; all of them or none."""
        transaction, known = self._prepared.get(producer_id, (number, frozenset()))
        known = known if transaction == number else frozenset()
        by_cursor: dict[GroupCursor, list[tuple[Group, LeaseRun]]] = {}
        for epoch, run in acks:
            if (epoch, run) not in known:
                cursor, group, found = self._held(run)
                by_cursor.setdefault(cursor, []).append((group, found))
        for cursor, runs in by_cursor.items():
            self._put_aside(cursor, runs)
        self._prepared.pop(producer_id, None)
        self._prepared[producer_id] = number, known | frozenset(acks)
        if len(self._prepared) > PREPARED_MAX:
            del self._prepared[next(iter(self._prepared))]
        for partition in {id(each): each for each in map(self._partition, (run for _, run in acks))}.values():
            yield from journal_durable(partition)

    def _partition(self, run: AckedRun) -> Partition:
        return self._state.topic(run.topic).partition(run.partition)

    def _put_aside(self, cursor: GroupCursor, runs: list[tuple[Group, LeaseRun]]) -> None:
        self._write(
            cursor.partition,
            [events.prepared(cursor.number, run.lease, run.start, run.end, run.attempt) for _, run in runs],
        )
        for group, run in runs:
            self._queues.free_consumer(cursor, group, run.lease, run.end - run.start)
            cursor.engine.hold(run.lease, run.start, run.end, durably=True)

    def _write(self, partition: Partition, decisions: list[events.AnyEvent]) -> None:
        journal = open_journal(self._state, partition)
        journal.commit(decisions, self._state.clock.steady_ms())
        self._state.commit.mark(journal.log)

    def conclude(self, producer_id: int, acks: Sequence[AckedRun], commit: bool) -> Steps[None]:
        """Do what was decided about messages that were prepared; doing it again does no harm."""
        self._prepared.pop(producer_id, None)
        for partition in self.settle_now(acks) if commit else self._on_each(acks, self._release):
            yield from journal_durable(partition)

    def _release(self, cursor: GroupCursor, acks: list[AckedRun]) -> None:
        """Release prepared messages, which are delivered again."""
        engine, now_ms = cursor.engine, self._state.clock.steady_ms()
        released = [
            events.GivenBack(
                cursor.number, run.lease, run.start, run.end, attempt, now_ms, events.RELEASED,
                failed_attempt=attempt,
            )
            for run in acks
            if (attempt := engine.held_attempt(run.lease, run.start, run.end))
        ]  # fmt: skip
        if not released:
            return
        self._write(cursor.partition, [*released])
        for event in released:
            engine.let_go(event.lease, event.start, event.end, now_ms)
        cursor.partition.topic.wake()

    def _held(self, run: AckedRun) -> tuple[GroupCursor, Group, LeaseRun]:
        topic = self._state.topic(run.topic)
        group = topic.group(run.group)
        if group.settings.kind != "queue":
            raise GroupKindMismatch(operation="ack in a transaction", kind="stream", group=run.group)
        cursor = topic.partition(run.partition).groups[run.group]
        lease = cursor.engine.leases.get(run.lease)
        attempt = 0 if lease is None else lease.attempt
        found = LeaseRun(run.partition, run.lease, attempt, run.start, run.end)
        error = missing_run(cursor, found)
        if error is not None:
            raise error
        return cursor, group, found

    def settle(self, acks: Iterable[AckedRun]) -> Steps[None]:
        """The commit is durable: settle the messages, and wait until that is durable, too.

        Also with "os", and also if an earlier attempt has written it: afterwards the acks are forgotten.
        """
        for partition in self.settle_now(acks):
            journal = partition.journal
            if journal is not None and journal.log.config.durability != "memory":
                yield Durable(journal.log)

    def settle_now(self, acks: Iterable[AckedRun]) -> list[Partition]:
        """Settle the messages; returns the partitions whose journals may have to be synced."""
        return self._on_each(acks, self._settle)

    def _on_each(
        self, acks: Iterable[AckedRun], conclude: Callable[[GroupCursor, list[AckedRun]], None]
    ) -> list[Partition]:
        """Conclude the acks of each group on each partition; returns the partitions.

        One whose journal cannot be written does not keep the others from it, and is the error.
        """
        by_cursor: dict[tuple[str, str, int], list[AckedRun]] = {}
        for run in acks:
            by_cursor.setdefault((run.topic, run.group, run.partition), []).append(run)
        concluded: list[Partition] = []
        failure: PenstockError | None = None
        for place, runs in by_cursor.items():
            try:
                cursor = self._cursor(*place)
                if cursor is not None:
                    conclude(cursor, runs)
                    concluded.append(cursor.partition)
            except PenstockError as error:
                failure = error
        if failure is not None:
            raise failure
        return concluded

    def _settle(self, cursor: GroupCursor, acks: list[AckedRun]) -> None:
        engine, partition, now_ms = cursor.engine, cursor.partition, self._state.clock.steady_ms()
        runs = [run for run in acks if engine.done.first_missing(run.start) < run.end]
        if not runs:
            return
        group = partition.topic.groups[cursor.group]
        group.maybe_sample(now_ms)
        self._write(
            partition,
            [events.Settled(cursor.number, run.lease, run.start, run.end, events.ACKED) for run in runs],
        )
        for run in runs:
            if engine.settle(run.lease, run.start, run.end) != HELD:
                engine.settle_free(run.start, run.end)
            finish(cursor, run.start, run.end)
            group.acked += run.end - run.start
        partition.topic.wake()  # There may be room below its ``depth_max``.

    def _cursor(self, topic_name: str, group: str, number: int) -> GroupCursor | None:
        """The group's cursor on a partition; None if the group was deleted since."""
        self._state.check_online(topic_name)
        topic = self._state.topics.get(topic_name)
        if topic is None or group not in topic.groups or number >= len(topic.partitions):
            logger.warning("a transaction acked messages of %s for a deleted group", topic_name)
            return None
        return topic.partitions[number].groups[group]
