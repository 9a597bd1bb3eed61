"""Tables that pipelines make: Delta tables of any columns, beside those of the topics.

    <lake>/_tables/totals/                    one Delta table for each name
        5f0c...parquet                        what one task of one batch wrote

    executors: rows ──> a Parquet file each ──> path, rows, bytes
    driver:                                     one commit, with (application, version)

Rows go from Spark's Arrow straight into Parquet; none passes the driver.  A
version that was committed before is not written again, so a batch that is
repeated after a crash is there once.  Files that nobody committed are left to
``vacuum``, as in every Delta table.

A table keeps the columns that its first rows had.  Whoever wants others makes
another table.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from penstock.clock import SystemClock
from penstock.errors import InvalidValue
from penstock.spark.lake import storage
from penstock.types import check_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER: Final = "_tables"  # Of the lake; no topic is called so.
WRITTEN: Final = "path string, rows bigint, bytes bigint, columns binary"  # What a task tells the driver.


def path_of(lake: str, name: str) -> str:
    """Where a table of results is."""
    return f"{storage.located(lake)}/{FOLDER}/{check_name('table', name)}"


def names_in(lake: str) -> list[str]:
    """The tables of results there are."""
    return storage.folders_in(f"{storage.located(lake)}/{FOLDER}")


def read(spark: "SparkSession", path: str) -> "DataFrame":
    """A Delta table as it is now, or the Parquet files of a folder."""
    delta = _opened(path)
    files = [path] if delta is None else delta.file_uris()
    return spark.read.parquet(*files)


def append(frame: "DataFrame", path: str, application: str, version: int) -> tuple[int, int]:
    """Add the rows of a frame, once for each version of an application; returns how many rows and files."""
    delta = _opened(path)
    if delta is not None and _is_there(delta, application, version):
        return 0, 0

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_file(path, batches)

    written = frame.mapInArrow(write, WRITTEN).collect()
    if not written:
        return 0, 0
    schema = pa.ipc.read_schema(pa.py_buffer(bytes(written[0].columns)))
    delta = delta or _made(path, schema)
    _check_columns(delta, path, schema)
    now_ms = SystemClock().wall_ms()
    added: list[AddAction | RemoveAction] = [_added(path, row, now_ms) for row in written]
    delta.create_write_transaction(
        added, "append", delta.schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction(application, version)]),
    )  # fmt: skip
    storage.sync(f"{path}/_delta_log/{DeltaTable(path).version():020}.json")
    return sum(row.rows for row in written), len(written)


def write_file(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows to a file of the table that nobody sees before it is committed; what an executor does."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    schema = pa.schema([field.with_nullable(True) for field in first.schema])
    file, rows = f"{path}/{uuid4().hex}.parquet", 0
    storage.make_folder(path)
    system, inside = storage.filesystem_of(file)
    with (
        storage.writing(file),
        pq.ParquetWriter(inside, schema, filesystem=system, compression="zstd") as out,
    ):
        while first is not None:
            out.write_batch(first.cast(schema))
            rows += first.num_rows
            first = next(batches, None)
    storage.sync(file)
    told = {
        "path": file,
        "rows": rows,
        "bytes": storage.bytes_of(file),
        "columns": schema.serialize().to_pybytes(),
    }
    yield pa.RecordBatch.from_pylist([told])


def _opened(path: str) -> DeltaTable | None:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def _is_there(delta: DeltaTable, application: str, version: int) -> bool:
    last = delta.transaction_version(application)
    return last is not None and last >= version


def _made(path: str, schema: pa.Schema) -> DeltaTable:
    return DeltaTable.create(path, schema, mode="ignore")  # Somebody else may have been the first.


def _check_columns(delta: DeltaTable, path: str, schema: pa.Schema) -> None:
    has, gets = delta.schema(), Schema.from_arrow(schema)
    if has != gets:
        columns = ", ".join(f"{field.name} {field.type.type}" for field in has.fields)
        why = f"it has the columns {columns}, and the rows have others; choose another name"
        raise InvalidValue(name="table", value=path, why=why)


def _added(path: str, row: Any, now_ms: int) -> AddAction:
    return AddAction(
        row.path.removeprefix(f"{path}/"), row.bytes, {}, now_ms, True, f'{{"numRecords": {row.rows}}}'
    )
