"""Schemas as programs and front ends see them: what to register, what is registered, and its settings."""

from typing import Final, Literal

import msgspec

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]
Compatibility = Literal[
    "NONE",
    "BACKWARD",  # Readers with the new schema can read what was written with the last one ...
    "BACKWARD_TRANSITIVE",  # ... or with any earlier one.
    "FORWARD",  # Readers with the last schema can read what is written with the new one ...
    "FORWARD_TRANSITIVE",  # ... and so can those with any earlier one.
    "FULL",  # Both.
    "FULL_TRANSITIVE",
]
SchemaMode = Literal[
    "READWRITE",
    "READONLY",  # Nothing can be registered or deleted.
    "READONLY_OVERRIDE",  # The same, whatever the subjects say.
    "IMPORT",  # Registrations bring their own ids and versions, without a check of compatibility.
]
VALUE_SUFFIX: Final = "-value"
KEY_SUFFIX: Final = "-key"


class SchemaReference(msgspec.Struct, frozen=True, kw_only=True):
    """Another schema that a schema uses: the name in the schema, and where it is registered."""

    name: str
    subject: str
    version: int


class NewSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema to register, look up or check."""

    schema: str  # JSON, or for Protobuf a .proto file or a serialized FileDescriptorProto in base64.
    type: SchemaType = "AVRO"
    references: list[SchemaReference] = []
    id: int | None = None  # Only in mode IMPORT ...
    version: int | None = None  # ... as is this.


class SchemaInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    type: SchemaType
    schema: str
    references: list[SchemaReference] = []
    deleted: bool = False  # Softly: it can still be found by its id.
    descriptor: str = ""  # Of Protobuf: its FileDescriptorProto in base64.


class SchemaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the registry or of one subject; None: not set."""

    compatibility: Compatibility | None = None
    mode: SchemaMode | None = None


class SchemaVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a schema could be registered, and why not."""

    compatible: bool
    messages: list[str] = []


class ReadValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a topic as its schema describes it."""

    version: int | None  # Of the topic's schema; None: the topic has none for this value.
    type: SchemaType | None = None
    json: str | None = None  # The value as JSON; None if it does not match.
    problem: str = ""  # Why it does not match: where, and what.


def value_subject(topic: str) -> str:
    """The subject of a topic's values (Confluent's TopicNameStrategy)."""
    return topic + VALUE_SUFFIX


def subject_topic(subject: str | None) -> str | None:
    """The topic whose permissions count for a subject; None: the whole registry."""
    if subject is None:
        return None
    return (
        subject.removesuffix(VALUE_SUFFIX)
        if subject.endswith(VALUE_SUFFIX)
        else subject.removesuffix(KEY_SUFFIX)
    )
