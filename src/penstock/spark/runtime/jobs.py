"""Runs tasks on Spark's executors: tasks and results are pickled values, no rows pass the JVM.

    tasks  0 1 2 3 4 5 6 7        work(task) -> result
           └─┬─┘ └─┬─┘            in a Python worker, the tasks of a partition one after the other
        partition partition

A ``PenstockError`` raised by a task is returned as a value and raised again on the
driver, with all its fields.  Other failures (a killed worker, a lost executor) become
``UnavailableError``, which callers may retry.

Implemented as an ordinary UDF, because that works on every master and over Spark
Connect, and does not need Pandas.
"""

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.errors import PenstockError, UnavailableError
from penstock.spark.runtime.error_messages import first_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS_MAX: Final = 64  # Each costs Spark some 10 ms.

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(spark: "SparkSession", work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Do the tasks on the executors, and return the results in their order; both are pickled."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.functions import udf
    from pyspark.sql.types import BinaryType

    from penstock.spark.runtime.spark_connect import carried  # Only now: it loads PySpark.

    if not tasks:
        return []
    done = udf(carried(spark, _Work(work, tasks)), BinaryType(), useArrow=False).asNondeterministic()
    numbers = spark.range(0, len(tasks), 1, min(len(tasks), PARTS_MAX))
    try:
        rows = numbers.select(done("id").alias("outcome")).collect()
    except (PySparkException, Py4JError) as error:
        raise UnavailableError(reason=f"a Spark job has failed: {first_sentence(str(error))}") from error
    outcomes = [pickle.loads(row.outcome) for row in rows]
    for outcome in outcomes:
        if isinstance(outcome, PenstockError):
            raise outcome
    return outcomes


class _Work:
    """What a Python worker does with the number of a task."""

    def __init__(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        self._work = work
        self._tasks = tasks

    def __call__(self, number: int) -> bytes:
        try:
            return pickle.dumps(self._work(self._tasks[number]))
        except PenstockError as error:
            return pickle.dumps(error)
