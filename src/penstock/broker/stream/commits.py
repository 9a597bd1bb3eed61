"""Committed offsets of stream groups, set by clients that track their own position (Kafka consumers, Spark).

    commit            an offset for each partition, with metadata; creates the group if it is missing
    commit_offsets    the same without metadata, limited to the range of the log
    read              the offsets as they were committed
    forget            deletes committed offsets

A group that is only committed to is a stream group without members.  It has a committed offset on a
partition only after a commit or a ``seek`` there.  The offset stays as it was committed even if the log
begins after it by now: its reader has to notice that.  Offsets committed by Kafka clients carry the time of
the commit and expire (``kafka/expiry.py``).

A commit may also move a group back, so that a client that lost its results reads them again.  Offsets that
an open transaction is about to commit are *held*; ``unsettled`` reports that to callers that must not rely
on the old ones.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.broker.observability.tracing import check_offset
from penstock.broker.state import Group, GroupCursor, Partition, State, Topic
from penstock.broker.steps import Steps
from penstock.broker.storage.recovery import open_journal
from penstock.broker.storage.replay import committed_offset
from penstock.broker.topic.groups import Groups, journal_durable
from penstock.delivery import events
from penstock.errors import GroupKindMismatch, InvalidName, InvalidValue, NotAssigned, OffsetOutOfRange
from penstock.groups.commits import Commit
from penstock.types import NAME_LENGTH_MAX

NOBODY: Final = "a caller from outside"  # In the place of a member's name.
METADATA_BYTES_MAX: Final = 4096  # As Kafka's.
RENEWAL_MS: Final = 3600_000  # A repeated commit of the same offset is written this often.


class OffsetCommits:
    """Stores and returns the committed offsets of stream groups."""

    def __init__(self, state: State, groups: Groups) -> None:
        self._state = state
        self._groups = groups
        self._held: Counter[tuple[str, str, int]] = Counter()  # By group, topic, partition.

    def commit_offsets(self, name: str, group_name: str, offsets: dict[int, int]) -> Steps[None]:
        """Set the committed offsets of a stream group; the group is created if it is missing."""
        topic = self._state.topic(name)
        _check_offsets(topic, offsets)
        group = yield from self._groups.ensure(topic, group_name, {"kind": "stream"})
        yield from self._commit(group, {number: Commit(offset) for number, offset in offsets.items()})

    def commit(
        self, name: str, group_name: str, commits: Mapping[int, Commit], epoch: int | None = None
    ) -> Steps[None]:
        """``commit_offsets`` for Kafka clients: with metadata, any group name, and any offset.

        ``epoch`` is that of the coordinator in a cluster, and is compared in the step that writes; None: the
        commit has been decided, as part of a transaction.
        """
        topic = self._state.topic(name)
        check_group_id(group_name)
        for number, commit in commits.items():
            topic.partition(number)
            check_commit(commit)
        group = yield from self._groups.ensure(topic, group_name, {"kind": "stream"}, internal=True)
        kafka_group = self._state.kafka_groups.get(group_name)
        protocol = protocol_of(group) if kafka_group is None else kafka_group.machine.protocol_type or ""
        wall_ms = self._state.clock.wall_ms()
        if epoch is not None:
            self._state.registry.check_coordinator(group_name, epoch)
        stamped = {
            number: replace(commit, told_ms=wall_ms, protocol=commit.protocol or protocol)
            for number, commit in commits.items()
        }
        yield from self._commit(group, stamped)

    def check_kind(self, name: str, group_name: str) -> None:
        """Refuse committed offsets for a group that is a queue group on the topic."""
        group = self._state.topic(name).groups.get(group_name)
        if group is not None and group.settings.kind != "stream":
            raise GroupKindMismatch(operation="commit", kind="queue", group=group_name)

    def _commit(self, group: Group, commits: Mapping[int, Commit]) -> Steps[None]:
        topic = group.topic
        for number in commits:
            if group.coordinator.owner(number) is not None:
                raise NotAssigned(group=group.name, member=NOBODY, partition=number)
        group.reader_ms = self._state.clock.steady_ms()
        group.maybe_sample(group.reader_ms)
        partitions = [topic.partitions[number] for number in commits]  # Before one is closed meanwhile.
        for partition, commit in zip(partitions, commits.values(), strict=True):
            self._write(partition, group, commit)
        for partition in partitions:
            yield from journal_durable(partition)

    def _write(self, partition: Partition, group: Group, commit: Commit) -> None:
        cursor = partition.groups[group.name]
        known = cursor.commit
        if commit == known and commit.offset == cursor.committed and not is_stale(known, commit):
            return
        journal = open_journal(self._state, partition)
        journal.commit([committed(cursor, commit)], self._state.clock.steady_ms())
        self._state.commit.mark(journal.log)
        reached = committed_offset(partition, commit.offset)
        read = max(reached - cursor.committed, 0)
        group.delivered += read
        group.acked += read
        cursor.committed, cursor.commit = reached, commit

    # Committed offsets.

    def read(self, name: str, group_name: str) -> dict[int, Commit]:
        """The committed offsets of a stream group, by partition; none if there is no such group."""
        topic = self._state.readable(name)
        group = topic.groups.get(group_name)
        if group is None or group.settings.kind != "stream":
            return {}
        cursors = [(partition.number, partition.groups[group_name]) for partition in topic.partitions]
        return {number: cursor.commit for number, cursor in cursors if cursor.commit is not None}

    def forget(self, name: str, group_name: str, numbers: Iterable[int]) -> Steps[None]:
        """Remove the group's committed offsets on these partitions; it starts again there."""
        topic = self._state.topic(name)
        group = topic.group(group_name)
        if group.settings.kind != "stream":
            raise GroupKindMismatch(operation="forget", kind="queue", group=group_name)
        partitions = [topic.partition(number) for number in numbers]
        for partition in partitions:
            cursor = partition.groups[group_name]
            if cursor.commit is not None:
                journal = open_journal(self._state, partition)
                start = partition.log.start
                journal.commit([events.Forgotten(cursor.number, start)], self._state.clock.steady_ms())
                self._state.commit.mark(journal.log)
                cursor.commit, cursor.committed = None, start
        for partition in partitions:
            yield from journal_durable(partition)

    # Transactions.

    def hold(self, name: str, group_name: str, numbers: Iterable[int]) -> None:
        """Note that an open transaction may commit these."""
        self._held.update((group_name, name, number) for number in numbers)

    def release(self, name: str, group_name: str, numbers: Iterable[int]) -> None:
        self._held.subtract((group_name, name, number) for number in numbers)
        self._held += Counter()  # Without those that are not held.

    def unsettled(self, name: str, group_name: str, number: int) -> bool:
        """Whether an open transaction may still change this committed offset."""
        return self._held[group_name, name, number] > 0


def protocol_of(group: Group) -> str:
    """The protocol of the members that a Kafka group had on a topic; empty if it had none.

    Kafka's admin clients tell by it whether an empty group is one of consumers.
    """
    for partition in group.topic.partitions:
        commit = partition.groups[group.name].commit
        if commit is not None and commit.protocol:
            return commit.protocol
    return ""


def committed(cursor: GroupCursor, commit: Commit) -> events.Committed:
    """The commit as the journal has it."""
    return events.Committed(
        cursor.number,
        commit.offset,
        cursor.committed,
        commit.leader_epoch,
        commit.metadata,
        commit.told_ms,
        commit.protocol,
    )


def is_stale(known: Commit, commit: Commit) -> bool:
    """Whether a repeated commit is written again, because the time of the last one is old."""
    if known.told_ms < 0 or commit.told_ms < 0:
        return known.told_ms != commit.told_ms
    return commit.told_ms - known.told_ms >= RENEWAL_MS


def check_group_id(name: Any) -> None:
    """Refuse group names that the broker uses itself; Kafka's clients may use all others."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or name.startswith("__"):
        why = "it is empty, too long, or begins like the broker's own"
        raise InvalidName(kind="group", name=str(name)[:20], why=why)


def check_commit(commit: Commit) -> None:
    """Refuse an invalid offset, and metadata that is too long."""
    if len(commit.metadata.encode()) > METADATA_BYTES_MAX:
        why = f"it has more than {METADATA_BYTES_MAX} bytes"
        raise InvalidValue(name="metadata", value=commit.metadata[:20], why=why)


def _check_offsets(topic: Topic, offsets: dict[int, int]) -> None:
    """Check all offsets before any of them is written."""
    if not isinstance(offsets, dict):
        raise InvalidValue(name="offsets", value=offsets, why="it is a dict of partitions and offsets")
    for number, offset in offsets.items():
        log = topic.partition(number).log
        check_offset(offset)
        if not 0 <= offset <= log.high:
            raise OffsetOutOfRange(offset=offset, start=log.start, end=log.high)
