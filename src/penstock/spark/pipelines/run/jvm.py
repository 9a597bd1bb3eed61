"""Watches the JVM of a run's own Spark session, which may end before the run.

A service manager signals every process of a service, and the kernel may kill the JVM when
memory runs out.  Calls to Spark then fail with long messages about sockets; the run
reports that the JVM has ended instead.

Spark Connect has no local JVM, and a session that existed before the run is not watched.
"""

import logging
import signal
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


class Jvm:
    """The JVM process of a session, if it is local."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._process: subprocess.Popen[bytes] | None = None
        if hasattr(spark, "_jsc"):
            context: Any = spark.sparkContext
            self._process = context._gateway.proc  # noqa: SLF001 - there is no other way to know.
            # PySpark's accumulators and Py4J print a traceback when the JVM closes the connection.
            _hush(context._accumulatorServer)  # noqa: SLF001
            logging.getLogger().addFilter(_not_of_py4j)

    def end(self, wait_s: float) -> str:
        """How the JVM ended, now or within ``wait_s``; empty if it is running."""
        if self._process is None:
            return ""
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return ""
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"

    def stop(self) -> None:
        """End the session, if it still exists."""
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            try:
                self._spark.stop()
            except Exception as error:  # noqa: BLE001 - by then the work is done, or has an error of its own.
                logger.debug("Spark does not answer any more: %s", error)
        logging.getLogger().removeFilter(_not_of_py4j)


def _hush(server: Any) -> None:
    """Make a server ignore lost connections; other errors are still reported."""
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), OSError | EOFError):
            tell(request, address)

    server.handle_error = handle_error


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Filter messages that Py4J writes to the root logger, recognised by the module."""
    return record.module != "java_gateway"
