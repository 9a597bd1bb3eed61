"""Avro schemas: parsed, and values decoded, by fastavro.

Values are in Avro's binary encoding without a header.  Arrays whose items take no bytes are refused: a value
of ten bytes could claim to have 2**60 of them.  Values of recursive schemas are read by fastavro's reader in
Python, which ends at Python's recursion limit; the one in C would overflow the stack of the process.

Many records are decoded as one array, because a call of fastavro takes as long as half a small record.  A
random mark, as one field more, shows that each record ended where its bytes end:

    array of record {id, customer, ..., mark}     count │ record mark │ record mark │ ... │ 0

A record that is too short or too long has other bytes at the place of its mark, and one that takes the mark
and what follows for its own leaves too few marks for all.

Cost: 1 to 5 microseconds for a small record, a fifth less in an array, ten times as much with a recursive
schema.  Limits: see ``formats.py``.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from io import BytesIO
from secrets import token_bytes
from typing import Any, Final

import fastavro
from fastavro._read_py import schemaless_reader as read_recursive
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from penstock.errors import SchemaInvalid
from penstock.model.schemas import SchemaType
from penstock.schemas import avro_rules
from penstock.schemas.avro_rules import named, variant
from penstock.schemas.mismatch import Mismatch
from penstock.schemas.spark_types import spark_fields, spark_struct

_UNREADABLE: Final = (
    SchemaResolutionError, EOFError, ValueError, IndexError, OverflowError, ArithmeticError, TypeError,
)  # fmt: skip
_ORDER: Final = (
    "type", "name", "namespace", "doc", "default", "order", "aliases", "fields", "symbols", "items", "values",
    "size", "logicalType", "precision", "scale",
)  # fmt: skip
_MARK: Final = "penstock_mark_of_the_end"
_MARK_BYTES: Final = 16
_MARKS: Final = {"__fastavro_parsed", "__named_schemas"}  # Of a schema that fastavro need not check again.
_PRIMITIVES: Final = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}


class AvroSchema:
    kind: SchemaType = "AVRO"

    def __init__(self, text: str, references: Mapping[str, Any]) -> None:
        self.names: dict[str, Any] = {}
        for reference in references.values():
            self.names |= reference.names
        self._referred: Final = dict(self.names)
        try:
            self._document = document = json.loads(text)
            for each in document if isinstance(document, list) else [document]:
                if isinstance(each, dict) and not _MARKS.isdisjoint(each):
                    raise SchemaInvalid(type="AVRO", why="it has attributes that only fastavro may set")
            self.schema = fastavro.parse_schema(document, named_schemas=self.names)
        except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SchemaInvalid(type="AVRO", why=_reason(error)) from None
        check = _Check(self.names)
        check.check(self.schema)
        self._recursive: Final = check.recursive
        self._read: Any = read_recursive if check.recursive else fastavro.schemaless_reader
        self.canonical = json.dumps(_ordered(document), separators=(",", ":"), ensure_ascii=False)

    def unreadable(self, writer: "AvroSchema") -> list[str]:
        return avro_rules.unreadable(self.schema, self.names, writer.schema, writer.names)

    def decode(
        self,
        data: bytes,
        start: int = 0,
        indexes: tuple[int, ...] = (0,),  # noqa: ARG002
        reader: "AvroSchema | None" = None,
    ) -> Any:
        """The value; with a reader, as that schema has it (schema resolution)."""
        file = BytesIO(data)
        file.seek(start)
        try:
            value = self._read(file, self.schema, None if reader is None else reader.schema)
        except SchemaResolutionError as error:
            raise Mismatch("/", f"it cannot be read as the schema that is asked for ({error})") from None
        except RecursionError:
            raise Mismatch(f"byte {file.tell() - start}", "the value is nested too deeply") from None
        except _UNREADABLE as error:
            why = f"{_reason(error) or 'the value ends too early'}; it is not Avro of this schema"
            raise Mismatch(f"byte {file.tell() - start}", why) from None
        if file.tell() != len(data):
            raise Mismatch(f"byte {file.tell() - start}", f"{len(data) - file.tell()} bytes follow the value")
        return value

    def decode_all(self, values: Sequence[bytes], reader: "AvroSchema | None" = None) -> list[Any]:
        """Decode many values; the error of one that does not match does not say which it was.

        Records may have one field more.
        """
        writer, wanted = self._array, None if reader is None else reader._array  # noqa: SLF001 - of its own kind.
        if not values or writer is None or (reader is not None and wanted is None):
            return [self.decode(each, reader=reader) for each in values]
        mark = token_bytes(_MARK_BYTES)
        data = b"".join((_long(len(values)), mark.join(values), mark, b"\0"))
        file = BytesIO(data)
        try:
            found: Any = fastavro.schemaless_reader(file, writer, wanted)
        except _UNREADABLE as error:
            raise Mismatch("/", _reason(error)) from None
        if file.tell() != len(data) or any(each[_MARK] != mark for each in found):
            raise Mismatch("/", "a value does not end where its bytes end")
        records: list[Any] = found
        return records

    @cached_property
    def _array(self) -> Any:
        """The schema of an array of these records with marks; None if values are no records, or recursive."""
        document = self._document
        if self._recursive or not isinstance(document, dict) or document.get("type") != "record":
            return None
        field = {"name": _MARK, "type": {"type": "fixed", "name": _MARK, "size": _MARK_BYTES}}
        item = document | {"fields": [*document["fields"], field]}
        return fastavro.parse_schema({"type": "array", "items": item}, named_schemas=dict(self._referred))

    def validate(self, data: bytes, start: int = 0, indexes: tuple[int, ...] = (0,)) -> None:
        self.decode(data, start, indexes)

    def all_match(self, values: Sequence[bytes], indexes: tuple[int, ...]) -> bool:  # noqa: ARG002
        try:
            self.decode_all(values)
        except Mismatch:
            return False
        return True

    def fields(self) -> dict[str, str] | None:
        schema = variant(self.schema, self.names)
        if not isinstance(schema, dict) or schema["type"] != "record":
            return None
        return spark_fields(
            "AVRO", ((each["name"], _column_type(each["type"], self.names)) for each in schema["fields"])
        )


def _long(number: int) -> bytes:
    """A number of 0 or more in Avro's encoding."""
    rest = number << 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _reason(error: Exception) -> str:
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)


def _ordered(schema: Any) -> Any:
    """Attributes in one order, so that the same schema has the same text."""
    if isinstance(schema, list):
        return [_ordered(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = [key for key in _ORDER if key in schema]
    return {key: _ordered(schema[key]) for key in (*known, *sorted(schema.keys() - set(known)))}


class _Check:
    """Refuses arrays whose items take no bytes, and finds out whether a type contains itself."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._seen: set[str] = set()  # Records that were begun, ...
        self._open: set[str] = set()  # ... and those that it is in.
        self._sizes: dict[str, bool] = {}
        self.recursive = False

    def check(self, schema: Any) -> None:
        match variant(schema, self._names):
            case list() as branches:
                for each in branches:
                    self.check(each)
            case {"type": "array", "items": items}:
                if not _takes_bytes(items, self._names, self._sizes):
                    raise SchemaInvalid(type="AVRO", why="an array has items that take no bytes")
                self.check(items)
            case {"type": "map", "values": values}:
                self.check(values)
            case {"type": "record" | "error", "name": name, "fields": fields}:
                self.recursive = self.recursive or name in self._open
                if name in self._seen:
                    return
                self._seen.add(name)
                self._open.add(name)
                for each in fields:
                    self.check(each["type"])
                self._open.remove(name)
            case _:
                pass


def _takes_bytes(schema: Any, names: Mapping[str, Any], known: dict[str, bool]) -> bool:
    """Whether every value of a schema takes at least one byte."""
    match variant(schema, names):
        case "null":
            return False
        case {"type": "fixed", "size": size}:
            return bool(size)
        case {"type": "record" | "error", "name": name, "fields": fields}:
            if name not in known:
                known[name] = False  # A record that begins with itself has no values.
                known[name] = any(_takes_bytes(each["type"], names, known) for each in fields)
            return known[name]
        case _:
            return True


def _column_type(schema: Any, names: Mapping[str, Any]) -> str:
    """The type of a field; text, as JSON, where there is none."""
    try:
        return spark_type(schema, names)
    except SchemaInvalid:
        return "string"


def spark_type(schema: Any, names: Mapping[str, Any], inside: frozenset[str] = frozenset()) -> str:
    """The type of a value in Spark's words.  Recursive types and general unions have none."""
    schema = variant(schema, names)
    if isinstance(schema, list):
        others = [each for each in schema if variant(each, names) != "null"]
        if len(others) != 1:
            raise SchemaInvalid(type="AVRO", why="a union of several types has no type in Spark")
        schema = variant(others[0], names)
    if isinstance(schema, str):
        return _PRIMITIVES[schema]
    kind = schema["type"]
    if kind == "record":
        return _struct_type(schema, names, inside)
    if kind == "array":
        return f"array<{spark_type(schema['items'], names, inside)}>"
    if kind == "map":
        return f"map<string,{spark_type(schema['values'], names, inside)}>"
    return _logical_type(schema) or _PRIMITIVES[kind]


def _logical_type(schema: Mapping[str, Any]) -> str:
    logical = schema.get("logicalType", "")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return _LOGICAL.get(logical, "")


def _struct_type(schema: Mapping[str, Any], names: Mapping[str, Any], inside: frozenset[str]) -> str:
    name = named(schema)
    if name in inside:
        raise SchemaInvalid(type="AVRO", why=f"the recursive type {name!r} has no type in Spark")
    within = inside | {name}
    fields = ((each["name"], spark_type(each["type"], names, within)) for each in schema["fields"])
    return spark_struct("AVRO", fields)
