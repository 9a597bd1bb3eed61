"""Ships Penstock to a Spark Connect server that does not have it installed.

    client ── register(source) ──> planner ── reader, writer ──> executors
           ── udf(carried(work)) ───────────────────────────────> executors
              each is pickled together with the Penstock archive, and unpacks it on arrival

Files added to a session by the client do not reach the tasks or the driver side of a
stream.  Data sources, their readers and writers, and functions do, so they carry the
archive (``shipping.py``, 4 MB).  It is unpacked once per machine, before the first of
them is unpickled.

Requires the client's Python version, PyArrow and ``deltalake`` on the server, and for typed
topics the libraries of ``penstock[schema]``.
"""

import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from penstock.spark.runtime.shipping import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", source: type[DataSource]) -> None:
    """Register a data source; a Spark Connect server need not have its code."""
    with active(spark):
        spark.dataSource.register(source if is_classic(spark) else shipped(source))


@contextmanager
def active(spark: "SparkSession") -> Iterator[None]:
    """Make a session the active one of this thread; a Spark Connect client has no such thing.

    Registering a data source (DATA_SOURCE_ALREADY_EXISTS), saving to one, and starting a stream that writes
    to one (DATA_SOURCE_NOT_FOUND) look at the sources of the active session, which is that of the last
    ``createDataFrame``, and not at those of the session that the call is made on.
    """
    if not is_classic(spark):
        yield
        return
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no other way to choose a session.
    sessions = spark._get_j_spark_session_class(jvm)  # noqa: SLF001
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def carried(spark: "SparkSession", work: Any) -> Any:
    """What tasks are to call; brings Penstock along where the session's tasks may not have it."""
    return work if is_classic(spark) else carrying(work, _archive())


def is_classic(spark: "SparkSession") -> bool:
    """False: the session is one of Spark Connect."""
    return hasattr(spark, "_jsc")


def shipped(source: type[DataSource]) -> type[DataSource]:
    """A source that wraps another one and carries its code."""
    attributes = {
        "archive": _archive(),
        "format": source.name(),
        "place": (source.__module__, source.__qualname__),
    }
    return type(f"Shipped{source.__name__}", (ShippedSource,), attributes)


def _archive() -> bytes:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    return archive(schema_libraries=False).read_bytes()  # It is sent with each query.


def unpack(content: bytes) -> None:
    """Make what is in the archive importable in this process."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"penstock-{os.getuid()}-{digest}")
    if not folder.exists():
        fresh = Path(tempfile.mkdtemp(prefix="penstock-"))
        zipfile.ZipFile(io.BytesIO(content)).extractall(fresh)
        with suppress(OSError):  # Another process was quicker.
            fresh.rename(folder)
    assert folder.stat().st_uid == os.getuid(), f"{folder} is somebody else's"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def revive(content: bytes, pickled: bytes) -> Any:
    """What was pickled, in a process that may not have had Penstock before."""
    unpack(content)
    return cloudpickle.loads(pickled)


def carrying(made: Any, content: bytes) -> Any:
    """A reader or writer that brings the archive along wherever it is sent."""
    kind: type = type(made)
    revived = revive

    def reduced(self: Any) -> tuple[Callable[..., Any], tuple[bytes, bytes]]:
        carrier, self.__class__ = self.__class__, kind  # As it was made, so that it pickles as itself.
        try:
            return revived, (content, cloudpickle.dumps(self))  # type: ignore[no-untyped-call]
        finally:
            self.__class__ = carrier

    made.__class__ = type(kind.__name__, (kind,), {"__reduce__": reduced})
    return made


class ShippedSource(DataSource):
    """Another source, for processes that may not have it yet."""

    archive: ClassVar[bytes] = b""
    format: ClassVar[str] = ""
    place: ClassVar[tuple[str, str]] = ("", "")  # Module and class of the other one.

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return cls.format

    def _source(self) -> DataSource:
        unpack(self.archive)
        module, name = self.place
        source: type[DataSource] = getattr(import_module(module), name)
        return source(self.options)

    def schema(self) -> Any:
        """All columns, unless the program says which."""
        return self._source().schema()

    def reader(self, schema: StructType) -> Any:
        return carrying(self._source().reader(schema), self.archive)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name.
        return carrying(self._source().streamReader(schema), self.archive)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return carrying(self._source().writer(schema, overwrite), self.archive)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name.
        return carrying(self._source().streamWriter(schema, overwrite), self.archive)
