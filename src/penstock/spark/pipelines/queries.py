"""Streaming queries of a run: wait for them, count what they do, end them.

A query ends by itself when it has done what there was (``--once``), and is
stopped in a moment without a batch under way if there is one soon: stopping it
in the middle is safe, and only costs the batch.
"""

import logging
import threading
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.spark.pipelines.context import Context
from penstock.spark.sentences import shortest

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
    writers: "list[DataStreamWriter]", context: Context, *, interval_ms: int, group: str, topics: list[str]
) -> int:
    """Run queries until all have ended; returns how many rows the first one's watermark has left out.

    What the first one does is what the run does.  The lag is that of ``group``, in which the first query
    commits its place in ``topics``.
    """
    context.spark.conf.set("spark.sql.streaming.stopTimeout", STOP_TIMEOUT)
    running: list[Running] = []
    try:
        for writer in writers:
            running.append(Running(writer, context, interval_ms))  # noqa: PERF401 - if one fails, all end.
        counter = Counter(running[0], context, group, topics)
        while any([query.goes_on() for query in running]) and not context.stopping.wait(LOOK_S):  # noqa: C419 - all.
            counter.count()
    finally:
        for query in running:
            query.end()
    counter.count()
    return counter.dropped


class Running:
    """A query, which is started when it is made: for what there is now, or for as long as the run goes on.

    Spark gives a Python worker ten seconds to start, which may be too little on a busy machine.  So one
    query is started after the other, and one that fails for that reason is started again.
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
            logger.warning("a query does not stop: %s", shortest(str(error)))


class Counter:
    """Tells the run's progress what a query has done."""

    def __init__(self, running: Running, context: Context, group: str, topics: list[str]) -> None:
        self._running = running
        self._context = context
        self._group = group
        self._topics = topics
        self._batch = -1  # The last that was counted.
        self.dropped = 0  # Rows that Spark left out because of its watermark.

    def count(self) -> None:
        """Count the batches since the last time."""
        for progress in self._running.query.recentProgress:
            if progress.batchId > self._batch:
                self._batch = progress.batchId
                self.dropped += sum(state.numRowsDroppedByWatermark for state in progress.stateOperators)
                self._context.progress.advance(
                    records=progress.numInputRows, batches=1, lag_seconds=self._lag_seconds(progress)
                )

    def _lag_seconds(self, progress: "StreamingQueryProgress") -> float | None:
        if all(source.endOffset == source.latestOffset for source in progress.sources):
            return 0.0
        try:
            found = [self._context.broker.describe_group(topic, self._group) for topic in self._topics]
        except PenstockError:
            return None  # It has committed nothing yet, or the broker is away.
        return max(group.lag_seconds for group in found)
