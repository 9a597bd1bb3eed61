"""Messages as JSON.

A value is returned as ``value`` in base64, or with ``as=text`` as ``text``, or with ``as=json`` as ``json``.
A value that is not valid JSON is then returned as ``text``, and one that is not valid text as ``value``.  A
key is text, or ``key_base64`` if it is not UTF-8.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from penstock.operations.codec import whole_characters

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
    """A stored message."""

    id: str
    topic: str
    partition: int
    offset: int
    timestamp: int  # Milliseconds since 1970.
    priority: str


def content(key: bytes | None, value: bytes | None, headers: dict[str, str], way: As) -> dict[str, Any]:
    bare, text, document = value_fields(value, way)
    return {**key_fields(key), "headers": headers, "value": bare, "text": text, "json": document}


def key_fields(key: bytes | None) -> dict[str, Any]:
    """A key, as text if it is UTF-8."""
    text = None if key is None else text_of(key)
    return {"key": text, "key_base64": UNSET if key is None or text is not None else key}


def value_fields(value: bytes | None, way: As) -> tuple[Any, Any, Any]:
    """One of the fields ``value``, ``text`` and ``json``: the requested one if possible."""
    text = None if value is None or way == "base64" else text_of(value)
    if text is None:
        return value, UNSET, UNSET
    assert value is not None
    if way == "json":
        try:
            msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return UNSET, text, UNSET
        return UNSET, UNSET, msgspec.Raw(value)
    return UNSET, text, UNSET


def text_of(data: bytes) -> str | None:
    """Bytes as text, if they are UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def encode(answer: Any) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # Half a character, from a header that is not UTF-8.
        return msgspec.json.encode(whole_characters(msgspec.to_builtins(answer, enc_hook=_raw)))


def _raw(value: Any) -> Any:
    """JSON that is embedded as it is."""
    assert isinstance(value, msgspec.Raw)
    return msgspec.json.decode(value)
