"""Archives offset ranges of the log to files of the lake: planning, and the work of an executor.

    backlog     partition 0  [ 1000 ................................ 90000 )
    tasks                    [ 1000 .. 30000 )[ 30000 .. 60000 )[ 60000 .. 90000 )     one each
    written                  files, rows      files, rows       files, rows
    archived                 [ 1000 ................................ 90000 )           one commit

Record batches are fetched as stored, verified against their checksums (the lake may soon
have the only copy), decoded to columns and written, without a Python object per row.
Offsets without a record (compacted, or transaction markers) produce no rows but count as
archived.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import OffsetOutOfRange, PenstockError, UnavailableError
from penstock.model.info import Fetched
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import ROWS, LakeFile
from penstock.spark.lake.table import ArchivedRange
from penstock.spark.lake.writing import RangeWriter
from penstock.spark.records.arrow import decode_rows
from penstock.spark.runtime.connections import Address, broker_at
from penstock.wire.records import check_batch

if TYPE_CHECKING:
    from penstock.api.broker import Broker

RANGE_BYTES: Final = 64 * 1024 * 1024  # Of the log, for one task: some seconds of work.


@dataclass(frozen=True, slots=True)
class Backlog:
    """Offsets of one partition that the log has and the lake does not."""

    range: OffsetRange
    table: str
    record_bytes: int  # Estimate.


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """A range that one Spark task archives."""

    range: OffsetRange
    table: str


@dataclass(frozen=True, slots=True)
class FailedRange:
    """A range that cannot be archived, even by a retry, and the reason."""

    range: OffsetRange
    error: PenstockError


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """A range that was written to files, which are not committed yet."""

    range: OffsetRange
    rows: int
    files: list[LakeFile]


def planned(backlog: Iterable[Backlog], batch_bytes: int) -> tuple[list[ArchiveTask], bool]:
    """The tasks of one batch, and whether they cover the whole backlog."""
    tasks: list[ArchiveTask] = []
    room = batch_bytes
    complete = True
    for each in backlog:
        start = each.range.start
        step = max(RANGE_BYTES // each.record_bytes, 1)
        while start < each.range.end and room > 0:
            part = each.range.intersection(start, start + step)
            tasks.append(ArchiveTask(part, each.table))
            room -= len(part) * each.record_bytes
            start = part.end
        complete &= start >= each.range.end
    return tasks, complete


@dataclass(frozen=True, slots=True)
class ArchiveBatch:
    """The part of a batch that can be committed, and the error that stopped the rest."""

    ranges: list[ArchivedRange]  # One for each partition.
    files: list[LakeFile]
    error: PenstockError | None


def joined(outcomes: Iterable[WrittenRange | FailedRange]) -> ArchiveBatch:
    """Combine the outcomes of one topic: each partition up to the first range that failed."""
    ranges: dict[int, ArchivedRange] = {}
    files: list[LakeFile] = []
    errors: dict[int, PenstockError] = {}
    for each in sorted(outcomes, key=lambda one: (one.range.partition, one.range.start)):
        partition, start = each.range.partition, each.range.start
        if isinstance(each, FailedRange):
            errors.setdefault(partition, each.error)
        elif partition not in errors:
            before = ranges.get(partition) or ArchivedRange(partition, start, start, 0)
            assert before.end == start, "ranges of a partition must be contiguous"
            rows = before.rows + each.rows
            ranges[partition] = ArchivedRange(partition, before.start, each.range.end, rows)
            files += each.files
    return ArchiveBatch(list(ranges.values()), files, next(iter(errors.values()), None))


class ArchiveWriter:
    """Runs on an executor: fetches a range from the broker and writes it to files."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def __call__(self, task: ArchiveTask) -> WrittenRange | FailedRange:
        try:
            return write_range(broker_at(self._address), task)
        except PenstockError as error:
            if error.retryable:
                raise
            return FailedRange(task.range, error)


def write_range(broker: "Broker", task: ArchiveTask) -> WrittenRange:
    """Copy one range from the log to files."""
    wanted, rows = task.range, 0
    offset = wanted.start
    with RangeWriter(task.table, wanted.partition) as writer:
        while offset < wanted.end:
            fetched = _fetch(broker, wanted, offset)
            check_batches(fetched.batches)
            for batch in decode_rows(fetched.batches, wanted.intersection(offset, wanted.end), ROWS.names):
                writer.write(batch)
                rows += batch.num_rows
            offset = fetched.next_offset
    return WrittenRange(wanted, rows, writer.files)


def _fetch(broker: "Broker", wanted: OffsetRange, offset: int) -> Fetched:
    """The batches from an offset on.  Planning saw them in the log, so it is an error if there are none."""
    name = f"{wanted.topic}:{wanted.partition}"
    try:
        fetched = broker.fetch(wanted.topic, wanted.partition, offset)
    except OffsetOutOfRange as error:
        raise UnavailableError(reason=f"{name} was truncated meanwhile: {error}") from None
    if fetched.next_offset <= offset:
        raise UnavailableError(reason=f"{name} now ends at {offset}, but had offsets before {wanted.end}")
    return fetched


def check_batches(data: bytes) -> None:
    """Refuse batches that do not match their checksums: the lake may soon be the only place that has them."""
    position = 0
    while position < len(data):
        position += check_batch(data, position).size
