"""Stored messages as JSON, for those who browse; with ``decode=true`` their values are decoded, too.

A value in Confluent's wire format, such as Avro or Protobuf, then has ``decoded`` beside its bytes: the
schema, and the value as JSON, or why it does not match.  That is a ``json`` document with ``as=json``, and
otherwise ``text``, in which a program that reads numbers as doubles (JavaScript) loses no digits.  NaN and
infinity, which JSON does not have, make it ``text`` in any case.

The caller needs the permission to read the topic.  The broker decodes many or large values in a thread; their
bytes are bounded as those of any answer to a reader are (``receive_bytes_max``), their number by ``limit``.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.messages import As, Stored, content, value_fields
from penstock.model.message import StoredMessage
from penstock.model.schemas import ReadValue, SchemaType
from penstock.wire.schema_framing import schema_id


class DecodedValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value as JSON by the schema that it names, or why it does not match."""

    schema_id: int
    version: int | None  # Of the topic's schema; None: the topic has none of this id.
    type: SchemaType | None
    text: str | UnsetType = UNSET
    json: Any | UnsetType = UNSET  # With as=json.
    problem: str | UnsetType = UNSET


class BrowsedMessage(Stored, frozen=True, kw_only=True):
    """A message that was read without consuming it."""

    decoded: DecodedValue | UnsetType = (
        UNSET  # With decode=true, if the value names a schema and the topic has any.
    )


async def shown(
    call: HttpCall, messages: Sequence[StoredMessage], way: As, decode: bool
) -> list[BrowsedMessage]:
    """Messages of the topic in the path, or dead letters of it."""
    decoded = await _decoded(call, messages, way) if decode else {}
    return [_browsed(message, way, decoded.get(message.id, UNSET)) for message in messages]


async def _decoded(call: HttpCall, messages: Sequence[StoredMessage], way: As) -> dict[str, DecodedValue]:
    named = [
        (message.id, value, number)
        for message in messages
        if (value := message.record.value) is not None and (number := schema_id(value)) is not None
    ]
    if not named:
        return {}
    values = [value for _, value, _ in named]
    read = await call.run(call.operations.read_values(call.topic, values))
    return {
        name: _document(number, each, way)
        for (name, _, number), each in zip(named, read, strict=True)
        if each.version is not None or each.problem  # Else the topic has no schema.
    }


def _document(number: int, read: ReadValue, way: As) -> DecodedValue:
    text: Any = UNSET
    document: Any = UNSET
    if read.json is not None:
        _, text, document = value_fields(read.json.encode(), "json" if way == "json" else "text")
    return DecodedValue(
        schema_id=number,
        version=read.version,
        type=read.type,
        text=text,
        json=document,
        problem=read.problem or UNSET,
    )


def _browsed(message: StoredMessage, way: As, decoded: DecodedValue | UnsetType) -> BrowsedMessage:
    record = message.record
    return BrowsedMessage(
        id=message.id,
        topic=message.topic,
        partition=message.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        priority=message.priority,
        decoded=decoded,
        **content(record.key, record.value, message.headers, way),
    )
