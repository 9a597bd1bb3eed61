"""Tables that pipelines make, by the calls that Spark makes.  Without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.errors import InvalidValue
from penstock.spark.reports import result_tables
from penstock.spark.reports.result_tables import ResultStreamWriter, ResultWriter, WrittenFile, write_file


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Of a table that does not exist yet."""
    return result_tables.path_of(str(tmp_path), "totals")


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), ("total", pa.int64())])
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def task(path: str, *names: str, query: str | None = "query-1") -> WrittenFile:
    """What one task of a query writes: a row in each of two batches, and an empty one before."""
    batches = [batch(), *(batch({"name": name, "total": 1}) for name in names)]
    return write_file(path, iter(batches), query)


def names_in(path: str) -> list[str]:
    return sorted(DeltaTable(path).to_pyarrow_table()["name"].to_pylist())


def test_the_rows_of_all_tasks_appear_at_once(path: str) -> None:
    writer = ResultWriter(path)
    written = [writer.write(iter([batch({"name": name, "total": 1})])) for name in ("a", "b")]
    assert result_tables.file_count(path) == 0

    writer.commit([*written, None, writer.write(iter([batch()]))])

    assert names_in(path) == ["a", "b"]
    assert result_tables.file_count(path) == 2
    assert path.endswith("/_tables/totals")


def test_a_batch_that_is_repeated_is_there_once_and_other_queries_are_not_held_up_by_it(path: str) -> None:
    writer = ResultStreamWriter(path)
    writer.commit([task(path, "a", "b")], 0)
    writer.commit([task(path, "c")], 1)

    writer.commit([task(path, "c")], 1)
    writer.commit([task(path, "a", "b")], 0)
    writer.commit([task(path, "d", query="query-2")], 0)

    assert names_in(path) == ["a", "b", "c", "d"]


def test_a_batch_without_rows_makes_no_file_and_no_table(path: str) -> None:
    ResultStreamWriter(path).commit([task(path)], 0)

    assert result_tables.file_count(path) == 0
    assert not Path(path).exists()


def test_other_columns_are_refused_and_nothing_is_added(path: str) -> None:
    ResultWriter(path).commit([task(path, "a")])
    others = pa.RecordBatch.from_pylist([{"name": "b", "sum": 1}])

    with pytest.raises(InvalidValue, match="it has the columns name, total"):
        ResultWriter(path).commit([write_file(path, iter([others]), None)])

    assert names_in(path) == ["a"]
