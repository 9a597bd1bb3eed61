"""A topic as a table: reads it once, over a range that is fixed when the query is planned."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import InvalidValue
from penstock.spark.records.extra_columns import STREAM_COLUMNS
from penstock.spark.records.planning import ranges_between
from penstock.spark.runtime.connections import broker_at
from penstock.spark.runtime.error_messages import hide_traceback
from penstock.spark.source.filters import Bounds, narrowed
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.scan import TopicScan
from penstock.spark.source.slices import ReadTask, SliceReader
from penstock.spark.typed.typed_topic import TypedTopic

if TYPE_CHECKING:
    import pyarrow as pa


class TableReader(DataSourceReader):
    """Spark's calls for one read."""

    def __init__(self, options: SourceOptions, schema: StructType, typed: TypedTopic | None = None) -> None:
        fields = () if typed is None else typed.columns
        wanted = [name for name in schema.fieldNames() if name in STREAM_COLUMNS and name not in fields]
        if wanted or options.in_step is not None:
            name = ", ".join(wanted) or "in_step"
            raise InvalidValue(
                name="columns" if wanted else "option", value=name, why="it is only available for streams"
            )
        self._options = options
        self._bounds = Bounds()
        self._slices = SliceReader(options, schema, typed)
        self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def narrow(self, filters: list[Any]) -> Iterable[Any]:
        """Apply the conditions that select offsets; returns those that Spark must still test."""
        for condition in filters:
            bounds = narrowed(self._bounds, condition)
            if bounds is None:
                yield condition
            else:
                self._bounds = bounds

    @hide_traceback
    def partitions(self) -> list[InputPartition]:
        """The tasks; Spark needs at least one, so an empty one if there is nothing to read."""
        scan = TopicScan(self._options, broker_at(self._options.address))
        start = scan.starting(self._options.starting or "earliest")
        ranges = scan.needed(ranges_between(start, scan.ending()))
        return [*scan.tasks(ranges, self._bounds)] or [ReadTask([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a task."""
        return self._slices.read_task(partition)


class _PushFilters:
    """``pushFilters`` that looks to Spark as if it were not overridden.

    A session with filter pushdown disabled, which is Spark's default, refuses every reader that overrides the
    method, instead of not calling it.  This reader has to work in every session, and the process cannot tell
    which kind it is in: pushdown runs in a worker of its own or in one forked from a daemon.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._reader.narrow(filters)
