"""Reads Protobuf values, and takes the fields of their messages in the form that their columns have.

The columns are those of the first message of the file.  A value says by its path in the writer's file which
message it is; one of another name is a ``Mismatch``.

Enums are names, and numbers that the schema does not know are text of digits.  Recursive messages and
well-known types other than ``Timestamp`` are JSON.

A value is a message, or where all fields are plain (single, without presence, numbers or text) a tuple of
them: one message object is then filled again and again.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from penstock.schemas.mismatch import Mismatch
from penstock.schemas.protobuf import ProtobufSchema
from penstock.spark.typed.field_arrays import field_array
from penstock.spark.typed.writers import Writers
from penstock.wire.schema_framing import ID_BYTES, message_indexes

Getter = Callable[[Any], Any]
Wanted = Sequence[tuple[str, pa.DataType]]

_FIRST: Final = (0,)


class ProtobufValues:
    def __init__(self, writers: Writers) -> None:
        self._writers = writers
        self._planned: ProtobufSchema = writers.planned
        message = self._planned.message(_FIRST).DESCRIPTOR
        inside = frozenset({message.full_name})
        self._required = self._planned.has_required(_FIRST)
        self._getters = {field.name: _of_message(field, inside) for field in message.fields}
        names = list(self._getters)
        self._places = {name: place for place, name in enumerate(names)}
        # Of one field it would give that, and no tuple.
        self._tuple_of = (
            attrgetter(*names) if len(names) > 1 and all(map(_is_plain, message.fields)) else None
        )

    def read(self, data: bytes) -> Any:
        writer, start = self._writers.of(data)
        if start:
            try:
                indexes, start = message_indexes(data, start)
            except ValueError as error:
                raise Mismatch(f"byte {start}", str(error)) from None
            if indexes != _FIRST:
                other = writer.message(indexes).DESCRIPTOR.name
                planned = self._planned.message(_FIRST).DESCRIPTOR.name
                if other != planned:
                    raise Mismatch(
                        f"byte {ID_BYTES}", f"it is the message {other}; the columns are those of {planned}"
                    )
        message = self._planned.read(data, start, _FIRST)
        return message if self._tuple_of is None else self._tuple_of(message)

    def read_all(self, blobs: pa.Array) -> list[Any] | None:
        common = self._writers.common(blobs, ID_BYTES + 1)  # The first message: one byte, 0.
        if common is None:
            return None
        try:
            if self._tuple_of is not None:
                return self._tuples(common[1], self._tuple_of)
            messages = list(map(self._planned.message(_FIRST).FromString, common[1]))
        except (DecodeError, UnicodeDecodeError):
            return None
        if self._required and not all(each.IsInitialized() for each in messages):
            return None
        return messages

    def _tuples(self, payloads: Iterable[bytes], tuple_of: Getter) -> list[Any]:
        message: Any = self._planned.message(_FIRST)()
        found = []
        for payload in payloads:
            message.ParseFromString(payload)
            found.append(tuple_of(message))
        return found

    def columns(self, values: list[Any], wanted: Wanted) -> list[pa.Array]:
        if self._tuple_of is not None:
            nothing = (None,) * len(self._places)
            columns = list(zip(*(nothing if each is None else each for each in values), strict=True))
            empty = [()] * len(self._places)
            return [field_array(list((columns or empty)[self._places[name]]), kind) for name, kind in wanted]
        made = []
        for name, kind in wanted:
            get = self._getters[name]
            made.append(field_array([None if each is None else get(each) for each in values], kind))
        return made


# Fields of Protobuf messages, in the form of the type that ``schemas/protobuf.py`` gives them.


def _is_plain(field: FieldDescriptor) -> bool:
    return not (field.is_repeated or field.has_presence or field.enum_type or field.message_type)


def _of_message(field: FieldDescriptor, inside: frozenset[str]) -> Getter:
    get = attrgetter(field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return _entries(get, _single(kind.fields_by_name["value"], inside) or _same)
    change = _single(field, inside)
    if field.is_repeated:
        return _items(get, change or _same)
    return _one(field, get, change)


def _entries(get: Getter, change: Getter) -> Getter:
    return lambda message: {key: change(each) for key, each in get(message).items()}


def _items(get: Getter, change: Getter) -> Getter:
    return lambda message: [change(each) for each in get(message)]


def _one(field: FieldDescriptor, get: Getter, change: Getter | None) -> Getter:
    name = field.name
    changed = get if change is None else _after(get, change)
    return (
        (lambda message: changed(message) if message.HasField(name) else None)
        if field.has_presence
        else changed
    )


def _after(get: Getter, change: Getter) -> Getter:
    return lambda message: change(get(message))


def _same(value: Any) -> Any:
    return value


def _single(field: FieldDescriptor, inside: frozenset[str]) -> Getter | None:
    """What changes one value of a field; None: it stays as it is."""
    if field.enum_type is not None:
        names = {each.number: each.name for each in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    kind = field.message_type
    if kind is None:
        return None
    if kind.full_name == "google.protobuf.Timestamp":
        return lambda time: time.seconds * 1_000_000 + time.nanos // 1000
    if kind.full_name.startswith("google.protobuf.") or kind.full_name in inside:
        return lambda message: json_format.MessageToJson(
            message, indent=None, preserving_proto_field_name=True
        )
    getters = [(each.name, _of_message(each, inside | {kind.full_name})) for each in kind.fields]
    return lambda message: {name: get(message) for name, get in getters}
