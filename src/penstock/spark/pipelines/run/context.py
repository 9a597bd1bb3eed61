"""The context of a pipeline run: broker, Spark session, lake, progress."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.clock import Clock
from penstock.errors import InvalidValue
from penstock.spark.pipelines.run.jvm import Jvm
from penstock.spark.pipelines.run.progress import RunProgress
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.runtime.connections import address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.api.broker import Broker

ENDING_S: Final = 5.0  # What a JVM may need to end after a signal that stops all of us;
NOTICED_S: Final = 0.2  # and until one that was killed is known to be so, after its connections are.


class Context:
    """What a pipeline works with.

    broker      a connected client, for any call
    address     address and credentials, for readers and writers, which connect themselves
    spark       the session; Spark starts on first use
    lake        location of the lake: a path or URI
    progress    to be updated by the pipeline
    stopping    set to stop the run: finish the current batch, and return
    once        true: process what is there now, and return
    tell        adds a line of the result, printed to stdout at the end
    sql_socket  where the run answers queries, while it does
    spark_settings  of Spark, until it starts
    """

    def __init__(
        self,
        run: RunSettings,
        broker: "Broker",
        servers: str,
        clock: Clock,
        progress: RunProgress,
        *,
        once: bool = False,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = run.name
        self.address = address_of({"servers": servers} | run.login.options)
        self.broker = broker
        self.clock = clock
        self.progress = progress
        self.once = once
        self.stopping = threading.Event()
        self.lines: list[str] = []
        self.sql_socket = ""
        self.spark_settings = dict(run.spark)
        self._run = run
        self._started = started  # Called when Spark has started.
        self._spark: SparkSession | None = None
        self._jvm: Jvm | None = None  # If this run has started it.

    @property
    def spark(self) -> "SparkSession":
        """The session, started on the run's master if there is none in this process."""
        if self._spark is None:
            from pyspark.sql import SparkSession  # Only now: looking at pipelines must not load PySpark.

            from penstock.spark.session import session

            is_ours = SparkSession.getActiveSession() is None
            self._spark = session(
                self._run.master, app=f"penstock {self.name}", ui=self._run.ui, config=self.spark_settings
            )
            self._jvm = Jvm(self._spark) if is_ours else None
            self._started()
        return self._spark

    @property
    def lake(self) -> str:
        """The location of the lake, from the settings or the broker."""
        known = self._run.lake or self.broker.stats().lake
        if not known:
            why = "the broker stores nothing on disk and has no lake; set lake to a path or a URI"
            raise InvalidValue(name="lake", value="", why=why)
        return known

    @property
    def checkpoint(self) -> str:
        """Where a streaming query of this run keeps its place, if its settings name no other."""
        return f"{self.lake}/_checkpoints/{self.name}"

    def tell(self, text: str) -> None:
        """Print a result, or a part of it."""
        self.lines.append(text)

    def end_of_jvm(self) -> str:
        """How the JVM that this run has started has ended; empty if it has not."""
        if self._jvm is None:
            return ""
        return self._jvm.end(ENDING_S if self.stopping.is_set() else NOTICED_S)

    def close(self) -> None:
        """End the session, if this run has started it."""
        if self._jvm is not None:
            self._jvm.stop()
            self._spark = self._jvm = None
