"""The journal of a topic as rows: one row for each event of a group.

    time   topic   partition  offset  group     event      start  end  attempt  consumer  why     error ...
    10:30  orders  0          17      shipping  delivered  100    200  1        worker-1
    10:30  orders  0          18      shipping  acked      100    150  1        worker-1
    10:31  orders  0          19      shipping  nacked     150    151  1        worker-1  nacked  no stock

A row concerns the messages from ``start`` up to before ``end``; ``offset`` is the event's
own offset in the journal.  Event names are those of ``penstock trace``.  Consumer and
attempt come from the delivery and are repeated in the event that ended it, if the
delivery is among the rows read.

The broker keeps a journal as long as its messages.  Group names may have been removed
earlier, so they are requested first; a deleted group whose name is unknown is shown by
its number.

Cost: about 4 us per row, in the task; the broker only sends bytes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.delivery import events
from penstock.errors import GroupNotFound, OffsetOutOfRange
from penstock.model.ranges import OffsetRange
from penstock.spark.records.schema import ddl
from penstock.spark.runtime.connections import Address, address_of, broker_at
from penstock.spark.runtime.spark_connect import register
from penstock.wire.records import Record, decode_batch, read_header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.api.broker import Broker

NAME: Final = "penstock_journal"
_TIME: Final = pa.timestamp("us", "UTC")
SCHEMA: Final = pa.schema([
    ("time", _TIME), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
    ("group", pa.string()), ("event", pa.string()), ("start", pa.int64()), ("end", pa.int64()),
    ("attempt", pa.int32()), ("consumer", pa.string()), ("why", pa.string()), ("error_class", pa.string()),
    ("error", pa.string()), ("fingerprint", pa.string()), ("due", _TIME), ("target", pa.string()),
])  # fmt: skip
ROWS: Final = 20_000  # In one batch of Arrow.
INTERNAL_GROUPS: Final = ("__redrive",)  # Internal groups, which the broker does not list.
NEVER_MS: Final = 1 << 53  # When messages that wait for their key are due.


def journal(spark: "SparkSession", address: Address, ranges: list[OffsetRange]) -> "DataFrame":
    """The rows of these ranges, with one task for each."""
    register(spark, JournalSource)
    reader = spark.read.format(NAME)
    return reader.options(**address.options, ranges=msgspec.json.encode(ranges).decode()).load()


class JournalSource(DataSource):
    """The data source; internal, so its options are not validated."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ddl(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is SCHEMA.
        ranges = msgspec.json.decode(self.options["ranges"], type=list[OffsetRange])
        return JournalReader(address_of(self.options), ranges)


class JournalReader(DataSourceReader):
    """Reads from the broker in its tasks."""

    def __init__(self, address: Address, ranges: list[OffsetRange]) -> None:
        self._address = address
        self._ranges = ranges

    def partitions(self) -> list[InputPartition]:
        """A task for each range that is not empty, but at least one."""
        return [InputPartition(part) for part in self._ranges if part.start < part.end] or [
            InputPartition(None)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if partition.value is not None:
            yield from journal_rows(broker_at(self._address), partition.value)


def ranges_of(broker: "Broker", topic: str, at: Any = "earliest") -> list[OffsetRange]:
    """The ranges of a topic's journals from a time on."""
    begin = broker.offsets(topic, at, journal=True)
    end = broker.offsets(topic, "latest", journal=True)
    return [
        OffsetRange(topic, number, start, end[number]) for number, start in begin.items() if number in end
    ]


def journal_rows(broker: "Broker", part: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The rows of a range, without events that the broker has deleted since."""
    teller = _EventRows(part, group_names(broker, part.topic, part.partition))
    rows: list[dict[str, Any]] = []
    for record in _records(broker, part):
        rows += teller.rows(record)
        if len(rows) >= ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def group_names(broker: "Broker", topic: str, partition: int) -> dict[int, str]:
    """The groups of a topic, by their numbers in a partition's journal."""
    names: dict[int, str] = {}
    for group in [*broker.groups(topic), *INTERNAL_GROUPS]:
        try:
            names[broker.describe_group(topic, group).partitions[partition].journal_group] = group
        except GroupNotFound:
            continue  # Deleted at this moment, or an internal group that does not exist here.
    return names


def _records(broker: "Broker", part: OffsetRange) -> Iterator[Record]:
    offset = part.start
    while offset < part.end:
        try:
            found = broker.fetch(part.topic, part.partition, offset, journal=True)
        except OffsetOutOfRange as error:
            if offset >= error.start:
                raise
            offset = error.start
            continue
        if not found.batches:
            return
        at = 0
        while at < len(found.batches):
            header = read_header(found.batches, at)
            yield from decode_batch(found.batches, at, offset, part.end)
            at += header.size
        offset = found.next_offset


class _Lease:
    __slots__ = ("attempt", "consumer", "left")

    def __init__(self, event: events.Leased) -> None:
        self.attempt = event.attempt
        self.consumer = event.consumer
        self.left = event.end - event.start  # Offsets that are not settled yet.


class _EventRows:
    """Turns the events of one journal into rows, in their order."""

    def __init__(self, part: OffsetRange, names: dict[int, str]) -> None:
        self._part = part
        self._names = names
        self._leases: dict[tuple[int, int], _Lease] = {}  # The unsettled ones.

    def rows(self, record: Record) -> Iterator[dict[str, Any]]:
        """The row of an event; None if it does not concern messages."""
        event = events.decode(record.value or b"")
        columns = self._columns(event)
        if columns is not None:
            yield {
                "time": record.timestamp * 1000,
                "topic": self._part.topic,
                "partition": self._part.partition,
                "offset": record.offset,
                "group": self._names.get(event.group, "" if event.group < 0 else str(event.group)),
                **columns,
            }

    def _columns(self, event: events.AnyEvent) -> dict[str, Any] | None:
        match event:
            case events.Leased():
                self._leases[event.group, event.lease] = _Lease(event)
                word = "delivered" if event.attempt == 1 else "redelivered"
                return _of_range(word, event) | {"attempt": event.attempt, "consumer": event.consumer}
            case events.Settled():
                return _of_range(events.HOW[event.how], event) | self._holder(event)
            case events.GivenBack():
                return _of_range(events.GIVEN_BACK[event.why], event) | self._holder(event) | _why(event)
            case events.Outbox():
                return _of_range("sent", event) | {"target": event.note}
            case events.GroupSet():
                self._names[event.group] = event.name
                return {"event": "group set", "start": event.floor}
            case _:
                return _elsewhere(event)

    def _holder(self, event: events.Settled | events.GivenBack) -> dict[str, Any]:
        """Attempt and consumer of a lease, which is forgotten when it is completely settled."""
        lease = self._leases.get((event.group, event.lease))
        if lease is None:
            return {}
        lease.left -= event.end - event.start
        if lease.left <= 0:
            del self._leases[event.group, event.lease]
        return {"attempt": lease.attempt, "consumer": lease.consumer}


def _of_range(
    word: str, event: events.Leased | events.Settled | events.GivenBack | events.Outbox
) -> dict[str, Any]:
    return {"event": word, "start": event.start, "end": event.end}


def _elsewhere(event: events.AnyEvent) -> dict[str, Any] | None:
    """The row of an event without a lease; None if there is none."""
    match event:
        case events.Committed():
            start = event.previous if event.previous >= 0 else None
            return {"event": "committed", "start": start, "end": event.offset}
        case events.Sought():
            return {"event": "group moved", "start": event.offset}
        case events.Lost():
            return {"event": "lost", "start": event.offset - event.count, "end": event.offset}
        case events.Redriven():
            span = {"start": event.offset, "end": event.offset + 1}
            return {"event": "redriven", **span, "target": event.target}
        case events.GroupDeleted():
            return {"event": "group deleted"}
        case _:
            return None


def _why(event: events.GivenBack) -> dict[str, Any]:
    columns: dict[str, Any] = {"why": events.WHY[event.why]}
    if event.failed_attempt:
        columns["attempt"] = event.failed_attempt
    if 0 < event.due_ms < NEVER_MS:
        columns["due"] = event.due_ms * 1000
    if event.error_class or event.error_message:
        columns["error_class"] = event.error_class
        columns["error"] = event.error_message
    if event.fingerprint:
        columns["fingerprint"] = event.fingerprint
    return columns
