"""Streaming queries of a run: wait for them, count what they do, end them.

A query ends by itself when it has done what there was (``--once``), and is
stopped in a moment without a batch under way if there is one soon: stopping it
in the middle is safe, and only costs the batch.
"""

from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.spark.pipelines.context import Context

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOK_S: Final = 0.5
INITIALIZING: Final = "Initializing"  # How the status of a query begins that is not ready yet.
PATIENCE_LOOKS: Final = 20  # How often a stop looks for a moment without a batch.


def begin(writer: "DataStreamWriter", context: Context, interval_ms: int) -> "StreamingQuery":
    """Start a query: for what there is now, or for as long as the run goes on.

    Returns when its Python workers are there: Spark gives each ten seconds to start, which may be too little
    on a busy machine for those of several queries at once.
    """
    if context.once:
        query = writer.trigger(availableNow=True).start()
    else:
        query = writer.trigger(processingTime=f"{interval_ms} milliseconds").start()
    while query.isActive and query.status["message"].startswith(INITIALIZING):
        if context.stopping.wait(LOOK_S / 5):
            break
    return query


def follow(queries: "list[StreamingQuery]", context: Context, *, group: str, topics: list[str]) -> int:
    """Return when all queries have ended, with how many rows the first one's watermark has left out.

    What the first one does is what the run does.  The lag is that of ``group``, in which the first query
    commits its place in ``topics``.
    """
    counter = Counter(queries[0], context, group, topics)
    try:
        while any(query.isActive for query in queries) and not context.stopping.is_set():
            context.stopping.wait(LOOK_S)
            counter.count()
            _check(queries)
        _check(queries)
    finally:
        for query in queries:
            _end(query)
    counter.count()
    return counter.dropped


def _check(queries: "list[StreamingQuery]") -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise error


def _end(query: "StreamingQuery") -> None:
    for _ in range(PATIENCE_LOOKS):
        if not query.isActive or not query.status["isTriggerActive"]:
            break
        query.awaitTermination(LOOK_S)  # type: ignore[arg-type]  # Half a second is fine, it says inside.
    query.stop()


class Counter:
    """Tells the run's progress what a query has done."""

    def __init__(self, query: "StreamingQuery", context: Context, group: str, topics: list[str]) -> None:
        self._query = query
        self._context = context
        self._group = group
        self._topics = topics
        self._batch = -1  # The last that was counted.
        self.dropped = 0  # Rows that Spark left out because of its watermark.

    def count(self) -> None:
        """Count the batches since the last time."""
        for progress in self._query.recentProgress:
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
