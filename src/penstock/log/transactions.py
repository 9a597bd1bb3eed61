"""The transactions of one log: which are open, and what was aborted.

A transaction consists of the batches that one producer marks as transactional, up to
a marker: a control batch that commits or aborts them.

    offset      10   11   12   13   14   15   16
    batch       a    b    a    A!   -    b    B     a, b: producers    A!: a aborts    B: b commits
    open        a    a,b  a,b  b    b    b
    unstable    10   10   10   11   11   11   none: all is decided

Readers see what is below the first batch of any open transaction (``Log.high``),
without markers and aborted records.  Both are absent for them, like records that
compaction has removed: a gap in the offsets.

Invariants:

    T1  ``open`` is in the order of first offsets, so the first one is the lowest
    T2  aborts are kept by rising marker; behind an abort's ``stable`` no earlier offset is aborted later

Cost: a log without transactions has four empty arrays.  An abort takes 32 bytes
until retention has deleted its messages, a commit nothing; a look-up is a binary search and
as many steps as transactions were open at a time.  The state is part of the partition's
producer snapshot, and can be rebuilt from the batches.
"""

from array import array
from bisect import bisect_left
from typing import Any, Final

from penstock.wire.records import (
    CONTROL,
    LANE_MASK,
    OFFSET_MAX,
    TRANSACTIONAL,
    BatchBuilder,
    clear_attributes,
    read_header,
)
from penstock.wire.rewriting import empty_batch

IN_TRANSACTION: Final = TRANSACTIONAL | CONTROL
STABLE: Final = OFFSET_MAX  # In place of the first offset that is not decided: all of them are.

# Of a marker's only record: version and type; the value is version and the coordinator's epoch.
ABORT_KEY: Final = b"\x00\x00\x00\x00"
COMMIT_KEY: Final = b"\x00\x00\x00\x01"
MARKER_VALUE: Final = b"\x00\x00\x00\x00\x00\x00"


class LogTransactions:
    """The open and aborted transactions of one log."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # By producer: the offset of its first batch.
        self.last = -1  # The offset of the last marker: behind it nothing is hidden.
        self._start = 0  # Of the log.
        self._producers: array[int] = array("q")
        self._firsts: array[int] = array("q")
        self._lasts: array[int] = array("q")  # The markers.
        self._stables: array[int] = array("q")  # What was unstable when the marker had been written.

    def unstable(self) -> int:
        """The first offset that may yet be aborted."""
        for first in self.open.values():
            return max(first, self._start)
        return STABLE

    def begin(self, producer_id: int, offset: int) -> None:
        """Note a transactional batch: the producer's first, or a further one."""
        if producer_id not in self.open:
            self.open[producer_id] = offset

    def end(self, producer_id: int, offset: int, committed: bool) -> bool:
        """Note a marker; returns whether it hides anything that was visible."""
        self.last = offset
        first = self.open.pop(producer_id, -1)
        if first < 0 or committed:
            return False
        self._producers.append(producer_id)
        self._firsts.append(first)
        self._lasts.append(offset)
        self._stables.append(min(self.unstable(), offset + 1))
        return True

    def hides(self, attributes: int, producer_id: int, offset: int) -> bool:
        """Whether the batch at ``offset`` is a marker, or was aborted."""
        if attributes & CONTROL:
            return True
        if not attributes & TRANSACTIONAL:
            return False
        return producer_id in [aborted for aborted, _ in self.aborted(offset, offset + 1)]

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer and first offset of each aborted transaction that reaches into ``[start, end)``."""
        found: list[tuple[int, int]] = []
        at = bisect_left(self._lasts, start)
        while at < len(self._lasts):
            if self._firsts[at] < end:
                found.append((self._producers[at], self._firsts[at]))
            if self._stables[at] >= end:  # T2
                break
            at += 1
        return found

    def drop_before(self, offset: int) -> None:
        """Forget transactions that ended before the new start of the log."""
        self._start = offset
        gone = bisect_left(self._lasts, offset)
        for column in (self._producers, self._firsts, self._lasts, self._stables):
            del column[:gone]

    def drop_from(self, offset: int) -> None:
        """Forget the transactions that began at or above ``offset``: the last append is taken back."""
        for producer_id in [producer for producer, first in self.open.items() if first >= offset]:
            del self.open[producer_id]

    def snapshot(self) -> list[Any]:
        columns = (self._producers, self._firsts, self._lasts, self._stables)
        return [list(self.open.items()), self.last, [list(column) for column in columns]]

    def restore(self, snapshot: list[Any]) -> None:
        """Restore the state from a snapshot."""
        opened, self.last, columns = snapshot
        self.open = dict(opened)
        self._producers, self._firsts, self._lasts, self._stables = [array("q", column) for column in columns]


def marker_batch(producer_id: int, epoch: int, committed: bool, timestamp: int) -> bytearray:
    """The control batch that ends a transaction."""
    builder = BatchBuilder()
    builder.add(COMMIT_KEY if committed else ABORT_KEY, MARKER_VALUE, [])
    return builder.build(timestamp, timestamp, IN_TRANSACTION, producer_id, epoch)


def hide(data: bytes, transactions: LogTransactions) -> bytes:
    """Whole batches, with an empty one in place of each that readers must not see."""
    parts: list[bytes | bytearray] = []
    begin = at = 0
    while at < len(data):
        header = read_header(data, at)
        if transactions.hides(header.attributes, header.producer_id, header.base_offset):
            parts.append(data[begin:at])
            parts.append(
                empty_batch(
                    header.base_offset, header.last_offset_delta, header.max_timestamp,
                    header.attributes & LANE_MASK, header.leader_epoch,
                )
            )  # fmt: skip
            begin = at + header.size
        at += header.size
    return b"".join([*parts, data[begin:]]) if parts else data


def decided(batch: bytes) -> bytearray:
    """The same batch outside of any transaction: it is known to count, and its marker may be gone."""
    made = bytearray(batch)
    clear_attributes(made, TRANSACTIONAL)
    return made
