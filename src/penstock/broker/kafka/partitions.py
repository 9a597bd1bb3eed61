"""Topics and partitions as readers of another protocol see them: ids, ends, batches with their transactions.

    names      topic ids and names            a view that is always right
    layout     a topic in numbers             what a client must know before it asks for more
    read       batches, markers and all       with what a client needs to leave out what was aborted
    arrival    until something happens        for a reader that has nothing to read
    position   which offset a time is         exact to the record

Unlike ``fetching``, which hides what was aborted, ``read`` shows the log as it is: readers that keep their
own place know Kafka's rules, and leave out by themselves what does not count."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from penstock.broker.state import Partition, State
from penstock.broker.steps import Arrival, Steps
from penstock.broker.topic.catalogue import Catalogue
from penstock.config.broker import TopicSettings
from penstock.errors import OffsetOutOfRange
from penstock.types import check_fetch

At = Literal["earliest", "latest", "newest"] | int

NOWHERE: Final = -1


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    id: bytes
    partitions: int
    settings: TopicSettings


class Chunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Record batches of one partition, as they lie in its log."""

    start: int  # The first offset that the log keeps.
    safe: int  # What is below is there to stay ...
    stable: int  # ... and of no transaction that is still open.
    batches: bytes  # RecordBatch v2, whole; the first may begin before the offset that was asked for.
    aborted: list[tuple[int, int]]  # Producer and first offset of transactions that do not count.


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a partition."""

    offset: int  # NOWHERE if there is none.
    timestamp: int = NOWHERE
    leader_epoch: int = 0


class Partitions:
    """What readers of another protocol ask for."""

    def __init__(self, state: State, catalogue: Catalogue) -> None:
        self._state = state
        self.names: Mapping[bytes, str] = MappingProxyType(catalogue.names)

    def layout(self, name: str) -> Layout:
        topic = self._state.topic(name)
        return Layout(topic=name, id=topic.id, partitions=len(topic.partitions), settings=topic.settings)

    def read(self, name: str, number: int, offset: int, max_bytes: int, committed: bool) -> Chunk:
        """Whole batches from the one that holds ``offset`` on; nothing at the end, or with 0 bytes.

        The first batch may be larger than ``max_bytes``.
        ``committed``: up to the first transaction that is open, and with those that were aborted.
        """
        check_fetch(number, offset, max(max_bytes, 1))
        log = self._state.topic(name).partition(number).log
        upto = log.high if committed else log.safe
        undecided = upto < offset <= log.safe  # It was there already, in the middle of what is still open.
        if undecided or (max_bytes == 0 and log.start <= offset <= upto):
            batches, following = b"", offset
        else:
            batches, following = log.fetch_all(
                offset, min(max_bytes, self._state.config.receive_bytes_max), upto
            )
        aborted = log.transactions.aborted(offset, following) if committed and batches else []
        return Chunk(start=log.start, safe=log.safe, stable=log.high, batches=batches, aborted=aborted)

    def arrival(self, name: str, until_ms: int) -> Steps[None]:
        """Wait until something happens on a topic, at most until then."""
        topic = self._state.topic(name)
        yield Arrival(topic, until_ms)

    def position(self, name: str, number: int, at: At, committed: bool) -> Position:
        """The first offset, the one after the last, that of the newest record, or the first since a time."""
        partition = self._state.topic(name).partition(number)
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
