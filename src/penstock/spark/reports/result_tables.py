"""Result tables of pipelines: Delta tables with arbitrary columns, next to those of the topics.

    <lake>/_tables/totals/                    one Delta table per name
        5f0c...parquet                        the rows of one task of one batch

    tasks:    rows ──> a Parquet file each ──> path, rows, bytes
    driver:                                    one commit, with (query, batch) as application transaction

A data source, ``penstock_table``, registered where it is used.  Rows go from Arrow to
Parquet on the executors.  A batch that was committed before is not committed again, so
repetitions after a crash have no effect.  The pipeline that writes a table also compacts
and vacuums it (``table_maintenance.py``).

Spark's own Parquet reader is faster, and reads tables on a disk.  It needs a jar to read a
bucket; those tables are read by this source, a task for each file, with the credentials
of the lake.

A table keeps the columns of its first rows; other columns need another table.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.clock import SystemClock
from penstock.errors import InvalidValue, LakeUnusable
from penstock.spark.lake import storage
from penstock.spark.lake.delta import (
    SETTINGS,
    files_of,
    open_table,
    sync_commits,
    transaction_version,
    translated_errors,
)
from penstock.spark.reports.column_statistics import ColumnStatistics
from penstock.spark.runtime.spark_connect import register
from penstock.spark.source.slices import arrow_schema
from penstock.types import check_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FOLDER: Final = "_tables"  # Of the lake; no topic is called so.
FORMAT: Final = "penstock_table"
FOLDERS: Final = "partition."  # How deltalake names the columns that a table is partitioned by.
READ_ROWS: Final = 65_536
QUERY_ID: Final = "sql.streaming.queryId"  # A property that Spark gives the tasks of a query.


def path_of(lake: str, name: str) -> str:
    """Where a table of results is."""
    return f"{storage.located(lake)}/{FOLDER}/{check_name('table', name)}"


def read(spark: "SparkSession", path: str) -> "DataFrame":
    """A Delta table as it is now, or the Parquet files of a local folder."""
    path = storage.located(path)
    delta = open_table(path)
    if not storage.is_local(path):
        if delta is None:
            raise LakeUnusable(lake=path, why="there is no Delta table")
        register(spark, ResultTable)
        return spark.read.format(FORMAT).option("path", path).load()
    if delta is None:
        return spark.read.parquet(path)
    if files := delta.file_uris():
        return spark.read.option("basePath", path).parquet(*files)
    return spark.createDataFrame([], _spark_schema(delta))


def _spark_schema(delta: DeltaTable) -> "StructType":
    return from_arrow_schema(pa.schema(delta.schema().to_arrow()))


def file_count(path: str) -> int:
    """How many files a table has; 0 if it is not there."""
    delta = open_table(path)
    return 0 if delta is None else len(delta.file_uris())


class ResultTable(DataSource):
    """What Spark makes of ``format("penstock_table")``; its option ``path`` says which table."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> "StructType":
        return _spark_schema(self._opened())

    def reader(self, schema: "StructType") -> "ResultReader":
        return ResultReader(self.options["path"], schema, self._opened())

    def _opened(self) -> DeltaTable:
        delta = open_table(self.options["path"])
        if delta is None:
            raise LakeUnusable(lake=self.options["path"], why="there is no Delta table")
        return delta

    def writer(self, schema: "StructType", overwrite: bool) -> "ResultWriter":  # noqa: ARG002 - it only appends.
        return ResultWriter(self.options["path"])

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "ResultStreamWriter":  # noqa: ARG002, N802 - Spark's.
        return ResultStreamWriter(self.options["path"])


class FileTask(InputPartition):
    """A file that one task reads; the columns of its folder have the same value in each row."""

    def __init__(self, path: str, constants: dict[str, Any]) -> None:
        self.path = path
        self.constants = constants


class ResultReader(DataSourceReader):
    """Reads the files that a table had when the query was planned."""

    def __init__(self, path: str, schema: "StructType", delta: DeltaTable) -> None:
        self._schema = schema
        self._files = [
            FileTask(
                f"{path}/{action['path']}",
                {
                    name.removeprefix(FOLDERS): value
                    for name, value in action.items()
                    if name.startswith(FOLDERS)
                },
            )
            for action in files_of(delta, path)
        ]

    def partitions(self) -> list[InputPartition]:
        """One task for each file; Spark needs at least one."""
        return [*self._files] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file."""
        if not isinstance(partition, FileTask):
            return
        schema = arrow_schema(self._schema)
        stored = [field.name for field in schema if field.name not in partition.constants]
        system, inside = storage.filesystem_of(partition.path)
        with storage.reading(partition.path), system.open_input_file(inside) as source:
            for batch in pq.ParquetFile(source).iter_batches(READ_ROWS, columns=stored):
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.repeat(pa.scalar(partition.constants[field.name], field.type), batch.num_rows)
                        if field.name in partition.constants
                        else batch[field.name].cast(field.type)
                        for field in schema
                    ],
                    schema=schema,
                )


@dataclass(frozen=True)
class WrittenFile(WriterCommitMessage):
    """What one task has written."""

    query: str | None  # Of a stream: its id, which stays the same after a restart.
    path: str
    rows: int
    size_bytes: int
    columns: bytes  # The Arrow schema.
    statistics: str = ""  # In Delta's words.


class ResultWriter(DataSourceArrowWriter):
    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFile:
        return write_file(self._path, iterator, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        add_files(self._path, _written(messages), 0)


class ResultStreamWriter(DataSourceStreamArrowWriter):
    """Adds the batches of one query."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFile:
        context = TaskContext.get()
        return write_file(self._path, iterator, context.getLocalProperty(QUERY_ID) if context else None)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when all tasks of a batch are done; perhaps again, after a restart."""
        add_files(self._path, _written(messages), batchId)


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[WrittenFile]:
    return [message for message in messages if isinstance(message, WrittenFile) and message.rows]


# In a task.


def write_file(path: str, batches: Iterator[pa.RecordBatch], query: str | None) -> WrittenFile:
    """Write rows to a new file, invisible until it is committed; without rows there is no file."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return WrittenFile(query, "", 0, 0, b"")
    schema = pa.schema([field.with_nullable(True) for field in first.schema])
    file, ranges = f"{path}/{uuid4().hex}.parquet", ColumnStatistics()
    storage.make_folder(path)
    system, inside = storage.filesystem_of(file)
    with storage.writing(file):
        with pq.ParquetWriter(inside, schema, filesystem=system, compression="zstd") as writer:
            while first is not None:
                writer.write_batch(first.cast(schema))
                ranges.add(first)
                first = next(batches, None)
    storage.sync(file)
    columns = schema.serialize().to_pybytes()
    return WrittenFile(query, file, ranges.rows, storage.bytes_of(file), columns, ranges.statistics())


# On the driver.


def add_files(path: str, written: list[WrittenFile], version: int) -> None:
    """Commit what the tasks have written, unless the query has committed this version before."""
    if not written:
        return
    schema = pa.ipc.read_schema(pa.py_buffer(written[0].columns))
    with translated_errors(path):  # Others may create it, too.
        delta = open_table(path) or DeltaTable.create(path, schema, mode="ignore", configuration=SETTINGS)
    query = written[0].query
    if query is not None and _is_there(delta, path, query, version):
        return
    _check_columns(delta, path, schema)
    now_ms = SystemClock().wall_ms()
    added: list[AddAction | RemoveAction] = [_added(path, file, now_ms) for file in written]
    numbered = [] if query is None else [Transaction(query, version)]
    before = delta.version()
    with translated_errors(path):
        delta.create_write_transaction(
            added, "append", delta.schema(), commit_properties=CommitProperties(app_transactions=numbered)
        )
    sync_commits(path, before)  # All since then: a join may have come between.


def _is_there(delta: DeltaTable, path: str, query: str, version: int) -> bool:
    last = transaction_version(delta, path, query)
    return last is not None and last >= version


def _check_columns(delta: DeltaTable, path: str, schema: pa.Schema) -> None:
    has = delta.schema()
    if has != Schema.from_arrow(schema):
        columns = ", ".join(field.name for field in has.fields)
        why = f"it has the columns {columns}, and the rows differ in names or types; choose another name"
        raise InvalidValue(name="table", value=path, why=why)


def _added(path: str, file: WrittenFile, now_ms: int) -> AddAction:
    name = file.path.removeprefix(f"{path}/")
    return AddAction(name, file.size_bytes, {}, now_ms, True, file.statistics)
