"""Tables of results kept in order: small files joined, unused ones deleted, and nothing else changed."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.clock import SystemClock
from penstock.spark.pipelines.maintenance import ResultTableMaintenance
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.run.progress import RunProgress
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.reports import result_tables, table_maintenance
from penstock.spark.reports.column_statistics import ColumnStatistics
from penstock.spark.reports.result_tables import ResultStreamWriter, write_file
from penstock.spark.reports.table_maintenance import (
    FILE_BYTES,
    FILES_MIN,
    TableFile,
    join_small_files,
    worth_joining,
)
from penstock.testing import ManualClock

SCHEMA = pa.schema([("number", pa.int64()), ("name", pa.string())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Of a table that does not exist yet."""
    return result_tables.path_of(str(tmp_path), "totals")


def commit(path: str, batch: int, query: str = "query-1") -> None:
    """What a query commits as a batch: a file with two rows."""
    rows = [{"number": 2 * batch, "name": "even"}, {"number": 2 * batch + 1, "name": None}]
    written = write_file(path, iter([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)]), query)
    ResultStreamWriter(path).commit([written], batch)


def numbers(path: str) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["number"].to_pylist())


def join(path: str) -> int:
    return join_small_files(path, SystemClock().wall_ms())


def test_small_files_become_one_with_the_same_rows_and_batches_stay_known(path: str) -> None:
    for batch in range(20):
        commit(path, batch)

    replaced = join(path)
    commit(path, 19)  # Again, after a restart.
    commit(path, 20)

    assert replaced == 20
    assert result_tables.file_count(path) == 2
    assert numbers(path) == list(range(42))
    assert DeltaTable(path).transaction_version("query-1") == 20
    assert join(path) == 0, "two files are not worth it"


def test_who_had_chosen_the_old_files_reads_them_until_they_are_vacuumed_a_day_later(path: str) -> None:
    for batch in range(FILES_MIN):
        commit(path, batch)
    old = DeltaTable(path).file_uris()
    before = DeltaTable(path).to_pyarrow_dataset()
    join(path)
    table_maintenance.vacuum(path)

    assert before.count_rows() == 2 * FILES_MIN
    yesterday = time.time() - 2 * 24 * 3600
    left_behind = Path(path, "left-behind.parquet")  # By a writer that was killed.
    left_behind.write_bytes(b"x")
    os.utime(left_behind, (yesterday, yesterday))
    table_maintenance.vacuum(path)
    assert not left_behind.exists()
    assert all(Path(file).exists() for file in old)
    assert numbers(path) == list(range(2 * FILES_MIN))


def test_a_join_that_comes_second_changes_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(FILES_MIN):
        commit(path, batch)
    copy = table_maintenance._copy

    def meanwhile(*arguments: Any) -> ColumnStatistics:
        """Another process joins the same files while this one copies them."""
        monkeypatch.undo()
        assert join(path) == FILES_MIN
        return copy(*arguments)

    monkeypatch.setattr(table_maintenance, "_copy", meanwhile)

    assert join(path) == 0
    assert numbers(path) == list(range(2 * FILES_MIN))
    assert result_tables.file_count(path) == 1
    files = [file.name for file in Path(path).glob("*.parquet")]
    assert len(files) == FILES_MIN + 1, "the second file is removed"


def test_a_batch_that_is_committed_during_a_join_stays(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(FILES_MIN):
        commit(path, batch)
    copy = table_maintenance._copy

    def meanwhile(*arguments: Any) -> ColumnStatistics:
        monkeypatch.undo()
        commit(path, FILES_MIN)
        return copy(*arguments)

    monkeypatch.setattr(table_maintenance, "_copy", meanwhile)

    assert join(path) == FILES_MIN
    assert numbers(path) == list(range(2 * FILES_MIN + 2))


def test_a_join_does_not_hinder_a_batch_that_is_being_committed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(FILES_MIN):
        commit(path, batch)
    check = result_tables._check_columns

    def meanwhile(*arguments: Any) -> None:
        """A join comes between the batch's look at the table and its commit."""
        monkeypatch.undo()
        assert join(path) == FILES_MIN
        check(*arguments)

    monkeypatch.setattr(result_tables, "_check_columns", meanwhile)
    commit(path, FILES_MIN)

    assert numbers(path) == list(range(2 * FILES_MIN + 2))
    assert result_tables.file_count(path) == 2


def test_a_large_file_is_not_copied_for_a_few_small_ones() -> None:
    small = [TableFile(f"{number}", 10) for number in range(FILES_MIN)]

    assert worth_joining([TableFile("large", 1000), *small]) == small
    assert worth_joining([TableFile("large", 150), *small])[-1] == TableFile("large", 150)
    assert worth_joining(small[1:]) == []
    assert worth_joining([TableFile("full", FILE_BYTES)] * FILES_MIN) == []
    assert len(worth_joining([TableFile("half", FILE_BYTES // 20)] * 30)) == 20


def test_the_log_of_a_table_knows_the_ranges_of_its_columns_before_and_after_a_join(path: str) -> None:
    for batch in range(FILES_MIN):
        commit(path, batch)

    def ranges() -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pydict()
        return found

    first = ranges()
    join(path)
    joined = ranges()

    assert sorted(first["min.number"]) == list(range(0, 2 * FILES_MIN, 2))
    assert (joined["min.number"], joined["max.number"]) == ([0], [2 * FILES_MIN - 1])
    assert (joined["min.name"], joined["max.name"], joined["null_count.name"]) == (
        ["even"],
        ["even"],
        [FILES_MIN],
    )


def test_ranges_are_only_of_values_that_can_be_told() -> None:
    ranges = ColumnStatistics()
    moment = datetime(2026, 11, 18, 1, 2, 3, 456_001, tzinfo=UTC)
    row = {"t": moment, "f": 1.5, "long": "x" * 40, "b": b"y", "n": None}
    for each in (row, row | {"f": float("nan"), "long": "a"}):
        ranges.add(pa.RecordBatch.from_pylist([each]))

    assert ranges.statistics() == (
        '{"numRecords": 2, "minValues": {"t": "2026-11-18T01:02:03.456Z"}, '
        '"maxValues": {"t": "2026-11-18T01:02:03.457Z"}, "nullCount": {"t": 0, "f": 0, "long": 0}}'
    )


# What a pipeline does with it.


@pytest.fixture
def context() -> Context:
    """Of a run whose time is ours; neither its broker nor its Spark is asked for."""
    clock = ManualClock()
    return Context(RunSettings(name="totals"), None, "127.0.0.1:1", clock, RunProgress(clock))  # type: ignore[arg-type]


def test_a_pipeline_joins_the_files_of_its_table_every_minute(path: str, context: Context) -> None:
    upkeep = ResultTableMaintenance(context, path)
    for batch in range(FILES_MIN):
        commit(path, batch)

    upkeep.maybe_work()
    early = result_tables.file_count(path)
    assert isinstance(context.clock, ManualClock)
    context.clock.move_to(context.clock.steady_ms() + 60_000)
    upkeep.maybe_work()

    assert (early, result_tables.file_count(path)) == (FILES_MIN, 1)
    assert numbers(path) == list(range(2 * FILES_MIN))


def test_a_file_that_cannot_be_read_is_told_of_and_the_pipeline_goes_on(path: str, context: Context) -> None:
    for batch in range(FILES_MIN):
        commit(path, batch)
    [broken, *_] = DeltaTable(path).file_uris()
    Path(broken).write_bytes(b"no parquet")

    ResultTableMaintenance(context, path).work()

    assert broken.rpartition("/")[2] in context.progress.counts().note
    assert result_tables.file_count(path) == FILES_MIN
    assert len(list(Path(path).glob("*.parquet"))) == FILES_MIN, "what was copied is removed"


def test_a_pipeline_without_a_table_has_nothing_to_do(context: Context) -> None:
    ResultTableMaintenance(context, None).work()

    assert context.progress.counts().note == ""
