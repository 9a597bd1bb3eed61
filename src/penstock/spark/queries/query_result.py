"""The result of a query, collected to this process: columns, rows as Python values, Parquet.

Spark sends it as Arrow and holds it completely, so it must fit into memory; larger
results are refused by Spark (``spark.driver.maxResultSize``).  Write very large results
from Spark instead.

Spark does not validate ``cast(value as string)``; bytes that are not UTF-8 are shown as
``\\xNN``, as everywhere on the command line.
"""

from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import QueryInvalid
from penstock.model.tables import html
from penstock.spark.queries.json_values import with_variants_as_text
from penstock.spark.queries.result_values import text_value
from penstock.spark.runtime import error_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = list[Any]  # None, bool, int, float, Decimal, str, bytes, datetime, date, timedelta, list, dict.


class QueryResult:
    """The rows of one query."""

    def __init__(self, table: pa.Table) -> None:
        self.table: Final = table
        self.columns: Final[list[str]] = table.column_names

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def first(self, count: int) -> "QueryResult":
        """The result with at most this many rows."""
        return QueryResult(self.table.slice(0, count))

    def is_number(self, column: int) -> bool:
        """Is it a column of numbers?"""
        kind = self.table.schema.types[column]
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))

    def is_time(self, column: int) -> bool:
        """Is it a column of times or dates?"""
        kind = self.table.schema.types[column]
        return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))

    def rows(self) -> list[Row]:
        """All rows, as Python values."""
        columns = [_values(column) for column in self.table.columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def check_names(self) -> None:
        """Raise if two columns have the same name."""
        twice = [name for name in self.columns if self.columns.count(name) > 1]
        if twice:
            raise QueryInvalid(why=f"two columns are called {twice[0]!r}; rename one with AS")

    def _repr_html_(self) -> str:
        """The representation in a notebook."""
        shown = [
            ["null" if value is None else text_value(value) for value in row]
            for row in self.first(html.SHOWN_MAX).rows()
        ]
        return html.table(self.columns, shown, len(self) - len(shown))

    def write_parquet(self, out: IO[bytes]) -> None:
        """Write the result as one Parquet file."""
        self.check_names()
        pq.write_table(self.table, out, compression="zstd")


def result_of(frame: "DataFrame", rows_max: int | None = None) -> QueryResult:
    """Run a query; the result has at most the first ``rows_max`` rows."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    limited = frame if rows_max is None else frame.limit(rows_max)
    try:
        with error_messages.unlogged():
            return QueryResult(with_variants_as_text(limited).toArrow())
    except (PySparkException, Py4JError) as error:
        raise error_messages.penstock_error(error) from None


# From Arrow's columns to Python's values.


def _values(column: pa.ChunkedArray) -> list[Any]:
    convert = _converter(column.type)
    found = column.cast(_as_bytes(column.type)).to_pylist()
    return found if convert is None else [None if value is None else convert(value) for value in found]


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes for text, because Arrow would refuse text that is not valid UTF-8."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_bytes(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind])
    return kind


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The converter for values of a type; None: they need no conversion."""
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_list(kind):
        each = _or_none(kind.value_type)
        return lambda value: [each(item) for item in value]
    if pa.types.is_map(kind):
        name, item = _or_none(kind.key_type), _or_none(kind.item_type)
        return lambda value: {name(key): item(inner) for key, inner in value}
    if pa.types.is_struct(kind):
        fields = {field.name: _or_none(field.type) for field in kind}
        return lambda value: {name: convert(value[name]) for name, convert in fields.items()}
    return None


def _or_none(kind: pa.DataType) -> Callable[[Any], Any]:
    convert = _converter(kind)
    return lambda value: value if value is None or convert is None else convert(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
