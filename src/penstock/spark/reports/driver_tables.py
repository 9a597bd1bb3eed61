"""Small lake tables that a driver writes itself: rollups and dead letters.

    append     add rows, once for each version of an application
    replace    replace all rows

Delta tables next to those of ``result_tables``, with fixed columns.  Each call is one
commit.  Every ``TIDY_COMMITS`` commits the files are compacted and unused ones deleted.
"""

from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

from penstock.errors import LakeUnusable
from penstock.spark.lake import storage
from penstock.spark.lake.delta import open_table, sync_commits, transaction_version, translated_errors
from penstock.spark.reports import table_maintenance

TIDY_COMMITS: Final = 100
ZSTD: Final = WriterProperties(compression="ZSTD")


def last_version(path: str, application: str) -> int | None:
    """The version that an application has written last; None: nothing yet."""
    table = open_table(path)
    return None if table is None else transaction_version(table, path, application)


def append(path: str, rows: pa.Table, application: str, version: int) -> None:
    """Add rows as a version; nothing happens if that one, or a later one, is there."""
    written = last_version(path, application)
    if written is not None and written >= version:
        return
    marks = CommitProperties(app_transactions=[Transaction(application, version)])
    _write(path, rows, "append", marks)
    _maybe_tidy(path)


def replace(path: str, rows: pa.Table) -> None:
    """Have these rows and no others; those before are deleted after a day."""
    _write(path, rows, "overwrite", CommitProperties())
    table_maintenance.vacuum(path)


def read(path: str) -> pa.Table:
    """All rows; raises ``LakeUnusable`` if there is no such table."""
    table = open_table(path)
    if table is None:
        raise LakeUnusable(lake=path, why="there is no such table")
    with storage.reading(path):
        return table.to_pyarrow_table()


def _write(path: str, rows: pa.Table, mode: str, marks: CommitProperties) -> None:
    table = open_table(path)
    before = -1 if table is None else table.version()
    with translated_errors(path):
        write_deltalake(path, rows, mode=mode, commit_properties=marks, writer_properties=ZSTD)  # type: ignore[call-overload]
    sync_commits(path, before)


def _maybe_tidy(path: str) -> None:
    with translated_errors(path):
        table = DeltaTable(path)
        if table.version() % TIDY_COMMITS != TIDY_COMMITS - 1:
            return
        table.optimize.compact(writer_properties=ZSTD)
    table_maintenance.vacuum(path)
