"""Names and types of the columns that the fields of a value become.

A field has the column of its name.  If another column of the table is called the same, as ``key`` and
``timestamp`` are in every topic, or an earlier field in another case, it is called ``value_NAME``.

Types are those of ``ParsedSchema.fields``.  A field without a type in Spark, such as a union of several
types, is a column of text, as JSON.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.errors import InvalidValue
from penstock.schemas.formats import ParsedSchema

PREFIX: Final = "value_"
INVALID: Final = "invalid"  # The column with the reason why a value does not match the schema.

_SIMPLE: Final = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TOKEN: Final = re.compile(r"`((?:[^`]|``)*)`|(\w+)|([<>:,()])")


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The column of a field."""

    field: str
    type: str  # In Spark's words.

    @property
    def arrow(self) -> pa.DataType:
        return arrow_type(self.type)


def field_columns(schema: ParsedSchema, taken: Iterable[str]) -> dict[str, FieldColumn]:
    """The columns by their names, none if values are no records; ``taken`` are names of other columns."""
    used = {name.lower() for name in taken}
    found: dict[str, FieldColumn] = {}
    for field, kind in (schema.fields() or {}).items():
        name = field
        while name.lower() in used:
            name = PREFIX + name
        used.add(name.lower())
        found[name] = FieldColumn(field, "string" if kind == "void" else kind)  # Spark cannot store void.
    return found


def same_type(one: str, other: str) -> bool:
    """Whether two names mean the same type: quotes around the names of fields are optional."""
    return one.replace("`", "").lower() == other.replace("`", "").lower()


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type for a type in Spark's words, without the help of a JVM."""
    tokens = [(match[1], match[2] or match[3] or "") for match in _TOKEN.finditer(text)]
    kind, rest = _type(tokens)
    if rest:
        raise InvalidValue(name="type", value=text, why="it is not a type of Spark")
    return kind


_Tokens = list[tuple[str | None, str]]


def _type(tokens: _Tokens) -> tuple[pa.DataType, _Tokens]:
    name, rest = tokens[0][1].lower(), tokens[1:]
    if name == "array":
        item, rest = _type(rest[1:])
        return pa.list_(item), rest[1:]
    if name == "map":
        key, rest = _type(rest[1:])
        item, rest = _type(rest[1:])
        return pa.map_(key, item), rest[1:]
    if name == "decimal":
        return pa.decimal128(int(rest[1][1]), int(rest[3][1])), rest[5:]
    if name == "struct":
        fields: list[pa.Field] = []
        while rest[0][1] != ">":
            quoted, plain = rest[1]
            kind, rest = _type(rest[3:])
            fields.append(pa.field(plain if quoted is None else quoted.replace("``", "`"), kind))
        return pa.struct(fields), rest[1:]
    return _SIMPLE[name], rest
