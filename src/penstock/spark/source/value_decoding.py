"""Decodes values into the type of a Spark column.

    raw     binary     unchanged
    text    string     UTF-8
    json    any type   by a schema; unknown fields are ignored, missing ones are null
    avro    any type   by the schema it was written with, without a header

With the format ``registry`` the value stays as it is, and its fields are columns of their own
(``spark/typed``).

A value that cannot be decoded is null; the rest of its row and other rows are not
affected.  Read it as raw to see why.

In every format, columns of type string, including the key, are decoded as UTF-8:
``.schema("key string")``.

Cost: text is validated by Arrow in bulk; json and avro take one to several microseconds
per value.
"""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, cast

import msgspec
import pyarrow as pa

from penstock.errors import InvalidValue, SchemaInvalid
from penstock.schemas.formats import parse
from penstock.spark.source.options import SourceOptions
from penstock.spark.typed.field_arrays import UNFIT, field_array

if TYPE_CHECKING:
    from penstock.schemas.avro import AvroSchema

Decoder = Callable[[bytes], Any]
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, ArithmeticError, IndexError)  # What decoders raise.


class ValueConversion:
    """What one reader does with keys and values."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._decoder: Decoder | None = None

    def converted(self, blobs: pa.Array, kind: pa.DataType) -> pa.Array:
        """A column converted to its target type."""
        if blobs.type == kind:
            return blobs
        if pa.types.is_string(kind):
            return as_text(blobs)
        if self._decoder is None:
            self._decoder = self._made(kind)
        return decoded(blobs, kind, self._decoder)

    def _made(self, kind: pa.DataType) -> Decoder:
        if self._options.value_format == "avro":
            return avro_schema(self._options.value_schema or "").decode
        return msgspec.json.Decoder(python_type(kind)).decode


def avro_schema(text: str) -> "AvroSchema":
    """The schema in the option ``value_schema``."""
    try:
        return cast("AvroSchema", parse("AVRO", text, {}))
    except SchemaInvalid as error:
        raise InvalidValue(name="value_schema", value=text, why=error.why) from None


def avro_type(text: str) -> str:
    """The Spark type of values of that schema."""
    from penstock.schemas.avro import spark_type  # Only now: it loads the library.

    schema = avro_schema(text)
    try:
        return spark_type(schema.schema, schema.names)
    except SchemaInvalid as error:
        raise InvalidValue(name="value_schema", value=text, why=error.why) from None


def as_text(blobs: pa.Array) -> pa.Array:
    """Byte strings as text; those that are none are null."""
    try:
        return blobs.cast(pa.string())
    except pa.ArrowInvalid:
        return decoded(blobs, pa.string(), bytes.decode)


def decoded(blobs: pa.Array, kind: pa.DataType, decoder: Decoder) -> pa.Array:
    """Decode each byte string separately."""
    values = [_value(blob, decoder) for blob in blobs.to_pylist()]
    try:
        return field_array(values, kind)
    except UNFIT:
        return pa.concat_arrays([_array(value, kind) for value in values])


def _value(blob: bytes | None, decoder: Decoder) -> Any:
    if blob is None:
        return None
    try:
        return decoder(blob)
    except UNREADABLE:
        return None


def _array(value: Any, kind: pa.DataType) -> pa.Array:
    """One value; null if it does not fit into its type, as a decimal may not."""
    try:
        return field_array([value], kind)
    except UNFIT:
        return pa.nulls(1, kind)


_SIMPLE: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,  # In base64.
    pa.date32(): datetime.date,
}


def python_type(kind: pa.DataType) -> Any:
    """What msgspec makes of JSON for a type; anything may be null."""
    if kind in _SIMPLE:
        return _SIMPLE[kind] | None
    for matches, made in _MADE:
        if matches(kind):
            return made(kind) | None
    raise InvalidValue(name="value_schema", value=str(kind), why="JSON values cannot be decoded to this type")


def _whole(kind: pa.DataType) -> Any:
    if kind.bit_width == 64:
        return int  # msgspec's own limit.
    limit = 1 << kind.bit_width - 1
    return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]


def _fields(kind: pa.DataType) -> Any:
    types = {each.name: python_type(each.type) for each in kind}
    return TypedDict("Fields", types, total=False)  # type: ignore[operator]


_MADE: Final[list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Any]]]] = [
    (pa.types.is_integer, _whole),
    (pa.types.is_timestamp, lambda _: datetime.datetime),
    (pa.types.is_decimal, lambda _: Decimal),
    (pa.types.is_struct, _fields),
    (pa.types.is_list, lambda kind: list[python_type(kind.value_type)]),  # type: ignore[misc]
    (pa.types.is_map, lambda kind: dict[str, python_type(kind.item_type)]),  # type: ignore[misc]
]
