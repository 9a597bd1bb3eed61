"""Reads from logs for readers that keep their own position: queries, archives, Kafka's clients.

    fetch       record batches from an offset on     bytes of the file, nothing is decoded
    fetch_raw   the same, with open and aborted transactions, for readers that apply Kafka's rules
    offsets     by partition, the offset of a time   to know where to begin and to end
    position    the offset of a time, with its record's timestamp and epoch
    layout      id, partitions and settings of a topic
    arrival     waits until something happens on a topic

A fetch costs one look-up and one read, whatever the number of records.  ``fetch``
shows what consumers may see: batches of aborted transactions come as empty ones.
It waits for nothing, except at the end of a journal, which is flushed first
because delivery notes its events before it writes them.

Such readers report their progress by commits (``commits.py``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from penstock.broker.state import Partition, State
from penstock.broker.steps import Arrival, Steps
from penstock.broker.topic.catalogue import Catalogue
from penstock.broker.topic.groups import journal_durable
from penstock.config.broker import TopicSettings
from penstock.errors import NotCached, OffsetOutOfRange
from penstock.log.log import Log
from penstock.model.info import Fetched
from penstock.types import Instant, check_fetch, instant_ms

At = Literal["earliest", "latest", "newest"] | int

NOWHERE: Final = -1


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    id: bytes
    partitions: int
    settings: TopicSettings


class RawFetched(Fetched, frozen=True, kw_only=True, gc=False):
    """Batches and their transactions; up to ``end`` all transactions are decided."""

    safe: int  # What is below is durable, also of transactions that are still open.
    aborted: list[tuple[int, int]]  # Producer and first offset of transactions that do not count.


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """An offset in a partition, with the time and epoch of its record."""

    offset: int  # NOWHERE if there is none.
    timestamp: int = NOWHERE
    leader_epoch: int = 0


class Fetching:
    def __init__(self, state: State, catalogue: Catalogue) -> None:
        self._state = state
        self.names: Mapping[bytes, str] = MappingProxyType(catalogue.names)  # Of all topics, by id.

    def layout(self, name: str) -> Layout:
        topic = self._state.topic(name)
        return Layout(topic=name, id=topic.id, partitions=len(topic.partitions), settings=topic.settings)

    def fetch(self, name: str, number: int, offset: int, max_bytes: int, journal: bool) -> Steps[Fetched]:
        """Whole record batches from the one that holds ``offset`` on; nothing at the end."""
        check_fetch(number, offset, max_bytes)
        partition = self._state.readable(name, number).partition(number)
        log = partition.log
        if journal:
            if partition.journal is None:  # There is no group yet: treated as empty.
                return _nothing_yet(offset)
            log = partition.journal.log
            if offset >= log.high:
                yield from _write_down(partition)
        batches, following = log.fetch(offset, min(max_bytes, self._state.config.receive_bytes_max))
        return Fetched(start=log.start, end=log.high, next_offset=following, batches=batches)

    def fetch_raw(self, name: str, number: int, offset: int, max_bytes: int, committed: bool) -> RawFetched:
        """Whole batches from the one that holds ``offset`` on; nothing at the end, or with 0 bytes.

        The first batch may be larger than ``max_bytes``.
        ``committed``: up to the first transaction that is open, and with those that were aborted.
        """
        check_fetch(number, offset, max(max_bytes, 1))
        log = self._state.readable(name, number).partition(number).log
        upto = log.high if committed else log.safe
        undecided = upto < offset <= log.safe  # It was there already, in the middle of what is still open.
        if undecided or (max_bytes == 0 and log.start <= offset <= upto):
            batches, following = b"", offset
        else:
            try:
                batches, following = log.fetch_all(
                    offset, min(max_bytes, self._state.config.receive_bytes_max), upto
                )
            except NotCached:  # The topic wakes those who wait when it is here.
                batches, following = b"", offset
        aborted = log.transactions.aborted(offset, following) if committed and batches else []
        return RawFetched(
            start=log.start,
            end=log.high,
            next_offset=following,
            batches=batches,
            safe=log.safe,
            aborted=aborted,
        )

    def offsets(self, name: str, at: str | Instant, journal: bool) -> Steps[dict[int, int]]:
        """By partition: the first offset, the one after the last, or the first not older than ``at``."""
        topic = self._state.readable(name)
        if not journal:
            return {partition.number: _offset_at(partition.log, at) for partition in topic.partitions}
        found = dict.fromkeys(range(len(topic.partitions)), 0)
        for partition in topic.partitions:
            if partition.journal is not None:
                yield from _write_down(partition)
                found[partition.number] = _offset_at(partition.journal.log, at)
        return found

    def arrival(self, name: str, until_ms: int) -> Steps[None]:
        """Wait until something is published to a topic, at most until that time."""
        topic = self._state.topic(name)
        yield Arrival(topic, until_ms)

    def position(self, name: str, number: int, at: At, committed: bool) -> Position:
        """The first offset, the one after the last, that of the newest record, or the first since a time."""
        partition = self._state.readable(name, number).partition(number)
        log = partition.log
        end = log.high if committed else log.safe
        match at:
            case "earliest":
                return Position(offset=log.start, leader_epoch=log.leader_epoch)
            case "latest":
                return Position(offset=end, leader_epoch=log.leader_epoch)
            case "newest":
                return _newest(partition, end)
            case _:
                return _since(partition, int(at), end)


def _write_down(partition: Partition) -> Steps[None]:
    """Write buffered events to the journal, where readers can see them."""
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


def _since(partition: Partition, time_ms: int, end: int) -> Position:
    log = partition.log
    offset = log.offset_at(time_ms)
    return _at(partition, offset) if offset < end else Position(offset=NOWHERE)


def _newest(partition: Partition, end: int) -> Position:
    """The record with the highest timestamp."""
    log = partition.log
    if log.start >= end:
        return Position(offset=NOWHERE)
    found = _since(partition, log.last_timestamp, end)
    if found.offset == NOWHERE:  # That is the time of a marker, or of what readers do not see yet.
        newest = max((record.timestamp for record in log.last(1)), default=NOWHERE)
        return _since(partition, newest, end) if newest >= 0 else found
    return found


def _at(partition: Partition, offset: int) -> Position:
    log = partition.log
    found = log.records(offset, offset + 1)
    if not found:
        raise OffsetOutOfRange(offset=offset, start=log.start, end=log.high)
    return Position(offset=offset, timestamp=found[0].timestamp, leader_epoch=log.leader_epoch)
