"""State of your own: what each customer has spent so far, with ``transformWithState`` of Spark.

    pip install pandas protobuf
    penstock pipeline run transform --config examples/pipelines/running_totals.toml

Spark keeps the totals with its checkpoint, so they survive a restart.  For sums by window, for joins and for
leaving out duplicates there is SQL, which is faster and needs no Pandas.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Spending(StatefulProcessor):
    """One total for each customer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once in each task."""
        self._total = handle.getValueState("total", "total double")

    def handleInputRows(  # noqa: N802 - Spark's name.
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Called for each customer of a batch."""
        before = self._total.get()
        total = (before[0] if before else 0.0) + sum(row.amount for row in rows)
        self._total.update((total,))
        yield Row(key=key[0], total=total)

    def close(self) -> None:
        """There is nothing to close."""


def totals(orders: DataFrame) -> DataFrame:
    """A message for each customer whose total has changed."""
    orders.sparkSession.conf.set("spark.sql.streaming.stateStore.providerClass", STORE)
    spent = orders.select("customer", "amount").groupBy("customer")
    return spent.transformWithState(Spending(), "key string, total double", "Update", "None")
