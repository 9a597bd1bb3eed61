"""Which Protobuf data a reader can read: the rules of Confluent's registry.

Fields are compared by number.  Readable: fields that are added or removed (unless required, or a member
of a oneof that stays), renamed, or whose type stays within its group; text that becomes repeated.  Not
readable: another group of types, messages that are gone, numbers that become repeated, fields that share
a oneof and did not before.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

_GROUPS: Final = {
    FieldDescriptor.TYPE_INT32: "integer",
    FieldDescriptor.TYPE_INT64: "integer",
    FieldDescriptor.TYPE_UINT32: "integer",
    FieldDescriptor.TYPE_UINT64: "integer",
    FieldDescriptor.TYPE_BOOL: "integer",
    FieldDescriptor.TYPE_ENUM: "integer",
    FieldDescriptor.TYPE_SINT32: "signed integer",
    FieldDescriptor.TYPE_SINT64: "signed integer",
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_BYTES: "text",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_SFIXED32: "fixed32",
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_SFIXED64: "fixed64",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_MESSAGE: "message",
    FieldDescriptor.TYPE_GROUP: "group",
}


def unreadable(reader: FileDescriptor, writer: FileDescriptor) -> list[str]:
    """Why readers could not read the writer's messages; empty: they can."""
    problems = (
        []
        if reader.package == writer.package
        else [f"/: package {writer.package!r} became {reader.package!r}"]
    )
    compared: set[tuple[str, str]] = set()
    problems += _types(reader.message_types_by_name, writer.message_types_by_name, "", compared)
    return problems


def _types(reader: Any, writer: Any, path: str, compared: set[tuple[str, str]]) -> Iterator[str]:
    for name, kind in writer.items():
        if kind.GetOptions().map_entry:
            continue
        if name not in reader:
            yield f"{path}/{name}: the message was removed"
        else:
            yield from _message(reader[name], kind, f"{path}/{name}", compared)


def _message(
    reader: Descriptor, writer: Descriptor, path: str, compared: set[tuple[str, str]]
) -> Iterator[str]:
    pair = reader.full_name, writer.full_name
    if pair in compared:
        return
    compared.add(pair)
    yield from _oneofs(reader, writer, path)
    for number, field in writer.fields_by_number.items():
        now = reader.fields_by_number.get(number)
        if now is not None:
            yield from _field(now, field, f"{path}/{number}", compared)
        elif field.is_required:
            yield f"{path}/{number}: the required field {field.name!r} was removed"
        elif _oneof(field) and _survives(field, reader):
            yield f"{path}/{number}: the member {field.name!r} of oneof {_oneof(field)!r} was removed"
    for number, field in reader.fields_by_number.items():
        if number not in writer.fields_by_number and field.is_required:
            yield f"{path}/{number}: the required field {field.name!r} was added"
    yield from _types(reader.nested_types_by_name, writer.nested_types_by_name, path, compared)


def _oneof(field: FieldDescriptor) -> str:
    """The oneof of a field; empty if it has none, or only that of an optional field in proto3."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return ""
    return str(oneof.name)


def _survives(field: FieldDescriptor, reader: Descriptor) -> bool:
    """Whether the oneof of a removed field, or another member of it, is still there."""
    oneof = field.containing_oneof
    assert oneof is not None, "the caller has looked"
    return oneof.name in reader.oneofs_by_name or any(
        each.number in reader.fields_by_number for each in oneof.fields
    )


def _oneofs(reader: Descriptor, writer: Descriptor, path: str) -> Iterator[str]:
    """Fields that could be set together and cannot be any more."""
    for oneof in reader.oneofs:
        origins = set()
        for field in oneof.fields:
            before = writer.fields_by_number.get(field.number)
            if before is not None:
                origins.add(_oneof(before) or field.number)
        if len(origins) > 1:
            yield f"{path}/{oneof.name}: fields that were independent share a oneof now"


def _field(
    reader: FieldDescriptor, writer: FieldDescriptor, path: str, compared: set[tuple[str, str]]
) -> Iterator[str]:
    now, before = _GROUPS[reader.type], _GROUPS[writer.type]
    if now != before or _is_map(reader) != _is_map(writer):
        yield f"{path}: {writer.name!r} was {before} and is {now}"
    elif now == "message":
        kinds: Any = (reader.message_type, writer.message_type)
        if _is_map(reader):
            for part in ("key", "value"):
                yield from _field(
                    kinds[0].fields_by_name[part], kinds[1].fields_by_name[part], f"{path}/{part}", compared
                )
        elif _local(kinds[0]) != _local(kinds[1]):
            yield f"{path}: {kinds[1].full_name} cannot be read as {kinds[0].full_name}"
        else:
            yield from _message(kinds[0], kinds[1], path, compared)
    elif now != "text" and reader.is_repeated != writer.is_repeated:
        yield f"{path}: {writer.name!r} is {'' if reader.is_repeated else 'not '}repeated now"


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _local(kind: Descriptor) -> str:
    """The name within its package."""
    return str(kind.full_name).removeprefix(f"{kind.file.package}.")
