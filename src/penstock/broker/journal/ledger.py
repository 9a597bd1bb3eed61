"""The transaction log: the state of every transactional id of a broker, or of a partition in a cluster.

    key   the transactional id
    value its complete state (``groups/transactions.py``); no value: it was deleted

The last record of an id wins.  Records are not durable when they are written: a caller
that promises something waits for the log.  When the log is many times larger than the
live state, the state is rewritten into a new segment and the old segments are deleted.

Cost: one record for each change, of 60 bytes and what the transaction has enlisted.  An id
costs about 500 bytes in memory; when there are too many, the least recently used one is
forgotten.  ``docs/format/transactions.md`` describes the records.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from penstock.broker.journal.last_value import Compaction
from penstock.clock import Clock
from penstock.errors import CorruptionError
from penstock.groups.transactions import Transaction
from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.wire.records import BatchBuilder, Record

IDS_MAX: Final = 100_000
SEGMENT_BYTES: Final = 1 << 20
SUMMARY_RECORDS: Final = 1000  # In one batch.
READ_RECORDS: Final = 1000

_decoder: Final = msgspec.msgpack.Decoder(Transaction)
_encode: Final = msgspec.msgpack.Encoder().encode


class Ledger:
    """All transactional ids of a log.  Not thread-safe: the caller holds a lock."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self.log = log
        self.by_name: dict[str, Transaction] = {}  # The one that changed last is last.
        self.by_producer: dict[int, str] = {}
        self._clock = clock
        self._compaction = Compaction(self.log)
        self._summarised = 0  # log.written at the last summary ...
        self._summary_bytes = 0  # ... and how long that was.
        self._replay()

    @classmethod
    def open(cls, files: Files, directory: str, durability: Any, clock: Clock) -> "Ledger":
        """The transaction log of a single broker."""
        config = LogConfig(segment_bytes=SEGMENT_BYTES, durability=durability, strict=True)
        return cls(Log.open(files, directory, config), clock)

    def of_producer(self, producer_id: int) -> Transaction | None:
        """The transaction of a producer, if it has a transactional id."""
        return self.by_name.get(self.by_producer.get(producer_id, ""))

    def put(self, name: str, known: Transaction) -> None:
        """Write the new state of a transactional id."""
        self.log.append(self._batch([(name, known)]))
        self._apply(name, known)
        self._make_room()
        self._compaction.tidy()
        if self.log.written - self._summarised > max(SEGMENT_BYTES, 2 * self._summary_bytes):
            self._summarise()

    def forget(self, name: str) -> None:
        """Forget an id that is no longer used."""
        self.log.append(self._batch([(name, None)]))
        self._apply(name, None)

    def _make_room(self) -> None:
        while len(self.by_name) > IDS_MAX:
            oldest = next((name for name, known in self.by_name.items() if known.is_at_rest), None)
            if oldest is None:
                return
            self.forget(oldest)

    # The log.

    def _replay(self) -> None:
        position = self.log.start
        while position < self.log.end:
            for record in self.log.records(position, min(position + READ_RECORDS, self.log.end)):
                self._apply((record.key or b"").decode(), self._decoded(record))
            position += READ_RECORDS
        for found in self.log.damage.ranges:  # A decision that is missing must not be taken the other way.
            self.log.abandon()
            raise CorruptionError(path=found.path, position=found.position, why=found.why)

    def _decoded(self, record: Record) -> Transaction | None:
        if record.value is None:
            return None
        try:
            known: Transaction = _decoder.decode(record.value)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            why = f"not a transaction: {error}"
            raise CorruptionError(path=self.log.path, position=record.offset, why=why) from None
        return known

    def _apply(self, name: str, known: Transaction | None) -> None:
        before = self.by_name.pop(name, None)
        if before is not None and (known is None or known.producer_id != before.producer_id):
            del self.by_producer[before.producer_id]
        if known is not None:
            self.by_name[name] = known
            self.by_producer[known.producer_id] = name

    def _batch(self, entries: Sequence[tuple[str, Transaction | None]]) -> bytearray:
        builder = BatchBuilder()
        for name, known in entries:
            builder.add(name.encode(), None if known is None else _encode(known), [])
        now_ms = max(self._clock.wall_ms(), self.log.last_timestamp)
        return builder.build(now_ms, now_ms)

    def _summarise(self) -> None:
        begun = self.log.written
        entries = list(self.by_name.items())
        starts = range(0, len(entries), SUMMARY_RECORDS)
        if self._compaction.compact(
            self._batch(entries[start : start + SUMMARY_RECORDS]) for start in starts
        ):
            self._summarised = self.log.written
            self._summary_bytes = self.log.written - begun
