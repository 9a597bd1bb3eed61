"""Prints the rows of a query.

    table      aligned columns; bytes as text, nulls as ``null``
    csv        with a header line; bytes as text, nulls as empty fields
    json       one document per line; bytes that are not text as ``name_base64``
    parquet    the complete result with its types, for a file or a pipe

Times are UTC: ``2026-11-15 10:30:00`` in tables, ISO 8601 otherwise.
"""

import csv
import io
import json
import sys
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.cli import screen
from penstock.cli.screen import Column
from penstock.cli.text import bytes_field, safe, safe_bytes, shortened

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
    return shortened(safe(text_of(value, for_people=True)), CELL_WIDTH)


def _csv(answer: "QueryResult") -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in answer.rows():
        texts = ["" if value is None else text_of(value) for value in row]
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
            document[name] = _builtin(value)
    return document


def _parquet(answer: "QueryResult") -> None:
    screen.flush()
    answer.write_parquet(sys.stdout.buffer)


# Values.


def text_of(value: Any, *, for_people: bool = False) -> str:
    """A value as text, whatever it is."""
    if isinstance(value, bytes):
        return safe_bytes(value) if for_people else value.decode("utf-8", "backslashreplace")
    if isinstance(value, list | dict):
        return json.dumps(_builtin(value), ensure_ascii=False)
    plain = _builtin(value)
    if for_people and isinstance(value, datetime):
        return str(plain).replace("T", " ").removesuffix("Z").removesuffix(".000")
    return str(plain).lower() if isinstance(value, bool) else str(plain)


def _builtin(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, date | timedelta | Decimal):
        return str(value)
    if isinstance(value, list):
        return [_builtin(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _builtin(each) for name, each in value.items()}
    return value


def _time(value: datetime) -> str:
    """To the millisecond, or to the microsecond if it has some; a Z, unless it has no time zone."""
    exact = value.microsecond % 1000 != 0
    text = value.replace(tzinfo=None).isoformat(timespec="microseconds" if exact else "milliseconds")
    return text if value.tzinfo is None else f"{text}Z"
