"""What a broker's log has, for those who compare it with the lake."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import OffsetOutOfRange, TopicNotFound
from penstock.spark.lake.layout import ROWS
from penstock.spark.lake.offset_ranges import Span, spans_of
from penstock.spark.lake.reading import read_range
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verification import PartitionCheck, check_partition
from penstock.spark.records.arrow import rows_of

if TYPE_CHECKING:
    from penstock.api.broker import Broker


class Logged:
    """One partition of a topic, from ``start`` up to before ``end``."""

    def __init__(self, broker: "Broker", topic: str, partition: int, start: int, end: int) -> None:
        self._broker = broker
        self._topic = topic
        self._partition = partition
        self.start = start
        self.end = end

    def spans(self, span: Span) -> Iterator[Span]:
        """The offsets of a span that the log has."""
        offset, end = max(span.start, self.start), min(span.end, self.end)
        while offset < end:
            try:
                fetched = self._broker.fetch(self._topic, self._partition, offset)
            except OffsetOutOfRange as error:  # Retention goes on meanwhile.
                self.start = error.start
                yield from self.spans(Span(self.start, end)) if self.start > offset else ()
                return
            if fetched.next_offset <= offset:
                return
            for rows in rows_of(fetched.batches, self._topic, self._partition, offset, end, ["offset"]):
                yield from spans_of(rows["offset"])
            offset = fetched.next_offset

    def record(self, offset: int) -> pa.RecordBatch | None:
        """The record at an offset, as one row; None if the log does not have it."""
        if not self.start <= offset < self.end:
            return None
        try:
            batches = self._broker.fetch(self._topic, self._partition, offset, max_bytes=1).batches
        except OffsetOutOfRange:
            return None
        return next(rows_of(batches, self._topic, self._partition, offset, offset + 1, ROWS.names), None)


def checked(broker: "Broker", table: LakeTable) -> Iterator[PartitionCheck]:
    """Check the partitions of a table, which is refreshed, against those of its topic, if that is there."""
    starts = _offsets(broker, table.topic, "earliest")  # Both only rise: so this before, and the ends after.
    table.refresh()
    ends = _offsets(broker, table.topic, "latest")
    if not starts:
        starts = ends = table.next_offsets()
    for partition in sorted(starts.keys() | table.next_offsets()):
        log = Logged(broker, table.topic, partition, starts.get(partition, 0), ends.get(partition, 0))
        check = check_partition(table, partition, log)
        offset = differing(table, partition, log) if not check.findings else None
        if offset is not None:
            why = "not the same record in log and lake, so they belong to different topics"
            check.findings.append(f"offset {offset}: {why}")
        yield check


def _offsets(broker: "Broker", topic: str, at: str) -> dict[int, int]:
    try:
        return broker.offsets(topic, at)
    except TopicNotFound:  # It was deleted, and the lake has it still.
        return {}


def differing(table: LakeTable, partition: int, logged: Logged) -> int | None:
    """An offset at which log and lake have different records, of the first and last that both have.

    They differ if the topic was deleted and made anew, or the lake belongs to another broker.
    """
    first = max(logged.start, table.first_offsets().get(partition, 0))
    last = min(logged.end, table.next_offsets().get(partition, 0)) - 1
    for offset in {first, last}:
        files = table.files(partition, offset, offset + 1)
        archived = next(read_range(files, partition, offset, offset + 1), None)
        record = logged.record(offset)
        if archived is not None and record is not None and not record.equals(archived):
            return offset
    return None
