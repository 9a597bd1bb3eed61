"""Runs the streaming queries of a pipeline: starts them, counts their batches, stops them.

With ``--once`` a query ends when it has read what was there.  Otherwise it is stopped
between two batches, if there is such a moment soon; stopping it within a batch is safe
and only repeats that batch.
"""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.spark.pipelines.rejects import LATE_COUNT
from penstock.spark.pipelines.run.context import Context
from penstock.spark.runtime.error_messages import first_sentence
from penstock.spark.runtime.spark_connect import active

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = logging.getLogger("penstock.spark")

LOOK_S: Final = 0.5
INITIALIZING: Final = "Initializing"  # How the status of a query begins that is not ready yet.
WORKER_LATE: Final = "Python worker failed to connect back"
STARTS_MAX: Final = 10
STOP_TIMEOUT: Final = "60s"  # Otherwise a stop waits for ever.
PATIENCE_LOOKS: Final = 20  # How often a stop looks for a moment without a batch.


def run_queries(
    writers: "dict[str, DataStreamWriter]",
    context: Context,
    *,
    interval_ms: int,
    topics: list[str],
    meanwhile: Callable[[], None],
) -> None:
    """Run queries, by their names, until all have ended; ``meanwhile`` is called again and again.

    What the first one does is what the run does.  The lag is that of the group of the run's name, in which
    the first query commits its place in ``topics``.
    """
    context.spark.conf.set("spark.sql.streaming.stopTimeout", STOP_TIMEOUT)
    counters: list[QueryCounter] = []
    try:
        for name, writer in writers.items():
            running = RunningQuery(writer, context, interval_ms)
            counters.append(QueryCounter(name, running, context, topics if not counters else None))
        while any([each.running.goes_on() for each in counters]):  # noqa: C419 - all.
            stopping = context.stopping.wait(LOOK_S)
            for counter in counters:
                counter.count()
            if stopping:
                break
            meanwhile()
    finally:
        for counter in counters:
            counter.running.end()
    for counter in counters:
        counter.count()


class RunningQuery:
    """A streaming query, started on creation.

    Spark gives a Python worker ten seconds to start, which may be too short on a busy machine.  So queries
    are started one after the other, and restarted if they fail for that reason.
    """

    def __init__(self, writer: "DataStreamWriter", context: Context, interval_ms: int) -> None:
        every = f"{interval_ms} milliseconds"
        self._writer = (
            writer.trigger(availableNow=True) if context.once else writer.trigger(processingTime=every)
        )
        self._context = context
        self._starts = 0
        self.query = self._started()

    def _started(self) -> "StreamingQuery":
        self._starts += 1
        with active(self._context.spark):
            query = self._writer.start()
        while query.isActive and query.status["message"].startswith(INITIALIZING):
            if self._context.stopping.wait(LOOK_S / 5):
                break
        return query

    def goes_on(self) -> bool:
        """True until the query has done what there was; raises what it has failed with."""
        if self.query.isActive:
            return True
        error = self.query.exception()
        if error is None:
            return False
        if WORKER_LATE not in str(error) or self._starts == STARTS_MAX:
            raise error
        self.query = self._started()
        return True

    def end(self) -> None:
        """Stop the query, if possible between two batches."""
        for _ in range(PATIENCE_LOOKS):
            if not self.query.isActive or not self.query.status["isTriggerActive"]:
                break
            threading.Event().wait(LOOK_S)
        try:
            self.query.stop()
        except Exception as error:  # noqa: BLE001 - it did not end in time; it will with the session.
            logger.warning("cannot stop a query: %s", first_sentence(str(error)))


class QueryCounter:
    """Adds the batches of a query to the run's progress."""

    def __init__(self, name: str, running: RunningQuery, context: Context, topics: list[str] | None) -> None:
        self.running = running
        self._name = name
        self._context = context
        self._topics = topics  # Of the query whose progress is the run's; None: it is another one.
        self._batch = -1  # The last that was counted.

    def count(self) -> None:
        """Count the batches since the last time."""
        for progress in self.running.query.recentProgress:
            if progress.batchId > self._batch:
                self._batch = progress.batchId
                self._tell_late(progress)
                if self._topics is not None:
                    lag_seconds = self._lag_seconds(progress, self._topics)
                    self._context.progress.advance(
                        records=progress.numInputRows, batches=1, lag_seconds=lag_seconds
                    )

    def _tell_late(self, progress: "StreamingQueryProgress") -> None:
        """Report late records of a batch, and rows that Spark has dropped, which should be none."""
        late = late_records(progress)
        if late:
            self._context.progress.advance(late=late)
            logger.warning("batch %d: %d late records went to the side topic", progress.batchId, late)
        dropped = sum(state.numRowsDroppedByWatermark for state in progress.stateOperators)
        if dropped:  # By a watermark of the user's own function.
            batch = f"batch {progress.batchId} of {self._name}"
            text = f"{batch}: Spark's watermark dropped {dropped:,} rows or groups of rows"
            self._context.progress.note(text)
            logger.warning("%s", text)

    def _lag_seconds(self, progress: "StreamingQueryProgress", topics: list[str]) -> float | None:
        if all(source.endOffset == source.latestOffset for source in progress.sources):
            return 0.0
        try:
            found = [self._context.broker.describe_group(topic, self._context.name) for topic in topics]
        except PenstockError:
            return None  # It has committed nothing yet, or the broker is away.
        return max(group.lag_seconds for group in found)


def late_records(progress: "StreamingQueryProgress") -> int:
    """How many records a batch of the query for bad and late records has set aside as late."""
    observed = (row for name, row in progress.observedMetrics.items() if name.startswith(LATE_COUNT))
    return sum(row[LATE_COUNT] or 0 for row in observed)
