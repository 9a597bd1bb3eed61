"""The fields of a batch of values as columns, and for each invalid value the reason.

    values ──> they are read by their schemas ──> a column for each field, in bulk
                    └── Mismatch                       └── does not fit: look for the row by halving
                            └──────────> reasons <─────────┘

Whether a row is invalid does not depend on the columns that are asked for, so all fields are made
columns: the rows of a table and those of its side table are then always all rows.  Tombstones are valid,
and all their fields are null.

Cost: for a value of four fields JSON and Protobuf about 1 us, Avro 2 us, if all values of a batch are of
one schema and valid; otherwise twice that.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from penstock.schemas.formats import ParsedSchema
from penstock.schemas.mismatch import Mismatch
from penstock.spark.typed.field_arrays import UNFIT
from penstock.spark.typed.field_columns import FieldColumn
from penstock.spark.typed.writers import Known
from penstock.spark.typed.written_values import written_values

WHY_MAX: Final = 500  # Characters of a reason: an error may quote the whole value.


class TypedRows:
    """Decodes the values of a typed topic for one reader."""

    def __init__(self, planned: ParsedSchema, columns: Mapping[str, FieldColumn], known: Known) -> None:
        self._values = written_values(planned, known)
        self._names = list(columns)
        self._wanted = [(column.field, column.arrow) for column in columns.values()]

    def columns(self, blobs: pa.Array) -> tuple[dict[str, pa.Array], list[str | None]]:
        """The columns, and for each invalid row the reason; all its fields are null."""
        values, reasons = self._read(blobs)
        try:
            arrays = self._values.columns(values, self._wanted)
        except UNFIT:
            self._reject_unfit(values, reasons, 0, len(values))
            arrays = self._values.columns(values, self._wanted)
        return dict(zip(self._names, arrays, strict=True)), reasons

    def _read(self, blobs: pa.Array) -> tuple[list[Any], list[str | None]]:
        """The values, and the reasons for missing ones."""
        reasons: list[str | None] = [None] * len(blobs)
        with suppress(Mismatch):
            values = self._values.read_all(blobs)
            if values is not None:
                return values, reasons
        values = []
        for row, blob in enumerate(blobs.to_pylist()):
            value = None
            if blob is not None:
                try:
                    value = self._values.read(blob)
                except Mismatch as error:
                    reasons[row] = str(error)[:WHY_MAX]
            values.append(value)
        return values, reasons

    def _reject_unfit(self, values: list[Any], reasons: list[str | None], start: int, end: int) -> None:
        """Find the values that do not fit into the columns, by halving; each becomes a reason."""
        try:
            self._values.columns(values[start:end], self._wanted)
        except UNFIT:
            if end - start > 1:
                middle = (start + end) // 2
                self._reject_unfit(values, reasons, start, middle)
                self._reject_unfit(values, reasons, middle, end)
            else:
                reasons[start] = self._why_unfit(values[start])
                values[start] = None

    def _why_unfit(self, value: Any) -> str:
        for name, wanted in zip(self._names, self._wanted, strict=True):
            try:
                self._values.columns([value], [wanted])
            except UNFIT as error:
                return f"{name}: it does not fit into the column ({error})"[:WHY_MAX]
        raise AssertionError("one column does not fit")
