"""Penstock for a Spark Connect server that does not have it.

    client ── addArtifacts(pyfile) ──> its planners and executors
           └─ register(source) ──────> the processes that run a stream's driver part, which get no files

A pyfile is a zip that Python imports from, and compiled packages cannot be
imported so.  What is in this one is therefore a package ``penstock`` of a few
lines that unpacks the real one beside the zip and takes its place.  The data
source is pickled by value, with the zip in it: whoever gets it can go on.

The server's Python must have what Spark's own Arrow functions need, and be of
the client's version.  Leaves out: a server that has Penstock already keeps its
own until this session asks for the shipped one; they may be of different versions.
"""

import sys
import tempfile
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from penstock.spark.shipping import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENT: Final = "content.zip"
STAND_IN: Final = f'''\
"""Unpacks Penstock beside the zip that this is in, and takes its place."""

import io, os, sys, zipfile

_zip = __loader__.archive
_folder = _zip + ".unpacked"
if not os.path.exists(_folder):
    _fresh = f"{{_folder}}.{{os.getpid()}}"
    zipfile.ZipFile(io.BytesIO(__loader__.get_data(os.path.join(_zip, "{CONTENT}")))).extractall(_fresh)
    try:
        os.rename(_fresh, _folder)
    except OSError:  # Another process was quicker.
        pass
sys.path.insert(0, _folder)
del sys.modules["penstock"]
import penstock
'''


def ship(spark: "SparkSession") -> None:
    """Give a session of Spark Connect the format ``penstock``, whatever its server has."""
    spark.addArtifacts(str(stand_in()), pyfile=True)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    source = type("ShippedSource", (ShippedSource,), {"zip": stand_in().read_bytes()})
    spark.dataSource.register(source)


@cache
def stand_in() -> Path:
    """The zip that unpacks itself, in the user's cache."""
    content = archive()
    target = content.with_name(content.name.replace("penstock-", "penstock-connect-"))
    if not target.exists():
        made = BytesIO()
        with zipfile.ZipFile(made, "w") as pyfile:
            pyfile.writestr("penstock/__init__.py", STAND_IN)
            pyfile.writestr(CONTENT, content.read_bytes())
        fresh = Path(tempfile.mkstemp(dir=target.parent)[1])
        fresh.write_bytes(made.getvalue())
        fresh.replace(target)
    return target


class ShippedSource(DataSource):
    """``PenstockSource``, for processes that may not have it yet."""

    zip: ClassVar[bytes] = b""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock"

    def _source(self) -> DataSource:
        try:
            from penstock.spark.source import PenstockSource
        except ImportError:
            place = Path(tempfile.mkdtemp(prefix="penstock-"), "penstock.zip")
            place.write_bytes(self.zip)
            sys.path.insert(0, str(place))
            from penstock.spark.source import PenstockSource
        return PenstockSource(self.options)

    def schema(self) -> Any:
        """All columns, unless the program says which."""
        return self._source().schema()

    def reader(self, schema: StructType) -> Any:
        """One read."""
        return self._source().reader(schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name.
        """A read that goes on."""
        return self._source().streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """One write."""
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name.
        """A write that goes on."""
        return self._source().streamWriter(schema, overwrite)
