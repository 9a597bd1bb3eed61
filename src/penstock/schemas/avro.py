"""Avro schemas: parsed, and values decoded, by fastavro.

Values are in Avro's binary encoding without a header.  A schema is refused if few bytes could be a large
value (an array whose items take no bytes: ten bytes could claim to have 2**60 of them), and if it is nested
deeper than ``DEPTH_MAX``, because fastavro's reader in C would overflow the stack of the process.  Values of
recursive schemas are read by its reader in Python, which ends at Python's recursion limit.

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
VALUES_PER_BYTE: Final = 8  # Records within records have several for one byte, but not many.
VALUES_MAX: Final = 1000  # More than that in a whole value.
DEPTH_MAX: Final = 500  # 14,000 end a process with a stack of 8 MiB.
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
_LOGICAL: Final = {  # A logical type on another type than its own has no effect.
    "int-date": "date",
    "long-timestamp-millis": "timestamp",
    "long-timestamp-micros": "timestamp",
    "long-local-timestamp-millis": "timestamp_ntz",
    "long-local-timestamp-micros": "timestamp_ntz",
}
_DECIMALS: Final = ("bytes-decimal", "fixed-decimal")


class AvroSchema:
    kind: SchemaType = "AVRO"
    is_quick = True

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
    """Refuses schemas whose values could be much larger than their bytes, or that are nested too deeply.

    Every value counts 1, and every byte takes ``VALUES_PER_BYTE`` off.  The sum, as large as a value of the
    type can make it, may be ``VALUES_MAX`` for the whole, and 0 for what a value can have any number of.
    Types with names are measured once: 40 records that have the next one twice would be 2**40 otherwise.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._measured: dict[str, tuple[int, int] | None] = {}  # Of records; None: it is in this one.
        self._inside: set[str] = set()  # Records that contain themselves.

    @property
    def recursive(self) -> bool:
        """Whether a type contains itself."""
        return bool(self._inside)

    def check(self, schema: Any) -> None:
        size, depth = self._measure(schema)
        if size > VALUES_MAX:
            raise SchemaInvalid(type="AVRO", why="it has too many values that take no bytes")
        if depth > DEPTH_MAX:
            raise SchemaInvalid(type="AVRO", why=f"it is nested too deeply: more than {DEPTH_MAX} levels")

    def _measure(self, schema: Any) -> tuple[int, int]:
        """The sum for a type, and its levels."""
        match variant(schema, self._names):
            case {"type": "bytes" | "fixed", "logicalType": "decimal"} as decimal if not _has_precision(
                decimal
            ):
                raise SchemaInvalid(
                    type="AVRO", why="a decimal needs a precision, which is a positive integer"
                )
            case "null" | {"type": "fixed", "size": 0}:
                return 1, 1
            case []:
                raise SchemaInvalid(type="AVRO", why="a union has no types")
            case list() as branches:
                sizes, depths = zip(*map(self._measure, branches), strict=True)
                return max(sizes) - VALUES_PER_BYTE, max(depths) + 1
            case {"type": "array", "items": items}:
                return self._repeated("an array has items", items, 0)
            case {"type": "map", "values": values}:
                return self._repeated("a map has values", values, 1 - VALUES_PER_BYTE)
            case {"type": "record" | "error", "name": name, "fields": fields}:
                return self._record(name, fields)
            case _:
                return 1 - VALUES_PER_BYTE, 1

    def _repeated(self, what: str, each: Any, key: int) -> tuple[int, int]:
        size, depth = self._measure(each)
        if key + size > 0:
            raise SchemaInvalid(type="AVRO", why=f"{what} that take no bytes, or few for many fields")
        return 1 - VALUES_PER_BYTE, depth + 1

    def _record(self, name: str, fields: list[Any]) -> tuple[int, int]:
        if name in self._measured:
            found = self._measured[name]
            if found is not None:
                return found
            self._inside.add(name)
            return 0, 1  # At most, if the record is at most that; checked when it ends.
        self._measured[name] = None
        size, depth = 1, 0
        for each in fields:
            more, levels = self._measure(each["type"])
            size, depth = size + more, max(depth, levels)
        if name in self._inside and size > 0:
            raise SchemaInvalid(type="AVRO", why=f"{name} contains itself, and has few bytes for its fields")
        self._measured[name] = size, depth + 1
        return size, depth + 1


def _has_precision(decimal: Mapping[str, Any]) -> bool:
    precision = decimal.get("precision")
    return type(precision) is int and precision > 0


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
    logical = f"{schema['type']}-{schema.get('logicalType')}"
    if logical in _DECIMALS:
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return _LOGICAL.get(logical, "")


def _struct_type(schema: Mapping[str, Any], names: Mapping[str, Any], inside: frozenset[str]) -> str:
    name = named(schema)
    if name in inside:
        raise SchemaInvalid(type="AVRO", why=f"the recursive type {name!r} has no type in Spark")
    within = inside | {name}
    fields = ((each["name"], spark_type(each["type"], names, within)) for each in schema["fields"])
    return spark_struct("AVRO", fields)
