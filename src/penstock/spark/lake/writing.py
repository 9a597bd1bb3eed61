"""Writes records to new files of a table, which are invisible until committed.  Runs on executors.

    rows of one range, in order  ──>  a file per date  ──>  LakeFile, LakeFile

A row group has up to ``ROW_GROUP_ROWS`` rows or ``ROW_GROUP_BYTES``, so that reading a few
offsets decompresses little.  A range usually has one or two dates, but producers may set
any timestamp: beyond ``DATES_MAX`` open files the least recently used one is finished.

Pages have checksums, so damage is detected on reading.  After an error the written files
are removed; those of a killed process are vacuumed (``table.py``).
"""

import datetime
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.config.broker import DAY_MS
from penstock.errors import PenstockError
from penstock.spark.lake import storage
from penstock.spark.lake.layout import ROWS, LakeFile, date_of, new_path, within_years

ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024  # Of rows in memory: large values make shorter row groups.
DATES_MAX: Final = 32
FORMAT: Final[dict[str, Any]] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["key", "headers.key_value.key", "lane", "partition"],
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    "write_page_checksum": True,
    "write_statistics": ["partition", "offset", "timestamp"],
}


class FileWriter:
    def __init__(self, table: str, date: datetime.date, partition: int, start: int) -> None:
        self.path = new_path(table, date, partition, start)
        self._date = date
        self._partition = partition
        self._start = start
        self._end = start
        self._rows = 0
        self._times: list[tuple[int, int]] = []  # Earliest and latest of each row group.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        storage.make_folder(self.path.rpartition("/")[0])
        system, inside = storage.filesystem_of(self.path)
        with storage.writing(self.path):
            self._writer = pq.ParquetWriter(inside, ROWS, filesystem=system, **FORMAT)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, whose offsets are above all before."""
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.get_total_buffer_size()
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        group = pa.Table.from_batches(self._waiting, ROWS)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        with storage.writing(self.path):
            self._writer.write_table(group, row_group_size=group.num_rows)
        times = pc.min_max(group["timestamp"].cast(pa.int64()))
        first_ms, last_ms = times["min"].as_py() // 1000, times["max"].as_py() // 1000
        self._times.append((within_years(first_ms), within_years(last_ms)))
        self._end = group["offset"][-1].as_py() + 1
        self._rows += group.num_rows

    def finish(self) -> LakeFile:
        """Close the file; when this returns, it is durable."""
        if self._waiting:
            self._write_group()
        with storage.writing(self.path):
            self._writer.close()
        storage.sync(self.path)
        return LakeFile(
            path=self.path,
            date=self._date,
            partition=self._partition,
            start=self._start,
            end=self._end,
            rows=self._rows,
            bytes=storage.bytes_of(self.path),
            first_ms=min(first for first, _ in self._times),
            last_ms=max(last for _, last in self._times),
        )

    def abandon(self) -> None:
        """Remove what was written; this never fails, since it is called where something has."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(PenstockError):  # Then it is vacuumed later.
            storage.remove(self.path)


class RangeWriter:
    """Writes the rows of one partition, in the order of their offsets, to files by date."""

    def __init__(self, table: str, partition: int) -> None:
        self._table = table
        self._partition = partition
        self._open: dict[int, FileWriter] = {}  # By day since 1970; the one that was idle longest first.
        self.files: list[LakeFile] = []  # Those that are finished.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, whose offsets are above all before."""
        for day, part in by_day(rows):
            writer = self._open.pop(day, None) or self._new(day, part)
            self._open[day] = writer
            writer.write(part)

    def _new(self, day: int, rows: pa.RecordBatch) -> FileWriter:
        if len(self._open) == DATES_MAX:
            self.files.append(self._open.pop(next(iter(self._open))).finish())
        return FileWriter(self._table, date_of(day), self._partition, rows["offset"][0].as_py())

    def finish(self) -> list[LakeFile]:
        """Close all files; when this returns, they are durable."""
        while self._open:
            day, writer = self._open.popitem()
            try:
                self.files.append(writer.finish())
            except BaseException:
                self._open[day] = writer
                self.abandon()
                raise
        return self.files

    def abandon(self) -> None:
        """Remove all that was written."""
        for writer in self._open.values():
            writer.abandon()
        with suppress(PenstockError):  # As above: the first error is the one to report.
            for file in self.files:
                storage.remove(file.path)
        self._open, self.files = {}, []


def by_day(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each day, in their order; nearly always all of them are of one."""
    if not rows.num_rows:
        return
    times = rows["timestamp"].cast(pa.int64())
    ends = pc.min_max(times)
    first, last = (within_years(ends[end].as_py() // 1000) // DAY_MS for end in ("min", "max"))
    if first == last:
        yield first, rows
        return
    midnights = pc.floor_temporal(times.cast(pa.timestamp("us")), unit="day").cast(pa.int64())
    days = pc.divide(midnights, DAY_MS * 1000)
    days = pc.min_element_wise(pc.max_element_wise(days, first), last)
    for day in pc.unique(days).sort().to_pylist():
        yield day, rows.filter(pc.equal(days, day))
