"""Reads the slices of a task, from the log or the lake, in the requested columns.

    fetch │ decode  yield │ decode  yield │ ...        the thread of the task
          └─ fetch ───────┴─ fetch ───────┴─ ...       prefetch thread

Retention may delete a slice of the log before its task starts.  Its offsets are then
looked up in the lake; those that are nowhere are a gap, as in planning.

Only the requested columns are decoded, or read from files.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import OffsetOutOfRange
from penstock.model.info import Fetched
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.history import LakeHistory, report_gap
from penstock.spark.lake.layout import LakeFile
from penstock.spark.lake.reading import read_range
from penstock.spark.records.arrow import decode_rows, header_list, topic_column, within
from penstock.spark.records.extra_columns import EXTRA_COLUMNS, HEADER_LIST
from penstock.spark.records.schema import ROW
from penstock.spark.runtime.connections import broker_at
from penstock.spark.source.metadata_columns import MetadataColumns
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.value_decoding import ValueConversion
from penstock.spark.typed.field_columns import INVALID
from penstock.spark.typed.typed_topic import TypedTopic

if TYPE_CHECKING:
    from penstock.client.sync import RemoteBroker
    from penstock.spark.typed.typed_rows import TypedRows

# Thousands of rows are worth an Arrow batch; with 4 MiB the broker's other clients waited for 5 ms.
SLICE_FETCH_BYTES: Final = 1024 * 1024


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for its own; the API differs between PySpark 4.1 and 4.3."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # UTC always.


class SourceSlice:
    """Offsets of one partition, in the log, or in files of the lake."""

    def __init__(
        self,
        range_: OffsetRange,
        files: tuple[LakeFile, ...] = (),
        from_ms: int | None = None,
        to_ms: int | None = None,
    ) -> None:
        self.range = range_
        self.files = files  # None of them: it is in the log.
        self.from_ms = from_ms  # Of rows from the lake; those of the log are chosen by offsets.
        self.to_ms = to_ms
        self.horizon_ms: int | None = None  # Of a stream: the latest time that earlier batches have read.

    def __len__(self) -> int:
        return len(self.range)


class ReadTask(InputPartition):
    """One task's work: a slice, or several small ones.

    None is for a table without rows: Spark wants some task.
    """

    def __init__(self, slices: Iterable[SourceSlice]) -> None:
        self.slices = tuple(slices)


class SliceReader:
    """Reads slices; Spark carries it to where the tasks run."""

    def __init__(self, options: SourceOptions, schema: StructType, typed: TypedTopic | None = None) -> None:
        self._options = options
        self._schema = schema
        self._typed = typed
        fields = {} if typed is None else {INVALID, *typed.columns}
        self._names = [field.name for field in schema.fields if field.name not in fields]

    def read_task(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, slice after slice."""
        assert isinstance(task, ReadTask)
        for work in task.slices:
            yield from self.read(work)

    def read(self, work: SourceSlice) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, in the order of their offsets."""
        schema = arrow_schema(self._schema)
        extras = MetadataColumns(self._options, work.range, work.horizon_ms)
        conversion = ValueConversion(self._options)
        typed = None if self._typed is None else self._typed.rows(self._options.address)
        for batch in self._lake(work) if work.files else self._log(work.range):
            fields: dict[str, pa.Array] = {}
            rows = batch
            if typed is not None:
                rows, fields = _with_fields(batch, typed, keep_invalid=INVALID in schema.names)
            arrays = [
                fields[field.name]
                if field.name in fields
                else extras.column(field.name, rows["offset"])
                if field.name in EXTRA_COLUMNS and field.name != HEADER_LIST
                else conversion.converted(rows[field.name], field.type)
                for field in schema
            ]
            if rows.num_rows:
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _needed(self) -> list[str]:
        """The columns to decode: the requested ones, and those that others derive from."""
        needed = [name for name in self._names if name in ROW.names or name == HEADER_LIST]
        if self._typed is not None and "value" not in needed:
            needed.append("value")
        if "offset" not in needed and any(name in EXTRA_COLUMNS for name in self._names):
            needed.append("offset")
        return needed

    # From the log.

    def _log(self, span: OffsetRange) -> Iterator[pa.RecordBatch]:
        broker = broker_at(self._options.address)
        needed = self._needed()
        with ThreadPoolExecutor(1) as pool:  # Its thread begins with the second fetch; few slices need one.
            found = _fetch(broker, span, span.start)
            while True:
                reached = found.end if isinstance(found, OffsetRange) else found.next_offset
                coming = pool.submit(_fetch, broker, span, reached) if reached < span.end else None
                if isinstance(found, OffsetRange):
                    yield from self._older(broker, found)
                else:
                    yield from decode_rows(found.batches, span, needed)
                if coming is None:
                    return
                found = coming.result()

    def _older(self, broker: "RemoteBroker", span: OffsetRange) -> Iterator[pa.RecordBatch]:
        """What was in the log when the query was planned, and is no longer."""
        history = LakeHistory(broker, self._options.lake)
        for where, part in history.locate(span, span.end):
            if where == "lake":
                yield from self._lake(SourceSlice(part, tuple(history.files(part))))
            else:
                report_gap(broker, part, self._options.on_gap, self._options.group)

    # From the lake.

    def _lake(self, work: SourceSlice) -> Iterator[pa.RecordBatch]:
        span = work.range
        needed = {"headers" if name == HEADER_LIST else name for name in self._needed()}
        columns = [*needed, "timestamp"]
        for batch in read_range(work.files, span.partition, span.start, span.end, columns):
            rows = within(batch, work.from_ms, work.to_ms)
            if rows.num_rows:
                rows = rows.append_column("topic", topic_column(span.topic, rows.num_rows))
                if HEADER_LIST in self._names:  # The lake keeps one header of each name.
                    rows = rows.append_column(HEADER_LIST, header_list(rows["headers"]))
                yield rows


def _with_fields(
    batch: pa.RecordBatch, typed: "TypedRows", *, keep_invalid: bool
) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
    """Rows with the columns of their fields; invalid ones only if their reasons are wanted."""
    fields, reasons = typed.columns(batch["value"])
    if keep_invalid or not any(reasons):
        return batch, fields | {INVALID: pa.array(reasons, pa.string())}
    valid = pa.array([why is None for why in reasons])
    return batch.filter(valid), {name: each.filter(valid) for name, each in fields.items()}


def _fetch(broker: "RemoteBroker", span: OffsetRange, offset: int) -> Fetched | OffsetRange:
    """The next batches, or the part of the range that the log no longer has."""
    try:
        fetched = broker.fetch(span.topic, span.partition, offset, max_bytes=SLICE_FETCH_BYTES)
    except OffsetOutOfRange as error:
        if error.start <= offset:
            raise  # Behind the end: the topic is not the one that was planned for.
        return span.intersection(offset, error.start)
    if not fetched.batches:
        raise OffsetOutOfRange(offset=offset, start=fetched.start, end=fetched.end)
    return fetched
