"""Small lake tables that a driver writes itself: rollups and dead letters.

    append     add rows, once for each version of an application
    replace    replace all rows

Delta tables next to those of ``result_tables``, with fixed columns.  Each call is one
commit.  Every ``TIDY_COMMITS`` commits the files are compacted and unused ones deleted.
"""

from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from penstock.errors import LakeUnusable
from penstock.spark.lake import storage
from penstock.spark.lake.delta import sync_commits
from penstock.spark.reports import table_maintenance

TIDY_COMMITS: Final = 100
ZSTD: Final = WriterProperties(compression="ZSTD")


def last_version(path: str, application: str) -> int | None:
    """The version that an application has written last; None: nothing yet."""
    table = opened(path)
    return None if table is None else table.transaction_version(application)


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
    table = opened(path)
    if table is None:
        raise LakeUnusable(lake=path, why="there is no such table")
    with storage.reading(path):
        return table.to_pyarrow_table()


def opened(path: str) -> DeltaTable | None:
    """The table, or None if there is none."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _write(path: str, rows: pa.Table, mode: str, marks: CommitProperties) -> None:
    table = opened(path)
    before = -1 if table is None else table.version()
    try:
        write_deltalake(path, rows, mode=mode, commit_properties=marks, writer_properties=ZSTD)  # type: ignore[call-overload]
    except (DeltaError, OSError) as error:
        raise storage.failure_of(path, error) from error
    sync_commits(path, before)


def _maybe_tidy(path: str) -> None:
    table = DeltaTable(path)
    if table.version() % TIDY_COMMITS == TIDY_COMMITS - 1:
        table.optimize.compact(writer_properties=ZSTD)
        table_maintenance.vacuum(path)
