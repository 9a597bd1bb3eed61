"""A topic as a table: one read, from where to where is settled when it is planned."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import InvalidValue
from penstock.spark.records.planning import ranges_between
from penstock.spark.runtime.connections import broker_at
from penstock.spark.runtime.error_messages import hide_traceback
from penstock.spark.source.filters import Bounds, narrowed
from penstock.spark.source.options import STREAM_COLUMNS, SourceOptions
from penstock.spark.source.scan import Scan
from penstock.spark.source.slices import SliceReader, Task

if TYPE_CHECKING:
    import pyarrow as pa


class TableReader(DataSourceReader):
    """Spark's calls for one read."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        wanted = [name for name in schema.fieldNames() if name in STREAM_COLUMNS]
        if wanted or options.in_step is not None:
            name = ", ".join(wanted) or "in_step"
            raise InvalidValue(name="columns" if wanted else "option", value=name, why="only a stream has it")
        self._options = options
        self._bounds = Bounds()
        self._slices = SliceReader(options, schema)
        self.pushFilters = _Pushing(self)  # type: ignore[method-assign]

    def narrow(self, conditions: list[Any]) -> Iterable[Any]:
        """Note the conditions that leave offsets out; returns those that Spark must still test."""
        for condition in conditions:
            bounds = narrowed(self._bounds, condition)
            if bounds is None:
                yield condition
            else:
                self._bounds = bounds

    @hide_traceback
    def partitions(self) -> list[InputPartition]:
        """The tasks; one with nothing to do if there are none, for Spark wants some."""
        scan = Scan(self._options, broker_at(self._options.address))
        start = scan.starting(self._options.starting or "earliest")
        return [*scan.tasks(ranges_between(start, scan.ending()), self._bounds)] or [Task([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a task."""
        return self._slices.read_task(partition)


class _Pushing:
    """``pushFilters`` that looks as if it were not overridden.

    A session has this off unless told otherwise, and then refuses every reader with a method of its own,
    instead of not calling it.  Ours shall work in any session.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        return self._reader.narrow(filters)
