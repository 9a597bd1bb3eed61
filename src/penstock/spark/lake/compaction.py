"""Compacts small files of a table into larger ones, concurrently with readers and archivers.

    date=2026-11-16, partition 0     [0..9][10..19][20..29] ... [80..89]   ──>   [0..89]

The files of one partition and date do not overlap, so they are copied in order without
sorting.  One commit replaces the old files by the new one.  Readers that have chosen the
old files can still read them; they are deleted much later (``vacuum``).

Files are compacted if

    today and yesterday    at least ``FILES_MIN`` small files are adjacent, none larger than the others
                           together, so each record is copied once per doubling of its file
    before                 there are two or more, because no more will be added

A file is small if it is below the target size.  An unreadable file is reported and left
as it is.
"""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from penstock.config.broker import DAY_MS
from penstock.errors import LakeDamaged
from penstock.spark.lake import storage
from penstock.spark.lake.layout import LakeFile, date_of
from penstock.spark.lake.reading import read_file
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.writing import FileWriter

FILES_MIN: Final = 8
FILES_MAX: Final = 1000  # Joined at once.
ALL: Final = 1 << 62  # Beyond every offset.


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files to merge into one; all of one partition and date, in offset order."""

    table: str
    files: tuple[LakeFile, ...]


def plan(table: LakeTable, file_bytes: int, now_ms: int) -> list[FileGroup]:
    """What is worth joining now."""
    young = date_of(now_ms // DAY_MS - 1)
    joints = []
    for (_, date), files in groupby(sorted(table.files(), key=_order), key=lambda file: _order(file)[:2]):
        least = FILES_MIN if date >= young else 2
        for run in _runs(files, file_bytes):
            while len(run) >= 2 and date >= young and run[0].bytes > sum(file.bytes for file in run[1:]):
                del run[0]
            if len(run) >= least:
                joints.append(FileGroup(table.path, tuple(run)))
    return joints


def _order(file: LakeFile) -> tuple[int, datetime.date, int]:
    return file.partition, file.date, file.start


def _runs(files: Iterable[LakeFile], file_bytes: int) -> Iterator[list[LakeFile]]:
    """Runs of adjacent small files, up to the target size each."""
    run: list[LakeFile] = []
    for file in files:
        if file.bytes >= file_bytes or (run and run[-1].end > file.start):
            yield run
            run = []
            continue
        run.append(file)
        if sum(each.bytes for each in run) >= file_bytes or len(run) == FILES_MAX:
            yield run
            run = []
    yield run


def join(joint: FileGroup) -> LakeFile:
    """Write the one file; what an executor does."""
    first = joint.files[0]
    writer = FileWriter(joint.table, first.date, first.partition, first.start)
    try:
        for file in joint.files:
            rows = 0
            for batch in read_file(file, 0, ALL):
                writer.write(batch)
                rows += batch.num_rows
            if rows != file.rows:
                why = f"it has {rows} rows, but the table says {file.rows}"
                raise LakeDamaged(path=file.path, why=why)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def replace(table: LakeTable, joint: FileGroup, joined: LakeFile, now_ms: int) -> bool:
    """Commit a compacted file; False, and the file is removed, if the table has changed meanwhile."""
    table.refresh()
    if table.replace(joint.files, [joined], now_ms):
        return True
    storage.remove(joined.path)
    return False
