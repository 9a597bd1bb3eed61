"""Reads offsets back from the files of a table, in order.  Runs on executors and needs only Arrow.

    date=11-15   [ 0 ........... 999 | 1001 1003 ]            files of one partition
    date=11-16                       [ 1000 1002 1004 ..... 2000 ]
                                       └── interleave around midnight

A merge: files are opened when their first offset is reached, and all rows up to the
smallest last offset of the open batches are returned next.  Usually only one file has
such rows, and they are returned unchanged.

Memory: one batch of ``BATCH_ROWS`` per open file, and one row group being decompressed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.lake import storage
from penstock.spark.lake.layout import ROWS, LakeFile
from penstock.spark.records.arrow import within

BATCH_ROWS: Final = 65_536


def read_range(
    files: Iterable[LakeFile], partition: int, start: int, end: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition with offsets from ``start`` up to before ``end``, in order.

    ``files`` may hold others too, which are passed over.  ``columns`` (of
    ``layout.ROWS``; all unless given) come in the order of the table.
    """
    wanted = [name for name in ROWS.names if columns is None or name in columns]
    chosen = [file for file in files if file.partition == partition and file.overlaps(start, end)]
    chosen.sort(key=lambda file: (file.start, file.end))
    for batch in _merged([_Rows(file, start, end, wanted) for file in chosen]):
        yield batch.select(wanted)


def first_since(files: Iterable[LakeFile], partition: int, start: int, end: int, time_ms: int) -> int | None:
    """The first offset of a range whose record is not older than a time; None if there is none."""
    for batch in read_range(files, partition, start, end, ("offset", "timestamp")):
        rows = within(batch, time_ms, None)
        if rows.num_rows:
            return int(rows["offset"][0].as_py())
    return None


class _Rows:
    """The rows of one file that lie in a range, a batch at a time."""

    def __init__(self, file: LakeFile, start: int, end: int, wanted: list[str]) -> None:
        self.file = file
        self._range = (start, end)
        columns = wanted if "offset" in wanted else [*wanted, "offset"]
        self._batches = read_file(file, start, end, columns)
        self.batch: pa.RecordBatch | None = None
        self.last = -1  # Offset of the batch's last row.

    def advance(self) -> bool:
        """Get the next batch; False: there is none."""
        self.batch = next(self._batches, None)
        if self.batch is not None:
            self.last = self.batch["offset"][-1].as_py()
        return self.batch is not None

    def take(self, upto: int) -> pa.RecordBatch | None:
        """The rows up to an offset, which are then gone from here."""
        assert self.batch is not None
        if self.last <= upto:
            taken, self.batch = self.batch, None
            return taken
        count = _position(self.batch["offset"], upto + 1)
        taken = self.batch.slice(0, count)
        self.batch = self.batch.slice(count)
        return taken if count else None


def _merged(waiting: list[_Rows]) -> Iterator[pa.RecordBatch]:
    """The rows of several files as one sequence; the files are in the order of their first offsets."""
    waiting.reverse()
    opened: list[_Rows] = []
    while waiting or opened:
        if not opened:
            opened.append(waiting.pop())
        opened = [rows for rows in opened if rows.batch is not None or rows.advance()]
        if not opened:
            continue
        upto = min(rows.last for rows in opened)
        while waiting and waiting[-1].file.start <= upto:
            rows = waiting.pop()
            if rows.advance():
                opened.append(rows)
                upto = min(upto, rows.last)
        parts = [part for rows in opened if (part := rows.take(upto)) is not None]
        yield parts[0] if len(parts) == 1 else _sorted(parts)


def _sorted(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(parts).sort_by("offset").combine_chunks().to_batches()[0]


def read_file(
    file: LakeFile, start: int, end: int, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one file that lie in a range of offsets; the columns, if given, must have the offset."""
    system, inside = storage.filesystem_of(file.path)
    with storage.reading(file.path):
        with system.open_input_file(inside) as source:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            groups = _groups(parquet.metadata, start, end)
            for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns):
                offsets = batch["offset"]
                low = _position(offsets, start) if offsets[0].as_py() < start else 0
                high = _position(offsets, end) if offsets[-1].as_py() >= end else len(offsets)
                if low < high:
                    yield batch.slice(low, high - low)


def _groups(metadata: pq.FileMetaData, start: int, end: int) -> list[int]:
    """The row groups that may have offsets of a range."""
    column = metadata.schema.names.index("offset")
    chosen = []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(column).statistics
        if statistics is None or (statistics.min < end and statistics.max >= start):
            chosen.append(number)
    return chosen


def _position(offsets: pa.Int64Array, offset: int) -> int:
    """Where an offset is, or would be, among sorted ones."""
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle].as_py() < offset:
            low = middle + 1
        else:
            high = middle
    return low
