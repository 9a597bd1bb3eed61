"""Encodes arguments, results and messages of operations in msgpack.

    client                                server
    CALL ["seek", {topic, group, to}]  ─>  SeekArguments(topic, group, to) ─> the broker's operation
         answer, of the type in CALLS  <─  OK

``CALLS`` (``calls.py``, generated from ``spec.py``) has the arguments of each
operation as a struct, and the type of its answer.

Durations and times travel as a program may write them: seconds, ``30s``, or
RFC 3339; ``plain`` converts what only Python has.  The broker checks them, as if
the caller were in its process.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from penstock.errors import ProtocolViolation
from penstock.model.message import Message, Receipt, StoredMessage
from penstock.operations.call import Call
from penstock.operations.calls import CALLS
from penstock.types import DURATION_MS_MAX, instant_ms, lane_number, signed_duration_ms, ttl_ms
from penstock.wire.native_bodies import WireMessage, WireReceipt
from penstock.wire.records import Record


def plain(value: Any) -> Any:
    """A duration, a time or an option as msgpack has it; the broker checks all other values."""
    match value:
        case timedelta():
            return value / timedelta(seconds=1)
        case datetime():
            return value.isoformat()
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


# Answers.


def encode_answer(value: Any) -> bytes:
    """An answer of one of the types in ``CALLS``."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # Half a character, from a header that is not UTF-8.
        return _encode(
            whole_characters(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_travelling))
        )


def decode_answer(operation: str, data: bytes | memoryview, calls: Mapping[str, Call] = CALLS) -> Any:
    decoder = _DECODERS.get(operation)
    if decoder is None:
        decoder = msgspec.msgpack.Decoder(calls[operation].answer, dec_hook=_message)
        _DECODERS[operation] = decoder
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, TypeError) as problem:
        raise ProtocolViolation(why=str(problem)) from None


_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {}


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    attributes: int


def _travelling(value: Any) -> _Stored | WireReceipt:
    """The encoded form of a stored message or a receipt."""
    return wire_receipt(value) if isinstance(value, Receipt) else _stored(value)


def _stored(message: StoredMessage) -> _Stored:
    record = message.record
    return _Stored(
        message.topic,
        message.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
        record.attributes,
    )


def _message(kind: type, value: Any) -> StoredMessage:
    """The message that ``_stored`` made into a list."""
    assert kind is StoredMessage, "there is no other type of our own in an answer"
    fields = msgspec.convert(value, _Stored)
    record = Record(
        fields.offset, fields.timestamp, fields.key, fields.value, fields.headers, fields.attributes
    )
    return StoredMessage(fields.topic, fields.partition, record)


def whole_characters(value: Any) -> Any:
    """Text without lone surrogates, which cannot be encoded."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {whole_characters(name): whole_characters(item) for name, item in value.items()}
        case list() | tuple():
            return [whole_characters(item) for item in value]
        case _:
            return value


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_travelling).encode


# Messages that the server places.


def wire_message(message: Message) -> WireMessage:
    """The encoded form of a message that was checked for its topic."""
    key = message.key.encode() if isinstance(message.key, str) else message.key
    headers = message.headers or {}
    return WireMessage(
        value=message.value,
        key=key,
        headers=[
            (name, data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
            for name, data in headers.items()
        ],
        priority=lane_number(message.priority),
        ttl_ms=None if message.ttl is None else ttl_ms(message.ttl),
        delay_ms=None if message.delay is None else _delay_ms(message.delay),
        deliver_at_ms=None if message.deliver_at is None else instant_ms("deliver_at", message.deliver_at),
        dedup_id=message.dedup_id,
        partition=message.partition,
    )


def _delay_ms(delay: Any) -> int:
    """A delay of any size and sign: the topic has the limits."""
    bounded = max(min(signed_duration_ms("delay", delay), DURATION_MS_MAX + 1), -DURATION_MS_MAX)
    return round(bounded)


def message_of(fields: WireMessage) -> Message:
    """The message as a program in the broker's process would have created it."""
    return Message(
        fields.value,
        fields.key,
        dict(fields.headers) or None,
        fields.priority,
        None if fields.ttl_ms is None else fields.ttl_ms / 1000,
        None if fields.delay_ms is None else fields.delay_ms / 1000,
        None if fields.deliver_at_ms is None else fields.deliver_at_ms / 1000,
        fields.dedup_id,
        fields.partition,
    )


def wire_receipt(receipt: Receipt) -> WireReceipt:
    """The encoded form of a receipt, without the topic, which is known."""
    return WireReceipt(
        receipt.partition, receipt.offset, receipt.timestamp, receipt.schedule_id, receipt.duplicate
    )


def receipt_of(topic: str, fields: WireReceipt) -> Receipt:
    """The receipt that the broker has returned."""
    return Receipt(
        topic, fields.partition, fields.offset, fields.timestamp, fields.schedule_id, fields.duplicate
    )


def arguments_of(operation: str, **arguments: Any) -> msgspec.Struct:
    """The arguments of a call, by the names of its struct."""
    plainly = {name: plain(value) for name, value in arguments.items()}
    return CALLS[operation].arguments(**plainly)
