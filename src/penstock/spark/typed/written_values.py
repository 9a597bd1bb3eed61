"""Reads values of any version of the schema as the version that a query was planned with.

    framed     magic byte 0 and the id of the schema it was written with (``wire/schema_framing.py``)
    plain      anything else: written with the planned version

    Avro           resolved by the rules of its specification: promotions, aliases, defaults
    Protobuf       parsed with the planned version, so fields are found by their numbers
    JSON Schema    validated by the version it was written with; fields are found by their names

A value that cannot be read raises ``Mismatch``.

Most batches have only valid values of one schema: ``read_all`` reads those in a tight loop, and gives up at
the first other value.  ``read`` reads any value.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.schemas.formats import ParsedSchema
from penstock.schemas.mismatch import Mismatch
from penstock.spark.typed.field_arrays import UNFIT, field_array
from penstock.spark.typed.writers import Known, Writers
from penstock.wire.schema_framing import ID_BYTES

Wanted = Sequence[tuple[str, pa.DataType]]  # Fields, and the types of their columns.


class WrittenValues(Protocol):
    """Reads values of one kind of schema."""

    def read(self, data: bytes) -> Any:
        """The value of some bytes; raises ``Mismatch``."""
        ...

    def read_all(self, blobs: pa.Array) -> list[Any] | None:
        """The values of a plain batch; None, or ``Mismatch``, for any other."""
        ...

    def columns(self, values: list[Any], wanted: Wanted) -> list[pa.Array]:
        """Fields of the values as columns, null where a value is None; raises one of ``UNFIT``."""
        ...


def written_values(planned: ParsedSchema, known: Known) -> WrittenValues:
    """The reader of values as the planned version."""
    writers = Writers(planned, known)
    if planned.kind == "AVRO":
        return _AvroValues(writers)
    if planned.kind == "JSON":
        return _JsonValues(writers)
    from penstock.spark.typed.protobuf_values import ProtobufValues  # Only now: it loads the library.

    return ProtobufValues(writers)


class _Records:
    """Values that are dictionaries."""

    def __init__(self, writers: Writers) -> None:
        self._writers = writers

    def columns(self, values: list[Any], wanted: Wanted) -> list[pa.Array]:
        try:
            found: list[pa.Array] = pa.array(values, pa.struct(list(wanted))).flatten()
        except UNFIT:
            return [
                field_array([None if each is None else each.get(field) for each in values], kind)
                for field, kind in wanted
            ]
        return found


class _AvroValues(_Records):
    def read(self, data: bytes) -> Any:
        writer, start = self._writers.of(data)
        return writer.decode(data, start, reader=self._reader(writer))

    def read_all(self, blobs: pa.Array) -> list[Any] | None:
        common = self._writers.common(blobs, ID_BYTES)
        if common is None:
            return None
        writer, payloads = common
        values: list[Any] = writer.decode_all(payloads, reader=self._reader(writer))
        return values

    def _reader(self, writer: Any) -> Any:
        """The schema to resolve to; None: it is the writer's."""
        planned = self._writers.planned
        return None if writer is planned or writer.canonical == planned.canonical else planned


class _JsonValues(_Records):
    def read(self, data: bytes) -> Any:
        writer, start = self._writers.of(data)
        value = writer.validated(data, start)
        if not isinstance(value, dict):
            raise Mismatch("/", "it is not an object")
        return value

    def read_all(self, blobs: pa.Array) -> list[Any] | None:
        common = self._writers.common(blobs, ID_BYTES)
        if common is None:
            return None
        writer, payloads = common
        values: list[Any] = writer.all_validated(payloads)
        return values if all(isinstance(each, dict) for each in values) else None
