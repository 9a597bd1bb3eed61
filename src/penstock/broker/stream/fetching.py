"""Raw record batches for readers that track their own position: queries, archives, copies.

    fetch            record batches from an offset on       bytes of the file, nothing is decoded
    offsets          the offset for a time                  to know where to begin and to end

A fetch costs one look-up and one read, however many records it returns.  It returns
what consumers may see, so it never waits; only the buffered events of a journal are
written first.

Such a reader reports its progress with commits (``commits.py``).
"""

from penstock.broker.state import Partition, State
from penstock.broker.steps import Steps
from penstock.broker.topic.groups import journal_durable
from penstock.errors import OffsetOutOfRange
from penstock.log.log import Log
from penstock.model.info import Fetched
from penstock.types import Instant, check_fetch, instant_ms


class Fetching:
    """What readers from outside ask for."""

    def __init__(self, state: State) -> None:
        self._state = state

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
