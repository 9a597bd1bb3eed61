"""Rows for tables of the lake, and tables to put them in."""

from collections.abc import Iterable

import pyarrow as pa

from penstock.spark.lake.layout import ROWS, LakeFile
from penstock.spark.lake.reading import read_range
from penstock.spark.lake.table import ArchivedRange, LakeTable
from penstock.spark.lake.writing import RangeWriter

NOON_MS = 1_794_830_400_000  # 2026-11-16 12:00 UTC
HEADERS = [("a", b"1"), ("b", None)]


def rows(offsets: range | list[int], partition: int = 0, times_ms: list[int] | None = None) -> pa.RecordBatch:
    count = len(offsets)
    times = [NOON_MS + offset for offset in offsets] if times_ms is None else times_ms
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition] * count, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([time * 1000 for time in times], pa.timestamp("us", "UTC")),
            pa.array([b"key-%d" % (offset % 3) if offset % 5 else None for offset in offsets], pa.binary()),
            pa.array([b"value-%d" % offset for offset in offsets], pa.binary()),
            pa.array([HEADERS if offset % 2 else [] for offset in offsets], ROWS.field("headers").type),
            pa.array([offset % 3 - 1 for offset in offsets], pa.int32()),
        ],
        schema=ROWS,
    )


def write_rows(table: str, partition: int, batches: Iterable[pa.RecordBatch]) -> list[LakeFile]:
    with RangeWriter(table, partition) as writer:
        for each in batches:
            writer.write(each)
    return writer.files


def archive(table: LakeTable, batch: pa.RecordBatch, start: int, end: int) -> bool:
    partition = batch["partition"][0].as_py() if batch.num_rows else 0
    files = write_rows(table.path, partition, [batch])
    return table.commit([ArchivedRange(partition, start, end, batch.num_rows)], files, NOON_MS)


def read(table: LakeTable, start: int, end: int, partition: int = 0) -> pa.Table:
    return pa.Table.from_batches(read_range(table.files(), partition, start, end), ROWS)
