"""Protobuf schemas: descriptors and dynamic messages of Google's library.

A schema is one file.  Clients register it as a .proto file, which the broker compiles with protoc, or as
a serialized ``FileDescriptorProto`` in base64; either way its descriptor is what counts here.  Each schema
has a descriptor pool of its own, so that two versions of a message do not meet.

A value may be much larger when it is decoded, because unset fields are shown with their defaults: two bytes
are a message with all of its fields.  So that is limited (``FIELDS_MAX``).

A value without a frame is the first message of the file.  Fields that the schema does not have are
accepted, as by every Protobuf reader; bytes that cannot be parsed and missing required fields are not.
"""

import importlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from penstock.errors import SchemaInvalid
from penstock.model.schemas import SchemaType
from penstock.schemas import protobuf_rules
from penstock.schemas.mismatch import Mismatch
from penstock.schemas.protobuf_text import proto_text
from penstock.schemas.spark_types import spark_fields, spark_struct

FIELDS_MAX: Final = 1_000_000  # Of a value that is decoded: unset fields are shown, too.
LISTED_MAX: Final = 10_000  # Of a value whose missing fields are listed.
_BUILT_IN: Final = ("google/protobuf/", "google/type/")  # Files that come with Python packages.
_NAME: Final = "schema.proto"
_NUMBERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}


def descriptor_of(text: str) -> bytes | None:
    """The serialized descriptor that a text is, in base64; None: it is a .proto file."""
    try:
        data = b64decode(text, validate=True)
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (Base64Error, ValueError, DecodeError):
        return None
    return data if file.message_type or file.enum_type or file.dependency else None


class ProtobufSchema:
    kind: SchemaType = "PROTOBUF"
    is_quick = True

    def __init__(self, text: str, references: Mapping[str, Any], descriptor: str = "") -> None:
        data = b64decode(descriptor) if descriptor else descriptor_of(text)
        if data is None:
            raise SchemaInvalid(type="PROTOBUF", why="it was not compiled")
        self.file = descriptor_pb2.FileDescriptorProto.FromString(data)
        self.file.ClearField("source_code_info")
        self.file.name = self.file.name or _NAME
        self.references: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        for name, reference in references.items():
            renamed = descriptor_pb2.FileDescriptorProto()
            renamed.CopyFrom(reference.file)
            renamed.name = name
            self.references |= reference.references | {name: renamed}
        self._pool = descriptor_pool.DescriptorPool()
        try:
            self._add(self.file, set())
            self.descriptor = self._pool.FindFileByName(self.file.name)
        except (TypeError, KeyError, ValueError) as error:
            raise SchemaInvalid(type="PROTOBUF", why=str(error)) from None
        by_name = self.descriptor.message_types_by_name
        self._messages: list[Descriptor] = [by_name[each.name] for each in self.file.message_type]
        self._classes: dict[tuple[int, ...], type[Message]] = {}
        self._required: dict[tuple[int, ...], bool] = {}
        self._widest: dict[tuple[int, ...], int] = {}
        self.canonical = proto_text(self.file)
        self.text = self.canonical if descriptor_of(text) else text

    @property
    def serialized(self) -> str:
        """The descriptor in base64, which Confluent's Python client works with."""
        return b64encode(self.file.SerializeToString()).decode()

    def _add(self, file: descriptor_pb2.FileDescriptorProto, added: set[str]) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for name in file.dependency:
            known = self.references.get(name)
            self._add(_built_in(name) if known is None else known, added)
        self._pool.Add(file)

    def unreadable(self, writer: "ProtobufSchema") -> list[str]:
        return protobuf_rules.unreadable(self.descriptor, writer.descriptor)

    def message(self, indexes: tuple[int, ...]) -> type[Message]:
        """The class of a message, by its path in the file."""
        found = self._classes.get(indexes)
        if found is None:
            kinds: Any = self._messages
            kind: Descriptor | None = None
            for index in indexes:
                if index >= len(kinds):
                    raise Mismatch("byte 5", f"the schema has no message {'/'.join(map(str, indexes))}")
                kind = kinds[index]
                kinds = kind.nested_types
            assert kind is not None, "a path is not empty"
            found = self._classes[indexes] = message_factory.GetMessageClass(kind)
        return found

    def has_required(self, indexes: tuple[int, ...]) -> bool:
        """Whether a message, or one inside it, has required fields, as only proto2 has them."""
        found = self._required.get(indexes)
        if found is None:
            found = self._required[indexes] = _has_required(self.message(indexes).DESCRIPTOR, set())
        return found

    def read(self, data: bytes, start: int, indexes: tuple[int, ...]) -> Message:
        """The message in ``data`` from ``start`` on; raises ``Mismatch``."""
        message: Any = self.message(indexes)()
        try:
            message.ParseFromString(data[start:] if start else data)
        except (DecodeError, UnicodeDecodeError) as error:
            raise Mismatch("/", f"it is not a {message.DESCRIPTOR.full_name} ({error})") from None
        if not message.IsInitialized():
            which = "too many to list"
            if self._fields_at_most(message, indexes, len(data)) <= LISTED_MAX:
                which = ", ".join(message.FindInitializationErrors())
            raise Mismatch("/", f"required fields are missing: {which}")
        parsed: Message = message
        return parsed

    def _fields_at_most(self, message: Message, indexes: tuple[int, ...], size: int) -> int:
        """How many fields a message has with those that are not set, of all messages in it; perhaps more."""
        widest = self._widest.get(indexes)
        if widest is None:
            widest = self._widest[indexes] = _widest(message.DESCRIPTOR, set())
        at_most = widest * (size // 2 + 1)  # Two bytes are a message without fields.
        return at_most if at_most <= LISTED_MAX else _fields_of(message)

    def decode(self, data: bytes, start: int = 0, indexes: tuple[int, ...] = (0,)) -> Any:
        message = self.read(data, start, indexes)
        if self._fields_at_most(message, indexes, len(data)) > FIELDS_MAX:
            raise Mismatch("/", f"with the fields that are not set it has more than {FIELDS_MAX:,} fields")
        return json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )

    def validate(self, data: bytes, start: int = 0, indexes: tuple[int, ...] = (0,)) -> None:
        self.read(data, start, indexes)

    def all_match(self, values: Sequence[bytes], indexes: tuple[int, ...]) -> bool:
        try:
            message: Any = self.message(indexes)()
            required = self.has_required(indexes)
            for value in values:
                message.ParseFromString(value)
                if required and not message.IsInitialized():
                    return False
        except (Mismatch, DecodeError, UnicodeDecodeError):
            return False
        return True

    def fields(self) -> dict[str, str] | None:
        if not self._messages:
            return None
        first = self._messages[0]
        inside = frozenset({first.full_name})
        return spark_fields("PROTOBUF", ((each.name, _spark_type(each, inside)) for each in first.fields))


def _has_required(message: Any, seen: set[str]) -> bool:
    seen.add(message.full_name)
    return any(
        field.is_required
        or (
            field.message_type is not None
            and field.message_type.full_name not in seen
            and _has_required(field.message_type, seen)
        )
        for field in message.fields
    )


def _widest(message: Any, seen: set[str]) -> int:
    """The most fields that a message, or one inside it, has."""
    seen.add(message.full_name)
    inner = [
        _widest(field.message_type, seen)
        for field in message.fields
        if field.message_type is not None and field.message_type.full_name not in seen
    ]
    return max([len(message.fields), *inner])


def _fields_of(message: Message) -> int:
    """How many fields the messages in a message have, set or not; counting ends soon after the limit."""
    count = 0
    waiting = [message]
    while waiting and count <= FIELDS_MAX:
        found = waiting.pop()
        count += len(found.DESCRIPTOR.fields)
        for field, value in found.ListFields():
            if field.message_type is not None:
                entries = _entries(field, value)
                count += len(entries)
                waiting += [each for each in entries if isinstance(each, Message)]
    return count


def _entries(field: Any, value: Any) -> list[Any]:
    """The messages of a field, or other values of a map."""
    if not field.is_repeated:
        return [value]
    return list(value.values() if field.message_type.GetOptions().map_entry else value)


def _built_in(name: str) -> descriptor_pb2.FileDescriptorProto:
    if not name.startswith(_BUILT_IN) or not name.endswith(".proto"):
        raise SchemaInvalid(
            type="PROTOBUF", why=f"the import {name!r} is not among the references of the schema"
        )
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if not module.replace(".", "").replace("_", "").isalnum():
        raise SchemaInvalid(type="PROTOBUF", why=f"the import {name!r} is not available")
    try:
        descriptor = importlib.import_module(module).DESCRIPTOR
    except ImportError:
        raise SchemaInvalid(type="PROTOBUF", why=f"the import {name!r} is not available") from None
    file = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(file)
    return file


def _spark_type(field: FieldDescriptor, inside: frozenset[str]) -> str:
    """The type of a field in Spark's words, as its JSON form has it."""
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return f"map<string,{_spark_type(kind.fields_by_name['value'], inside)}>"
    if kind is None:
        single = _NUMBERS.get(field.cpp_type) or (
            "binary" if field.type == FieldDescriptor.TYPE_BYTES else "string"
        )
    elif kind.full_name == "google.protobuf.Timestamp":
        single = "timestamp"
    elif kind.full_name.startswith("google.protobuf.") or kind.full_name in inside:
        single = "string"  # As JSON: other well-known types, and recursive ones.
    else:
        within = inside | {kind.full_name}
        single = spark_struct("PROTOBUF", ((each.name, _spark_type(each, within)) for each in kind.fields))
    return f"array<{single}>" if field.is_repeated else single
