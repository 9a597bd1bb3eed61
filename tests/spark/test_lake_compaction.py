"""Joining small files: what is worth it, that nothing changes but the files, and who may be in the way."""

import os
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.spark.lake_rows import NOON_MS, archive, read, rows

from penstock.config.broker import DAY_MS
from penstock.errors import LakeDamaged
from penstock.spark.lake.compaction import FileGroup, join, plan, replace
from penstock.spark.lake.reading import read_range
from penstock.spark.lake.table import LakeTable

MEGABYTE = 1_000_000
LATER_MS = NOON_MS + 3 * DAY_MS


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return LakeTable.open(str(tmp_path / "lake"), "orders")


def filled(table: LakeTable, batches: int, partition: int = 0) -> None:
    for number in range(batches):
        archive(table, rows(range(number * 10, number * 10 + 10), partition), number * 10, number * 10 + 10)


def compact(table: LakeTable, now_ms: int = NOON_MS) -> int:
    joints = plan(table, MEGABYTE, now_ms)
    return sum(replace(table, joint, join(joint), now_ms) for joint in joints)


def test_small_files_become_one_that_is_sorted_and_packed_and_holds_the_same(table: LakeTable) -> None:
    filled(table, 8)
    filled(table, 8, partition=1)
    before = read(table, 0, 100)

    assert compact(table) == 2

    assert [(file.partition, file.start, file.end, file.rows) for file in table.files()] == [
        (0, 0, 80, 80),
        (1, 0, 80, 80),
    ]
    assert read(table, 0, 100) == before
    assert table.next_offsets() == {0: 80, 1: 80}
    assert table.row_counts() == {0: 80, 1: 80}
    column = pq.read_metadata(table.files()[0].path).row_group(0).column(4)
    assert column.compression == "ZSTD"


def test_few_files_of_today_wait_for_more_and_those_of_the_past_do_not(table: LakeTable) -> None:
    filled(table, 7)

    assert plan(table, MEGABYTE, NOON_MS) == []
    assert [len(joint.files) for joint in plan(table, MEGABYTE, LATER_MS)] == [7]


def test_a_large_file_is_not_copied_for_a_few_small_ones(table: LakeTable) -> None:
    archive(table, rows(range(50_000)), 0, 50_000)
    for start in range(50_000, 50_080, 10):
        archive(table, rows(range(start, start + 10)), start, start + 10)

    [joint] = plan(table, MEGABYTE, NOON_MS)

    assert [file.start for file in joint.files] == list(range(50_000, 50_080, 10))
    assert len(plan(table, table.files()[0].bytes, LATER_MS)[0].files) == 8  # The large one is large enough.


def test_who_had_chosen_the_old_files_goes_on_reading_them_until_they_are_vacuumed(table: LakeTable) -> None:
    filled(table, 8)
    reader = read_range(table.files(), 0, 0, 80)
    first = next(reader)["offset"][0].as_py()
    compact(table, time.time_ns() // 1_000_000)  # As a vacuum knows it, which asks the machine.
    old = set(Path(table.path).rglob("*.parquet")) - {Path(file.path) for file in table.files()}

    assert table.vacuum(24) == 0
    assert first == 0
    assert sum(batch.num_rows for batch in reader) == 70
    assert len(old) == 8


def test_what_nobody_uses_any_more_is_vacuumed_and_what_is_being_written_is_not(table: LakeTable) -> None:
    filled(table, 8)
    [used] = [Path(file.path) for file in table.files()][:1]
    left_behind = used.with_name("0-left-behind.parquet")
    left_behind.write_bytes(b"half a file")
    os.utime(left_behind, (1_700_000_000, 1_700_000_000))
    being_written = used.with_name("0-being-written.parquet")
    being_written.write_bytes(b"half a file")
    os.utime(used, (1_700_000_000, 1_700_000_000))  # Old, but the table's.

    assert table.vacuum(24) == 1
    version = table.version
    assert table.vacuum(24) == 0

    assert not left_behind.exists()
    assert being_written.exists()
    assert table.version == version
    assert read(table, 0, 100).num_rows == 80


def test_who_has_not_looked_for_long_does_not_vacuum_what_is_new(table: LakeTable) -> None:
    filled(table, 8)
    late = LakeTable.open(table.lake, "orders")
    late.files()
    compact(table)
    for path in Path(table.path).rglob("*.parquet"):
        os.utime(path, (1_700_000_000, 1_700_000_000))

    late.vacuum(24)

    assert read(table, 0, 100).num_rows == 80


def test_of_two_that_join_the_same_files_one_succeeds(table: LakeTable) -> None:
    filled(table, 8)
    other = LakeTable.open(table.lake, "orders")
    [joint] = plan(table, MEGABYTE, NOON_MS)
    joined, again = join(joint), join(joint)

    assert table.replace(joint.files, [joined], NOON_MS)
    assert not other.replace(joint.files, [again], NOON_MS)
    assert not replace(other, joint, again, NOON_MS)

    assert not Path(again.path).exists()
    assert read(other, 0, 100)["offset"].to_pylist() == list(range(80))


def test_joining_and_archiving_do_not_disturb_each_other(table: LakeTable) -> None:
    filled(table, 8)
    archiver = LakeTable.open(table.lake, "orders")
    [joint] = plan(table, MEGABYTE, NOON_MS)
    joined = join(joint)

    assert archive(archiver, rows(range(80, 90)), 80, 90)
    assert table.replace(joint.files, [joined], NOON_MS)  # With a snapshot from before.
    assert archive(archiver, rows(range(90, 95)), 90, 95)

    archiver.refresh()
    assert read(archiver, 0, 100)["offset"].to_pylist() == list(range(95))
    assert archiver.row_counts() == {0: 95}


def test_a_damaged_file_is_told_of_and_stays(table: LakeTable) -> None:
    filled(table, 8)
    [joint] = plan(table, MEGABYTE, NOON_MS)
    Path(joint.files[3].path).write_bytes(b"no parquet")

    with pytest.raises(LakeDamaged, match=Path(joint.files[3].path).name):
        join(joint)

    assert len(list(Path(table.path).rglob("*.parquet"))) == 8


def test_a_file_with_other_rows_than_the_table_says_is_damaged(table: LakeTable) -> None:
    filled(table, 8)
    [joint] = plan(table, MEGABYTE, NOON_MS)
    shorter = pq.read_table(joint.files[0].path, partitioning=None).slice(0, 5)
    pq.write_table(shorter, joint.files[0].path)

    with pytest.raises(LakeDamaged, match="5 rows"):
        join(FileGroup(joint.table, joint.files))
