"""Tables of the lake: what a commit adds, who may commit what, and reading it back."""

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.spark.lake_rows import NOON_MS, archive, read, rows, write_rows

from penstock.config.broker import DAY_MS
from penstock.errors import LakeDamaged, LakeUnusable
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import LakeFile
from penstock.spark.lake.reading import read_range
from penstock.spark.lake.table import ArchivedRange, LakeTable, tables_in


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return LakeTable.open(str(tmp_path / "lake"), "orders")


def test_a_table_that_is_not_there_has_nothing(table: LakeTable, tmp_path: Path) -> None:
    assert not table.exists
    assert (table.next_offsets(), table.first_offsets(), table.files(), table.lost()) == ({}, {}, [], [])
    assert tables_in(str(tmp_path / "lake")) == []


def test_what_was_committed_is_read_back_as_it_was(table: LakeTable) -> None:
    assert archive(table, rows(range(100, 300)), 100, 300)

    assert table.next_offsets() == {0: 300}
    assert table.first_offsets() == {0: 100}
    assert table.row_counts() == {0: 200}
    assert read(table, 0, 1000) == pa.Table.from_batches([rows(range(100, 300))])
    assert read(table, 150, 160) == pa.Table.from_batches([rows(range(150, 160))])
    assert tables_in(table.lake) == ["orders"]


def test_a_range_that_is_already_there_changes_nothing(table: LakeTable) -> None:
    late = LakeTable.open(table.lake, "orders")
    assert archive(table, rows(range(10)), 0, 10)

    assert not archive(late, rows(range(10)), 0, 10)
    assert not archive(late, rows(range(5, 15)), 5, 15)

    late.refresh()
    assert [file.rows for file in late.files()] == [10]


def test_of_two_archivers_with_the_same_snapshot_one_succeeds(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)
    other = LakeTable.open(table.lake, "orders")

    assert archive(table, rows(range(10, 20)), 10, 20)
    assert not archive(other, rows(range(10, 30)), 10, 30)

    assert other.next_offsets() == {0: 20}
    assert read(other, 0, 100)["offset"].to_pylist() == list(range(20))


def test_a_commit_whose_answer_was_lost_is_no_failure(table: LakeTable) -> None:
    late = LakeTable.open(table.lake, "orders")
    files = write_rows(table.path, 0, [rows(range(10))])
    ranges = [ArchivedRange(0, 0, 10, 10)]

    assert table.commit(ranges, files, NOON_MS)
    assert late.commit(ranges, files, NOON_MS)  # As the library does by itself, when a store does not answer.

    assert late.row_counts() == {0: 10}
    assert len(late.files()) == 1


def test_archivers_of_different_partitions_do_not_disturb_each_other(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)
    archive(table, rows(range(10), partition=1), 0, 10)
    other = LakeTable.open(table.lake, "orders")

    assert archive(table, rows(range(10, 20)), 10, 20)
    assert archive(other, rows(range(10, 15), partition=1), 10, 15)

    assert other.next_offsets() == {0: 20, 1: 15}


def test_a_range_without_records_moves_on(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)

    assert table.commit([ArchivedRange(0, 10, 40, 0)], [], NOON_MS)

    assert table.next_offsets() == {0: 40}
    assert table.row_counts() == {0: 10}


def test_how_far_the_archive_is_outlives_the_commits_that_said_so(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)
    table.lose(OffsetRange("orders", 0, 10, 20))
    for start in range(20, 50):
        archive(table, rows([start], partition=1), start, start + 1)
    log = Path(table.path) / "_delta_log"
    for commit in log.iterdir():
        os.utime(commit, (1_700_000_000, 1_700_000_000))

    for start in range(50, 75):
        archive(table, rows([start], partition=1), start, start + 1)

    assert not (log / f"{1:020}.json").exists()
    found = LakeTable.open(table.lake, "orders")
    assert found.next_offsets() == {0: 20, 1: 75}
    assert found.first_offsets() == {0: 0, 1: 20}
    assert found.row_counts() == {0: 10, 1: 55}
    assert found.lost() == [OffsetRange("orders", 0, 10, 20)]
    assert read(found, 0, 100)["offset"].to_pylist() == list(range(10))


def test_what_was_lost_is_on_record(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)
    other = LakeTable.open(table.lake, "orders")

    assert table.lose(OffsetRange("orders", 0, 10, 25))
    assert not other.lose(OffsetRange("orders", 0, 10, 30))

    assert other.lost() == [OffsetRange("orders", 0, 10, 25)]
    assert other.next_offsets() == {0: 25}
    assert archive(table, rows(range(25, 30)), 25, 30)


def test_dates_interleave_and_offsets_still_come_in_order(table: LakeTable) -> None:
    midnight = NOON_MS + DAY_MS // 2
    times = [midnight + (1 if offset % 3 else -1) for offset in range(1000)]
    batch = rows(range(1000), times_ms=times)

    archive(table, batch, 0, 1000)

    dates = sorted(file.date for file in table.files())
    assert dates == [datetime.date(2026, 11, 16), datetime.date(2026, 11, 17)]
    assert read(table, 0, 1000) == pa.Table.from_batches([batch])
    assert read(table, 501, 777)["offset"].to_pylist() == list(range(501, 777))
    assert [file.date.day for file in table.files(from_ms=midnight)] == [17]
    assert [file.date.day for file in table.files(to_ms=midnight)] == [16]


def test_times_that_have_no_date_are_kept_as_they_are(table: LakeTable) -> None:
    times = [NOON_MS * 1000, -NOON_MS * 100, NOON_MS, -1]  # Somebody took microseconds for milliseconds.
    batch = rows(range(4), times_ms=times)

    archive(table, batch, 0, 4)

    assert read(table, 0, 4).equals(pa.Table.from_batches([batch]))
    assert sorted(file.date.year for file in table.files()) == [1, 1969, 2026, 9999]
    assert len(table.files(from_ms=NOON_MS)) == 2


def test_only_wanted_columns_are_read(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)

    [batch] = read_range(table.files(), 0, 3, 5, columns=["value", "timestamp"])

    assert batch.schema.names == ["timestamp", "value"]
    assert batch["value"].to_pylist() == [b"value-3", b"value-4"]


def test_others_read_the_table_too(table: LakeTable) -> None:
    archive(table, rows(range(10)), 0, 10)
    archive(table, rows(range(5), partition=1), 0, 5)

    orders = DeltaTable(table.path).to_pyarrow_dataset()
    found = duckdb.execute(
        "select partition, count(*), max(\"offset\"), first(headers['a']) filter (headers['a'] is not null) "
        "from orders where date = '2026-11-16' group by partition order by partition"
    ).fetchall()

    assert orders.count_rows() == 15
    assert found == [(0, 10, 9, b"1"), (1, 5, 4, b"1")]


def test_files_that_fail_leave_nothing_behind(table: LakeTable, tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(range(10), times_ms=[NOON_MS + offset * DAY_MS for offset in range(10)])
        raise RuntimeError("the broker is gone")

    with pytest.raises(RuntimeError):
        write_rows(table.path, 0, broken())

    assert list(tmp_path.rglob("*.parquet")) == []


def test_many_dates_do_not_keep_many_files_open(table: LakeTable) -> None:
    days = [rows([offset], times_ms=[NOON_MS + offset % 40 * DAY_MS]) for offset in range(80)]

    files = write_rows(table.path, 0, days)

    assert sum(file.rows for file in files) == 80
    assert table.commit([ArchivedRange(0, 0, 80, 80)], files, NOON_MS)
    assert read(table, 0, 80)["offset"].to_pylist() == list(range(80))


def damaged(file: LakeFile) -> None:
    path = Path(file.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_file_is_an_error_that_names_it(table: LakeTable) -> None:
    archive(table, rows(range(1000)), 0, 1000)
    [file] = table.files()

    damaged(file)
    with pytest.raises(LakeDamaged, match=Path(file.path).name):
        read(table, 0, 1000)

    Path(file.path).unlink()
    with pytest.raises(LakeDamaged, match="the file does not exist"):
        read(table, 0, 1000)


def test_a_lake_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file, not a folder")
    table = LakeTable.open(str(tmp_path / "lake"), "orders")

    with pytest.raises(LakeUnusable, match="lake"):
        archive(table, rows(range(10)), 0, 10)
    with pytest.raises(LakeUnusable, match=r"lake\.path"):
        LakeTable.open("", "orders")
