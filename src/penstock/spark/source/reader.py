"""A topic as a table: reads it once, over a range that is fixed when the query is planned."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import InvalidValue
from penstock.spark.records.planning import ranges_between
from penstock.spark.runtime.connections import broker_at
from penstock.spark.runtime.error_messages import hide_traceback
from penstock.spark.source.filters import Bounds, narrowed
from penstock.spark.source.options import STREAM_COLUMNS, SourceOptions
from penstock.spark.source.scan import TopicScan
from penstock.spark.source.slices import ReadTask, SliceReader

if TYPE_CHECKING:
    import pyarrow as pa


PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class TableReader(DataSourceReader):
    """Spark's calls for one read."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        wanted = [name for name in schema.fieldNames() if name in STREAM_COLUMNS]
        if wanted or options.in_step is not None:
            name = ", ".join(wanted) or "in_step"
            raise InvalidValue(
                name="columns" if wanted else "option", value=name, why="it is only available for streams"
            )
        self._options = options
        self._bounds = Bounds()
        self._slices = SliceReader(options, schema)

    @hide_traceback
    def partitions(self) -> list[InputPartition]:
        """The tasks; Spark needs at least one, so an empty one if there is nothing to read."""
        scan = TopicScan(self._options, broker_at(self._options.address))
        start = scan.starting(self._options.starting or "earliest")
        return [*scan.tasks(ranges_between(start, scan.ending()), self._bounds)] or [ReadTask([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a task."""
        return self._slices.read_task(partition)


class FilteringTableReader(TableReader):
    """A reader to which Spark pushes the conditions of a query."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name.
        """Apply the conditions that select offsets; returns those that Spark must still test."""
        for condition in filters:
            bounds = narrowed(self._bounds, condition)
            if bounds is None:
                yield condition
            else:
                self._bounds = bounds


def table_reader(options: SourceOptions, schema: StructType) -> TableReader:
    """The reader for this process.

    A session with filter pushdown disabled, which is Spark's default, refuses every reader that overrides
    ``pushFilters``.  Pushdown has a worker process of its own, so only that one gets such a reader.
    """
    program = getattr(sys.modules["__main__"], "__spec__", None)
    pushdown = program is not None and program.name == PUSHDOWN_WORKER
    return (FilteringTableReader if pushdown else TableReader)(options, schema)
