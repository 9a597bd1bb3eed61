"""Builds record batches from archived rows, with their offsets, timestamps and lanes.

    offset  timestamp  key  value  headers  lane          of the lake, in the order of the offsets
                         │
    [ base 40, lane 0: 40 41 43 ][ base 44, lane 2: 44 ][ base 45 ...        what ``Log`` had, near enough

A batch has one set of attributes.  Lane and flags (expires, was delayed, has a dedup
id, was redriven) are derived from the row; a new batch begins where they change, or
when the current one is large enough.  Offsets without a row remain holes, within a
batch or between two.

Invariants: records have the offsets and timestamps of their rows; the maximum
timestamp of a batch is never lower than that of the previous one, as in a log.

Cost: about that of encoding a record the first time, 0.3 us compiled.  Not restored:
the producer, the compression, and all but the last of several headers with the same
name, which the lake does not keep.
"""

from typing import Final, final

from penstock.wire.headers import BROKER_HEADERS
from penstock.wire.records import (
    SPAN_MAX,
    BatchBuilder,
    Headers,
    lane_attributes,
    place_batch,
)

BATCH_BYTES: Final = 64 * 1024  # What a log reads at once; a batch may be longer by one record.

MARKS: Final = {name: bit for bit, name in BROKER_HEADERS}
_NO_HEADERS: Final[Headers] = []


@final
class StoredBatches:
    """Makes batches of rows; ``add`` them in the order of their offsets, ``take`` what is complete."""

    def __init__(self) -> None:
        self._builder = BatchBuilder()
        self._attributes = 0
        self._base = 0  # Offset and time of the batch's first record.
        self._base_ms = 0
        self._newest_ms = 0  # Of all records so far.
        self._full: list[bytearray] = []

    def add(
        self,
        offsets: list[int],
        times_ms: list[int],
        keys: list[bytes | None] | None,
        values: list[bytes | None] | None,
        headers: list[Headers] | None,
        lanes: list[int] | None,
    ) -> None:
        """Rows, in columns of equal length; None stands for a column of nothing."""
        for at in range(len(offsets)):
            offset = offsets[at]
            time_ms = times_ms[at]
            own = _NO_HEADERS if headers is None else headers[at]
            attributes = lane_attributes(0 if lanes is None else lanes[at])
            if own:
                attributes |= _marks(own)
            builder = self._builder
            if builder.count:
                full = builder.size >= BATCH_BYTES or offset - self._base >= SPAN_MAX
                if full or attributes != self._attributes:
                    self._close()
                    builder = self._builder
            if not builder.count:
                self._attributes = attributes
                self._base = offset
                self._base_ms = time_ms
            key = None if keys is None else keys[at]
            value = None if values is None else values[at]
            builder.add(key, value, own, time_ms - self._base_ms, offset - self._base)
            if time_ms > self._newest_ms:
                self._newest_ms = time_ms

    def take(self) -> bytes:
        """The complete batches so far, which are then gone from here."""
        taken, self._full = self._full, []
        return b"".join(taken)

    def finish(self) -> bytes:
        if self._builder.count:
            self._close()
        return self.take()

    def _close(self) -> None:
        batch = self._builder.build(self._base_ms, self._newest_ms, self._attributes)
        place_batch(batch, self._base, 0)
        self._full.append(batch)
        self._builder = BatchBuilder()


def _marks(headers: Headers) -> int:
    found = 0
    for name, _ in headers:
        found |= MARKS.get(name, 0)
    return found
