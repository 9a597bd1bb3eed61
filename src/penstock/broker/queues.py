"""Queue groups: handing messages out by leases and taking the answers.

    receive ──> lease ──> ack                      settled
                  │  └──> reject                   dead letter
                  │
                  ├──> nack(delay, error) ──┐
                  └──> visibility timeout ──┴──> due again ──> receive ...
                                            └──> attempts used up ──> dead letter

The rules are the engine's (``delivery/engine.py``); what goes out is found by
``leases.py``.  This module waits for it, and takes the answers: each is written
to the journal before the engine hears of it.  What used up its attempts is
buried by a job of ``dead_letters.py``, which is queued here.
"""

from typing import Any

from penstock.broker.dead_letters import DeadLetters
from penstock.broker.groups import journal_durable
from penstock.broker.leases import Leases, journal_of
from penstock.broker.replay import finish, remember_failure
from penstock.broker.state import Consumer, Group, GroupPartition, Partition, State, Topic
from penstock.broker.steps import Arrival, GiveWay, Steps
from penstock.delivery import events
from penstock.delivery.engine import HELD, LOST
from penstock.errors import AlreadySettled, Closed, GroupKindMismatch, InvalidValue, LeaseLost, PenstockError
from penstock.failure import describe_error
from penstock.message import (
    Delivered,
    LeaseRun,
    Message,
    check_held,
    lease_runs,
    refused,
    unanswer,
)
from penstock.types import Duration, duration_ms, whole_number


class Queues:
    """Delivery to the consumers of queue groups."""

    def __init__(self, state: State, dead_letters: DeadLetters) -> None:
        self._state = state
        self._dead_letters = dead_letters
        self._leases = Leases(state, dead_letters)

    # Handing out.

    def receive(self, consumer: Consumer, messages_max: Any, wait_ms: int) -> Steps[list[Any]]:
        """Up to ``messages_max`` messages, as soon as there is one; none after ``wait_ms``."""
        if type(messages_max) is not int or messages_max < 1:
            whole_number("max_messages", messages_max, 1)  # Raises: the quick look has found something.
        limit = min(messages_max, self._state.config.receive_messages_max)
        topic = consumer.group.topic
        deadline_ms = -1
        while True:
            self._check(consumer)
            room = min(limit, consumer.in_flight_max - consumer.in_flight)
            messages = self._leases.take(topic, consumer, room)
            if messages:
                if consumer.group.settings.delivery == "at-most-once":
                    yield from self._settle_first(topic, messages)
                return messages
            if self._leases.looks_left == 0:
                yield GiveWay()  # There was much that nobody gets; go on after others had a turn.
                continue
            now_ms = self._state.clock.steady_ms()
            if deadline_ms < 0:
                deadline_ms = now_ms + wait_ms
            if now_ms >= deadline_ms:
                return messages
            yield Arrival(topic, deadline_ms)

    def _check(self, consumer: Consumer) -> None:
        if self._state.closed:
            raise Closed(what="broker")
        if consumer.closed:
            raise Closed(what="consumer")

    def _settle_first(self, topic: Topic, messages: list[Any]) -> Steps[None]:
        """At most once: settled, and durably so, before anyone sees the message."""
        runs = lease_runs(messages, messages[0].delivery.settler)
        self._settle_runs(topic, topic.groups[messages[0].group], runs)
        for run in runs:
            yield from journal_durable(topic.partitions[run.delivery.partition])

    # Answers.

    def ack(self, consumer: Consumer, messages: list[Any], outputs: list[tuple[str, Message]]) -> Steps[None]:
        """Settle these messages, and publish ``outputs`` in the same breath."""
        topic = self._open_topic(consumer, "ack")
        runs = lease_runs(messages, consumer.settler)
        missed: PenstockError | None = None
        try:
            if outputs:
                self._settle_and_send(topic, consumer, runs, outputs)
            else:
                missed = self._settle_runs(topic, consumer.group, runs)
        except PenstockError:
            unanswer(messages)
            raise
        if topic.settings.durability == "fsync":
            for number in {run.delivery.partition for run in runs}:
                yield from journal_durable(topic.partitions[number])
        if missed is not None:
            raise missed

    def _settle_runs(self, topic: Topic, group: Group, runs: list[LeaseRun]) -> PenstockError | None:
        """Settle what is still held; the first that is not is returned as its error."""
        if topic.settings.depth_max is not None:
            topic.wake()  # There will be room when whoever waits for it gets the lock.
        now_ms = self._state.clock.steady_ms()
        if len(runs) == 1:
            return self._settle_on(topic.partitions[runs[0].delivery.partition], group, runs, now_ms)
        numbers = {run.delivery.partition for run in runs}
        missed: PenstockError | None = None
        for number in numbers:
            some = [run for run in runs if run.delivery.partition == number]
            missed = self._settle_on(topic.partitions[number], group, some, now_ms) or missed
        return missed

    def _settle_on(
        self, partition: Partition, group: Group, runs: list[LeaseRun], now_ms: int
    ) -> PenstockError | None:
        missed: PenstockError | None = None
        member = partition.groups[group.name]
        held: list[LeaseRun] = []
        for run in runs:
            error = _missing(member, run)
            if error is None:
                held.append(run)
            elif missed is None:
                missed = error
        decisions: list[events.AnyEvent] = [
            events.Settled(member.number, run.delivery.lease, run.start, run.end, events.ACKED)
            for run in held
        ]
        self._decide(member, decisions, now_ms)
        for run in held:
            self._settle(member, group, run.delivery.lease, run.start, run.end)
            group.acked += run.end - run.start
        return missed

    def _decide(self, member: GroupPartition, decisions: list[events.AnyEvent], now_ms: int) -> None:
        journal = journal_of(member)
        journal.commit(decisions, now_ms)
        self._state.commit.mark(journal.log)

    def _settle(self, member: GroupPartition, group: Group, number: int, start: int, end: int) -> None:
        self._free_consumer(member, group, number, end - start)
        member.engine.settle(number, start, end)
        if member.failures or member.gate is not None:
            finish(member, start, end)

    def _free_consumer(self, member: GroupPartition, group: Group, number: int, count: int) -> None:
        lease = member.engine.leases.get(number)
        consumer = group.consumers.get(lease.consumer) if lease is not None else None
        if consumer is not None:
            if consumer.in_flight >= consumer.in_flight_max:
                group.topic.wake()  # It may be waiting for room in its own hands.
            consumer.in_flight -= count

    def _settle_and_send(
        self, topic: Topic, consumer: Consumer, runs: list[LeaseRun], outputs: list[tuple[str, Message]]
    ) -> None:
        numbers = {run.delivery.partition for run in runs}
        if len(numbers) != 1:
            why = "messages acked together with outputs must come from one partition"
            raise InvalidValue(name="messages", value=sorted(numbers), why=why)
        partition = topic.partitions[numbers.pop()]
        member = partition.groups[consumer.group.name]
        for run in runs:
            error = _missing(member, run)
            if error is not None:
                raise error
        settled: list[events.AnyEvent] = [
            events.Settled(member.number, run.delivery.lease, run.start, run.end, events.ACKED)
            for run in runs
        ]
        self._dead_letters.send(partition, member.number, settled, outputs, runs[0].start, runs[-1].end)
        for run in runs:
            self._settle(member, consumer.group, run.delivery.lease, run.start, run.end)
            consumer.group.acked += run.end - run.start

    def nack(
        self,
        consumer: Consumer,
        message: Any,
        delay: Duration | None,
        error: BaseException | str | None,
    ) -> Steps[None]:
        """Deliver the message again later, or bury it if this was its last attempt."""
        topic = self._open_topic(consumer, "nack")
        member = self._held(topic, consumer, message)
        now_ms = self._state.clock.steady_ms()
        wait_ms = member.backoff.delay_ms(message.attempt, self._state.random.random())
        if delay is not None:
            wait_ms = duration_ms("delay", delay)
        self._give_back(member, message, message.attempt + 1, now_ms + wait_ms, events.NACKED, error)
        consumer.group.nacked += 1
        yield from journal_durable(member.partition)

    def reject(self, consumer: Consumer, message: Any, reason: Any) -> Steps[None]:
        """Bury the message now, whatever attempts it has left."""
        topic = self._open_topic(consumer, "reject")
        if not isinstance(reason, str):
            raise InvalidValue(name="reason", value=reason, why="say in text why the message is no good")
        member = self._held(topic, consumer, message)
        now_ms = self._state.clock.steady_ms()
        last = member.settings.max_attempts + 1
        self._give_back(member, message, last, now_ms, events.REJECTED, reason)
        yield from journal_durable(member.partition)

    def _give_back(
        self, member: GroupPartition, message: Delivered, attempt: int, due_ms: int, why: int,
        error: BaseException | str | None,
    ) -> None:  # fmt: skip
        now_ms = self._state.clock.steady_ms()
        lease = message.delivery.lease
        failure = describe_error(error)
        event = events.GivenBack(
            member.number, lease, message.offset, message.offset + 1, attempt, due_ms, why,
            failure.error_class, failure.message, failure.fingerprint, message.attempt,
        )  # fmt: skip
        topic = member.partition.topic
        self._decide(member, [event], now_ms)
        message.mark_settled()
        self._free_consumer(member, topic.groups[member.group], lease, 1)
        member.engine.give_back(lease, message.offset, message.offset + 1, attempt, due_ms)
        remember_failure(member, event, self._state.clock.wall_ms())
        if member.engine.exhausted:
            self._dead_letters.bury_soon(member)
        self._state.alarms.set(member, member.engine.next_due_ms(now_ms))
        if due_ms <= now_ms:
            topic.wake()

    def extend(self, consumer: Consumer, message: Any, duration: Duration) -> Steps[None]:
        """Give the message's lease a new deadline, counted from now."""
        topic = self._open_topic(consumer, "extend")
        member = self._held(topic, consumer, message)
        extension_ms = duration_ms("duration", duration)
        if not 1 <= extension_ms <= 12 * 3600 * 1000:
            raise InvalidValue(
                name="duration", value=duration, why="it must be more than nothing and at most 12 hours"
            )
        now_ms = self._state.clock.steady_ms()
        deadline_ms = now_ms + extension_ms
        event = events.Extended(member.number, message.delivery.lease, deadline_ms)
        journal_of(member).note(event, now_ms)
        member.engine.extend(message.delivery.lease, deadline_ms)
        self._state.alarms.set(member, deadline_ms)
        yield from ()

    def _open_topic(self, consumer: Consumer, operation: str) -> Topic:
        self._check(consumer)
        if consumer.group.settings.kind != "queue":
            raise GroupKindMismatch(operation=operation, kind="stream", group=consumer.group.name)
        return consumer.group.topic

    def _held(self, topic: Topic, consumer: Consumer, message: Any) -> GroupPartition:
        check_held(message, consumer.settler, "message")
        if message.settled:
            raise refused(message)
        partition = topic.partitions[message.partition]
        member: GroupPartition = partition.groups[message.group]
        error = _missing(member, LeaseRun(message.delivery, message.offset, message.offset + 1))
        if error is not None:
            raise error
        return member

    # Time.

    def look(self, member: GroupPartition) -> None:
        """The member's alarm rang: take back what is overdue, wake who can have it."""
        partition = member.partition
        now_ms = self._state.clock.steady_ms()
        group = partition.topic.groups[member.group]
        for lease in member.engine.expired(now_ms):
            consumer = group.consumers.get(lease.consumer)
            for start, end in lease.unsettled():
                if consumer is not None:
                    consumer.in_flight -= end - start
                group.timed_out += end - start
                self._leases.take_back(
                    member, lease, start, end, lease.attempt + 1, now_ms, events.TIMED_OUT, now_ms
                )
        if member.engine.exhausted:
            self._dead_letters.bury_soon(member)
        self._state.alarms.set(member, member.engine.next_due_ms(now_ms))
        if partition.journal is not None and partition.journal.pending:
            self._state.alarms.set(self._state.flush, now_ms + 1000)
        if member.engine.has_ready(partition.log.high, now_ms):
            partition.topic.wake()

    def close_consumer(self, consumer: Consumer) -> None:
        """Give back what the consumer holds, at once and without counting the attempt."""
        if consumer.closed:
            return
        consumer.closed = True
        consumer.group.consumers.pop(consumer.number, None)
        now_ms = self._state.clock.steady_ms()
        for partition in consumer.group.topic.partitions:
            member = partition.groups.get(consumer.group.name)
            if member is not None:
                self._release(member, consumer.number, now_ms)
        consumer.group.topic.wake()

    def _release(self, member: GroupPartition, number: int, now_ms: int) -> None:
        for lease in [lease for lease in member.engine.leases.values() if lease.consumer == number]:
            for start, end in lease.unsettled():
                self._leases.take_back(
                    member, lease, start, end, lease.attempt, now_ms, events.RELEASED, now_ms
                )
        self._state.alarms.set(self._state.flush, now_ms + 1000)


def _missing(member: GroupPartition, run: LeaseRun) -> PenstockError | None:
    """Why the run cannot be settled; None if it can."""
    answer = member.engine.held(run.delivery.lease, run.start, run.end)
    if answer == HELD:
        return None
    kind = LeaseLost if answer == LOST and not member.engine.done.contains(run.start) else AlreadySettled
    return kind(topic=run.delivery.topic, partition=run.delivery.partition, offset=run.start)
