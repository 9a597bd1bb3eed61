"""Messages as JSON shows them.

A value is bytes, and comes as ``value`` in base64 unless the request asks for
another way: with ``as=text`` as ``text``, with ``as=json`` as ``json``.  What is no
text, or no JSON, then comes as what it is: ``text``, or ``value``.  A key is shown
as text, and one that is none as ``key_base64``.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from penstock.calls import whole_characters
from penstock.message import StoredMessage

As = Literal["base64", "text", "json"]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """Key, value and headers, with one of value, text and json."""

    key: str | None
    headers: dict[str, str]
    key_base64: bytes | UnsetType = UNSET
    value: bytes | UnsetType | None = UNSET  # None: a tombstone.
    text: str | UnsetType = UNSET
    json: Any | UnsetType = UNSET


class Stored(Content, frozen=True, kw_only=True):
    """A message as it lies in its topic."""

    id: str
    topic: str
    partition: int
    offset: int
    timestamp: int  # Milliseconds since 1970.
    priority: str


def stored(message: StoredMessage, way: As = "base64") -> Stored:
    """A message of the broker, as JSON shows it."""
    record = message.record
    return Stored(
        id=message.id,
        topic=message.topic,
        partition=message.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        priority=message.priority,
        **content(record.key, record.value, message.headers, way),
    )


def content(key: bytes | None, value: bytes | None, headers: dict[str, str], way: As) -> dict[str, Any]:
    """The fields of ``Content``."""
    fields = key_fields(key)
    fields["headers"] = headers
    if value is None or way == "base64":
        fields["value"] = value
    else:
        name, shown = _shown(value, way)
        fields[name] = shown
    return fields


def key_fields(key: bytes | None) -> dict[str, Any]:
    """A key, as text if it is some."""
    if key is None:
        return {"key": None}
    text = _text(key)
    return {"key": None, "key_base64": key} if text is None else {"key": text}


def _shown(value: bytes, way: As) -> tuple[str, Any]:
    """The name and the value of a field: in the way that was asked for, if it can be."""
    text = _text(value)
    if text is None:
        return "value", value
    if way == "json":
        try:
            msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return "text", text
        return "json", msgspec.Raw(value)
    return "text", text


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def encode(answer: Any) -> bytes:
    """An answer as JSON."""
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # Half a character, from a header that is not UTF-8.
        return msgspec.json.encode(whole_characters(msgspec.to_builtins(answer, enc_hook=_raw)))


def _raw(value: Any) -> Any:
    """JSON that was put in as it is."""
    assert isinstance(value, msgspec.Raw)
    return msgspec.json.decode(value)
