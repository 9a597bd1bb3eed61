"""Restores for a group what retention has deleted: puts it back, and moves the group there.

    begin     from which offset on; pauses retention on this partition
    add       record batches with their old offsets, rising, in any number of calls
    finish    the segments move into the log, the group is moved to their start, and a hold is set; in a
              cluster the group is moved when the store has the segments

Restored messages are visible to everybody: they are read, traced and delivered like
anything else in the log.  Other groups keep their positions.

The hold.  Retention would delete restored messages in its next round.  So it waits
until the group is past everything that the log contained when it was moved, or until
the hold times out.  That includes live messages: a group that works through a year of
old messages does not lose new ones meanwhile.  The hold is written to the journal in
one decision with the move.

Why the rest of the state stays right when a log's start moves back:

    lanes        the restored ranges are put before the others
    groups       were moved up to the start when retention deleted the messages, and stay there
    consumers    of stream groups: a position below the old start, never read from, is moved up likewise
    producers    are known by what they wrote last, which is above; the producer snapshot covers the log's end
    dedup ids    that are young enough are remembered again
    schedule     everything below the last message that fired is accounted for, as before
    journal      is trimmed by the age of the first message: no earlier than before
    compaction   a compacted topic is not restored: a key whose deletion was cleaned away would live again;
                 one that is compacted later is not until the hold is over, and then from the start

Bounds: one restoration for each partition; the one that began last wins.  It is
cancelled after ``IDLE_MS`` without a call, and when the broker is closed.
"""

import logging
from typing import Final

from penstock.broker.publish.publishing import Publishing
from penstock.broker.state import Partition, State
from penstock.broker.steps import Durable, GiveWay, Steps
from penstock.broker.storage.producer_snapshot import load_dedup_ids
from penstock.broker.storage.recovery import behind, log_config
from penstock.broker.topic.groups import Groups, journal_durable
from penstock.config.broker import MESSAGE_BYTES_MAX
from penstock.errors import InvalidValue, PenstockError, RestoreRefused
from penstock.log.maintenance.restoring import Restoration
from penstock.model.info import Restore
from penstock.types import Duration, duration_ms, whole_number
from penstock.wire.records import OFFSET_MAX, check_batch
from penstock.wire.validation import Limits

logger = logging.getLogger("penstock")

# As large as any topic takes them, since its limit may have been another; and some may be missing in between.
LIMITS: Final = Limits(MESSAGE_BYTES_MAX, dense=False)
IDLE_MS: Final = 10 * 60 * 1000  # Longer than any wait for the lake between two calls.


class Restoring:
    """Puts deleted messages back for a group."""

    def __init__(self, state: State, groups: Groups, publishing: Publishing) -> None:
        self._state = state
        self._groups = groups
        self._publishing = publishing

    def begin(self, name: str, number: int, start: int) -> Restore:
        """Prepare to restore messages from ``start`` to the start of the log; drop an earlier attempt."""
        partition = self._state.topic(name).partition(number)
        log = partition.log
        whole_number("start", start, 0, OFFSET_MAX)
        why = _why_not(partition)
        if why:
            raise RestoreRefused(start=start, end=log.start, why=why)
        if partition.restoration is not None:
            partition.restoration.discard()
            partition.restoration = None
        topic = partition.topic
        made = Restoration(log, topic.files, log_config(topic.settings), min(start, log.start))
        made.goal = min(start, log.end)
        made.number = self._state.new_version()
        made.used_ms = self._state.clock.steady_ms()
        partition.restoration = made
        return Restore(restore=made.number, start=made.start, end=made.end)

    def add(self, name: str, number: int, restore: int, batches: bytes) -> Steps[int]:
        """Write record batches; returns the offset after the last when they are on disk."""
        partition = self._state.topic(name).partition(number)
        restoration = self._current(partition, restore)
        if type(batches) is not bytes:
            raise InvalidValue(name="batches", value=batches, why="record batches are bytes")
        at = 0
        while at < len(batches):
            header = check_batch(batches, at)
            batch = batches[at : at + header.size]
            yield from self._publishing.check_batch(partition.topic, batch, header, LIMITS)
            at += header.size
        restoration = self._current(partition, restore)
        restoration.add(batches)
        self._state.commit.mark(restoration.staged)
        yield Durable(restoration.staged)
        return self._current(partition, restore).next_offset

    def finish(self, name: str, number: int, restore: int, group_name: str, hold: Duration) -> Steps[None]:
        """Move the messages into the log and the group to the first of them, and hold them for it."""
        topic = self._state.topic(name)
        partition = topic.partition(number)
        topic.group(group_name)
        hold_ms = duration_ms("hold", hold)
        restoration = self._current(partition, restore)
        restoration.complete()
        self._state.commit.mark(restoration.staged)
        yield Durable(restoration.staged)
        restoration = self._current(partition, restore)
        self._move_up(partition)
        try:
            for _ in restoration.install():
                yield GiveWay()
            yield from self._state.registry.store_segments(name, number, restoration.end)
        finally:
            _drop(partition)
        self._state.check_alive(topic)
        if topic.partition(number) is not partition:  # It was away meanwhile.
            raise _lost(partition.log.start)
        partition.holes = [*restoration.holes, *partition.holes]
        self._remember_ids(partition, restoration)
        until_ms = self._state.clock.wall_ms() + hold_ms
        self._groups.move(
            partition, topic.group(group_name), restoration.goal, self._state.clock.steady_ms(), until_ms
        )
        topic.wake()
        yield from journal_durable(partition)

    def _current(self, partition: Partition, number: int) -> Restoration:
        """The restoration of that number, if it is the current one."""
        restoration = partition.restoration
        self._state.check_alive(partition.topic)
        if restoration is None or restoration.number != number or restoration.installing:
            raise _lost(partition.log.start)
        restoration.used_ms = self._state.clock.steady_ms()
        return restoration

    def _move_up(self, partition: Partition) -> None:
        """Consumers that had not noticed yet that retention overtook them do so now."""
        for group in partition.topic.groups.values():
            for consumer in group.consumers.values():
                position = consumer.positions.get(partition.number)
                if position is not None:
                    consumer.positions[partition.number] = max(position, partition.log.start)

    def _remember_ids(self, partition: Partition, restoration: Restoration) -> None:
        since_ms = self._state.clock.wall_ms() - partition.topic.settings.dedup_window_ms
        if restoration.dedup_last > partition.dedup_last:
            partition.dedup_last = restoration.dedup_last
            partition.snapshot_end = -1  # It does not say so, although the log ends where it did.
        if restoration.dedup_last >= 0 and restoration.staged.last_timestamp > since_ms:
            load_dedup_ids(self._state, partition)


def _lost(start: int) -> RestoreRefused:
    why = "it took too long, is done, or was replaced by a newer one; begin again"
    return RestoreRefused(start=start, end=start, why=why)


def _why_not(partition: Partition) -> str:
    if partition.topic.settings.compact:
        return "the topic is compacted, and keys that were deleted would live again"
    if partition.restoration is not None and partition.restoration.installing:
        return "others are just being put back; try again"
    return ""


def held_from(partition: Partition, wall_ms: int) -> int:
    """The first offset that retention must leave for a group, or for what is being put back below it."""
    if partition.restoration is not None:
        return partition.log.start
    held = [
        behind(cursor)
        for cursor in partition.groups.values()
        if wall_ms < cursor.held_until_ms and behind(cursor) < cursor.held_end
    ]
    return min(held, default=partition.log.end)


def forget_idle(partition: Partition, now_ms: int) -> None:
    """Discard a restoration that has not been continued for a while."""
    restoration = partition.restoration
    if restoration is not None and not restoration.installing and now_ms - restoration.used_ms >= IDLE_MS:
        logger.warning("restoring %s was given up: it was not continued", partition.directory)
        _drop(partition)


def _drop(partition: Partition) -> None:
    restoration, partition.restoration = partition.restoration, None
    if restoration is not None:
        try:
            restoration.discard()
        except PenstockError as error:  # The next open removes it.
            logger.warning("restoring %s: %s", partition.directory, error)
