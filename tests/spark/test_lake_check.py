"""``lake check``: what is well, and every way in which it may not be."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.lake_rows import NOON_MS, archive, rows, write_rows

from penstock.config.broker import DAY_MS
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.offset_ranges import difference, offsets_text, overlaps, runs_of
from penstock.spark.lake.table import ArchivedRange, LakeTable
from penstock.spark.lake.verification import PartitionCheck, check_partition


class FakeLog:
    """A log that has these offsets."""

    def __init__(self, start: int, end: int, offsets: set[int] | None = None) -> None:
        self.start = start
        self.end = end
        self._offsets = set(range(start, end)) if offsets is None else offsets

    def present(self, wanted: OffsetRange) -> Iterator[OffsetRange]:
        for offset in range(max(wanted.start, self.start), min(wanted.end, self.end)):
            if offset in self._offsets:
                yield OffsetRange("orders", 0, offset, offset + 1)


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return LakeTable.open(str(tmp_path / "lake"), "orders")


@pytest.fixture
def filled(table: LakeTable) -> LakeTable:
    archive(table, rows(range(100)), 0, 100)
    archive(table, rows(range(100, 200)), 100, 200)
    return table


def found(table: LakeTable, log: FakeLog) -> list[str]:
    return check_partition(table, 0, log).findings


def test_spans_are_what_offsets_are_together() -> None:
    offsets = pa.array([1, 2, 3, 5, 6, 9], pa.int64())

    def ranges(*ends: tuple[int, int]) -> list[OffsetRange]:
        return [OffsetRange("orders", 0, start, end) for start, end in ends]

    runs = runs_of(offsets, "orders", 0)
    assert runs == ranges((1, 4), (5, 7), (9, 10))
    assert runs_of(offsets[:0], "orders", 0) == []
    assert list(difference(ranges((0, 12))[0], runs)) == ranges((0, 1), (4, 5), (7, 9), (10, 12))
    assert list(difference(ranges((2, 6))[0], runs)) == ranges((4, 5))
    assert list(overlaps(ranges((0, 5), (2, 3), (4, 8), (8, 9)))) == ranges((2, 3), (4, 5))
    assert (offsets_text(1, 2), offsets_text(1, 4)) == ("offset 1", "offsets 1 to 3")


def test_a_whole_lake_and_a_whole_log_are_well(filled: LakeTable) -> None:
    check = check_partition(filled, 0, FakeLog(150, 300))

    assert check == PartitionCheck("orders", 0, 150, 300, 0, 200, files=2, rows=200)
    assert found(filled, FakeLog(200, 200)) == []


def test_nothing_archived_is_well(table: LakeTable) -> None:
    assert found(table, FakeLog(40, 70)) == []


def test_what_lies_between_lake_and_log_is_a_gap(filled: LakeTable) -> None:
    assert found(filled, FakeLog(210, 300)) == ["offsets 200 to 209: neither in the log nor in the lake"]


def test_a_lake_that_is_ahead_of_its_log_is_found(filled: LakeTable) -> None:
    assert "beyond the end of the log" in found(filled, FakeLog(0, 150))[0]


def test_what_was_lost_is_on_record_and_no_finding(filled: LakeTable) -> None:
    filled.lose(OffsetRange("orders", 0, 200, 230))
    archive(filled, rows(range(230, 240)), 230, 240)

    check = check_partition(filled, 0, FakeLog(230, 300))

    assert (check.findings, check.lost, check.rows) == ([], [(200, 230)], 210)


def test_an_offset_in_two_files_is_found(filled: LakeTable) -> None:
    twice = write_rows(filled.path, 0, [rows(range(90, 110))])
    filled.commit([ArchivedRange(0, 200, 200, 20)], twice, NOON_MS)

    assert found(filled, FakeLog(0, 200)) == ["offsets 90 to 109: more than once in the lake"]


def test_an_offset_that_is_twice_in_one_file_is_found(table: LakeTable) -> None:
    archive(table, rows([0, 1, 2, 2, 3]), 0, 4)

    assert found(table, FakeLog(0, 4)) == [
        "offset 2: more than once in the lake",
    ]


def test_a_row_that_was_archived_and_is_in_no_file_is_found(filled: LakeTable) -> None:
    filled.commit([ArchivedRange(0, 200, 210, 10)], [], NOON_MS)

    assert found(filled, FakeLog(210, 210)) == [
        "10 archived records are in no file; they are among offsets 200 to 209"
    ]
    assert found(filled, FakeLog(205, 210)) == [
        "offsets 205 to 209: in the log, but missing from the lake, which claims them",
        "5 archived records are in no file; they are among offsets 200 to 204",
    ]


def test_what_the_log_did_not_have_is_not_missing(table: LakeTable) -> None:
    kept = [0, 1, 5, 6, 9]
    archive(table, rows(kept), 0, 12)

    check = check_partition(table, 0, FakeLog(0, 20, set(kept)))

    assert (check.findings, check.absent, check.rows) == ([], 7, 5)
    assert found(table, FakeLog(12, 20)) == []  # Retention has deleted them, too.
    assert found(table, FakeLog(0, 20, {5, 9})) == []  # Compaction goes on in the log alone.
    assert "offset 7: in the log" in found(table, FakeLog(0, 20, {5, 7, 9}))[0]


def test_dates_that_interleave_are_well(table: LakeTable) -> None:
    times = [NOON_MS + DAY_MS // 2 + (1 if offset % 2 else -1) for offset in range(100)]
    archive(table, rows(range(100), times_ms=times), 0, 100)

    check = check_partition(table, 0, FakeLog(0, 100))

    assert (check.files, check.findings) == (2, [])


def test_a_file_that_is_not_what_the_table_says_is_found(filled: LakeTable) -> None:
    path = filled.files()[0].path
    whole = pq.read_table(path, partitioning=None)
    reverse = whole.take(list(range(99, -1, -1)))
    shifted = whole.set_column(1, "offset", pa.array(range(1, 101), pa.int64()))
    other = whole.set_column(0, "partition", pa.array([1] * 100, pa.int32()))

    for changed, why in [
        (reverse, "not in order"),
        (whole.slice(0, 99), "99 rows"),
        (shifted, "offsets go up to 100"),
        (other, "other partitions"),
    ]:
        pq.write_table(changed, path)
        [finding] = found(filled, FakeLog(100, 200))
        assert why in finding
        assert finding.startswith("offsets 0 to 99: ")


def test_damage_anywhere_in_a_file_is_found_and_the_others_are_checked(filled: LakeTable) -> None:
    archive(filled, rows(range(200, 300)), 200, 300)
    files = [Path(file.path) for file in filled.files()]
    whole = files[1].read_bytes()
    values = pq.read_metadata(files[1]).row_group(0).column(4)
    place = values.data_page_offset + values.total_compressed_size - 5
    files[1].write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
    files[2].unlink()

    findings = found(filled, FakeLog(300, 300))

    assert len(findings) == 2
    assert findings[0].startswith("offsets 100 to 199: ")
    assert files[1].name in findings[0]
    assert "the file does not exist" in findings[1]
