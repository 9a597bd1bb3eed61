"""Small tables of the lake that a driver writes by itself."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import LakeUnusable
from penstock.spark.lake.delta import open_table
from penstock.spark.reports import driver_tables

SCHEMA = pa.schema([("name", pa.string()), ("count", pa.int64())])


def rows(*counts: int) -> pa.Table:
    return pa.Table.from_pylist([{"name": "x", "count": count} for count in counts], schema=SCHEMA)


def counts(path: str) -> list[int]:
    return sorted(driver_tables.read(path).column("count").to_pylist())


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lake" / "_tables" / "sums")


def test_a_version_is_there_once_even_if_it_has_no_rows(path: str) -> None:
    assert driver_tables.last_version(path, "a") is None

    driver_tables.append(path, rows(1, 2), "a", 10)
    driver_tables.append(path, rows(1, 2), "a", 10)
    driver_tables.append(path, rows(), "a", 11)
    driver_tables.append(path, rows(3), "a", 11)
    driver_tables.append(path, rows(4), "b", 1)

    assert counts(path) == [1, 2, 4]
    assert (driver_tables.last_version(path, "a"), driver_tables.last_version(path, "b")) == (11, 1)


def test_all_rows_are_replaced(path: str) -> None:
    driver_tables.replace(path, rows(1, 2))
    driver_tables.replace(path, rows(3))
    assert counts(path) == [3]

    driver_tables.replace(path, rows())
    assert counts(path) == []


def test_many_small_commits_become_one_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_tables, "TIDY_COMMITS", 4)

    for version in range(8):
        driver_tables.append(path, rows(version), "a", version)

    table = open_table(path)
    assert table is not None
    assert len(table.file_uris()) < 5
    assert counts(path) == list(range(8))
    assert driver_tables.last_version(path, "a") == 7


def test_what_cannot_be_written_or_is_not_there_is_told(path: str, tmp_path: Path) -> None:
    with pytest.raises(LakeUnusable, match="no such table"):
        driver_tables.read(path)
    (tmp_path / "lake").touch()
    with pytest.raises(LakeUnusable):
        driver_tables.append(path, rows(1), "a", 1)
