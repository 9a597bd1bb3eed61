"""Writes a result for callers of the HTTP API.

    arrow    an Arrow IPC stream, with all types
    json     {"columns": [{"name": "key", "type": "binary"}], "rows": [["anna"], ...], "truncated": false}
    csv      with a header line; nulls as empty fields

Rows of JSON are lists, because two columns may have the same name.  Integers that many readers of JSON
would round are text.  Rows are converted ``ROWS_AT_ONCE`` at a time: the memory is that of the Arrow table.
"""

import csv
import io
from collections.abc import Iterator
from typing import IO, Any, Final

import msgspec
import pyarrow as pa

from penstock.spark.queries.query_result import QueryResult, Row
from penstock.spark.queries.result_values import json_value, text_value
from penstock.wire.sql import Form

ROWS_AT_ONCE: Final = 2000
EXACT_MAX: Final = 2**53 - 1  # Of a number that is a double in the reader.


def write(result: QueryResult, form: Form, out: IO[bytes], *, truncated: bool) -> None:
    if form == "arrow":
        with pa.ipc.new_stream(out, result.table.schema) as writer:
            writer.write_table(result.table)
    elif form == "csv":
        _write_csv(result, out)
    else:
        _write_json(result, out, truncated=truncated)


def _write_csv(result: QueryResult, out: IO[bytes]) -> None:
    for number, rows in enumerate(_parts(result)):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if number == 0:
            writer.writerow(result.columns)
        writer.writerows(["" if value is None else text_value(value) for value in row] for row in rows)
        out.write(text.getvalue().encode("utf-8", "backslashreplace"))


def _write_json(result: QueryResult, out: IO[bytes], *, truncated: bool) -> None:
    columns = [
        {"name": name, "type": kind} for name, kind in zip(result.columns, _types(result), strict=True)
    ]
    out.write(b'{"columns":' + msgspec.json.encode(columns) + b',"rows":[')
    separator = b""
    for rows in _parts(result):
        encoded = [msgspec.json.encode([_exact(json_value(value)) for value in row]) for row in rows]
        if encoded:
            out.write(separator + b",\n".join(encoded))
            separator = b",\n"
    out.write(b'],"truncated":' + (b"true" if truncated else b"false") + b"}")


def _parts(result: QueryResult) -> Iterator[list[Row]]:
    """The rows in parts, at least one."""
    for start in range(0, max(len(result), 1), ROWS_AT_ONCE):
        yield QueryResult(result.table.slice(start, ROWS_AT_ONCE)).rows()


def _types(result: QueryResult) -> list[str]:
    """The types as Spark calls them."""
    from pyspark.sql.pandas.types import from_arrow_type  # Only now: it loads PySpark.

    return [from_arrow_type(kind).simpleString() for kind in result.table.schema.types]


def _exact(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_MAX:
        return str(value)
    if isinstance(value, list):
        return [_exact(each) for each in value]
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    return value
