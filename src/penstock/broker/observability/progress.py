"""Progress of a group: lag, in-flight messages, rates, and what blocks it.

    state of the group's partitions ──┐
    samples of its counts ────────────┼──> Standing ──> verdict (verdict.py)
    the oldest message it was given ──┘

Read-only.  Cost: some microseconds for each partition, a read of the log for each
partition with a backlog, and 0.2 us for each lease and each range that waits for its
retry, to find the oldest of them.
"""

from typing import Final

from penstock.broker.health.rates import SAMPLE_MS
from penstock.broker.health.verdict import Standing, drain_seconds, judge
from penstock.broker.state import AttemptHistory, Group, GroupCursor, State, Topic
from penstock.broker.topic.depth import group_lag
from penstock.broker.topic.subscribers import readers
from penstock.delivery import events
from penstock.model.info import GroupInfo, GroupRates, PartitionLag, Unacked

READ_RECORDS: Final = 1000  # Looked at to find the first that compaction has left.


class Found:
    """A delivered message that is not settled, by its place."""

    __slots__ = ("attempts", "consumer", "cursor", "due_ms", "offset")

    def __init__(
        self, cursor: GroupCursor, offset: int, attempts: int, consumer: str | None, due_ms: int
    ) -> None:
        self.cursor = cursor
        self.offset = offset
        self.attempts = attempts
        self.consumer = consumer  # None: no consumer has it.
        self.due_ms = due_ms  # Steady time; -1 if it has no term.


class Progress:
    def __init__(self, state: State) -> None:
        self._state = state

    def describe(self, name: str, group_name: str) -> GroupInfo:
        """Describe the progress of the group, with its verdict."""
        topic = self._state.readable(name)
        group = topic.group(group_name)
        cursors = [partition.groups[group_name] for partition in topic.partitions]
        lags = [_partition_lag(cursor) for cursor in cursors]
        standing = self._standing(group, cursors, lags)
        return GroupInfo(
            topic=name,
            group=group_name,
            kind=group.settings.kind,
            verdict=judge(standing),
            lag=standing.lag,
            lag_seconds=standing.lag_seconds,
            drain_seconds=drain_seconds(standing),
            in_flight=sum(lag.in_flight for lag in lags),
            waiting_retry=standing.waiting,
            oldest_unacked=standing.oldest,
            rates=standing.rates,
            consumers=sorted([*(each.identity for each in group.consumers.values()), *self._kafka(group)]),
            lost=sum(cursor.lost for cursor in cursors),
            delivered=group.delivered,
            acked=group.acked,
            nacked=group.nacked,
            timed_out=group.timed_out,
            dead_lettered=group.dead_lettered,
            expired=group.expired,
            partitions=lags,
        )

    def _standing(self, group: Group, cursors: list[GroupCursor], lags: list[PartitionLag]) -> Standing:
        lag_seconds = max(
            self._age_seconds(cursor, lag.floor) if lag.lag else 0.0
            for cursor, lag in zip(cursors, lags, strict=True)
        )
        consumers = len(group.consumers) + len(self._kafka(group))
        return Standing(
            lag=sum(lag.lag for lag in lags),
            lag_seconds=lag_seconds,
            in_flight=sum(_in_hand(group, cursor) for cursor in cursors),
            waiting=sum(lag.waiting_retry for lag in lags),
            consumers=consumers or self._has_reader(group),
            rates=self._rates(group),
            oldest=self._oldest(group, cursors),
            quiet_seconds=min(self._quiet_ms(group) / 1000, lag_seconds),
            visibility_seconds=group.settings.visibility_timeout_ms / 1000,
            batches=consumers == 0 and group.reader_ms >= 0,
        )

    def _kafka(self, group: Group) -> list[str]:
        """The members of the Kafka group of that name that read the topic."""
        found = self._state.kafka_groups.get(group.name)
        if found is None or group.settings.kind != "stream":
            return []
        return readers(found).get(group.topic.name, [])

    def _has_reader(self, group: Group) -> bool:
        """Whether a client that is not a member has recently committed for this group."""
        silent_ms = self._state.clock.steady_ms() - group.reader_ms
        return group.reader_ms >= 0 and silent_ms < group.settings.session_timeout_ms

    def _age_seconds(self, cursor: GroupCursor, offset: int) -> float:
        """How long ago the first record at or after ``offset`` was published.

        Of a segment that is only in the store of a cluster it is the newest record, to avoid a fetch.
        """
        start = max(offset, cursor.partition.log.start)
        evicted_ms = cursor.partition.log.evicted_ms(start)
        if evicted_ms is not None:
            return max(self._state.clock.wall_ms() - evicted_ms, 0) / 1000
        for count in (1, READ_RECORDS):  # It is nearly always there.
            for record in cursor.records(start, min(start + count, cursor.high)):
                return max(self._state.clock.wall_ms() - record.timestamp, 0) / 1000
        return 0.0

    # How fast.

    def _rates(self, group: Group) -> GroupRates:
        now_ms, since_ms = self._state.clock.steady_ms(), self._state.opened_ms
        delivered, acked, failed, dead_lettered = group.meter.per_second(now_ms, group.counts(), since_ms)
        return GroupRates(
            published=self.published(group.topic),
            delivered=delivered,
            acked=acked,
            failed=failed,
            dead_lettered=dead_lettered,
        )

    def published(self, topic: Topic) -> float:
        """Messages a second into a topic."""
        now_ms, counts = self._state.clock.steady_ms(), (topic.published,)
        if self._state.clock.wall_ms() < topic.sample_ms - SAMPLE_MS:
            # The wall clock was set back.  Until it has caught up, records keep their last timestamp,
            # and no sample is taken.
            return topic.meter.average(now_ms, counts)[0]
        return topic.meter.per_second(now_ms, counts, self._state.opened_ms)[0]

    def _quiet_ms(self, group: Group) -> int:
        """How long the group has had consumers without any ack."""
        now_ms = self._state.clock.steady_ms()
        joined_ms = min((consumer.joined_ms for consumer in group.consumers.values()), default=now_ms)
        return now_ms - max(group.meter.changed_ms(now_ms, group.counts(), 1), joined_ms)

    # The oldest.

    def _oldest(self, group: Group, cursors: list[GroupCursor]) -> Unacked | None:
        find = _find_read if group.settings.kind == "stream" else _find_leased
        aged = [
            (self._age_seconds(found.cursor, found.offset), found)
            for cursor in cursors
            if (found := find(group, cursor)) is not None
        ]
        if not aged:
            return None
        return self._unacked(*max(aged, key=lambda pair: pair[0]))

    def _unacked(self, age_seconds: float, found: Found) -> Unacked:
        cursor, partition = found.cursor, found.cursor.partition
        now_ms = self._state.clock.steady_ms()
        held = found.consumer is not None
        return Unacked(
            id=f"{partition.topic.name}:{partition.number}:{found.offset}",
            age_seconds=age_seconds,
            attempts=found.attempts,
            failures=found.attempts - held,
            error=_error(cursor.failures.get(found.offset)),
            consumer=found.consumer,
            due_seconds=None if found.due_ms < 0 else max(found.due_ms - now_ms, 0) / 1000,
            behind=0 if cursor.gate is None else cursor.gate.behind(found.offset),
        )


def _partition_lag(cursor: GroupCursor) -> PartitionLag:
    partition = cursor.partition
    stream = cursor.settings.kind == "stream"
    return PartitionLag(
        partition=partition.number,
        journal_group=cursor.number,
        floor=cursor.committed if stream else cursor.engine.floor,
        end=cursor.high,
        lag=group_lag(cursor),
        in_flight=cursor.engine.in_flight,
        waiting_retry=cursor.engine.waiting_retry,
    )


def _in_hand(group: Group, cursor: GroupCursor) -> int:
    if group.settings.kind != "stream":
        return cursor.engine.in_flight
    return max(_read_upto(group, cursor)[0] - cursor.committed, 0)


def _read_upto(group: Group, cursor: GroupCursor) -> tuple[int, str]:
    """Stream groups: how far the partition was read, and by which consumer; -1 if by none."""
    number = cursor.partition.number
    for consumer in group.consumers.values():
        if number in consumer.positions:
            return consumer.positions[number], consumer.identity
    return -1, ""


def _find_read(group: Group, cursor: GroupCursor) -> Found | None:
    """Stream groups: the first message that was read and not committed."""
    upto, identity = _read_upto(group, cursor)
    start = max(cursor.committed, cursor.partition.log.start)
    return Found(cursor, start, 1, identity, -1) if start < upto else None


def _find_leased(group: Group, cursor: GroupCursor) -> Found | None:
    """Queue groups: the lowest offset that is leased, or waits for a retry or to be dead-lettered."""
    engine = cursor.engine
    found: Found | None = None
    for lease in engine.leases.values():
        if found is None or lease.start < found.offset:
            offset = lease.unsettled()[0][0]
            if found is None or offset < found.offset:
                holder = group.consumers.get(lease.consumer)
                identity = "" if holder is None else holder.identity
                found = Found(cursor, offset, lease.attempt, identity, lease.deadline_ms)
    waiting = engine.oldest_waiting()
    if waiting is not None and (found is None or waiting[0] < found.offset):
        offset, attempt, due_ms = waiting
        found = Found(cursor, offset, attempt - 1, None, due_ms)
    for start, _, attempt in engine.exhausted:
        if found is None or start < found.offset:
            failure = cursor.failures.get(start)
            found = Found(cursor, start, failure.attempts if failure else attempt - 1, None, 0)
    return found


def _error(failure: AttemptHistory | None) -> str:
    if failure is None:
        return ""
    words = ": ".join(part for part in (failure.error_class, failure.error_message) if part)
    return words or events.WHY[failure.why]
