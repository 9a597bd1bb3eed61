"""Reports the progress of a Spark batch job, and cancels it when the run is stopped.

    with watched(context, total):
        frame.collect()

Progress is the share of finished tasks times ``total``.  When the run is stopped the job
is cancelled and the block ends normally; check ``context.stopping`` afterwards.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from penstock.spark.pipelines.run.context import Context

LOOK_S: Final = 0.5


@contextmanager
def watched(context: Context, total: int) -> Iterator[None]:
    """Watch the jobs that the block starts; together they do ``total`` records."""
    watch = JobWatch(context, total)
    watch.begin()
    thread = threading.Thread(target=watch.look_on, name="pipeline-watch", daemon=True)
    thread.start()
    try:
        yield
    except Exception:
        if not context.stopping.is_set():
            raise
    else:
        watch.report(total)
    finally:
        watch.ended.set()
        thread.join()
        watch.end()


class JobWatch:
    """Looks at the jobs of one block."""

    def __init__(self, context: Context, total: int) -> None:
        self._context = context
        self._total = total
        self._done = 0  # Records reported so far.
        self._spark = context.spark
        self._is_classic = hasattr(context.spark, "_jsc")  # Spark Connect does not report tasks.
        self._name = f"penstock-{uuid4().hex}"
        self.ended = threading.Event()

    def begin(self) -> None:
        """From now on what this thread starts is watched."""
        self._spark.addTag(self._name)
        if self._is_classic:
            self._spark.sparkContext.setJobGroup(self._name, self._context.name)

    def end(self) -> None:
        self._spark.removeTag(self._name)
        if self._is_classic:
            self._spark.sparkContext._jsc.clearJobGroup()  # noqa: SLF001 - Python has no word for it.

    def look_on(self) -> None:
        """Look until the block has ended."""
        while not self.ended.wait(LOOK_S):
            self.report(int(self._total * self._share()))
            if self._context.stopping.is_set():
                self._spark.interruptTag(self._name)

    def report(self, done: int) -> None:
        """Report the total number of finished records."""
        if done > self._done:
            self._context.progress.advance(records=done - self._done)
            self._done = done

    def _share(self) -> float:
        """Of all tasks, those that are done."""
        if not self._is_classic:
            return 0.0
        tracker = self._spark.sparkContext.statusTracker()
        stages = [
            stage
            for job in tracker.getJobIdsForGroup(self._name)
            if (found := tracker.getJobInfo(job)) is not None
            for number in found.stageIds
            if (stage := tracker.getStageInfo(number)) is not None
        ]
        tasks = sum(stage.numTasks for stage in stages)
        return sum(stage.numCompletedTasks for stage in stages) / tasks if tasks else 0.0
