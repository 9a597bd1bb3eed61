"""Background work of a broker: flush, expire, clean up, snapshot.

    every second, if something is pending    write buffered events, flush logs of durability "os"
    every minute                             retention, compaction, snapshots, expired producers

A group that retention has overtaken is moved to the log's new start, and the
number of messages it lost is written to the journal.  The journal of a partition is
kept as long as the messages it describes.
"""

import logging
from contextlib import suppress

from penstock.broker.maintenance.restoring import forget_idle, held_from
from penstock.broker.publish.staging import Staging
from penstock.broker.state import GroupCursor, Partition, State, Topic
from penstock.broker.steps import Arrival, Durable, GiveWay, Steps
from penstock.broker.storage.recovery import behind, skip_deleted
from penstock.broker.storage.replay import snapshot_state
from penstock.config.broker import ARCHIVE_GROUP
from penstock.errors import NotCached, OffsetOutOfRange, PenstockError
from penstock.log.log import Log
from penstock.log.maintenance.compaction import compact
from penstock.log.maintenance.retention import retention_cut
from penstock.wire.records import APPEND_TIME
from penstock.wire.staged import STAGING

logger = logging.getLogger("penstock")

FLUSH_MS = 1000
FETCH_WAIT_MS = 1000  # Of one round of upkeep, for segments that are only in the store.
SLICE = 100  # Partitions that are looked at before others have a turn.
REPLAYED_MAX = 1000  # So many decisions are replayed in some milliseconds.


class Maintenance:
    def __init__(self, state: State, staging: Staging) -> None:
        self._state = state
        self._staging = staging
        self._fetch_until_ms = 0  # So long upkeep may wait for segments.

    def flush(self) -> Steps[None]:
        """Write buffered journal events, and sync logs that are flushed every second."""
        for topic in list(self._state.topics.values()):
            for partition in topic.partitions:
                if topic.deleted:
                    break
                self._flush_partition(topic, partition)
                if partition.number % SLICE == SLICE - 1:
                    yield GiveWay()
            if topic.settings.durability == "os":
                self._state.commit.kick()

    def _flush_partition(self, topic: Topic, partition: Partition) -> None:
        journal = partition.journal
        if journal is not None and journal.pending:
            try:
                journal.flush()
            except PenstockError:
                # A full disk, most likely: what was noted stays noted, and is tried again.
                self._state.alarms.set(self._state.flush, self._state.clock.steady_ms() + FLUSH_MS)
        if topic.settings.durability == "os":
            for log in (partition.log, journal.log if journal else None):
                if log is not None and log.durable < log.written:
                    self._state.commit.mark_later(log)

    def upkeep(self) -> Steps[None]:
        """Retention, compaction and snapshots, one partition after the other.

        Alarms wait until it has ended, so it waits for segments of a cluster's store for a moment only; what
        has come by the next time is there then.
        """
        self._fetch_until_ms = self._state.clock.steady_ms() + FETCH_WAIT_MS
        self._state.alarms.set(
            self._state.upkeep, self._state.clock.steady_ms() + self._state.config.maintenance_ms
        )
        for topic in list(self._state.topics.values()):
            for partition in topic.partitions:
                if topic.deleted:
                    break
                if partition.closed:
                    continue
                try:
                    yield from self.retain(topic, partition)
                    yield from self.compact(topic, partition)
                    yield from self._tidy(partition)
                    taken = yield from self.maybe_snapshot(partition)
                    if taken or partition.number % SLICE == SLICE - 1:
                        yield GiveWay()
                except PenstockError as error:  # The other partitions are looked after all the same.
                    if not self._state.problems.trouble(error):
                        logger.warning("upkeep of %s: %s", partition.directory, error)

    def retain(self, topic: Topic, partition: Partition) -> Steps[None]:
        """Delete what is older or larger than the topic keeps, one segment after the other."""
        log = partition.log
        settings = topic.settings
        aging_ms = self._state.aging_ms()
        keep_from = min(held_from(partition, aging_ms), log.unstable)
        if settings.retain_until_settled and partition.groups:
            keep_from = min(keep_from, *(behind(cursor) for cursor in partition.groups.values()))
        if topic.name == STAGING:
            keep_from = min(keep_from, self._staging.needed_from(log.end))
        if settings.retention_waits_for_archive:
            keep_from = min(keep_from, archived(partition))
        cut = retention_cut(log.segments(), aging_ms, settings.kept_ms, settings.kept_bytes, keep_from)
        if cut <= log.start:
            return
        if cut >= log.end and log.end > log.start:
            log.roll()  # The active segment has outlived its time too: seal it, so that it can go.
        for base in [segment.base_offset for segment in log.segments()[1:]]:
            if base <= cut:
                log.delete_before(base)
                self._overtake(partition)
                yield GiveWay()
                if topic.deleted or topic.partitions.get(partition.number) is not partition:
                    return
        if (yield from self._snapshot(partition)):
            self._trim_journal(partition)

    def delete_records(self, topic: Topic, partition: Partition, offset: int | None) -> int:
        """Delete records below an offset, regardless of retention; None: all records."""
        log = partition.log
        wanted = log.safe if offset is None else offset
        if not 0 <= wanted <= log.safe:
            raise OffsetOutOfRange(offset=wanted, start=log.start, end=log.safe)
        if wanted > log.start:
            log.begin_at(wanted)
            self._overtake(partition)
            if self.snapshot(partition):
                self._trim_journal(partition)
            topic.wake()
        return log.start

    def _overtake(self, partition: Partition) -> None:
        now_ms = self._state.clock.steady_ms()
        for cursor in partition.groups.values():
            if behind(cursor) < partition.log.start:
                self._free_consumers(partition, cursor)
                skip_deleted(partition, cursor, now_ms)

    def _free_consumers(self, partition: Partition, cursor: GroupCursor) -> None:
        """Deleted messages no longer count against the limits of consumers."""
        group = partition.topic.groups.get(cursor.group)  # None: it is being created.
        consumers = {} if group is None else group.consumers
        start = partition.log.start
        for lease in cursor.engine.leases.values():
            if lease.consumer in consumers:
                held = sum(max(min(end, start) - first, 0) for first, end in lease.unsettled())
                consumers[lease.consumer].in_flight -= held

    def _trim_journal(self, partition: Partition) -> None:
        """Delete the part of the journal that a snapshot covers."""
        journal = partition.journal
        if journal is not None:
            with suppress(NotCached):  # It is trimmed the next time that something is deleted.
                offset = journal.log.offset_at(self._first_ms(partition))
                journal.log.delete_before(min(offset, journal.snapshot_end))

    def _first_ms(self, partition: Partition) -> int:
        """The time of the first batch, visible or not; now, if there is none."""
        first = next(partition.log.headers(partition.log.start), None)
        if first is None:
            return self._state.clock.wall_ms()
        return first.max_timestamp if first.attributes & APPEND_TIME else first.base_timestamp

    def compact(self, topic: Topic, partition: Partition) -> Steps[None]:
        """Keep the last value of each key, once no group waits for all that was put back for it."""
        aging_ms = self._state.aging_ms()
        if topic.settings.compact and held_from(partition, aging_ms) == partition.log.end:
            for missing in compact(partition.log, aging_ms, topic.settings.tombstone_retention_ms):
                if missing is not None and self._state.clock.steady_ms() >= self._fetch_until_ms:
                    return
                yield GiveWay() if missing is None else Arrival(missing, self._fetch_until_ms)
                if partition.closed or topic.deleted:
                    return

    def _tidy(self, partition: Partition) -> Steps[None]:
        forget_idle(partition, self._state.clock.steady_ms())
        topic = partition.topic
        if topic.intents_error is not None or (topic.intents is not None and topic.intents.pending):
            return  # What it has begun is known by the numbers that are there.
        partition.producers.expire(self._state.aging_ms())
        if partition.schedule is not None:
            for log in partition.schedule.maintain(self._state.clock.wall_ms()):
                yield GiveWay() if log is None else Durable(log)

    def maybe_snapshot(self, partition: Partition) -> Steps[bool]:
        """Take a snapshot if replaying the journal has become long, or would redo an outbox that is done.

        Redoing is harmless only as long as the targets remember this
        partition's producer id, which is a day.
        """
        journal = partition.journal
        if journal is not None:
            grown = journal.log.written - journal.snapshot_written
            if grown >= self._state.config.snapshot_bytes or partition.outbox_targets:
                return (yield from self._snapshot(partition))
        return False

    def close_journal(self, partition: Partition) -> None:
        """Write buffered events, and a snapshot if the next start would have much to replay.

        It costs two syncs, and thousands of partitions that did little must not keep a server from ending.
        """
        journal = partition.journal
        if journal is not None:
            journal.flush()
            replayed = journal.log.end - max(journal.snapshot_end, journal.log.start)
            if replayed >= REPLAYED_MAX or partition.outbox_targets:
                self.snapshot(partition)

    def snapshot(self, partition: Partition) -> bool:
        """Write a snapshot of the delivery state unless it is current; False if a decision is in progress."""
        steps = self._snapshot(partition)
        try:
            next(steps)
        except StopIteration as end:
            done: bool = end.value
            return done
        steps.close()  # In a cluster it would have to wait; upkeep does.
        return False

    def _snapshot(self, partition: Partition) -> Steps[bool]:
        journal = partition.journal
        if journal is None or partition.outbox:
            return False
        journal.flush()
        if not journal.log.end:
            return True
        if journal.snapshot_end == journal.log.end and not partition.outbox_targets:
            return True
        taken = journal.snapshot(snapshot_state(partition))
        targets = {target: partition.outbox_sequences.get(target) for target in partition.outbox_targets}
        # It forgets what the outbox has published, so that must not be lost any more.
        for name, number in targets:
            topic = self._state.topics.get(name)
            target = None if topic is None else topic.partitions.get(number)
            if target is not None:  # Else it was durable before it left.
                yield from _secured(target.log)
        if journal.log.cached:  # Else it might know of decisions that were never made.
            yield from _secured(journal.log)
        if taken.end >= journal.snapshot_end:  # Else another one was quicker.
            journal.install(taken)
        for outbox, sequence in targets.items():
            if partition.outbox_sequences.get(outbox) == sequence:  # Else there is more by now.
                partition.outbox_targets.discard(outbox)
        return True


def _secured(log: Log) -> Steps[None]:
    """Wait until everything is durable: by a sync now, or in a cluster by the next commit round."""
    log.sync()
    if log.durable < log.written:
        yield Durable(log)


def archived(partition: Partition) -> int:
    """The offset below which everything is in the lake; the start of the log if there is no archive."""
    cursor = partition.groups.get(ARCHIVE_GROUP)
    if cursor is None or cursor.settings.kind != "stream":
        return partition.log.start
    return cursor.committed
