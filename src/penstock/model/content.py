"""Values as objects and as text: what ``json=`` and ``text=`` publish, ``json()`` and ``text`` return.

    publish(topic, value)        bytes as they are; None with a key: a tombstone
    publish(topic, json=order)   JSON: of plain objects, dataclasses, Structs, TypedDicts and pydantic models
    publish(topic, text="...")   UTF-8

    message.json()               plain objects
    message.json(Order)          an Order, validated: a type that can be annotated, or a pydantic model
    message.text                 str

JSON in Confluent's wire format, as serializers of JSON Schema write it, is read without its frame.

The log has bytes only: this happens where a message is made and where it is read, in the program itself.  An
object is encoded at once, so that changing it later does not change the message.

msgspec does the work.  It knows no pydantic models, which come with methods for JSON of their own
(``model_dump_json``, ``model_validate_json``); pydantic need not be installed.  What cannot be encoded or
decoded is an ``InvalidValue``.  It says where and why, and does not quote the value (but that of an enum): it
may be personal data, and dead letters are counted by the text of their errors.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from penstock.errors import InvalidValue
from penstock.wire.schema_framing import ID_BYTES, MAGIC

TYPES_KEPT = 256  # Types whose decoders are kept; a program that makes up types as it runs has more.
_DOCUMENT: Final = (b"{", b"[")
_FAILURES: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


def encoded(value: object, json: Any, text: object) -> Any:
    """The value, JSON or text that was given, as bytes; a value is checked when it is published."""
    if (value is not UNSET) + (json is not UNSET) + (text is not UNSET) != 1:
        given = [
            name for name, each in (("value", value), ("json", json), ("text", text)) if each is not UNSET
        ]
        why = "give exactly one of value (bytes), json (an object) and text (a str)"
        raise InvalidValue(name="message", value=" and ".join(given) or "empty", why=why)
    if json is not UNSET:
        return _json(json)
    return value if text is UNSET else _utf8(text)


def decoded(value: bytes | None, kind: Any, message: object) -> Any:
    """The JSON of a message's value as an object of this type; None: as plain objects."""
    if not value:
        raise _unreadable(
            message, kind, "its value is empty, which is no JSON; is_tombstone says if it deletes"
        )
    framed = value[0] == MAGIC
    # Avro and Protobuf values do not begin like an object or a list, and JSON never with a zero byte.
    if framed and value[ID_BYTES:].startswith(_DOCUMENT):
        framed, value = False, value[ID_BYTES:]
    if framed:
        why = (
            "it begins with a zero byte, like values in Confluent's wire format (Avro, Protobuf), and is "
            "no JSON; broker.read_values(topic, [message.value]) reads it by the topic's schema"
        )
        raise _unreadable(message, kind, why)
    try:
        return _decode_of(Any if kind is None else kind)(value)
    except _FAILURES as error:
        raise _unreadable(message, kind, _reason(error)) from None


def decoded_text(value: bytes | None, message: object) -> str:
    """A message's value as text; empty for a tombstone."""
    try:
        return (value or b"").decode()
    except UnicodeDecodeError as error:
        why = f"its value is not UTF-8 (byte {error.start}); use message.value"
        raise InvalidValue(name=_name(message), value="text", why=why) from None


def _json(value: Any) -> bytes:
    try:
        return _encode(value)
    except _FAILURES as error:
        raise InvalidValue(name="json", value=type(value).__name__, why=_reason(error)) from error


def _utf8(text: object) -> bytes:
    if not isinstance(text, str):
        why = "it is a str; pass bytes as value, and other objects as json"
        raise InvalidValue(name="text", value=type(text).__name__, why=why)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(name="text", value="this str", why=f"it cannot be UTF-8: {error}") from None


def _encode_model(value: Any) -> msgspec.Raw:
    """What msgspec cannot encode: a pydantic model."""
    dump = getattr(value, "model_dump_json", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"objects of type {type(value).__name__} cannot be encoded")
    return msgspec.Raw(dump().encode())


def _decode_model(kind: Any, value: Any) -> Any:
    """What msgspec cannot decode: a pydantic model inside of something else."""
    validate = getattr(kind, "model_validate_json", None)
    if validate is None:
        raise TypeError(f"{getattr(kind, '__name__', kind)} is no type that JSON can be decoded to")
    try:
        return validate(msgspec.json.encode(value))
    except ValueError as error:
        raise ValueError(_reason(error)) from None


@lru_cache(TYPES_KEPT)
def _decode_of(kind: Any) -> Any:
    """The function that decodes JSON to this type."""
    if isinstance(kind, type) and hasattr(kind, "model_validate_json"):
        return kind.model_validate_json
    return msgspec.json.Decoder(kind, dec_hook=_decode_model).decode


_encode: Final = msgspec.json.Encoder(enc_hook=_encode_model).encode


def _unreadable(message: object, kind: Any, why: str) -> InvalidValue:
    return InvalidValue(name=_name(message), value="JSON" if kind is None else _type_name(kind), why=why)


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _name(message: object) -> str:
    return f"message {message.id}" if hasattr(message, "id") else "a message"


def _reason(error: BaseException) -> str:
    """The message of msgspec, or of pydantic, whose errors may quote what they refuse."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    return "; ".join(": ".join([*map(str, each["loc"]), each["msg"]]) for each in errors())
