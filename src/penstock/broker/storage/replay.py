"""Replays the journal: applies earlier decisions to fresh state.

Each event goes through the same engine call that it was written for, so the state
after replay is the state before the crash.  An event may name a lease that replay does
not know (its ``Leased`` was only buffered, and lost); the settlement counts all the
same.  A snapshot contains that state as a whole.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.broker.state import AttemptHistory, GroupCursor, Partition
from penstock.config.backoff import Backoff
from penstock.config.broker import GroupSettings
from penstock.delivery import events
from penstock.delivery.engine import HELD, DeliveryEngine
from penstock.groups.commits import Commit

END = -1  # In the place of an offset, as Kafka's clients say it.
EPOCH_BITS = 40  # Leases of one epoch: enough for years.
LANE_WEIGHTS = {2: 50, 1: 25, 0: 15, -1: 7, -2: 3}  # Shares of the lanes in a weighted group.


def lease_number(partition: Partition, wall_ms: int) -> int:
    """A number above all that any engine used before: none leases 256 ranges in a millisecond.

    In a cluster it goes by the partition's epoch, since the clocks of two nodes may differ.
    """
    return partition.epoch << EPOCH_BITS if partition.epoch else wall_ms << 8


def new_engine(settings: GroupSettings, floor: int, partition: Partition, wall_ms: int) -> DeliveryEngine:
    """An engine for a group that begins now, at ``floor``; another may have had its name before."""
    weights = LANE_WEIGHTS if settings.lanes == "weighted" else None
    engine = DeliveryEngine(floor, partition.log.lanes, settings.max_attempts, weights)
    engine.next_number = lease_number(partition, wall_ms)
    return engine


def apply(
    partition: Partition, numbers: dict[int, GroupCursor], event: events.AnyEvent, time_ms: int
) -> None:
    """Apply an event to the partition's groups."""
    match event:
        case events.GroupSet():
            _apply_group(partition, numbers, event, time_ms)
        case events.Outbox():
            for output in event.outputs:
                partition.outbox.append(output)
                partition.outbox_targets.add((output.topic, output.partition))
        case events.Redriven():
            pass  # For trace only.
        case events.GroupDeleted():
            cursor = numbers.pop(event.group, None)
            if cursor is not None:
                del partition.groups[cursor.group]
        case _:
            _apply_to_group(numbers.get(event.group), event, time_ms)


def _apply_to_group(cursor: GroupCursor | None, event: events.AnyEvent, time_ms: int) -> None:
    if cursor is None:
        return  # The group was deleted later, before the snapshot.
    _APPLY[type(event)](cursor, event)
    if isinstance(event, events.GivenBack):
        remember_failure(cursor, event, time_ms)


def _apply_group(
    partition: Partition, numbers: dict[int, GroupCursor], event: events.GroupSet, time_ms: int
) -> None:
    settings = msgspec.json.decode(event.settings, type=GroupSettings)
    known = partition.groups.get(event.name)
    if known is None:
        engine = new_engine(settings, event.floor, partition, time_ms)
        cursor = GroupCursor(partition, event.name, event.group, settings, engine)
        partition.groups[event.name] = numbers[event.group] = cursor
        partition.group_numbers = max(partition.group_numbers, event.group)
    else:
        change_settings(known, settings)


def change_settings(cursor: GroupCursor, settings: GroupSettings) -> None:
    """Change the settings of a running group; its position and its leases stay."""
    cursor.settings = settings
    cursor.backoff = Backoff.decode(settings.backoff)
    cursor.uncommitted = settings.uncommitted
    cursor.engine.attempts_max = settings.max_attempts


def _apply_leased(cursor: GroupCursor, event: events.Leased) -> None:
    cursor.engine.restore_lease(event.lease, event.start, event.end, event.attempt, event.deadline_ms, 0)


def _apply_settled(cursor: GroupCursor, event: events.Settled) -> None:
    if cursor.engine.settle(event.lease, event.start, event.end) != HELD:
        cursor.engine.settle_free(event.start, event.end)
    forget_failures(cursor, event.start, event.end)


def _apply_given_back(cursor: GroupCursor, event: events.GivenBack) -> None:
    engine = cursor.engine
    if event.why == events.PREPARED:
        engine.hold(event.lease, event.start, event.end, durably=True)
    elif engine.give_back(event.lease, event.start, event.end, event.attempt, event.due_ms) != HELD:
        engine.let_go(event.lease, event.start, event.end, event.due_ms)  # If it was prepared.


def _apply_extended(cursor: GroupCursor, event: events.Extended) -> None:
    cursor.engine.extend(event.lease, event.deadline_ms)


def _apply_sought(cursor: GroupCursor, event: events.Sought) -> None:
    cursor.engine.seek(event.offset)
    cursor.failures.clear()
    cursor.committed = event.offset
    cursor.commit = moved(cursor.commit, event.offset)


def moved(commit: Commit | None, offset: int) -> Commit:
    """The commit of a group that an operator has moved: it does not expire, and the group is what it was."""
    return Commit(offset, protocol="" if commit is None else commit.protocol)


def committed_offset(partition: Partition, offset: int) -> int:
    """The offset that a commit means; some of Kafka's clients commit -2 for the beginning, -1 for the end."""
    if offset >= 0:
        return offset
    return partition.log.end if offset == END else partition.log.start


def _apply_committed(cursor: GroupCursor, event: events.Committed) -> None:
    cursor.committed = committed_offset(cursor.partition, event.offset)
    cursor.commit = Commit(event.offset, event.epoch, event.metadata, event.told_ms, event.protocol)


def _apply_forgotten(cursor: GroupCursor, event: events.Forgotten) -> None:
    cursor.committed = event.offset
    cursor.commit = None


def _apply_lost(cursor: GroupCursor, event: events.Lost) -> None:
    cursor.engine.skip_to(event.offset)
    cursor.committed = max(cursor.committed, event.offset)
    cursor.lost += event.count


def _apply_held(cursor: GroupCursor, event: events.Held) -> None:
    cursor.held_end = event.end
    cursor.held_until_ms = event.until_ms


_APPLY: dict[type[events.Event], Callable[[GroupCursor, Any], None]] = {
    events.Leased: _apply_leased,
    events.Settled: _apply_settled,
    events.GivenBack: _apply_given_back,
    events.Extended: _apply_extended,
    events.Sought: _apply_sought,
    events.Committed: _apply_committed,
    events.Lost: _apply_lost,
    events.Held: _apply_held,
    events.Forgotten: _apply_forgotten,
}

# Given back without a failure: the consumer did nothing wrong.
_NO_FAILURE = frozenset({events.RELEASED, events.DEFERRED, events.PREPARED})


def remember_failure(cursor: GroupCursor, event: events.GivenBack, now_ms: int) -> None:
    """Remember a failed attempt of this range, for its dead letter."""
    if event.why in _NO_FAILURE or (event.why == events.RESTARTED and event.attempt == event.failed_attempt):
        return
    for offset in range(event.start, event.end):
        failure = cursor.failures.get(offset)
        if failure is None:
            failure = cursor.failures[offset] = AttemptHistory(now_ms, event.why)
        failure.last_ms = now_ms
        failure.why = event.why
        failure.attempts = event.failed_attempt
        if event.error_message or event.error_class:
            failure.error_class = event.error_class
            failure.error_message = event.error_message
            failure.fingerprint = event.fingerprint


def forget_failures(cursor: GroupCursor, start: int, end: int) -> None:
    """Forget the failures of a settled range; traces read them from the journal."""
    if cursor.failures:
        for offset in range(start, end):
            cursor.failures.pop(offset, None)


def finish(cursor: GroupCursor, start: int, end: int) -> None:
    """The range is settled: forget its failures, and let the next message of its key go."""
    forget_failures(cursor, start, end)
    if cursor.gate is not None:
        for offset in range(start, end):
            follower = cursor.gate.done(offset)
            if follower >= 0:
                cursor.unparked.append(follower)
                cursor.partition.topic.wake()


def snapshot_state(partition: Partition) -> dict[str, Any]:
    """The state that replay would otherwise have to rebuild."""
    return {
        "groups": [
            {
                "name": cursor.group,
                "number": cursor.number,
                "settings": msgspec.json.encode(cursor.settings),
                "engine": cursor.engine.snapshot(),
                "committed": cursor.committed,
                "commit": _encoded_commit(cursor.commit),
                "lost": cursor.lost,
                "held": [cursor.held_end, cursor.held_until_ms],
                "failures": [
                    [
                        offset,
                        f.first_ms,
                        f.last_ms,
                        f.why,
                        f.attempts,
                        f.error_class,
                        f.error_message,
                        f.fingerprint,
                    ]
                    for offset, f in cursor.failures.items()
                ],
            }
            for cursor in partition.groups.values()
        ],
        "group_numbers": partition.group_numbers,
    }


def _encoded_commit(commit: Commit | None) -> list[Any] | None:
    if commit is None:
        return None
    return [commit.offset, commit.leader_epoch, commit.metadata, commit.told_ms, commit.protocol]


def _commit(stored: dict[str, Any], cursor: GroupCursor) -> Commit | None:
    if "commit" in stored:
        return None if stored["commit"] is None else Commit(*stored["commit"])
    # An older snapshot does not have it: a group beyond the beginning has committed.
    return Commit(cursor.committed) if cursor.committed > cursor.engine.floor else None


def load_snapshot(partition: Partition, snapshot: dict[str, Any]) -> None:
    for stored in snapshot["groups"]:
        settings = msgspec.json.decode(stored["settings"], type=GroupSettings)
        engine = DeliveryEngine.restore(stored["engine"], partition.log.lanes)
        cursor = GroupCursor(partition, stored["name"], stored["number"], settings, engine)
        cursor.committed = stored["committed"]
        cursor.commit = _commit(stored, cursor)
        cursor.lost = stored["lost"]
        cursor.held_end, cursor.held_until_ms = stored.get("held", (0, 0))
        for offset, first_ms, last_ms, why, attempts, *error in stored["failures"]:
            failure = cursor.failures[offset] = AttemptHistory(first_ms, why)
            failure.last_ms = last_ms
            failure.attempts = attempts
            failure.error_class, failure.error_message, failure.fingerprint = error
        partition.groups[cursor.group] = cursor
    partition.group_numbers = snapshot["group_numbers"]
