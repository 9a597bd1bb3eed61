"""A topic as a stream of micro-batches.

    initialOffset                     by the options; called once, then Spark keeps the position
    latestOffset(start, limit)        the ends of the logs, or as far as the limit allows
    partitions(start, end)            the tasks
    commit                            commits offsets that were not committed before; see below

With ``min_records_per_trigger`` a batch waits until there are so many records, at most for
``max_trigger_delay`` after the batch before.

With a limit, a batch ends at one publish time in all partitions (``batch_times.py``), so
that a query with a watermark that catches up does not regard records in other partitions
as late.  Streams with the same ``in_step`` use the same batches (``shared_batches.py``).

A position is ``{"orders": {"0": 1200, "1": 1187}}``: for each partition the next offset.
New partitions, and with a pattern new topics, are read from the beginning.

Offsets are committed to the broker when the next batch is planned, because everything
before its ``start`` is done then.  (Spark calls ``commit`` one batch later, so the last
batch before a pause would appear unfinished.)

PySpark 4.1 calls ``latestOffset()`` without start and limit; the end of the previous batch
is used as start.  After a (re)start it is unknown, so the first batch is unlimited.
"""

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.clock import SystemClock
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.spark.records.extra_columns import STATE_COLUMNS
from penstock.spark.records.planning import Reached, distance, highest, ranges_between, records_for
from penstock.spark.runtime.connections import broker_at
from penstock.spark.runtime.error_messages import hide_traceback
from penstock.spark.source.batch_times import BatchTimes, TimeLookup
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.scan import TopicScan
from penstock.spark.source.shared_batches import SharedBatches
from penstock.spark.source.slices import SliceReader
from penstock.spark.typed.typed_topic import TypedTopic

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.1 has no limits.

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A placeholder for the missing class."""

    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    import pyarrow as pa

SparkOffsets = dict[str, dict[str, int]]  # A place in Spark's JSON, where all keys are text.


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's calls for one query; ``read`` in the tasks, all others in one process that lives as long."""

    def __init__(self, options: SourceOptions, schema: StructType, typed: TypedTopic | None = None) -> None:
        fields = () if typed is None else typed.columns
        columns = [name for name in schema.fieldNames() if name not in fields]
        _check(options, columns)
        self._options = options
        self._slices = SliceReader(options, schema, typed)
        self._target: Reached | None = None  # With AvailableNow: where the query ends.
        self._reached: Reached = {}  # Where the last batch ended; empty if none is known.
        self._steps: SharedBatches | None = None
        self._times = BatchTimes()
        self._has_horizon = "horizon" in columns
        self._committed: Reached = {}
        self._clock = SystemClock()
        self._planned_ms = -options.trigger_delay_ms  # The first batch does not wait.

    @hide_traceback
    def initialOffset(self) -> SparkOffsets:  # noqa: N802 - Spark's names, from here on.
        """Where a new query begins."""
        return _spark_offsets(self._scan().starting(self._options.starting or "latest"))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        if self._options.max_records is not None:
            return ReadMaxRows(self._options.max_records)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where this run ends."""
        self._target = self._scan().latest()

    def reportLatestOffset(self) -> SparkOffsets:  # noqa: N802
        """How far the logs go; the difference is the query's lag."""
        return _spark_offsets(self._scan().latest())

    @hide_traceback
    def latestOffset(self, start: SparkOffsets | None = None, limit: Any = None) -> SparkOffsets:  # noqa: N802
        """Where the next micro-batch ends."""
        begin = self._reached if start is None else _reached(start)
        self._tell_progress(begin)
        end = _not_before(begin, self._target or self._scan().latest())
        if self._target is None and self._waits(begin, end):
            self._reached = begin
            return _spark_offsets(begin)
        self._planned_ms = self._clock.steady_ms()
        records = self._records(end) if start is None or not _is_all(limit) else inf
        self._reached = self._planned(begin, end, records) if begin and begin != end else end
        return _spark_offsets(self._reached)

    @hide_traceback
    def partitions(self, start: SparkOffsets, end: SparkOffsets) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        self._reached = self._reached or _reached(end)  # One that was planned before a restart.
        begin, scan = _reached(start), self._scan()
        tasks = scan.tasks(ranges_between(begin, _reached(end)))
        if self._has_horizon and tasks:
            horizon_ms = self._times.horizon(TimeLookup(scan, broker_at(self._options.address)), begin)
            for work in (each for task in tasks for each in task.slices):
                work.horizon_ms = horizon_ms
        return [*tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a task."""
        return self._slices.read_task(partition)

    def commit(self, end: SparkOffsets) -> None:
        """Note that Spark will not request the offsets below this position again."""
        self._tell_progress(_reached(end))

    def stop(self) -> None:
        """Nothing to do: the connection belongs to the process."""

    def _waits(self, begin: Reached, end: Reached) -> bool:
        """Whether a batch waits for more records: there are too few, and the last one was not long ago."""
        if self._options.min_records is None or not begin:
            return False
        waited_ms = self._clock.steady_ms() - self._planned_ms
        return distance(begin, end) < self._options.min_records and waited_ms < self._options.trigger_delay_ms

    def _scan(self) -> TopicScan:
        return TopicScan(self._options, broker_at(self._options.address))

    def _records(self, end: Reached) -> float:
        """How many records the options admit in a batch."""
        records = float(self._options.max_records or "inf")
        if self._options.max_bytes is not None:
            broker = broker_at(self._options.address)
            stored = [(topic.messages, topic.bytes) for topic in map(broker.describe_topic, end)]
            records = min(records, records_for(self._options.max_bytes, stored))
        return records

    def _planned(self, begin: Reached, end: Reached, records: float) -> Reached:
        """Where a batch ends that has something to read."""
        broker = broker_at(self._options.address)
        asked = TimeLookup(self._scan(), broker)
        if self._options.in_step is None:
            return self._times.limited(asked, begin, end, records)
        self._steps = self._steps or SharedBatches(broker, self._options.in_step)
        known = self._steps.following(begin, end, records)
        if known is None:
            known = self._steps.agreed(begin, self._times.limited(asked, begin, end, records))
        if self._target is not None:  # Another query's batch may end behind the end of this run.
            self._target = highest(self._target, known)
        return known

    def _tell_progress(self, reached: Reached) -> None:
        """Commit the progress as a group, so that its lag is visible like that of others."""
        if self._options.group is None:
            return
        broker = broker_at(self._options.address)
        for topic, offsets in reached.items():
            known = self._committed.setdefault(topic, {})
            news = {each: offset for each, offset in offsets.items() if known.get(each, -1) < offset}
            if news:
                broker.commit_offsets(topic, self._options.group, news)
                known.update(news)


def _check(options: SourceOptions, columns: list[str]) -> None:
    if options.to_times is not None or options.ending != "latest":
        raise InvalidValue(
            name="ending", value=options.ending, why="a stream has no end; read a table instead"
        )
    wanted = [name for name in columns if name in STATE_COLUMNS]
    if wanted:
        raise InvalidValue(
            name="columns",
            value=", ".join(wanted),
            why="it is not available for streams; read a table instead",
        )


def _not_before(begin: Reached, end: Reached) -> Reached:
    """The ends, none before its beginning: a log that has become shorter is not the one that was read."""
    for topic, offsets in begin.items():
        for partition, offset in offsets.items():
            known = end.get(topic, {}).get(partition, offset)
            if known < offset:
                raise OffsetOutOfRange(offset=offset, start=0, end=known)
    return {topic: begin.get(topic, {}) | end.get(topic, {}) for topic in begin | end}


def _is_all(limit: Any) -> bool:
    return type(limit).__name__ == "ReadAllAvailable"


def _spark_offsets(reached: Reached) -> SparkOffsets:
    return {topic: {str(each): offset for each, offset in of.items()} for topic, of in reached.items()}


def _reached(offsets: SparkOffsets) -> Reached:
    return {topic: {int(each): offset for each, offset in of.items()} for topic, of in offsets.items()}
