"""Minimum and maximum of a file's columns, by which readers of a Delta table skip files.

Kept for integers, floats, short strings, dates and timestamps.  Timestamps have
millisecond precision, so the maximum is rounded up.  A column with a value that cannot be
represented (NaN, a long string, a date after the year 9999) only has its null count.
"""

import datetime
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

TEXT_MAX: Final = 32  # Characters; columns with longer strings have no minimum and maximum.
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


class ColumnStatistics:
    """What is known of the rows that were added."""

    def __init__(self) -> None:
        self.rows = 0
        self._nulls: dict[str, int] = {}
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}
        self._unknown: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if not _is_told(field.type):
                continue
            name = field.name
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            if name in self._unknown or column.null_count == len(column):
                continue
            try:
                low, high = _ends(column)
            except (ValueError, OverflowError):
                self._unknown.add(name)
                continue
            self._low[name] = min(low, self._low.get(name, low))
            self._high[name] = max(high, self._high.get(name, high))

    def statistics(self) -> str:
        """The statistics in Delta's format."""
        low, high = (
            {name: _text(value, up) for name, value in values.items() if name not in self._unknown}
            for values, up in ((self._low, False), (self._high, True))
        )
        statistics = {"numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": self._nulls}
        return json.dumps(statistics)


def _is_told(kind: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_string(kind)
        or kinds.is_date32(kind)
        or kinds.is_timestamp(kind)
    )


def _ends(column: pa.Array) -> tuple[Any, Any]:
    """Minimum and maximum; raises ``ValueError`` if they cannot be represented."""
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
        raise ValueError("no number")
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if isinstance(low, str) and max(len(low), len(high)) > TEXT_MAX:
        raise ValueError("too long")
    return low, high


def _text(value: Any, up: bool) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime.datetime):
        if up and value.microsecond % 1000:
            value += _MILLISECOND
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, datetime.date) else value
