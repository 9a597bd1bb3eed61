"""The columns of a record as a row.  Every schema of messages derives from ``ROW``.

    ROW ──> rows of fetched batches (``arrow.py``)         Arrow
        ──> files and tables of the lake (``lake/layout.py``)    Parquet, Delta
        ──> DataFrames of the format ``penstock``, views         Spark's DDL

Imports no PySpark, because the lake is also read without Spark.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from penstock.model.tables.frames import row_schema

ROW: Final = row_schema()
PAYLOADS: Final = (
    "key",
    "value",
)  # The only columns that may be null or read as text.

_NAMES: Final[list[tuple[Callable[[pa.DataType], bool], str]]] = [
    (pa.types.is_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float64, "double"),
    (pa.types.is_timestamp, "timestamp"),
]


def row_columns(*names: str) -> pa.Schema:
    return pa.schema([ROW.field(name) for name in names])


def ddl(schema: pa.Schema) -> str:
    """An Arrow schema as Spark writes schemas: ``key binary, offset bigint``."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def spark_type(kind: pa.DataType) -> str:
    """The name that Spark SQL has for an Arrow type."""
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    return next(name for matches, name in _NAMES if matches(kind))
