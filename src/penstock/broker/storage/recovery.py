"""Opening a partition: from the files back to the state the broker had.

    data log        recovered by ``log/``, which cuts a torn tail
    producers       idempotent producers, transactions, and the batches since (producer_snapshot.py)
    snapshot        groups and outbox numbers as of some journal offset
    journal         replayed from there through the same engine calls that made it
    schedule        reconciled with the data log (schedule/)

Leases of the previous process are returned at once, and the attempt counts: their
consumers are gone and may have begun the work.  If the recovered log is shorter than
the journal says (durability "os" after a power cut), the groups forget the missing
offsets.
"""

from contextlib import suppress
from typing import Final

from penstock.broker.journal.journal import Journal
from penstock.broker.state import GroupCursor, Partition, State, Topic
from penstock.broker.storage.producer_snapshot import load_producer_snapshot
from penstock.broker.storage.replay import (
    apply,
    lease_number,
    load_snapshot,
    remember_failure,
    snapshot_state,
)
from penstock.config.broker import TopicSettings
from penstock.delivery import events
from penstock.delivery.engine import DeliveryEngine
from penstock.delivery.retries import PARKED_MS
from penstock.errors import PenstockError
from penstock.log.log import Log, LogConfig
from penstock.log.maintenance.restoring import holes_in
from penstock.schedule.schedule import Schedule

JOURNAL: Final = "journal"  # The folders in that of a partition.
SCHEDULE: Final = "schedule"
INTENTS: Final = "intents"  # In the folder of the topic; it belongs to partition 0.
# More leases than a journal can lack after a crash: those of a second.
LEASES_FORGOTTEN_MAX: Final = 1 << 20


def log_config(settings: TopicSettings) -> LogConfig:
    """The configuration of the topic's data log."""
    return LogConfig(segment_bytes=settings.segment_bytes, durability=settings.durability)


def open_partition(state: State, topic: Topic, number: int, epoch: int = 0) -> Partition:
    """Open or create one partition with its journal and schedule; ``epoch``: see ``Partition``."""
    directory = f"{topic.directory}/{number}"
    partition = Partition(topic, number, Log.open(topic.files, directory, log_config(topic.settings)))
    partition.epoch = partition.log.leader_epoch = epoch
    state.watch(partition.log, "data", topic.name, number)
    try:
        load_producer_snapshot(
            partition, state.clock.wall_ms()
        )  # First: from then on the log hides what was aborted.
        beside = topic.files.list(directory)
        if JOURNAL in beside:
            journal = open_journal(state, partition)
            whole = _replay(partition)
            _settle_in(state, partition, whole)
            if not whole:
                journal.save_snapshot(snapshot_state(partition))  # What is missing counts only once.
        if SCHEDULE in beside:
            open_schedule(state, partition)
    except PenstockError:
        partition.log.abandon()
        if partition.journal is not None:
            partition.journal.log.abandon()
        raise
    return partition


def new_partition(state: State, topic: Topic, number: int) -> Partition:
    """A partition without any files, created without a system call."""
    log = Log(topic.files, f"{topic.directory}/{number}", log_config(topic.settings), new=True)
    partition = Partition(topic, number, log)
    partition.snapshot_segments = log.segment_count
    state.watch(log, "data", topic.name, number)
    return partition


def open_journal(state: State, partition: Partition) -> Journal:
    """The partition's journal, created if it has none."""
    if partition.journal is None:
        directory = f"{partition.directory}/{JOURNAL}"
        files = partition.topic.files
        partition.journal = Journal(files, directory, partition.topic.settings.durability, state.clock)
        state.watch(partition.journal.log, "journal", partition.topic.name, partition.number)
    return partition.journal


def open_schedule(state: State, partition: Partition) -> Schedule:
    """The partition's schedule, created if it has none."""
    if partition.schedule is None:
        directory = f"{partition.directory}/{SCHEDULE}"
        files = partition.topic.files
        config = LogConfig(durability=partition.topic.settings.durability)
        partition.schedule = Schedule.open(files, directory, config, partition.log, state.clock.wall_ms())
        state.watch(partition.schedule.log, "schedule", partition.topic.name, partition.number)
    return partition.schedule


def _replay(partition: Partition) -> bool:
    """Replay the journal; False if a part of it cannot be read."""
    journal = partition.journal
    assert journal is not None
    snapshot = journal.load_snapshot()
    start = 0
    if snapshot is None:
        journal.check_whole()
    else:
        load_snapshot(partition, snapshot)
        start = snapshot["journal_offset"]
    numbers = {cursor.number: cursor for cursor in partition.groups.values()}
    expected = max(start, journal.log.start)
    whole = True
    for offset, time_ms, event in journal.events(start):
        whole = whole and offset == expected  # A journal is never compacted: a gap was damaged once.
        expected = offset + 1
        apply(partition, numbers, event, time_ms)
        partition.group_numbers = max(partition.group_numbers, event.group)
    if start > journal.log.end:
        # The snapshot outlived the end of the journal; say where it holds from now on.
        journal.save_snapshot(snapshot_state(partition))
    return whole and expected >= journal.log.end


def _settle_in(state: State, partition: Partition, whole: bool) -> None:
    """Give back the leases of the last process, and forget offsets that the log has lost.

    If the journal is not ``whole``, a lease may be unknown, whose messages would never be delivered again.
    Then only what is settled counts: everything else is delivered again, as if for the first time.
    """
    journal = partition.journal
    assert journal is not None
    now_ms = state.clock.steady_ms()
    shorter = False
    for cursor in partition.groups.values():
        if not whole or max(cursor.engine.end(), cursor.committed) > partition.log.end:
            written = _without_lost(state, cursor, partition.log.end, whole)
            journal.commit(written, now_ms)
            for event in written:
                apply(partition, {cursor.number: cursor}, event, now_ms)
            shorter = True
        if behind(cursor) < partition.log.start:
            skip_deleted(partition, cursor, now_ms)
        _give_back_all(state, journal, cursor, now_ms)
        rebuild_gate(cursor)
        _number_on(cursor.engine, lease_number(partition, state.clock.wall_ms()))
    held_end = _held_end(partition, state.clock.wall_ms())
    if held_end:
        with suppress(PenstockError):  # Reading reports a damaged batch.
            partition.holes = holes_in(partition.log, held_end)
    journal.flush()
    if shorter:
        # The log will grow over the offsets that were lost.  By then it must be written that the
        # decisions about them are void, or they would swallow the new messages.
        journal.log.sync()


def _give_back_all(state: State, journal: Journal, cursor: GroupCursor, now_ms: int) -> None:
    """Give back all leases of the last process."""
    counted = _counted(state)
    for lease in list(cursor.engine.leases.values()):
        for start, end in lease.unsettled():
            back = events.GivenBack(
                cursor.number, lease.number, start, end, lease.attempt + counted, now_ms, events.RESTARTED,
                failed_attempt=lease.attempt,
            )  # fmt: skip
            journal.note(back, now_ms)
            cursor.engine.give_back(lease.number, start, end, lease.attempt + counted, now_ms)
            if counted:
                remember_failure(cursor, back, state.clock.wall_ms())


def _counted(state: State) -> int:
    """How much the end of a process adds to the attempts of the messages that it had leased.

    It counts if the consumer was in that process, and so ended with it: the message may be why.
    """
    return 0 if state.config.consumers_elsewhere else 1


def _held_end(partition: Partition, wall_ms: int) -> int:
    """Below it messages were put back for groups that still need them; 0 if there are none."""
    held = (cursor for cursor in partition.groups.values() if wall_ms < cursor.held_until_ms)
    return max((cursor.held_end for cursor in held if behind(cursor) < cursor.held_end), default=0)


def _number_on(engine: DeliveryEngine, number: int) -> None:
    """Continue the lease numbers: a late ack must not settle another lease.

    A process that crashed has leased more than its journal says.  By the clock, or in a cluster by the
    epoch, all those numbers are below ``number``.
    """
    set_back = number <= engine.next_number
    engine.next_number = engine.next_number + LEASES_FORGOTTEN_MAX if set_back else number


def _without_lost(state: State, cursor: GroupCursor, end: int, whole: bool) -> list[events.AnyEvent]:
    """Events that restore a group's state up to the offset ``end``; only settled offsets unless ``whole``."""
    engine, group = cursor.engine, cursor.number
    written: list[events.AnyEvent] = [events.Sought(group, min(engine.floor, end))]
    for start, stop in engine.done.ranges():
        if start < end:
            written.append(events.Settled(group, -1, start, min(stop, end), events.SKIPPED))
    waiting = [
        (start, stop, engine.waiting_attempt(start), due_ms)
        for start, stop, due_ms in engine.waiting_ranges()
    ]
    waiting += [(start, stop, attempt, 0) for start, stop, attempt in engine.exhausted]
    for lease in engine.leases.values():
        attempt = lease.attempt + _counted(state)
        waiting += [(start, stop, attempt, 0) for start, stop in lease.unsettled()]
    prepared = {start: number for start, stop, _, number in engine.prepared_ranges() if stop <= end}
    waiting += [(start, stop, attempt, 0) for start, stop, attempt, _ in engine.prepared_ranges()]
    # By rising offsets, as they were handed out: each lane's cursor follows.
    waiting = sorted(waiting) if whole else []
    for number, (start, stop, attempt, due_ms) in enumerate(waiting, engine.next_number):
        if start < end:
            stop = min(stop, end)
            if start in prepared:
                written.append(events.Leased(group, prepared[start], start, stop, attempt, 0, ""))
                written.append(events.prepared(group, prepared[start], start, stop, attempt))
                continue
            written.append(events.Leased(group, number, start, stop, max(attempt - 1, 1), 0, ""))
            written.append(events.GivenBack(group, number, start, stop, attempt, due_ms, events.RELEASED))
    if cursor.settings.kind == "stream":
        written += _kept_commit(cursor, end)
    return written


def _kept_commit(cursor: GroupCursor, end: int) -> list[events.AnyEvent]:
    """The position of a stream group, committed or not, within what is left of the log."""
    commit = cursor.commit
    if commit is None:
        return [events.Forgotten(cursor.number, min(cursor.committed, end))]
    offset = min(commit.offset, end)
    written = (commit.leader_epoch, commit.metadata, commit.told_ms, commit.protocol)
    return [events.Committed(cursor.number, offset, -1, *written)]


def behind(cursor: GroupCursor) -> int:
    """The first offset that the group has not settled or committed."""
    return cursor.committed if cursor.settings.kind == "stream" else cursor.engine.floor


def skip_deleted(partition: Partition, cursor: GroupCursor, now_ms: int) -> None:
    """Retention has overtaken the group: note what it lost."""
    start = partition.log.start
    count = cursor.engine.skip_to(start)
    if cursor.settings.kind == "stream":
        count = max(start - cursor.committed, 0)
    cursor.committed = max(cursor.committed, start)
    cursor.lost += count
    forget = [offset for offset in cursor.failures if offset < start]
    for offset in forget:
        del cursor.failures[offset]
    assert partition.journal is not None
    partition.journal.note(events.Lost(cursor.number, start, count), now_ms)


def rebuild_gate(cursor: GroupCursor) -> None:
    """Ordered groups: let the keys of everything undelivered stand in line again, oldest first."""
    if cursor.gate is None:
        return
    cursor.gate.clear()
    cursor.unparked.clear()
    prepared = [(start, end, 0) for start, end, _, _ in cursor.engine.prepared_ranges()]
    for start, end, due_ms in sorted(cursor.engine.waiting_ranges() + prepared):
        for record in cursor.records(start, end):
            admitted = record.key is None or cursor.gate.admit(record.offset, record.key)
            if admitted and due_ms == PARKED_MS:
                cursor.unparked.append(record.offset)
