"""A .proto file from a descriptor: what clients in other languages parse.

Covers what a schema of data has: syntax, package, imports, options, messages, maps, oneofs, enums,
reserved numbers and names, extension ranges, extensions.  Services, and options that are extensions, have
no effect on values and are left out.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_INDENT: Final = "  "
_MAX: Final = 1 << 29  # One beyond the largest number of a field.
_LABELS: Final = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}


def proto_text(file: FileDescriptorProto) -> str:
    """The file as text; equal descriptors have equal texts."""
    return "\n".join(_file(file)) + "\n"


def _file(file: FileDescriptorProto) -> Iterator[str]:
    if file.syntax == "editions":
        yield f'edition = "{descriptor_pb2.Edition.Name(file.edition).removeprefix("EDITION_")}";'
    else:
        yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    for index, name in enumerate(file.dependency):
        kind = (
            "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
        )
        yield f'import {kind}"{name}";'
    yield from (f"option {each};" for each in _options(file.options))
    for message in file.message_type:
        yield ""
        yield from _message(message, file, "")
    for enum in file.enum_type:
        yield ""
        yield from _enum(enum, "")
    yield from _extensions(list(file.extension), file, "")


def _options(options: Any) -> list[str]:
    """Options that are set, as ``name = value``; those that are extensions are left out."""
    found = []
    for field, value in options.ListFields():
        if field.is_extension or field.message_type is not None or field.name == "map_entry":
            continue
        values = value if field.is_repeated else [value]
        found += [f"{field.name} = {_constant(field, each)}" for each in values]
    return found


def _constant(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _message(message: DescriptorProto, file: FileDescriptorProto, indent: str) -> Iterator[str]:
    inner = indent + _INDENT
    yield f"{indent}message {message.name} {{"
    yield from (f"{inner}option {each};" for each in _options(message.options))
    yield from _reserved(message, inner)
    for spans in message.extension_range:
        yield f"{inner}extensions {_span(spans.start, spans.end - 1)};"
    maps = {each.name: each for each in message.nested_type if each.options.map_entry}
    done = set()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield inner + _field(field, file, maps)
        elif field.oneof_index not in done:
            done.add(field.oneof_index)
            yield f"{inner}oneof {message.oneof_decl[field.oneof_index].name} {{"
            for each in message.field:
                if each.HasField("oneof_index") and each.oneof_index == field.oneof_index:
                    yield inner + _INDENT + _field(each, file, maps, label=False)
            yield f"{inner}}}"
    for nested in message.nested_type:
        if nested.name not in maps:
            yield from _message(nested, file, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield from _extensions(list(message.extension), file, inner)
    yield f"{indent}}}"


def _reserved(message: DescriptorProto, inner: str) -> Iterator[str]:
    if message.reserved_range:
        spans = ", ".join(_span(each.start, each.end - 1) for each in message.reserved_range)
        yield f"{inner}reserved {spans};"
    if message.reserved_name:
        yield f"{inner}reserved {', '.join(map(_quoted, message.reserved_name))};"


def _span(start: int, last: int) -> str:
    return f"{start}" if start == last else f"{start} to {'max' if last >= _MAX - 1 else last}"


def _field(
    field: FieldDescriptorProto,
    file: FileDescriptorProto,
    maps: dict[str, DescriptorProto],
    *,
    label: bool = True,
) -> str:
    entry = maps.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    if entry is not None and field.label == FieldDescriptorProto.LABEL_REPEATED:
        key, value = entry.field
        return f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number};"
    options = _options(field.options)
    if field.HasField("default_value"):
        text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
        options.append(f"default = {_quoted(field.default_value) if text else field.default_value}")
    before = ""
    if label:
        implicit = (
            file.syntax in ("proto3", "editions") and field.label == FieldDescriptorProto.LABEL_OPTIONAL
        )
        before = "" if implicit and not field.proto3_optional else _LABELS[field.label]
    behind = f" [{', '.join(options)}]" if options else ""
    return f"{before}{_type(field)} {field.name} = {field.number}{behind};"


def _type(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return field.type_name
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _enum(enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
    inner = indent + _INDENT
    yield f"{indent}enum {enum.name} {{"
    yield from (f"{inner}option {each};" for each in _options(enum.options))
    if enum.reserved_range:
        yield f"{inner}reserved {', '.join(_span(each.start, each.end) for each in enum.reserved_range)};"
    if enum.reserved_name:
        yield f"{inner}reserved {', '.join(map(_quoted, enum.reserved_name))};"
    for value in enum.value:
        options = _options(value.options)
        behind = f" [{', '.join(options)}]" if options else ""
        yield f"{inner}{value.name} = {value.number}{behind};"
    yield f"{indent}}}"


def _extensions(
    extensions: list[FieldDescriptorProto], file: FileDescriptorProto, indent: str
) -> Iterator[str]:
    for field in extensions:
        yield f"{indent}extend {field.extendee} {{"
        yield indent + _INDENT + _field(field, file, {})
        yield f"{indent}}}"
