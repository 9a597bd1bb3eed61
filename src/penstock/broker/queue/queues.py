"""Queue groups: receive leases messages, and acknowledgements settle them.

    receive ──> lease ──> ack                      settled
                  │  └──> reject                   dead letter
                  │
                  ├──> nack(delay, error) ──┐
                  ├──> visibility timeout ──┤
                  └──> connection lost ─────┴──> due again ──> receive ...
                                            └──> attempts used up ──> dead letter

The engine (``delivery/engine.py``) has the rules, and ``leases.py`` finds the messages.
This module waits for messages and processes acknowledgements: each is written to the
journal before it is applied to the engine.  Messages that used up their attempts are
buried by a job of ``dead_letters.py``, which is queued here.

Waiting consumers share new messages.  The one that has waited longest goes first; a
consumer that holds more messages than another waiting one lets that one go first; and a
large request gets only its share.  So a consumer that prefetches does not keep messages
from idle consumers.  What a consumer processes within ``AHEAD_MS`` is not shared, because
small portions cost more than they gain.  With a backlog nobody waits, and every
consumer gets what it requests.  Consumers that take one message at a time get them in
turn: one that comes back while others wait lets them go first.
"""

from collections.abc import Set as AbstractSet
from itertools import islice, pairwise
from typing import Any, Final

from penstock.broker.queue.dead_letters import DeadLetters
from penstock.broker.queue.leases import Leases, journal_of
from penstock.broker.state import Group, GroupConsumer, GroupCursor, Partition, State, Topic
from penstock.broker.steps import Arrival, GiveWay, Steps
from penstock.broker.storage.replay import finish, remember_failure
from penstock.broker.topic.groups import journal_durable
from penstock.delivery import events
from penstock.delivery.engine import HELD, LOST, Lease
from penstock.errors import AlreadySettled, Closed, GroupKindMismatch, InvalidValue, LeaseLost, PenstockError
from penstock.model.failure import NO_FAILURE, Failure, describe_error
from penstock.model.message import (
    LeaseRun,
    Message,
    check_held,
    lease_runs,
    refused,
    run_of,
    unanswer,
)
from penstock.types import Duration, duration_ms, extension_ms, whole_number
from penstock.wire.native import NO_LEASE, Run

AHEAD_MS: Final = 100  # What a consumer works off in this time is not worth sharing.
PACE_MS: Final = 250  # How often it is looked at how quick a consumer is; long enough for some answers.
GIVE_WAY_MAX: Final = 8  # Times in a row; then the less busy consumer seems not to want it.
SETTLED_SLICE: Final = 50  # Runs that are settled before others have a turn; each may write a journal.
HUNGRY_LOOKS_MAX: Final = 32  # Of consumers that wait, one that is woken looks at so many.
CONNECTION_LOST: Final = describe_error("the connection was lost while the message was being processed")

HeldRun = tuple[GroupCursor, LeaseRun]


class Queues:
    """Delivery to the consumers of queue groups."""

    def __init__(self, state: State, dead_letters: DeadLetters) -> None:
        self._state = state
        self._dead_letters = dead_letters
        self._leases = Leases(state, dead_letters)

    # Handing out.

    def receive(self, consumer: GroupConsumer, messages_max: Any, wait_ms: int) -> Steps[list[Any]]:
        """Up to ``messages_max`` messages, as soon as there is one; none after ``wait_ms``."""
        if type(messages_max) is not int or messages_max < 1:
            whole_number("max_messages", messages_max, 1)  # Raises: the quick look has found something.
        limit = min(messages_max, self._state.config.receive_messages_max)
        topic = consumer.group.topic
        hungry = consumer.group.hungry
        deadline_ms = -1
        waited = False
        given_way = 0
        while True:
            self._check(consumer)
            if hungry and given_way < GIVE_WAY_MAX and self._others_first(consumer, waited):
                given_way += 1
                topic.wake()
                yield GiveWay()
                continue
            room = min(limit, consumer.in_flight_max - consumer.in_flight)
            takes_turns = limit == 1 and room > 0 and not waited and not given_way
            if hungry and takes_turns and self._has_ready(consumer.group):
                given_way += 1
                topic.wake()
                yield from _while_hungry(consumer, GiveWay())
                continue
            messages = self._leases.take(topic, consumer, self._share(consumer, room) if hungry else room)
            if messages:
                if consumer.group.settings.delivery == "at-most-once":
                    yield from self._settle_first(topic, consumer, messages)
                return messages
            if self._leases.looks_left == 0:
                yield GiveWay()  # Many records were skipped; continue after others had a turn.
                continue
            now_ms = self._state.clock.steady_ms()
            if deadline_ms < 0:
                deadline_ms = now_ms + wait_ms
            if now_ms >= deadline_ms:
                return messages
            waited = True
            given_way = 0
            yield from _until_arrival(consumer, room, deadline_ms)

    def _others_first(self, consumer: GroupConsumer, waited: bool) -> bool:
        """Whether a consumer that has fewer messages, or has waited longer, could have the next ones."""
        now_ms = self._state.clock.steady_ms()
        if consumer.in_flight <= _ahead(consumer, now_ms):
            return False  # It has nothing to do either, or will soon have nothing.
        group = consumer.group
        less = consumer.in_flight + (0 if waited else 1)
        for other in islice(group.hungry.values(), HUNGRY_LOOKS_MAX):
            if other.in_flight < less:
                break
        else:
            return False
        return self._has_ready(group)

    def _has_ready(self, group: Group) -> bool:
        """Whether a message of the group can be delivered now."""
        now_ms = self._state.clock.steady_ms()
        for partition in group.topic.partitions.owned:
            cursor = partition.groups[group.name]
            if cursor.engine.has_ready(cursor.high, now_ms):
                return True
        return False

    def _share(self, consumer: GroupConsumer, room: int) -> int:
        """How many messages the consumer may take, so that waiting consumers get as many."""
        room_least = max(_ahead(consumer, self._state.clock.steady_ms()), 1)
        if room <= room_least:
            return room
        group = consumer.group
        sharers = len(group.hungry) + 1
        ready = 0
        for partition in group.topic.partitions.owned:
            if consumer.wanted is None or partition.number in consumer.wanted:
                cursor = partition.groups[group.name]
                engine = cursor.engine
                ready += max(engine.lag(cursor.high) - engine.in_flight - engine.waiting_retry, 0)
                if ready >= room * sharers:
                    return room
        return max(-(-ready // sharers), room_least)

    def _check(self, consumer: GroupConsumer) -> None:
        if self._state.closed:
            raise Closed(what="broker")
        consumer.check_open()

    def _settle_first(self, topic: Topic, consumer: GroupConsumer, messages: list[Any]) -> Steps[None]:
        """At most once: settled, and durably so, before anyone sees the message."""
        if consumer.takes_batches:
            runs = [
                self._run(consumer, batch.partition, batch.lease, batch.start, batch.end)
                for batch in messages
            ]
        else:
            runs = lease_runs(messages, consumer.settler)
        written = partitions_of(topic, runs)
        self._settle_runs(topic, consumer.group, runs)
        for partition in written:
            yield from journal_durable(partition)
        if consumer.takes_batches:
            for batch in messages:
                batch.lease = NO_LEASE

    # Answers.

    def ack(
        self, consumer: GroupConsumer, messages: list[Any], outputs: list[tuple[str, Message]]
    ) -> Steps[None]:
        """Settle these messages and publish ``outputs``, atomically."""
        topic = self._open_topic(consumer, "ack")
        runs = lease_runs(messages, consumer.settler)
        missed: PenstockError | None = None
        try:
            if len(runs) > SETTLED_SLICE and not outputs:
                missed = yield from self._settle_many(topic, consumer, runs)
            else:
                missed = self._settle_all(topic, consumer, runs, outputs)
        except PenstockError:
            unanswer(messages)
            raise
        yield from self._until_settled(topic, runs, missed)

    def ack_runs(
        self, consumer: GroupConsumer, runs: list[Run], outputs: list[tuple[str, Message]]
    ) -> Steps[None]:
        """``ack`` for a consumer of batches, which names messages by lease and offsets."""
        topic = self._open_topic(consumer, "ack")
        _check_apart(runs)
        leased = [self._run(consumer, run[0], run[1], run[2], run[3]) for run in runs]
        if len(leased) > SETTLED_SLICE and not outputs:
            missed = yield from self._settle_many(topic, consumer, leased)
        else:
            missed = self._settle_all(topic, consumer, leased, outputs)
        yield from self._until_settled(topic, leased, missed)

    def _run(self, consumer: GroupConsumer, number: int, lease: int, start: int, end: int) -> LeaseRun:
        """Find a run that a consumer names; the lease of another consumer is as good as none."""
        group = consumer.group
        cursor = group.topic.partition(number).groups[group.name]
        held = cursor.engine.leases.get(lease)
        if held is not None and held.consumer != consumer.number:
            lease, held = NO_LEASE, None
        return LeaseRun(number, lease, held.attempt if held else 0, start, end)

    def _settle_all(
        self, topic: Topic, consumer: GroupConsumer, runs: list[LeaseRun], outputs: list[tuple[str, Message]]
    ) -> PenstockError | None:
        if not outputs:
            return self._settle_runs(topic, consumer.group, runs)
        self._settle_and_send(topic, consumer, runs, outputs)
        return None

    def _until_settled(self, topic: Topic, runs: list[LeaseRun], missed: PenstockError | None) -> Steps[None]:
        if topic.settings.durability == "fsync":
            for partition in partitions_of(topic, runs):
                yield from journal_durable(partition)
        if missed is not None:
            raise missed

    def _settle_many(
        self, topic: Topic, consumer: GroupConsumer, runs: list[LeaseRun]
    ) -> Steps[PenstockError | None]:
        """Settle many runs, with turns for other operations in between."""
        missed: PenstockError | None = None
        for first in range(0, len(runs), SETTLED_SLICE):
            some = runs[first : first + SETTLED_SLICE]
            missed = _graver(missed, self._settle_runs(topic, consumer.group, some))
            yield GiveWay()
            self._check(consumer)
        return missed

    def _settle_runs(self, topic: Topic, group: Group, runs: list[LeaseRun]) -> PenstockError | None:
        """Settle the runs that are still held; returns the most serious error of the others."""
        if topic.settings.depth_max is not None:
            topic.wake()  # There will be room when the waiter gets the lock.
        now_ms = self._state.clock.steady_ms()
        group.maybe_sample(now_ms)
        if len(runs) == 1:
            return self._settle_on(topic.partitions[runs[0].partition], group, runs, now_ms)
        by_partition: dict[int, list[LeaseRun]] = {}
        for run in runs:
            by_partition.setdefault(run.partition, []).append(run)
        missed: PenstockError | None = None
        for partition in partitions_of(topic, runs):
            missed = _graver(
                missed, self._settle_on(partition, group, by_partition[partition.number], now_ms)
            )
        return missed

    def _settle_on(
        self, partition: Partition, group: Group, runs: list[LeaseRun], now_ms: int
    ) -> PenstockError | None:
        missed: PenstockError | None = None
        cursor = partition.groups[group.name]
        held: list[LeaseRun] = []
        for run in runs:
            error = missing_run(cursor, run)
            if error is None:
                held.append(run)
            else:
                missed = _graver(missed, error)
        decisions: list[events.AnyEvent] = [
            events.Settled(cursor.number, run.lease, run.start, run.end, events.ACKED) for run in held
        ]
        self._decide(cursor, decisions, now_ms)
        for run in held:
            self._settle(cursor, group, run.lease, run.start, run.end)
            group.acked += run.end - run.start
        return missed

    def _decide(self, cursor: GroupCursor, decisions: list[events.AnyEvent], now_ms: int) -> None:
        journal = journal_of(cursor)
        journal.commit(decisions, now_ms)
        self._state.commit.mark(journal.log)

    def _settle(self, cursor: GroupCursor, group: Group, number: int, start: int, end: int) -> None:
        self.free_consumer(cursor, group, number, end - start)
        cursor.engine.settle(number, start, end)
        if cursor.failures or cursor.gate is not None:
            finish(cursor, start, end)

    def free_consumer(self, cursor: GroupCursor, group: Group, number: int, count: int) -> None:
        """The consumer that has this lease holds so many messages less."""
        if cursor.full:
            cursor.full = False
            group.topic.wake()  # A consumer may be waiting for room below ``locks_max``.
        lease = cursor.engine.leases.get(number)
        consumer = group.consumers.get(lease.consumer) if lease is not None else None
        if consumer is not None:
            if consumer.in_flight >= consumer.in_flight_max:
                group.topic.wake()  # It may be waiting for room in its own hands.
            consumer.in_flight -= count
            consumer.answered += count

    def _settle_and_send(
        self, topic: Topic, consumer: GroupConsumer, runs: list[LeaseRun], outputs: list[tuple[str, Message]]
    ) -> None:
        numbers = {run.partition for run in runs}
        if len(numbers) != 1:
            why = "messages acked together with outputs must come from one partition"
            raise InvalidValue(name="messages", value=sorted(numbers), why=why)
        partition = topic.partitions[numbers.pop()]
        cursor = partition.groups[consumer.group.name]
        missed: PenstockError | None = None
        for run in runs:
            missed = _graver(missed, missing_run(cursor, run))
        if missed is not None:
            raise missed
        settled: list[events.AnyEvent] = [
            events.Settled(cursor.number, run.lease, run.start, run.end, events.ACKED) for run in runs
        ]
        self._dead_letters.send(partition, cursor.number, settled, outputs, runs[0].start, runs[-1].end)
        consumer.group.maybe_sample(self._state.clock.steady_ms())
        for run in runs:
            self._settle(cursor, consumer.group, run.lease, run.start, run.end)
            consumer.group.acked += run.end - run.start

    def nack(
        self,
        consumer: GroupConsumer,
        message: Any,
        delay: Duration | None,
        error: BaseException | str | None,
    ) -> Steps[None]:
        """Deliver the message again later, or dead-letter it if this was its last attempt."""
        topic = self._open_topic(consumer, "nack")
        cursor, run = self._held(topic, consumer, message)
        delay_ms = -1 if delay is None else duration_ms("delay", delay)
        self._nack(cursor, consumer.group, run, delay_ms, describe_error(error))
        message.mark_settled()
        yield from journal_durable(cursor.partition)

    def nack_runs(
        self, consumer: GroupConsumer, runs: list[Run], delay_ms: int | None, failure: Failure
    ) -> Steps[None]:
        """``nack`` for runs; raises for those that are no longer held after the others are done."""
        self._open_topic(consumer, "nack")
        wait_ms = -1 if delay_ms is None else duration_ms("delay", f"{delay_ms}ms")
        held, missed = self._held_runs(consumer, runs)
        for cursor, run in held:
            self._nack(cursor, consumer.group, run, wait_ms, failure)
        yield from self._until_given_back(held, missed)

    def _nack(
        self, cursor: GroupCursor, group: Group, run: LeaseRun, delay_ms: int, failure: Failure
    ) -> None:
        attempt = run.attempt
        wait_ms = cursor.backoff.delay_ms(attempt, self._state.random.random()) if delay_ms < 0 else delay_ms
        due_ms = self._state.clock.steady_ms() + wait_ms
        self._give_back(cursor, run, attempt + 1, due_ms, events.NACKED, failure)
        group.nacked += run.end - run.start

    def _held_runs(
        self, consumer: GroupConsumer, runs: list[Run]
    ) -> tuple[list[HeldRun], PenstockError | None]:
        """The runs that are still held, and the error of the others."""
        _check_apart(runs)
        held: list[HeldRun] = []
        missed: PenstockError | None = None
        for named in runs:
            run = self._run(consumer, named[0], named[1], named[2], named[3])
            cursor = consumer.group.topic.partitions[named[0]].groups[consumer.group.name]
            error = missing_run(cursor, run)
            if error is None:
                held.append((cursor, run))
            else:
                missed = _graver(missed, error)
        return held, missed

    def _until_given_back(self, held: list[HeldRun], missed: PenstockError | None) -> Steps[None]:
        for cursor, _ in held:
            yield from journal_durable(cursor.partition)
        if missed is not None:
            raise missed

    def reject(self, consumer: GroupConsumer, message: Any, reason: Any) -> Steps[None]:
        """Dead-letter the message now, whatever attempts it has left."""
        topic = self._open_topic(consumer, "reject")
        failure = _failure_of(reason)
        cursor, run = self._held(topic, consumer, message)
        self._reject(cursor, run, failure)
        message.mark_settled()
        yield from journal_durable(cursor.partition)

    def reject_runs(self, consumer: GroupConsumer, runs: list[Run], reason: Any) -> Steps[None]:
        self._open_topic(consumer, "reject")
        failure = _failure_of(reason)
        held, missed = self._held_runs(consumer, runs)
        for cursor, run in held:
            self._reject(cursor, run, failure)
        yield from self._until_given_back(held, missed)

    def _reject(self, cursor: GroupCursor, run: LeaseRun, failure: Failure) -> None:
        last = cursor.settings.max_attempts + 1
        self._give_back(cursor, run, last, self._state.clock.steady_ms(), events.REJECTED, failure)

    def _give_back(
        self, cursor: GroupCursor, run: LeaseRun, attempt: int, due_ms: int, why: int, failure: Failure
    ) -> None:
        now_ms = self._state.clock.steady_ms()
        lease = run.lease
        event = events.GivenBack(
            cursor.number, lease, run.start, run.end, attempt, due_ms, why,
            failure.error_class, failure.message, failure.fingerprint, run.attempt,
        )  # fmt: skip
        topic = cursor.partition.topic
        topic.groups[cursor.group].maybe_sample(now_ms)
        self._decide(cursor, [event], now_ms)
        self.free_consumer(cursor, topic.groups[cursor.group], lease, run.end - run.start)
        cursor.engine.give_back(lease, run.start, run.end, attempt, due_ms)
        remember_failure(cursor, event, self._state.clock.wall_ms())
        if cursor.engine.exhausted:
            self._dead_letters.bury_soon(cursor)
        self._state.alarms.set(cursor, cursor.engine.next_due_ms(now_ms))
        if due_ms <= now_ms:
            topic.wake()

    def extend(self, consumer: GroupConsumer, message: Any, duration: Duration) -> Steps[None]:
        """Give the message's lease a new deadline, counted from now."""
        topic = self._open_topic(consumer, "extend")
        cursor, run = self._held(topic, consumer, message)
        self._extend(cursor, run.lease, extension_ms(duration))
        yield from ()

    def extend_leases(
        self, consumer: GroupConsumer, leases: list[tuple[int, int]], duration_ms: int
    ) -> Steps[list[tuple[int, int]]]:
        """Extend leases, each given by partition and number; return those that are lost."""
        topic = self._open_topic(consumer, "extend")
        kept_ms = extension_ms(f"{duration_ms}ms")
        lost: list[tuple[int, int]] = []
        for number, lease in leases:
            cursor = topic.partition(number).groups[consumer.group.name]
            held = cursor.engine.leases.get(lease)
            if held is not None and held.consumer == consumer.number:
                self._extend(cursor, lease, kept_ms)
            else:
                lost.append((number, lease))
        yield from ()
        return lost

    def _extend(self, cursor: GroupCursor, lease: int, kept_ms: int) -> None:
        now_ms = self._state.clock.steady_ms()
        deadline_ms = now_ms + kept_ms
        journal_of(cursor).note(events.Extended(cursor.number, lease, deadline_ms), now_ms)
        cursor.engine.extend(lease, deadline_ms)
        self._state.alarms.set(cursor, deadline_ms)

    def _open_topic(self, consumer: GroupConsumer, operation: str) -> Topic:
        self._check(consumer)
        if consumer.group.settings.kind != "queue":
            raise GroupKindMismatch(operation=operation, kind="stream", group=consumer.group.name)
        return consumer.group.topic

    def _held(self, topic: Topic, consumer: GroupConsumer, message: Any) -> HeldRun:
        check_held(message, consumer.settler, "message")
        if message.settled:
            raise refused(message)
        partition = topic.partitions[message.partition]
        cursor: GroupCursor = partition.groups[message.group]
        run = run_of(message)
        error = missing_run(cursor, run)
        if error is not None:
            raise error
        return cursor, run

    # Requests that name a message by partition, lease and offset, whichever consumer received it.

    def ack_by_lease(
        self, name: str, group_name: str, number: int, lease: int, offset: int, last: bool
    ) -> Steps[bool]:
        """Ack a message that was received, also if it is due again or was received again.

        ``last``: only as long as that lease has it, which is False if it has not.
        """
        topic = self._state.topic(name)
        group = topic.group(group_name)
        cursor = topic.partition(number).groups[group_name]
        held = _held_at(cursor, lease, offset)
        if held is None and (cursor.engine.done.contains(offset) or offset >= cursor.high):
            return True
        if last and (held is None or held.number != lease):
            return False
        if held is not None:
            self._settle_runs(topic, group, [LeaseRun(number, held.number, held.attempt, offset, offset + 1)])
        else:  # Due again; or not known to have been delivered, because the server was killed after it.
            settled = events.Settled(cursor.number, -1, offset, offset + 1, events.ACKED)
            self._decide(cursor, [settled], self._state.clock.steady_ms())
            cursor.engine.settle_free(offset, offset + 1)
            finish(cursor, offset, offset + 1)
            group.acked += 1
        if topic.settings.durability == "fsync":
            yield from journal_durable(cursor.partition)
        return True

    def change_visibility(
        self,
        name: str,
        group_name: str,
        number: int,
        lease: int,
        offset: int,
        visibility_ms: int,
        counts: bool,
        last: bool,
    ) -> Steps[bool]:
        """Give a received message another visibility timeout from now; 0: it is due at once.

        Then its attempt counts or not.  False if nobody has it in hands; ``last``: if that lease has not.
        """
        group = self._state.topic(name).group(group_name)
        cursor = group.topic.partition(number).groups[group_name]
        held = _held_at(cursor, lease, offset)
        if held is None or (last and held.number != lease):
            return False
        if visibility_ms > 0:
            self._extend(cursor, held.number, visibility_ms)
            return True
        run = LeaseRun(number, held.number, held.attempt, offset, offset + 1)
        now_ms = self._state.clock.steady_ms()
        if counts:
            self._give_back(cursor, run, held.attempt + 1, now_ms, events.NACKED, NO_FAILURE)
            group.nacked += 1
            yield from journal_durable(cursor.partition)
        else:
            self._give_back(cursor, run, held.attempt, now_ms, events.RELEASED, NO_FAILURE)
        return True

    # Time.

    def look(self, cursor: GroupCursor) -> None:
        """The alarm of a cursor: take back overdue leases and wake consumers."""
        partition = cursor.partition
        if partition.closed:
            return  # Its leases are the next owner's.
        now_ms = self._state.clock.steady_ms()
        group = partition.topic.groups[cursor.group]
        group.maybe_sample(now_ms)
        for lease in cursor.engine.expired(now_ms):
            consumer = group.consumers.get(lease.consumer)
            for start, end in lease.unsettled():
                if consumer is not None:
                    consumer.in_flight -= end - start
                group.timed_out += end - start
                self._leases.take_back(
                    cursor, lease, start, end, lease.attempt + 1, now_ms, events.TIMED_OUT, now_ms
                )
        if cursor.engine.exhausted:
            self._dead_letters.bury_soon(cursor)
        self._state.alarms.set(cursor, cursor.engine.next_due_ms(now_ms))
        if partition.journal is not None and partition.journal.pending:
            self._state.alarms.set(self._state.flush, now_ms + 1000)
        if cursor.engine.has_ready(cursor.high, now_ms):
            partition.topic.wake()

    def close_consumer(self, consumer: GroupConsumer, disconnected: bool = False) -> None:
        """Give back what the consumer holds, at once.

        The attempt counts only if the consumer was ``disconnected``: its process may have died of one of the
        messages, which would go on to bring down one consumer after the other.
        """
        if consumer.closed:
            return
        consumer.closed = True
        consumer.group.consumers.pop(consumer.number, None)
        now_ms = self._state.clock.steady_ms()
        for partition in consumer.group.topic.partitions:
            cursor = partition.groups.get(consumer.group.name)
            if cursor is not None:
                self._release(cursor, consumer.number, now_ms, disconnected=disconnected)
        consumer.group.topic.wake()

    def unsettled(self, consumer: GroupConsumer, number: int, leases: list[int]) -> list[Run]:
        """The unsettled parts of these leases of a partition."""
        if consumer.closed:
            return []
        engine = consumer.group.topic.partition(number).groups[consumer.group.name].engine
        held = [lease for lease in map(engine.leases.get, leases) if lease is not None]
        return [
            (number, lease.number, start, end)
            for lease in held
            if lease.consumer == consumer.number
            for start, end in lease.unsettled()
        ]

    def keep(
        self, consumer: GroupConsumer, leases: AbstractSet[tuple[int, int]], disconnected: bool = False
    ) -> None:
        """Keep only these leases of a consumer (partition, lease) and release its others."""
        now_ms = self._state.clock.steady_ms()
        before = consumer.in_flight
        for partition in consumer.group.topic.partitions:
            cursor = partition.groups[consumer.group.name]
            kept = {lease for number, lease in leases if number == partition.number}
            consumer.in_flight -= self._release(cursor, consumer.number, now_ms, kept, disconnected)
        if consumer.in_flight != before:
            consumer.group.topic.wake()

    def _release(
        self,
        cursor: GroupCursor,
        number: int,
        now_ms: int,
        kept: AbstractSet[int] = frozenset(),
        disconnected: bool = False,
    ) -> int:
        """Release the leases of a consumer, except ``kept``; return how many messages they had."""
        released = 0
        why, failure = (
            (events.DISCONNECTED, CONNECTION_LOST) if disconnected else (events.RELEASED, NO_FAILURE)
        )
        for lease in [lease for lease in cursor.engine.leases.values() if lease.consumer == number]:
            if lease.number in kept:
                continue
            for start, end in lease.unsettled():
                released += end - start
                attempt = lease.attempt + 1 if disconnected else lease.attempt
                self._leases.take_back(cursor, lease, start, end, attempt, now_ms, why, now_ms, failure)
        if cursor.engine.exhausted:
            self._dead_letters.bury_soon(cursor)
        self._state.alarms.set(self._state.flush, now_ms + 1000)
        return released


def partitions_of(topic: Topic, runs: list[LeaseRun]) -> list[Partition]:
    """The partitions of these runs, each once; to be looked up before a wait, in which one may be closed."""
    return [topic.partitions[number] for number in {run.partition for run in runs}]


def _until_arrival(consumer: GroupConsumer, room: int, until_ms: int) -> Steps[None]:
    """Wait until something is published to the topic, or its state changes."""
    arrival = Arrival(consumer.group.topic, until_ms)
    if room > 0:
        yield from _while_hungry(consumer, arrival)
    else:
        yield arrival


def _while_hungry(consumer: GroupConsumer, step: Arrival | GiveWay) -> Steps[None]:
    """Count the consumer as waiting meanwhile, for its fair share."""
    hungry = consumer.group.hungry
    hungry[consumer.number] = consumer
    try:
        yield step
    finally:
        hungry.pop(consumer.number, None)


def _ahead(consumer: GroupConsumer, now_ms: int) -> int:
    """How many messages the consumer processes in ``AHEAD_MS``, judged by its recent acks."""
    elapsed_ms = now_ms - consumer.paced_ms
    if elapsed_ms >= PACE_MS:
        consumer.ahead = (consumer.answered - consumer.paced) * AHEAD_MS // elapsed_ms
        consumer.paced_ms = now_ms
        consumer.paced = consumer.answered
    return consumer.ahead


def _held_at(cursor: GroupCursor, number: int, offset: int) -> Lease | None:
    """The lease that has an offset: that one, or a later one, for which all of them are looked at."""
    engine = cursor.engine
    if engine.held(number, offset, offset + 1) == HELD:
        return engine.leases[number]
    for lease in engine.leases.values():
        if lease.start <= offset < lease.end and engine.held(lease.number, offset, offset + 1) == HELD:
            return lease
    return None


def _check_apart(runs: list[Run]) -> None:
    """Refuse runs that overlap: a message is settled once."""
    ordered = sorted(runs)
    for before, after in pairwise(ordered):
        if before[:2] == after[:2] and before[3] > after[2]:
            raise InvalidValue(name="runs", value=after, why="it overlaps another run of the same lease")


def _failure_of(reason: Any) -> Failure:
    if not isinstance(reason, str):
        raise InvalidValue(name="reason", value=reason, why="say in text why the message is no good")
    return describe_error(reason)


def missing_run(cursor: GroupCursor, run: LeaseRun) -> PenstockError | None:
    """Why the run cannot be settled; None if it can.

    "Settled before" means all of it: a client that repeats an ack takes that for the answer to its first.
    """
    answer = cursor.engine.held(run.lease, run.start, run.end)
    if answer == HELD:
        return None
    if answer == LOST:
        missing = cursor.engine.done.first_missing(run.start)
        if missing < run.end:
            return LeaseLost(topic=cursor.partition.topic.name, partition=run.partition, offset=missing)
    return AlreadySettled(topic=cursor.partition.topic.name, partition=run.partition, offset=run.start)


def _graver(one: PenstockError | None, other: PenstockError | None) -> PenstockError | None:
    """The more serious of two errors: a lost lease leads to a redelivery, a second settlement does not."""
    if one is None or isinstance(other, LeaseLost):
        return one if isinstance(one, LeaseLost) else other
    return one
