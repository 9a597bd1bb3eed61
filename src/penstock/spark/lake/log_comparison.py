"""Compares tables of the lake with the log of a running broker.

Retention may delete records while a comparison runs; they count as no longer in the
log.  Cost: only offsets without a row in the lake are looked up in the log, plus two
records of each partition.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import OffsetOutOfRange, TopicNotFound
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import ROWS
from penstock.spark.lake.offset_ranges import runs_of
from penstock.spark.lake.reading import read_range
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verification import PartitionCheck, check_partition
from penstock.spark.records.arrow import decode_rows

if TYPE_CHECKING:
    from penstock.api.broker import Broker


class BrokerLog:
    """The log of one partition, from ``start`` up to before ``end``; a ``LogView``."""

    def __init__(self, broker: "Broker", topic: str, partition: int, start: int, end: int) -> None:
        self._broker = broker
        self._topic = topic
        self._partition = partition
        self.start = start
        self.end = end

    def present(self, wanted: OffsetRange) -> Iterator[OffsetRange]:
        """The offsets of a range that have a record in the log."""
        rest = wanted.intersection(self.start, self.end)
        while rest:
            try:
                fetched = self._broker.fetch(self._topic, self._partition, rest.start)
            except OffsetOutOfRange as error:  # Retention has deleted more meanwhile.
                self.start = error.start
                if self.start <= rest.start:
                    return
                rest = rest.intersection(self.start, rest.end)
                continue
            if fetched.next_offset <= rest.start:
                return
            for rows in decode_rows(fetched.batches, rest, ["offset"]):
                yield from runs_of(rows["offset"], self._topic, self._partition)
            rest = rest.intersection(fetched.next_offset, rest.end)

    def record(self, offset: int) -> pa.RecordBatch | None:
        """The record at an offset, as one row; None if the log does not have it."""
        if not self.start <= offset < self.end:
            return None
        try:
            batches = self._broker.fetch(self._topic, self._partition, offset, max_bytes=1).batches
        except OffsetOutOfRange:
            return None
        wanted = OffsetRange(self._topic, self._partition, offset, offset + 1)
        return next(decode_rows(batches, wanted, ROWS.names), None)


def checked(broker: "Broker", table: LakeTable) -> Iterator[PartitionCheck]:
    """Check the partitions of a table, which is refreshed, against those of its topic, if that is there."""
    starts = _offsets(broker, table.topic, "earliest")  # Both only rise: so this before, and the ends after.
    table.refresh()
    ends = _offsets(broker, table.topic, "latest")
    if not starts:
        starts = ends = table.next_offsets()
    for partition in sorted(starts.keys() | table.next_offsets()):
        log = BrokerLog(broker, table.topic, partition, starts.get(partition, 0), ends.get(partition, 0))
        check = check_partition(table, partition, log)
        offset = differing(table, partition, log) if not check.findings else None
        if offset is not None:
            why = "log and lake have different records, so they belong to different topics"
            check.findings.append(f"offset {offset}: {why}")
        yield check


def _offsets(broker: "Broker", topic: str, at: str) -> dict[int, int]:
    try:
        return broker.offsets(topic, at)
    except TopicNotFound:  # It was deleted, and the lake has it still.
        return {}


def differing(table: LakeTable, partition: int, logged: BrokerLog) -> int | None:
    """An offset at which log and lake have different records, of the first and last that both have.

    They differ if the topic was deleted and recreated, or the lake belongs to another broker.
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
