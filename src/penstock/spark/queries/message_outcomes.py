"""The outcome of each message in a group, derived from the journals of its topic.

    journal of a partition ──> Leased, GivenBack, Settled, Outbox of the group ──> one row per offset

One task reads the journal of a partition; later events replace earlier ones, so a row has
the final outcome, the number of attempts, the last error, and the messages published with
the ack.

Outputs are compared as text: sorted JSON of topic, key, value and headers, because an
outbox does not keep the order among topics.  For an ack of several messages the outputs
cannot be assigned to one of them, so they are unknown.

Memory: two bytes per offset of the range, plus errors and outputs.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.delivery import events
from penstock.errors import InvalidBatch
from penstock.model.ranges import OffsetRange
from penstock.spark.records.schema import ddl
from penstock.spark.runtime.connections import Address, address_of, broker_at
from penstock.spark.runtime.spark_connect import register
from penstock.wire.headers import EXPIRES_AT
from penstock.wire.records import Headers, Record, decode_batch, read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Sending = tuple[str, bytes | None, bytes | None, Headers]  # Topic, key, value, headers.

SCHEMA: Final = pa.schema([
    ("partition", pa.int32()), ("offset", pa.int64()), ("outcome", pa.string()), ("attempts", pa.int32()),
    ("error_class", pa.string()), ("error", pa.string()), ("outputs", pa.string()),
])  # fmt: skip
FORMAT: Final = "penstock_outcomes"
UNKNOWN: Final = 255  # Instead of the way in which a message was settled.
FAILURES: Final = (events.NACKED, events.TIMED_OUT, events.REJECTED)
ROWS: Final = 65_536  # Of an Arrow batch.
ATTEMPTS_MAX: Final = 255  # What a byte can hold.
ADDED: Final = frozenset({EXPIRES_AT})  # Headers that the broker adds.


@dataclass
class Outcomes:
    """The outcomes so far of a range of offsets in one group, while a journal is read."""

    range: OffsetRange
    group: str
    numbers: set[int]  # Of the group in this journal; each recreation adds one.
    errors: dict[int, tuple[str, str]] = field(default_factory=dict)
    outputs: dict[int, str | None] = field(default_factory=dict)  # None: of several messages.

    def __post_init__(self) -> None:
        size = self.range.end - self.range.start
        self.how = bytearray([UNKNOWN]) * size
        self.attempts = bytearray(size)

    def tell(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.GroupSet) and event.name == self.group:
            self.numbers.add(event.group)
        if event.group not in self.numbers:
            return
        match event:
            case events.Leased():
                for offset in self._of(event):
                    self.attempts[offset - self.range.start] = min(event.attempt, ATTEMPTS_MAX)
            case events.GivenBack(why=why) if why in FAILURES:
                for offset in self._of(event):
                    self.errors[offset] = (event.error_class or events.WHY[why], event.error_message)
            case events.Settled():
                for offset in self._of(event):
                    self.how[offset - self.range.start] = event.how
                    self.outputs.pop(offset, None)
            case events.Outbox():
                text = outputs_text(_sent(event.outputs)) if event.end - event.start == 1 else None
                self.outputs |= dict.fromkeys(self._of(event), text)
            case _:
                pass  # The others do not concern the outcome.

    def _of(self, event: events.Leased | events.GivenBack | events.Settled | events.Outbox) -> Iterable[int]:
        """The offsets of an event that lie in the range."""
        return range(max(event.start, self.range.start), min(event.end, self.range.end))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """A row for each offset that the group has settled."""
        low = self.range.start
        found = [low + index for index, how in enumerate(self.how) if how != UNKNOWN]
        for begin in range(0, len(found), ROWS):
            yield self._batch(found[begin : begin + ROWS])

    def _batch(self, offsets: "Sequence[int]") -> pa.RecordBatch:
        low = self.range.start
        errors = [self.errors.get(offset, ("", "")) for offset in offsets]
        return pa.RecordBatch.from_pydict(
            {
                "partition": [self.range.partition] * len(offsets),
                "offset": offsets,
                "outcome": [events.HOW[self.how[offset - low]] for offset in offsets],
                "attempts": [self.attempts[offset - low] for offset in offsets],
                "error_class": [error for error, _ in errors],
                "error": [message for _, message in errors],
                "outputs": [self.outputs.get(offset, "[]") for offset in offsets],
            },
            schema=SCHEMA,
        )


def read_outcomes(
    spark: "SparkSession", address: Address, topic: str, group: str, ranges: list[OffsetRange]
) -> "DataFrame":
    """The outcomes of offsets in a group, as rows of ``SCHEMA``; unsettled offsets have none."""
    register(spark, OutcomeSource)
    encoded = msgspec.json.encode(ranges).decode()
    reader = spark.read.format(FORMAT).options(**address.options)
    return reader.options(topic=topic, group=group, ranges=encoded).load()


class OutcomeSource(DataSource):
    """The data source; internal, so its options are not validated."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        return ddl(SCHEMA)

    def reader(self, schema: "StructType") -> "OutcomeReader":  # noqa: ARG002 - it is SCHEMA.
        ranges = msgspec.json.decode(self.options["ranges"], type=list[OffsetRange])
        return OutcomeReader(address_of(self.options), self.options["topic"], self.options["group"], ranges)


class OutcomeReader(DataSourceReader):
    """Reads a journal in each task."""

    def __init__(self, address: Address, topic: str, group: str, ranges: list[OffsetRange]) -> None:
        self._address = address
        self._topic = topic
        self._group = group
        self._ranges = ranges

    def partitions(self) -> list[InputPartition]:
        """A task for each range; an empty one if there is none."""
        return [InputPartition(each) for each in self._ranges] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        span = partition.value
        if span is None:
            return
        partitions = broker_at(self._address).describe_group(self._topic, self._group).partitions
        outcomes = Outcomes(span, self._group, {partitions[span.partition].journal_group})
        for event in journal_events(self._address, self._topic, span.partition):
            outcomes.tell(event)
        yield from outcomes.rows()


def journal_events(address: Address, topic: str, partition: int) -> Iterator[events.AnyEvent]:
    """All events that the journal of a partition still has."""
    broker = broker_at(address)
    offset = broker.offsets(topic, "earliest", journal=True)[partition]
    while True:
        fetched = broker.fetch(topic, partition, offset, journal=True)
        if fetched.next_offset == offset:
            return
        for record in _records(fetched.batches):
            if record.offset >= offset and record.value is not None:
                yield events.decode(record.value)
        offset = fetched.next_offset


def _records(batches: bytes) -> Iterator[Record]:
    position = 0
    while position < len(batches):
        yield from decode_batch(batches, position)
        position += read_header(batches, position).size


def _sent(outputs: Iterable[events.Output]) -> Iterator[Sending]:
    for output in outputs:
        try:
            for record in decode_batch(output.batch):
                yield output.topic, record.key, record.value, record.headers
        except InvalidBatch:
            continue  # Of a newer broker; it cannot be compared.


def outputs_text(messages: Iterable[Sending]) -> str:
    """Messages as text; equal texts if and only if the messages are equal."""
    texts = []
    for topic, key, value, headers in messages:
        own = {name: _text(each) for name, each in headers if name not in ADDED}
        texts.append(json.dumps([topic, _text(key), _text(value), own]))
    return f"[{', '.join(sorted(texts))}]"


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"
