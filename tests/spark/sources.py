"""The source without Spark: planned and read in this process."""

import pickle
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from penstock.spark.source.reader import TableReader
from penstock.spark.source.slices import ReadTask
from penstock.spark.source.source import PenstockSource

TYPES: dict[str, str | DataType] = {
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "lane": "integer",
    "id": "string",
    "attempts": "integer",
    "state": "string",
    "horizon": "timestamp",
    "headers": MapType(StringType(), BinaryType()),
    "header_list": ArrayType(StructType().add("key", "string").add("value", "binary")),
}


def schema_of(*names: str) -> StructType:
    schema = StructType()
    for name in names:
        schema.add(name, TYPES[name])
    return schema


class Table:
    """A read: its options, and the columns that are wanted."""

    def __init__(self, *names: str, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        self.reader: TableReader = PenstockSource(texts).reader(schema_of(*names))

    def plan(self) -> list[InputPartition]:
        return self.reader.partitions()

    def spans(self) -> list[tuple[str, int, int, int]]:
        """What the tasks read: lake or log, partition, from, to."""
        found = []
        for each in self.plan():
            assert isinstance(each, ReadTask)
            for work in each.slices:
                span = work.range
                found.append(("lake" if work.files else "log", span.partition, span.start, span.end))
        return found

    def rows(self, plan: list[InputPartition] | None = None) -> list[tuple[Any, ...]]:
        """The rows, as a task gives them that got its work over a wire."""
        found: list[tuple[Any, ...]] = []
        for each in self.plan() if plan is None else plan:
            reader, work = pickle.loads(cloudpickle.dumps((self.reader, each)))  # type: ignore[no-untyped-call]
            for batch in reader.read(work):
                batch.validate(full=True)
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return found


def offsets_of(rows: list[tuple[Any, ...]]) -> list[int]:
    """The first column."""
    return [row[0] for row in rows]
