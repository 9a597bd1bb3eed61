"""Compacts the small files of a result table, and deletes unused ones.

    one batch a second, two tasks     120 files a minute     ──>     one
    old files stay for a day, for readers that still use them

Compaction copies the rows of some files to a new one and replaces them in one commit that
adds and removes no rows.  It leaves the application transactions of queries alone, so a
batch repeated after a crash is still recognised.  Concurrent compactions move the same
application transaction, so the second commit is rejected and its file removed.

Files are compacted if there are at least ``FILES_MIN`` small ones, none larger than the
others together, so each row is copied once per doubling of its file.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from penstock.spark.lake import storage
from penstock.spark.lake.delta import (
    app_name,
    files_of,
    open_table,
    sync_commits,
    transaction_version,
    translated_errors,
)
from penstock.spark.reports.column_statistics import ColumnStatistics

FILE_BYTES: Final = 128 * 1024 * 1024  # A file of this size is not joined any more.
FILES_MIN: Final = 16
FILES_MAX: Final = 1000  # Joined at once.
KEPT_HOURS: Final = 24  # For readers of replaced files.
BATCH_ROWS: Final = 65_536
JOINED: Final = app_name("joined")


class TableFile(NamedTuple):
    """A file of a table."""

    path: str  # Within the table's folder.
    bytes: int


def join_small_files(path: str, now_ms: int) -> int:
    """Join what is worth it; returns how many files were replaced."""
    replaced = 0
    while True:
        table = open_table(path)
        files = [] if table is None else worth_joining(_files(table, path))
        if table is None or not files or not _joined(table, path, files, now_ms):
            return replaced
        replaced += len(files)


def worth_joining(files: Sequence[TableFile]) -> list[TableFile]:
    """Which files to join next; none if it is not worth it."""
    small = sorted((file for file in files if file.bytes < FILE_BYTES), key=lambda file: file.bytes)
    total = sum(file.bytes for file in small)
    while small and small[-1].bytes > total - small[-1].bytes:
        total -= small.pop().bytes
    chosen: list[TableFile] = []
    size = 0
    for file in small[:FILES_MAX]:
        if chosen and size + file.bytes > FILE_BYTES:
            break
        chosen.append(file)
        size += file.bytes
    return chosen if len(chosen) >= FILES_MIN else []


def vacuum(path: str) -> None:
    """Delete files that have been unused for a day, and those of killed writers."""
    table = open_table(path)
    if table is not None:
        with translated_errors(path):
            if table.vacuum(KEPT_HOURS, enforce_retention_duration=False, full=True):
                table.vacuum(KEPT_HOURS, dry_run=False, enforce_retention_duration=False, full=True)


def _files(table: DeltaTable, path: str) -> list[TableFile]:
    return [TableFile(action["path"], action["size_bytes"]) for action in files_of(table, path)]


def _joined(table: DeltaTable, path: str, files: Sequence[TableFile], now_ms: int) -> bool:
    """Replace files by one; False if the table has changed meanwhile."""
    name = f"{uuid4().hex}.parquet"
    try:
        ranges = _copy(path, files, name)
        added = AddAction(name, storage.bytes_of(f"{path}/{name}"), {}, now_ms, False, ranges.statistics())
        removed = [RemoveAction(file.path, False, now_ms, file.bytes, {}) for file in files]
        turn = Transaction(JOINED, (transaction_version(table, path, JOINED) or 0) + 1)
        before = table.version()
        with translated_errors(path):
            table.create_write_transaction(
                [added, *removed],
                "append",
                table.schema(),
                commit_properties=CommitProperties(app_transactions=[turn]),
            )
    except BaseException as error:
        known = open_table(path)  # A store may take a commit and lose its answer.
        if known is not None and name in (file.path for file in _files(known, path)):
            return True
        storage.remove(f"{path}/{name}")
        if isinstance(error.__cause__, CommitFailedError):
            return False
        raise
    sync_commits(path, before)
    return True


def _copy(path: str, files: Sequence[TableFile], name: str) -> ColumnStatistics:
    """Write the rows of some files to another one; it is durable when this returns."""
    target = f"{path}/{name}"
    system, inside = storage.filesystem_of(target)
    ranges = ColumnStatistics()
    writer: pq.ParquetWriter | None = None
    try:
        for file in files:
            with storage.reading(f"{path}/{file.path}"):
                origin, source = storage.filesystem_of(f"{path}/{file.path}")
                with origin.open_input_file(source) as opened:
                    for batch in pq.ParquetFile(opened).iter_batches(BATCH_ROWS):
                        with storage.writing(target):
                            writer = writer or pq.ParquetWriter(
                                inside, batch.schema, filesystem=system, compression="zstd"
                            )
                            writer.write_batch(batch)
                        ranges.add(batch)
    finally:
        if writer is not None:
            with storage.writing(target):
                writer.close()
    storage.sync(target)
    return ranges
