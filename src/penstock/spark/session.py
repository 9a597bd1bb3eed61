"""Starts a Spark session that has the format ``penstock`` and little log output.

    local[2], local[*]             Spark in a JVM started by this process; the default
    spark://..., yarn, k8s://...   a cluster; Penstock is shipped to the executors
    sc://...                       Spark Connect; Penstock is shipped to its server as well

Settings that differ from Spark's defaults:

    arrow.maxBytesPerBatch         the default measures every row of a write: 7 to 12 times slower
    arrow.maxRecordsPerBatch       with the default, 10,000 rows of 1 KB are blocks that the system gives and
                                   takes back each time: a third more CPU time.  It also bounds their memory
    timeZone                       timestamps in the log are UTC
    binaryOutputStyle              ``show()`` and notebooks print values as text; the default is hex
    redaction.options.regex        plans show options, which may contain keys (``connections.py``)
    checkpointFileManagerClass     local only: the default starts 20 processes per micro-batch, this one 4
    shuffle.partitions             local only: one per core; 200 keep a small machine busy with nothing
    python.daemon.module           local only: the default delays every task by 80 ms (``daemon.py``)

``spark.sql.python.filterPushdown.enabled`` is not set: with it, Spark 4.3 keeps the
filters of one query with the DataFrame and applies them to the next query too.

Spark logs errors only (``log4j2.properties``).  Starting takes about 7 s, and the
first job 3 s more.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from penstock.errors import ExtraMissing
from penstock.spark.runtime.connections import DAEMON, HIDDEN, HIDING, LOCAL_CORES
from penstock.spark.runtime.java import java_home
from penstock.spark.runtime.priority import long_time_slices
from penstock.spark.runtime.shipping import shipping_settings, visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"

BINARY_STYLE: Final = "spark.sql.binaryOutputStyle"
BINARY_AS_TEXT: Final = "UTF-8"
SETTINGS: Final = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.session.timeZone": "UTC",
    BINARY_STYLE: BINARY_AS_TEXT,
    HIDING: HIDDEN,
}
DRIVER_SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={files(__package__) / 'log4j2.properties'}",
}

CHECKPOINTS: Final = "spark.sql.streaming.checkpointFileManagerClass"
BY_FILE_SYSTEM: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def session(
    master: str = LOCAL, *, app: str = "penstock", ui: bool = False, config: Mapping[str, str] | None = None
) -> "SparkSession":
    """The session of this process, started on ``master`` if there is none yet."""
    if find_spec("pyspark") is None:
        raise ExtraMissing(what="PySpark", extra="spark")
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    builder = SparkSession.builder.appName(app)
    if master.startswith(CONNECT):
        if find_spec("grpc") is None:
            raise ExtraMissing(what="Spark Connect", extra="connect")
        builder = builder.remote(master)
        settings = dict(SETTINGS)
    else:
        _prepare(local=local)
        builder = builder.master(master)
        settings = SETTINGS | DRIVER_SETTINGS | {"spark.ui.enabled": str(ui).lower()}
    if local:
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
        os.environ[LOCAL_CORES] = str(_cores(master))  # For the workers, which plan reads.
        settings["spark.python.daemon.module"] = DAEMON
    settings |= dict(config or {})
    if not master.startswith(("local", CONNECT)):
        settings = shipping_settings(settings)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with long_time_slices() if local else nullcontext(), _workers(master, settings):
        made = builder.getOrCreate()
    if local and CHECKPOINTS not in settings:
        _quicken_checkpoints(made)
    if master.startswith(CONNECT):
        from penstock.spark.runtime.spark_connect import register
        from penstock.spark.source.source import PenstockSource

        register(made, PenstockSource)
    return made


def _cores(master: str) -> int:
    """How many tasks a local master runs at a time: local, local[4], local[4,2], local[*]."""
    threads = master.partition("[")[2].partition(",")[0].rstrip("]") or "1"
    return int(threads) if threads.isdigit() else os.cpu_count() or 1


def _workers(master: str, settings: Mapping[str, str]) -> AbstractContextManager[None]:
    """The Python that runs beside the driver finds Penstock, whichever it is."""
    if master.startswith(CONNECT):
        return nullcontext()
    return visible(settings.get("spark.pyspark.python") or os.environ["PYSPARK_PYTHON"])


def _quicken_checkpoints(session: "SparkSession") -> None:
    """Have checkpoints renamed by Java itself, as Hadoop's ``FileSystem`` does it.

    Its ``FileContext``, which Spark prefers, is for HDFS.  On a disk it looks for links by running
    ``readlink``, eight times for each of the two files of a micro-batch, and then does the same.
    """
    from py4j.java_gateway import JavaClass

    found = session._jvm  # noqa: SLF001 - there is no other way to ask.
    for name in BY_FILE_SYSTEM.split("."):
        found = getattr(found, name)
    if isinstance(found, JavaClass):  # As in Spark 4.3; another one keeps its default.
        session.conf.set(CHECKPOINTS, BY_FILE_SYSTEM)


def _prepare(*, local: bool) -> None:
    """Prepare the environment of the driver's JVM and its workers."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Otherwise workers run the python3 of the PATH, which may be another one, without our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:  # Otherwise it looks for the name of the host, and warns or fails if it finds none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
