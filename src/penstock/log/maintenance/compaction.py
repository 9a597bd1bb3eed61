"""Log compaction: keeps only the last value of every key.

    offset   0     1     2     3     4     5
    key      a     b     a     -     b     a
    value    1     1     2     x     none  3
    stays                      x     none  3        then, after ``tombstone_ms``:   x  3

A record without a value is a tombstone: it is kept for a while, so that slow
readers see the deletion, and then removed too.  Records without a key are kept.
Offsets never change; removed records leave gaps.

A pass first maps every key of the part not yet compacted to its last offset, then
rewrites the sealed segments, the oldest first, without superseded records.  Only
sealed segments are considered, because only they are durable: a value must not be
removed because of a newer one that a crash may still lose.  That order also makes
tombstones safe: when one is removed, all older values of its key have been removed
before, in this pass or an earlier one.

A pass runs if at least half of the bytes are new since the last pass (so each byte is
rewritten at most about once for every byte published); if there is anything new and the
last pass was ``tombstone_ms`` ago; or when a remaining tombstone is overdue.  Aborted
records of transactions are ignored, and records of open transactions are not touched.
The first pass after opening a log treats all of it as new.

Bounds: the map holds ``KEYS_MAX`` keys; if there are more, the pass ends where the map
is full, and the next one continues from there.
"""

from collections.abc import Generator
from hashlib import blake2b
from typing import Final

from penstock.log.archive import FetchedSegment
from penstock.log.log import Cleaned, Log
from penstock.log.rewrite import RewriteReport
from penstock.wire.records import Record

KEYS_MAX: Final = 500_000  # At about 200 bytes each, 100 MB while a pass runs.
SLICE: Final = 1000  # Records mapped in one step ...
SLICE_BYTES: Final = 1 << 20  # ... if they are small.
SHORT_BYTES: Final = 32  # A longer key is mapped by its digest; two keys with one digest will not be met.


def compact(
    log: Log, now_ms: int, tombstone_ms: int, keys_max: int = KEYS_MAX
) -> Generator[FetchedSegment | None, None, RewriteReport]:
    """Compact ``log`` if it is worth it.

    In steps of some milliseconds; between them the caller may use the log.  A step may be a segment to wait
    for.
    """
    if not _worthwhile(log, now_ms, tombstone_ms):
        return RewriteReport()
    log.roll()
    upto = log.segments()[-1].base_offset
    newest: dict[bytes, int] = {}
    mapped = yield from _map_keys(log, min(upto, log.unstable), keys_max, newest)
    pass_ = _Pass(newest, mapped, now_ms - tombstone_ms)
    report = yield from log.rewrite(pass_.keep, upto)
    log.cleaned = Cleaned(upto=mapped, at_ms=now_ms, oldest_tombstone_ms=pass_.oldest_tombstone_ms)
    return report


def _worthwhile(log: Log, now_ms: int, tombstone_ms: int) -> bool:
    """Is much of the log new, or something of it for long, or a tombstone overdue?"""
    cleaned = log.cleaned
    new_bytes = sum(segment.bytes for segment in log.segments() if segment.next_offset > cleaned.upto)
    waited_ms = now_ms - cleaned.at_ms
    if new_bytes and (new_bytes * 2 >= log.size_bytes or waited_ms >= tombstone_ms):
        return True
    oldest = cleaned.oldest_tombstone_ms
    # Not more often than twice in a tombstone's life: each time the whole log is read.
    return (
        oldest is not None and now_ms - oldest >= tombstone_ms and now_ms - cleaned.at_ms >= tombstone_ms // 2
    )


def _map_keys(
    log: Log, upto: int, keys_max: int, newest: dict[bytes, int]
) -> Generator[FetchedSegment | None, None, int]:
    """Fill ``newest`` from where the last pass ended; returns where this one does."""
    offset = max(log.cleaned.upto, log.start)
    while offset < upto:
        if (missing := log.fetching(offset)) is not None:
            yield missing
            continue
        slice_end = min(offset + min(SLICE, log.fitting(offset, SLICE_BYTES)), upto)
        for record in log.records(offset, slice_end):
            if record.key is not None:
                if len(newest) >= keys_max and _short(record.key) not in newest:
                    return record.offset
                newest[_short(record.key)] = record.offset
        yield None
        offset = max(slice_end, log.start)  # Retention may have come between.
    return upto


def _short(key: bytes) -> bytes:
    return key if len(key) <= SHORT_BYTES else blake2b(key, digest_size=SHORT_BYTES + 1).digest()


class _Pass:
    def __init__(self, newest: dict[bytes, int], mapped: int, horizon_ms: int) -> None:
        self._newest = newest
        self._mapped = mapped  # Offsets from here on are left alone.
        self._horizon_ms = horizon_ms  # Older tombstones go.
        self.oldest_tombstone_ms: int | None = None

    def keep(self, record: Record) -> bool:
        if record.key is None or record.offset >= self._mapped:
            return True
        if self._newest.get(_short(record.key), -1) > record.offset:
            return False
        if record.value is not None:
            return True
        if record.timestamp <= self._horizon_ms:
            return False
        if self.oldest_tombstone_ms is None:
            self.oldest_tombstone_ms = record.timestamp
        return True
