"""From the log to files of the lake: what is to do, cut into ranges, and what an executor does with one.

    to do       partition 0  [ 1000 ................................ 90000 )
    ranges                   [ 1000 .. 30000 )[ 30000 .. 60000 )[ 60000 .. 90000 )     one task each
    written                  files, rows      files, rows       files, rows
    archived                 [ 1000 ................................ 90000 )           one commit

A range is fetched as the log has it, checked against its checksums (the lake may
soon be the only place that has it), decoded to columns and written; no row is
ever an object in Python.  Offsets that the log does not have (compaction has
removed them, or they are markers) give no rows, and are archived all the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import OffsetOutOfRange, PenstockError, UnavailableError
from penstock.model.info import Fetched
from penstock.spark.lake.layout import ROWS, LakeFile
from penstock.spark.lake.table import ArchivedRange
from penstock.spark.lake.writing import RangeWriter
from penstock.spark.records.arrow import rows_of
from penstock.spark.runtime.connections import Address
from penstock.wire.records import check_batch

if TYPE_CHECKING:
    from penstock.api.broker import Broker

RANGE_BYTES: Final = 64 * 1024 * 1024  # Of the log, for one task: some seconds of work.
FETCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Todo:
    """Offsets of one partition that are in the log and not in the lake."""

    topic: str
    table: str
    partition: int
    start: int
    end: int
    record_bytes: int  # About.


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition that one task archives."""

    topic: str
    table: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A range that cannot be archived as it is, and why."""

    range: Range
    error: PenstockError


@dataclass(frozen=True, slots=True)
class Written:
    """A range in files that nobody knows of yet."""

    range: Range
    rows: int
    files: list[LakeFile]


def planned(todo: Iterable[Todo], batch_bytes: int) -> tuple[list[Range], bool]:
    """The ranges of one batch, each worth a task, and whether that is all there is to do."""
    ranges: list[Range] = []
    room = batch_bytes
    complete = True
    for each in todo:
        start = each.start
        step = max(RANGE_BYTES // each.record_bytes, 1)
        while start < each.end and room > 0:
            end = min(start + step, each.end)
            ranges.append(Range(each.topic, each.table, each.partition, start, end))
            room -= (end - start) * each.record_bytes
            start = end
        complete &= start >= each.end
    return ranges, complete


@dataclass(frozen=True, slots=True)
class Batch:
    """What can be committed, and why it is not everything."""

    ranges: list[ArchivedRange]  # One for each partition.
    files: list[LakeFile]
    error: PenstockError | None


def joined(outcomes: Iterable[Written | Failed]) -> Batch:
    """The outcomes of one topic as one batch: each partition up to the first range that failed."""
    ranges: dict[int, ArchivedRange] = {}
    files: list[LakeFile] = []
    errors: dict[int, PenstockError] = {}
    for each in sorted(outcomes, key=lambda one: (one.range.partition, one.range.start)):
        partition, start = each.range.partition, each.range.start
        if isinstance(each, Failed):
            errors.setdefault(partition, each.error)
        elif partition not in errors:
            before = ranges.get(partition) or ArchivedRange(partition, start, start, 0)
            assert before.end == start, "ranges of a partition follow each other"
            rows = before.rows + each.rows
            ranges[partition] = ArchivedRange(partition, before.start, each.range.end, rows)
            files += each.files
    return Batch(list(ranges.values()), files, next(iter(errors.values()), None))


class Writer:
    """What an executor does: fetches a range from the broker and writes it to files."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def __call__(self, task: Range) -> Written | Failed:
        try:
            with self._address.connect() as broker:
                return write_range(broker, task)
        except PenstockError as error:
            if error.retryable:
                raise
            return Failed(task, error)


def write_range(broker: "Broker", task: Range) -> Written:
    """One range from the log to files."""
    rows = 0
    offset = task.start
    with RangeWriter(task.table, task.partition) as writer:
        while offset < task.end:
            fetched = _fetch(broker, task, offset)
            check_batches(fetched.batches)
            for batch in rows_of(fetched.batches, task.topic, task.partition, offset, task.end, ROWS.names):
                writer.write(batch)
                rows += batch.num_rows
            offset = fetched.next_offset
    return Written(task, rows, writer.files)


def _fetch(broker: "Broker", task: Range, offset: int) -> Fetched:
    """Batches from an offset on; there are some, because the task is about what the log had just now."""
    try:
        fetched = broker.fetch(task.topic, task.partition, offset, max_bytes=FETCH_BYTES)
    except OffsetOutOfRange as error:
        raise UnavailableError(reason=f"{task.topic}:{task.partition} was cut meanwhile: {error}") from None
    if fetched.next_offset <= offset:
        place = f"{task.topic}:{task.partition}"
        raise UnavailableError(reason=f"{place} ends at {offset} now, and had offsets before {task.end}")
    return fetched


def check_batches(data: bytes) -> None:
    """Refuse batches that do not match their checksums: the lake may soon be the only place that has them."""
    position = 0
    while position < len(data):
        position += check_batch(data, position).size
