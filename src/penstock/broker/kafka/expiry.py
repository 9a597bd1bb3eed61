"""Expiry of committed offsets of Kafka groups, by Kafka's rules.

    a commit by a Kafka client ──> its time is stored
    a group with members       ──> renewed once an hour
    no members for ``offsets_retention`` (and up to an hour) ──> expired; a group without offsets is deleted

So the time since the last member left counts, and for a reader that uses no group protocol the time
since its own last commit.  Nothing expires in the first hour after a start: while the broker was down
no member could renew its offsets, and every live client reconnects within that time.

Only offsets committed by Kafka clients expire.  Offsets that were committed otherwise (by Spark queries, by
Penstock's own consumers, by ``commit_offsets``) or set by an operator (``seek``) stay until they are deleted.

Cost: once an hour a pass over every group on every partition; one journal event for each offset that
is renewed.
"""

import logging
from dataclasses import replace
from typing import Final

from penstock.broker.state import Group, Partition, State
from penstock.broker.steps import GiveWay, Steps
from penstock.broker.storage.recovery import open_journal
from penstock.broker.stream.commits import RENEWAL_MS, OffsetCommits, committed
from penstock.broker.topic.groups import Groups
from penstock.config.broker import GroupSettings
from penstock.errors import PenstockError
from penstock.groups.commits import Commit

logger = logging.getLogger("penstock")

FLUSH_MS: Final = 1000
MADE: Final = GroupSettings(kind="stream")  # The options of a group that was created by a commit.

PartitionCommits = list[tuple[Partition, Commit]]


class Expiry:
    """Deletes expired offsets of Kafka groups."""

    def __init__(self, state: State, groups: Groups, commits: OffsetCommits) -> None:
        self._state = state
        self._groups = groups
        self._commits = commits
        self._due_ms = -1  # Steady time of the next pass; -1: the broker was just opened.

    def look(self) -> Steps[None]:
        """Renew offsets that are in use and delete expired ones, once an hour."""
        now_ms = self._state.clock.steady_ms()
        if 0 <= self._due_ms <= now_ms:
            for topic in list(self._state.topics.values()):
                for group in list(topic.groups.values()):
                    if group.settings.kind == "stream" and not topic.deleted:
                        yield from self._look_at(group)
                yield GiveWay()
        elif self._due_ms >= 0:
            return
        self._due_ms = now_ms + RENEWAL_MS

    def _look_at(self, group: Group) -> Steps[None]:
        commits = _kafka_commits(group)
        try:
            if group.name in self._state.kafka_groups:
                self._renew(group, commits)
            elif commits and not group.consumers:
                yield from self._forget(group, commits)
        except PenstockError as error:  # Most likely a full disk; continue with the others.
            logger.warning("committed offsets of group %s on %s: %s", group.name, group.topic.name, error)

    def _renew(self, group: Group, commits: PartitionCommits) -> None:
        wall_ms, now_ms = self._state.clock.wall_ms(), self._state.clock.steady_ms()
        for partition, commit in commits:
            if wall_ms - commit.told_ms >= RENEWAL_MS:
                cursor = partition.groups[group.name]
                cursor.commit = replace(commit, told_ms=wall_ms)
                open_journal(self._state, partition).note(committed(cursor, cursor.commit), now_ms)
                self._state.alarms.set(self._state.flush, now_ms + FLUSH_MS)

    def _forget(self, group: Group, commits: PartitionCommits) -> Steps[None]:
        topic = group.topic
        horizon_ms = self._state.aging_ms() - self._state.config.offsets_retention_ms - RENEWAL_MS
        old = [
            partition.number
            for partition, commit in commits
            if commit.told_ms <= horizon_ms
            and not self._commits.unsettled(topic.name, group.name, partition.number)
        ]
        if not old:
            return
        logger.info("%d committed offsets of group %s on %s have expired", len(old), group.name, topic.name)
        yield from self._commits.forget(topic.name, group.name, old)
        unplaced = all(partition.groups[group.name].commit is None for partition in topic.partitions)
        if unplaced and group.settings == MADE and not group.consumers:
            yield from self._groups.delete(topic.name, group.name)


def _kafka_commits(group: Group) -> PartitionCommits:
    """The offsets that Kafka clients have committed."""
    commits = [(partition, partition.groups[group.name].commit) for partition in group.topic.partitions]
    return [
        (partition, commit) for partition, commit in commits if commit is not None and commit.told_ms >= 0
    ]
