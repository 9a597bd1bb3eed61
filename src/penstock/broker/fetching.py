"""Logs as they are, for readers that keep their own place: queries, archives, copies.

    fetch            record batches from an offset on       bytes of the file, nothing is decoded
    offsets          which offset a time is                 to know where to begin and to end
    commit_offsets   how far the reader has come            so that its lag is seen like any consumer's

A fetch costs one look-up and one read, however many records that are.  It
shows what consumers may see, so it waits for nothing; only the end of a journal
is written down first, because delivery notes its events before it writes them.

A group that is committed to from outside is a stream group without members.
Its place may be set back as well: who has lost what it read reads it again.
"""

from typing import Final

from penstock.broker.groups import Groups, journal_durable
from penstock.broker.recovery import open_journal
from penstock.broker.state import Group, Partition, State, Topic
from penstock.broker.steps import Steps
from penstock.broker.tracing import check_offset
from penstock.delivery import events
from penstock.errors import InvalidValue, NotAssigned, OffsetOutOfRange
from penstock.info import Fetched
from penstock.log.log import Log
from penstock.types import Instant, check_fetch, instant_ms

NOBODY: Final = "a caller from outside"  # In the place of a member's name.


class Fetching:
    """What readers from outside ask for."""

    def __init__(self, state: State, groups: Groups) -> None:
        self._state = state
        self._groups = groups

    def fetch(self, name: str, number: int, offset: int, max_bytes: int, journal: bool) -> Steps[Fetched]:
        """Whole record batches from the one that holds ``offset`` on; nothing at the end."""
        check_fetch(number, offset, max_bytes)
        partition = self._state.topic(name).partition(number)
        log = partition.log
        if journal:
            if partition.journal is None:  # Nobody has read here yet: it is as if it were empty.
                return _nothing_yet(offset)
            log = partition.journal.log
            if offset >= log.high:
                yield from _write_down(partition)
        batches, following = log.fetch(offset, min(max_bytes, self._state.config.receive_bytes_max))
        return Fetched(start=log.start, end=log.high, next_offset=following, batches=batches)

    def offsets(self, name: str, at: str | Instant, journal: bool) -> Steps[dict[int, int]]:
        """By partition: the first offset, the one after the last, or the first not older than ``at``."""
        topic = self._state.topic(name)
        if not journal:
            return {partition.number: _offset_at(partition.log, at) for partition in topic.partitions}
        found = dict.fromkeys(range(len(topic.partitions)), 0)
        for partition in topic.partitions:
            if partition.journal is not None:
                yield from _write_down(partition)
                found[partition.number] = _offset_at(partition.journal.log, at)
        return found

    def commit_offsets(self, name: str, group_name: str, offsets: dict[int, int]) -> Steps[None]:
        """Set a stream group's place from outside; the group is made if it is not there."""
        topic = self._state.topic(name)
        _check_offsets(topic, offsets)
        group = yield from self._groups.ensure(topic, group_name, {"kind": "stream"})
        for number in offsets:
            if group.coordinator.owner(number) is not None:
                raise NotAssigned(group=group_name, member=NOBODY, partition=number)
        group.reader_ms = self._state.clock.steady_ms()
        group.maybe_sample(group.reader_ms)
        for number, offset in offsets.items():
            self._commit(topic.partitions[number], group, offset)
        for number in offsets:
            yield from journal_durable(topic.partitions[number])

    def _commit(self, partition: Partition, group: Group, offset: int) -> None:
        member = partition.groups[group.name]
        if offset == member.committed:
            return
        journal = open_journal(self._state, partition)
        committed = events.Committed(member.number, offset, member.committed)
        journal.commit([committed], self._state.clock.steady_ms())
        self._state.commit.mark(journal.log)
        read = max(offset - member.committed, 0)
        group.delivered += read
        group.acked += read
        member.committed = offset


def _write_down(partition: Partition) -> Steps[None]:
    """What was only noted, to the end of the journal, where readers may see it."""
    assert partition.journal is not None
    partition.journal.flush()
    yield from journal_durable(partition)


def _nothing_yet(offset: int) -> Fetched:
    if offset != 0:
        raise OffsetOutOfRange(offset=offset, start=0, end=0)
    return Fetched(start=0, end=0, next_offset=0, batches=b"")


def _offset_at(log: Log, at: str | Instant) -> int:
    if at == "earliest":
        return log.start
    if at == "latest":
        return log.high
    return min(log.offset_at(instant_ms("at", at)), log.high)


def _check_offsets(topic: Topic, offsets: dict[int, int]) -> None:
    """Before anything is written: all of them, or none."""
    if not isinstance(offsets, dict):
        raise InvalidValue(name="offsets", value=offsets, why="it is a dict of partitions and offsets")
    for number, offset in offsets.items():
        log = topic.partition(number).log
        check_offset(offset)
        if not 0 <= offset <= log.high:
            raise OffsetOutOfRange(offset=offset, start=log.start, end=log.high)
