"""Prints the rows of a query.

    table      aligned columns; bytes as text, nulls as ``null``
    csv        with a header line; bytes as text, nulls as empty fields
    json       one document per line; bytes that are not text as ``name_base64``
    parquet    the complete result with its types, for a file or a pipe

Times are UTC: ``2026-11-15 10:30:00`` in tables, ISO 8601 otherwise.
"""

import csv
import io
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.cli import screen
from penstock.cli.screen import Column
from penstock.cli.text import bytes_field, safe, safe_bytes, shortened
from penstock.spark.queries.result_values import json_value, text_value

if TYPE_CHECKING:
    from penstock.spark.queries.query_result import QueryResult

Output = Literal["table", "csv", "json", "parquet"]

CELL_WIDTH: Final = 200  # Characters of a value that are enough to know it by; the others have all.


def show(answer: "QueryResult", output: Output) -> None:
    """Print an answer, and see to it that it has left this process."""
    if not answer.columns:
        return  # A statement that answers nothing, such as CREATE VIEW.
    {"table": _table, "csv": _csv, "json": _json, "parquet": _parquet}[output](answer)
    screen.flush()


def _table(answer: "QueryResult") -> None:
    columns = [
        Column(name, right=answer.is_number(number), text=not answer.is_number(number))
        for number, name in enumerate(answer.columns)
    ]
    screen.table(columns, ([_cell(value) for value in row] for row in answer.rows()))


def _cell(value: Any) -> object:
    if value is None:
        return screen.styled("null", "dim")
    return shortened(safe(cell_text(value)), CELL_WIDTH)


def _csv(answer: "QueryResult") -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in answer.rows():
        texts = ["" if value is None else text_value(value) for value in row]
        writer.writerow([safe(text) for text in texts] if sys.stdout.isatty() else texts)
    screen.write(out.getvalue().encode("utf-8", "backslashreplace"))


def _json(answer: "QueryResult") -> None:
    answer.check_names()
    screen.documents(_document(answer.columns, row) for row in answer.rows())


def _document(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in zip(columns, row, strict=True):
        if isinstance(value, bytes):
            document |= bytes_field(name, value)
        else:
            document[name] = json_value(value)
    return document


def _parquet(answer: "QueryResult") -> None:
    screen.flush()
    answer.write_parquet(sys.stdout.buffer)


# Values.


def cell_text(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, bytes):
        return safe_bytes(value)
    text = text_value(value)
    return (
        text.replace("T", " ").removesuffix("Z").removesuffix(".000") if isinstance(value, datetime) else text
    )
