"""Entries due later: one bucket per hour, on disk, so that ten million of them cost little memory.

    now          near_until_ms
     |                |  14:00   |  15:00   | ...   | next May, 3:00 |
     | in memory ---->|  bucket  |  bucket  |       | bucket         |
     |  (near.py)     |  ^^^^^^ the first one is read back when its hour gets near, in portions

A bucket is a file of pairs (due time, entry number), 8 bytes each, unordered, with the
last few pairs in memory.  Files are derived data: they are created from the schedule's
log at every open, not synced, and deleted with the process.

A pair that cannot be written stays in memory.  A file that cannot be read back, or whose
checksum (kept in memory) does not match, is not used: its hour is listed in
``damaged``, and the schedule reads its entries from the log again.

Costs: ``add`` 1 us, with a file append for every 64 pairs of a bucket; memory
at most 1 KB a bucket and so at most 10 MB for every hour of a year.
"""

from array import array
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from crc32c import crc32c

from penstock.errors import CorruptionError, PenstockError
from penstock.log.files import Files

HOUR_MS: Final = (
    3_600_000  # Wide enough for few files, narrow enough that one of a busy year fits into memory.
)
SPILL_PAIRS: Final = 64  # 1 KB: what a bucket keeps in memory before it is worth a file append.
PAIR_BYTES: Final = 16


class Bucket:
    """The pairs of one hour.  Plain data; ``FarTimes`` keeps it right."""

    __slots__ = ("buffer", "checksum", "first_ms", "path", "read_back", "read_checksum", "spilled")

    def __init__(self, path: str) -> None:
        self.path = path
        self.first_ms = -1  # The earliest due time.
        self.buffer = array("q")  # Pairs that are not in the file.
        self.spilled = 0  # Pairs that are ...
        self.checksum = 0  # ... and what they sum up to.
        self.read_back = 0  # Pairs that were read from the file already, once that has begun.
        self.read_checksum = 0


class FarTimes:
    """Items that are not due before ``near_until_ms``."""

    def __init__(self, files: Files, directory: str, near_until_ms: int) -> None:
        files.remove_tree(directory)  # Of an earlier process.
        self.near_until_ms = _hour_end(near_until_ms)  # Only rises.
        self.damaged: list[
            int
        ] = []  # Hours (due time / HOUR_MS) whose items were lost; the owner empties it.
        self._files = files
        self._directory = directory
        self._buckets: dict[int, Bucket] = {}  # By hour.
        self._hours: list[int] = []  # Heap of the keys of _buckets.

    def add(self, due_ms: int, number: int) -> None:
        assert due_ms >= self.near_until_ms, "what is near is kept in memory"
        hour = due_ms // HOUR_MS
        bucket = self._buckets.get(hour)
        if bucket is None:
            bucket = self._buckets[hour] = Bucket(f"{self._directory}/{hour}.far")
            bucket.first_ms = due_ms
            heappush(self._hours, hour)
        if due_ms < bucket.first_ms:
            bucket.first_ms = due_ms
        bucket.buffer.append(due_ms)
        bucket.buffer.append(number)
        if len(bucket.buffer) % (2 * SPILL_PAIRS) == 0:
            self._spill(bucket)

    def next_ms(self) -> int:
        """The due time of the earliest item, or -1."""
        return self._buckets[self._hours[0]].first_ms if self._hours else -1

    def load(self, until_ms: int, pairs_max: int) -> "array[int] | None":
        """Take out some items of the first bucket if its hour begins before ``until_ms``; else None.

        Due time and number alternate.  When None comes, everything before
        ``until_ms`` is out, and ``near_until_ms`` has risen beyond it.
        """
        if not self._hours or self._hours[0] * HOUR_MS >= until_ms:
            self.near_until_ms = max(self.near_until_ms, _hour_end(until_ms))
            return None
        hour = self._hours[0]
        bucket = self._buckets[hour]
        self.near_until_ms = max(self.near_until_ms, (hour + 1) * HOUR_MS)
        if bucket.read_back == bucket.spilled:
            self._remove(hour)
            return bucket.buffer
        try:
            return self._read_back(bucket, pairs_max)
        except PenstockError:
            self._remove(hour)
            self.damaged.append(hour)
            return array("q")

    def _spill(self, bucket: Bucket) -> None:
        data = bucket.buffer.tobytes()
        try:
            if not bucket.spilled:
                self._files.make_directory(self._directory, sync=False)  # Nothing above the schedule.
            file = self._files.open(bucket.path, create=True)
            try:
                file.append((data,))
            finally:
                file.close()
        except PenstockError:
            return  # It stays in memory, and some pairs later this is tried again.
        bucket.spilled += len(data) // PAIR_BYTES
        bucket.checksum = crc32c(data, bucket.checksum)
        bucket.buffer = array("q")

    def _read_back(self, bucket: Bucket, pairs_max: int) -> "array[int]":
        count = min(pairs_max, bucket.spilled - bucket.read_back)
        file = self._files.open(bucket.path, create=False)
        try:
            data = file.read(bucket.read_back * PAIR_BYTES, count * PAIR_BYTES)
        finally:
            file.close()
        bucket.read_back += count
        bucket.read_checksum = crc32c(data, bucket.read_checksum)
        whole = len(data) == count * PAIR_BYTES
        if not whole or (bucket.read_back == bucket.spilled and bucket.read_checksum != bucket.checksum):
            raise CorruptionError(path=bucket.path, position=0, why="it is not as it was written")
        return array("q", data)

    def _remove(self, hour: int) -> None:
        bucket = self._buckets.pop(hour)
        assert heappop(self._hours) == hour, "the first bucket goes first"
        if bucket.spilled:
            with suppress(PenstockError):  # What stays behind is removed by the next open.
                self._files.remove(bucket.path)


def _hour_end(time_ms: int) -> int:
    """The first full hour that is not before ``time_ms``."""
    return -(-time_ms // HOUR_MS) * HOUR_MS
