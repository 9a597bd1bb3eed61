"""Wraps the library deltalake: converts its errors, and creates actions from ``LakeFile``.

Known problems of version 1.6, and how they are avoided:

    two commits that remove the same file both succeed     every compaction moves an application transaction
    vacuum also lists files deleted long ago               existing files are counted first
    the library fails in a process forked after first use  only drivers and commands use it, not tasks
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from penstock.spark.lake import storage
from penstock.spark.lake.layout import COLUMNS, LakeFile, statistics_of

SETTINGS: Final = {
    "delta.checkpointInterval": "20",  # Opening a table reads its last checkpoint and what follows.
    "delta.logRetentionDuration": "interval 1 days",  # By default it is 30: half a million commits.
}
TOPIC_SETTINGS: Final = SETTINGS | {"delta.dataSkippingStatsColumns": "partition,offset,timestamp"}


def create_table(path: str, topic: str) -> None:
    """Create an empty table, unless another process creates it at the same time."""
    with translated_errors(path):
        try:
            DeltaTable.create(path, COLUMNS, partition_by=["date"], name=topic, configuration=TOPIC_SETTINGS)
        except DeltaError:
            if open_table(path) is None:
                raise


def app_name(*parts: object) -> str:
    """The name of an application transaction, such as ``penstock/next/0``."""
    return "/".join(["penstock", *map(str, parts)])


def open_table(path: str) -> DeltaTable | None:
    """The table as it is now; None if there is none."""
    with translated_errors(path):
        try:
            return DeltaTable(path)
        except TableNotFoundError:
            return None


def transaction_version(table: DeltaTable, path: str, application: str) -> int | None:
    """The version that an application has committed last; None: nothing yet."""
    with translated_errors(path):  # It may read the log of the table again.
        return table.transaction_version(application)


def files_of(table: DeltaTable, path: str) -> list[dict[str, Any]]:
    """The add actions of a table's files."""
    with translated_errors(path):
        actions: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return actions


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Convert errors of the library to errors of the lake."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise storage.failure_of(path, error) from error


def sync_commits(path: str, before: int) -> None:
    """Make the commits since version ``before`` survive a loss of power; in a bucket, they do."""
    if not storage.is_local(path):
        return
    with translated_errors(path):
        version = DeltaTable(path).version()
    for number in range(before + 1, version + 1):
        storage.sync(f"{path}/_delta_log/{number:020}.json")
        checkpoint = f"{path}/_delta_log/{number:020}.checkpoint.parquet"
        if storage.exists(checkpoint):
            storage.sync(checkpoint)
            storage.sync(f"{path}/_delta_log/_last_checkpoint")


def add_action(table: str, file: LakeFile, now_ms: int, *, changes: bool = True) -> AddAction:
    """That a file is the table's from now on; ``changes``: with rows that it did not have."""
    values = {"date": file.date.isoformat()}
    return AddAction(_inside(table, file), file.bytes, values, now_ms, changes, statistics_of(file))


def remove_action(table: str, file: LakeFile, now_ms: int) -> RemoveAction:
    """That a file is the table's no longer, and its rows are in another one."""
    return RemoveAction(_inside(table, file), False, now_ms, file.bytes, {"date": file.date.isoformat()})


def _inside(table: str, file: LakeFile) -> str:
    assert file.path.startswith(f"{table}/"), "a file of another table"
    return file.path[len(table) + 1 :]
