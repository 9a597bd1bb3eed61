"""Restores what retention deleted: segments below a log's start, with their old offsets.

    restoring/  [ 40 .. 79 ][ 80 .. 99 ]            a log of its own, in a folder of the log's directory
                          |         |
                second    v         v  first
    the log     . . . . . . . . . . [ 100 .. 199 ][ 200 .. active ]
                                    start

Batches are added to the side directory in rising order.  When they reach the log's
start, the segments are moved over, the newest first, each with one rename: after a
crash at any point the log has no gap, and begins at its old start, at the requested one,
or in between.  The next open removes what is left in the side directory.  Restored
segments are like any others; the broker keeps retention from deleting them again.

Batches keep their offsets and timestamps.  Missing offsets are holes, as compaction
leaves them, and covered by an empty batch.  A batch that was added before is ignored, so
that a repeated request does no harm.

Cost: that of appending.  Nothing is decoded; checksums are verified.
"""

from collections.abc import Iterator
from dataclasses import replace

from penstock.errors import InvalidBatch, RestoreRefused
from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.log.segment import RESTORING
from penstock.log.transactions import decided
from penstock.wire.records import CONTROL, DEDUP, SPAN_MAX, TRANSACTIONAL, Header, check_batch
from penstock.wire.rewriting import empty_batch


def holes_in(log: Log, end: int) -> list[tuple[int, int]]:
    """The holes below an offset, by the headers of all batches there: some microseconds for each."""
    found: list[tuple[int, int]] = []
    for header in log.headers(log.start):
        if header.base_offset >= end:
            break
        if header.count == 0:
            found.append((header.base_offset, header.next_offset))
    return found


class Restoration:
    """The offsets ``[start, end)`` on their way back: ``add``, then ``install`` or ``discard``."""

    def __init__(self, log: Log, files: Files, config: LogConfig, start: int) -> None:
        if not log.begins_whole:
            raise RestoreRefused(start=start, end=log.start, why="its first records were deleted by hand")
        if start > log.start:
            raise RestoreRefused(start=start, end=log.start, why="the log begins below that")
        self.start = start
        self.end = log.start
        self.goal = start  # Where its readers will begin; above ``end`` if nothing was deleted.
        self.number = 0  # The broker's name for it ...
        self.used_ms = 0  # ... and when it was last heard of.
        self.installing = False  # Too late to begin another one.
        self.dedup_last = -1  # The last offset whose batch carries dedup ids.
        self.holes: list[tuple[int, int]] = []  # Offsets without a record, from and up to.
        self._log = log
        self._files = files
        self._directory = f"{log.path}/{RESTORING}"
        files.remove_tree(self._directory)  # Of one that was given up.
        files.make_directory(self._directory)
        if files.cache:  # No round commits it: it is durable when the store has the installed segments.
            config = replace(config, durability="memory")
        self.staged = Log.open(files, self._directory, config, start)

    @property
    def next_offset(self) -> int:
        """Everything below it was added."""
        return self.staged.end

    def add(self, data: bytes) -> int:
        """Take record batches, each with its base offset; returns the offset after the last."""
        at = 0
        while at < len(data):
            header = check_batch(data, at)
            if header.next_offset > self.staged.end:
                self._add(header, data[at : at + header.size])
            at += header.size
        self._written()
        return self.staged.end

    def _written(self) -> None:
        if self._files.cache:
            self.staged.sync()  # It does not wait for the disk.

    def _add(self, header: Header, batch: bytes) -> None:
        base = header.base_offset
        if base < self.staged.end or header.next_offset > self.end:
            last = header.next_offset - 1
            why = f"offsets {base} to {last} do not fit between {self.staged.end} and {self.end}"
            raise InvalidBatch(why=why)
        if header.attributes & CONTROL:
            raise InvalidBatch(why="it is the marker of a transaction")
        self._span(base)
        self.staged.append(decided(batch) if header.attributes & TRANSACTIONAL else bytearray(batch))
        if header.attributes & DEDUP:
            self.dedup_last = header.next_offset - 1

    def _span(self, upto: int) -> None:
        """Offsets that are in no batch: an empty one stands for them."""
        if self.staged.end < upto:
            self.holes.append((self.staged.end, upto))
        while (missing := upto - self.staged.end) > 0:
            newest_ms = self.staged.last_timestamp
            self.staged.append(empty_batch(0, min(missing, SPAN_MAX) - 1, newest_ms))

    def complete(self) -> None:
        """Everything there is was added: what is missing up to the log's start is a hole."""
        if self._log.start != self.end:
            why = f"the log begins at {self._log.start} by now"
            raise RestoreRefused(start=self.start, end=self.end, why=why)
        self._span(self.end)
        self._written()

    def install(self) -> Iterator[None]:
        """Move the segments into the log, one a step; after each the caller may use the log."""
        self.complete()
        self.installing = True
        self.staged.close()
        if self.start < self.end:
            for segment, lanes in reversed(self.staged.parts()):
                self._log.adopt(segment, lanes)
                yield
        self._files.sync_directory(self._log.path)  # Also what a process before this one had moved there.
        self.discard()

    def discard(self) -> None:
        """Remove what is in the side folder."""
        self.staged.abandon()
        self._files.remove_tree(self._directory)
