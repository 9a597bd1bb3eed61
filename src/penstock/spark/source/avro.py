"""Decodes values in Avro's binary encoding by the schema they were written with.

    {"type": "record", "name": "user", "fields": [{"name": "id", "type": "long"},
                                                  {"name": "email", "type": ["null", "string"]}]}

A schema is compiled once into a reader: a function of bytes and a position that
returns a value and the position after it.

Supported: all types; logical dates, times and decimals; unions of null and one other
type.  Not supported: other unions, recursive types, and schema resolution.

The format: https://avro.apache.org/docs/1.12.0/specification/
"""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from struct import Struct
from typing import Any, Final

from penstock.errors import InvalidValue

Reader = Callable[[bytes, int], tuple[Any, int]]
Known = tuple[str, Reader]  # A type in Spark's words, and how it is read.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ONE: Final = date(1970, 1, 1)
_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")


def avro_decoder(schema: str) -> Callable[[bytes], Any]:
    """What reads values of a schema; ValueError or IndexError if bytes are none."""
    _, reader = _known(_parsed(schema), {})

    def decode(data: bytes) -> Any:
        value, end = reader(data, 0)
        if end != len(data):
            raise ValueError("trailing bytes")
        return value

    return decode


def avro_type(schema: str) -> str:
    """The Spark type of values of a schema."""
    return _known(_parsed(schema), {})[0]


def _parsed(schema: str) -> Any:
    try:
        return json.loads(schema)
    except ValueError as error:
        raise InvalidValue(name="value_schema", value=schema, why=f"it is not valid JSON ({error})") from None


def _known(schema: Any, names: dict[str, Known]) -> Known:
    match schema:
        case str() if schema in _PRIMITIVES or schema in names:
            found = _PRIMITIVES.get(schema) or names[schema]
        case list():
            found = _union(schema, names)
        case {"logicalType": str(logical), "type": str(base)} if (logical, base) in _LOGICAL:
            found = _LOGICAL[logical, base]
        case {"logicalType": "decimal", "type": "bytes" | "fixed"}:
            found = _decimal(schema, names)
        case {"type": str(kind)} if kind in _COMPLEX:
            found = _COMPLEX[kind](schema, names)
        case {"type": inner}:
            found = _known(inner, names)
        case _:
            why = "it is not an Avro schema, or uses a type that is not supported"
            raise InvalidValue(name="value_schema", value=schema, why=why)
    if isinstance(schema, dict) and "name" in schema:
        names[schema["name"]] = found
    return found


def _long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return (number >> 1) ^ -(number & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    return _taken(data, at, size)


def _taken(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise ValueError("a length exceeds the data")
    return data[at : at + size], at + size


def _string(data: bytes, at: int) -> tuple[str, int]:
    blob, at = _bytes(data, at)
    return blob.decode(), at


def _number(form: Struct) -> Reader:
    def read(data: bytes, at: int) -> tuple[float, int]:
        blob, at = _taken(data, at, form.size)
        return form.unpack(blob)[0], at

    return read


def _mapped(reader: Reader, change: Callable[[Any], Any]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = reader(data, at)
        return change(value), at

    return read


_PRIMITIVES: Final[dict[str, Known]] = {
    "null": ("void", lambda _, at: (None, at)),
    "boolean": ("boolean", lambda data, at: (data[at] == 1, at + 1)),
    "int": ("int", _long),
    "long": ("bigint", _long),
    "float": ("float", _number(_FLOAT)),
    "double": ("double", _number(_DOUBLE)),
    "bytes": ("binary", _bytes),
    "string": ("string", _string),
}


def _time(**unit: int) -> Reader:
    return _mapped(_long, lambda count: _EPOCH + count * timedelta(**unit))


_LOGICAL: Final[dict[tuple[str, str], Known]] = {
    ("date", "int"): ("date", _mapped(_long, lambda days: _DAY_ONE + timedelta(days))),
    ("timestamp-millis", "long"): ("timestamp", _time(milliseconds=1)),
    ("timestamp-micros", "long"): ("timestamp", _time(microseconds=1)),
    ("uuid", "string"): ("string", _string),
}


def _decimal(schema: dict[str, Any], names: dict[str, Known]) -> Known:
    _, reader = _PRIMITIVES["bytes"] if schema["type"] == "bytes" else _fixed(schema, names)
    scale = schema.get("scale", 0)

    def change(blob: bytes) -> Decimal:
        return Decimal(int.from_bytes(blob, "big", signed=True)).scaleb(-scale)

    return f"decimal({schema['precision']},{scale})", _mapped(reader, change)


def _union(schema: list[Any], names: dict[str, Known]) -> Known:
    others = [each for each in schema if each != "null"]
    if len(others) != 1:
        raise InvalidValue(
            name="value_schema", value=schema, why="only unions of null and one other type are supported"
        )
    kind, reader = _known(others[0], names)
    there = schema.index(others[0])

    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if not 0 <= branch < len(schema):
            raise ValueError("an unknown union branch")
        return reader(data, at) if branch == there else (None, at)

    return kind, read


def _record(schema: dict[str, Any], names: dict[str, Known]) -> Known:
    fields = [(each["name"], *_known(each["type"], names)) for each in schema["fields"]]

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for name, _, reader in fields:
            values[name], at = reader(data, at)
        return values, at

    return f"struct<{','.join(f'`{name}`:{kind}' for name, kind, _ in fields)}>", read


def _enum(schema: dict[str, Any], _: dict[str, Known]) -> Known:
    return "string", _mapped(_long, lambda number: _at(schema["symbols"], number))


def _at(symbols: list[str], number: int) -> str:
    if number < 0:
        raise ValueError("an unknown enum symbol")
    return symbols[number]


def _fixed(schema: dict[str, Any], _: dict[str, Known]) -> Known:
    return "binary", lambda data, at: _taken(data, at, schema["size"])


def _blocks(data: bytes, at: int, item: Reader) -> tuple[list[Any], int]:
    """Items in blocks, each with its count in front; a negative count is followed by the block's size."""
    items: list[Any] = []
    while True:
        count, at = _long(data, at)
        if count == 0:
            return items, at
        if count < 0:
            _, at = _long(data, at)
        if abs(count) > len(data):  # Even if its items took no bytes: it may be a trap.
            raise ValueError("a block exceeds the data")
        for _ in range(abs(count)):
            value, at = item(data, at)
            items.append(value)


def _array(schema: dict[str, Any], names: dict[str, Known]) -> Known:
    kind, reader = _known(schema["items"], names)
    return f"array<{kind}>", lambda data, at: _blocks(data, at, reader)


def _map(schema: dict[str, Any], names: dict[str, Known]) -> Known:
    kind, reader = _known(schema["values"], names)

    def entry(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        name, at = _string(data, at)
        value, at = reader(data, at)
        return (name, value), at

    def read(data: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
        entries, at = _blocks(data, at, entry)
        return _last_ones(entries), at

    return f"map<string,{kind}>", read


def _last_ones(entries: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """A map has each name once."""
    return list(dict(entries).items())


_COMPLEX: Final[dict[str, Callable[[dict[str, Any], dict[str, Known]], Known]]] = {
    "record": _record,
    "enum": _enum,
    "fixed": _fixed,
    "array": _array,
    "map": _map,
}
