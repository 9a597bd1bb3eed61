"""The operations that a client calls by name, and how messages travel in msgpack.

    client                                server
    CALL ["seek", {topic, group, to}]  ─>  Seek(topic, group, to) ─> the broker's operation
         answer, of the type in CALLS  <─  OK

``CALLS`` is the one table of names: the arguments of each, as a struct whose
fields are those of the broker's operation, and the type of its answer.  Server
and client both read it, so neither can know an operation that the other does
not; a test compares it with docs/protocols/native.md.

Durations and times travel as a program may write them: seconds, ``30s``, or
RFC 3339; ``plain`` turns what only Python has into that.  They are checked by the
broker, as if the caller were in its process.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from penstock.errors import ProtocolViolation
from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo
from penstock.model.info import (
    BrokerInfo,
    Cancelled,
    DeadLetter,
    DeadLetterErrors,
    DeliveryState,
    GroupInfo,
    Redrive,
    Restore,
    ScheduledMessage,
    StagedPublish,
    TopicInfo,
)
from penstock.model.message import Message, Receipt, StoredMessage
from penstock.model.trace import Trace
from penstock.types import DURATION_MS_MAX, duration_ms, instant_ms, lane_number, signed_duration_ms
from penstock.wire.native_bodies import WireMessage, WireReceipt
from penstock.wire.records import Record


class Nothing(msgspec.Struct, frozen=True):
    pass


class NewTopic(msgspec.Struct, frozen=True):
    """A topic and its settings."""

    name: str
    options: dict[str, Any] = {}


class TopicName(msgspec.Struct, frozen=True):
    """A topic, where the operation is about it."""

    name: str


class OfTopic(msgspec.Struct, frozen=True):
    """A topic, where the operation is about what is in it."""

    topic: str


class AnyTopic(msgspec.Struct, frozen=True):
    """A topic, or all of them."""

    topic: str | None = None


class NewGroup(msgspec.Struct, frozen=True):
    """A group and its settings."""

    topic: str
    group: str
    options: dict[str, Any] = {}


class GroupName(msgspec.Struct, frozen=True):
    topic: str
    group: str


class Seek(msgspec.Struct, frozen=True):
    """Where to move a group."""

    topic: str
    group: str
    to: str | int | float
    partition: int | None = None


class Positions(msgspec.Struct, frozen=True):
    """How far a reader from outside has come, by partition."""

    topic: str
    group: str
    offsets: dict[int, int]


class Range(msgspec.Struct, frozen=True):
    """Offsets of a partition, as a group sees them."""

    topic: str
    group: str
    partition: int
    start: int
    end: int


class At(msgspec.Struct, frozen=True):
    """The place of a time, or "earliest" or "latest"."""

    topic: str
    at: str | int | float
    journal: bool = False


class Stage(msgspec.Struct, frozen=True):
    """Record batches to put aside."""

    topic: str
    batch: bytes


class PublishStaged(msgspec.Struct, frozen=True):
    """What to publish from staging, and as what."""

    topic: str
    application: str
    version: int
    staged: dict[str, list[tuple[int, int]]]


class OfApplication(msgspec.Struct, frozen=True):
    """What an application did to a topic."""

    topic: str
    application: str


class Read(msgspec.Struct, frozen=True):
    topic: str
    partition: int | None = None
    offset: int | None = None
    from_time: str | int | float | None = None
    to_time: str | int | float | None = None
    limit: int = 100


class Peek(msgspec.Struct, frozen=True):
    """How many of the last messages."""

    topic: str
    count: int = 10
    partition: int | None = None


class Place(msgspec.Struct, frozen=True):
    """A message, by its place or, with the topic alone, by its id."""

    topic: str
    partition: int | None = None
    offset: int | None = None


class Recurring(msgspec.Struct, frozen=True):
    """A message to publish again and again."""

    topic: str
    message: WireMessage
    cron: str
    timezone: str = "UTC"


class Listing(msgspec.Struct, frozen=True):
    """The first of what a topic has."""

    topic: str
    limit: int = 1000


class ScheduleId(msgspec.Struct, frozen=True):
    """A message that waits for its time."""

    schedule_id: str


class Reschedule(msgspec.Struct, frozen=True):
    schedule_id: str
    delay: str | int | float | None = None
    deliver_at: str | int | float | None = None


class BeginRestore(msgspec.Struct, frozen=True):
    """From where on deleted messages are to be put back."""

    topic: str
    partition: int
    start: int


class RestoreSome(msgspec.Struct, frozen=True):
    """Record batches to put back."""

    topic: str
    partition: int
    restore: int
    batches: bytes


class FinishRestore(msgspec.Struct, frozen=True):
    """For whom, and how long retention waits for it."""

    topic: str
    partition: int
    restore: int
    group: str
    hold: str | int | float = "7d"


class RedriveSome(msgspec.Struct, frozen=True):
    """Which dead letters to send back, and how fast."""

    topic: str
    limit: int = 1_000_000
    rate: float | None = None
    dry_run: bool = False
    error: str | None = None
    group: str | None = None


class KeyToMake(msgspec.Struct, frozen=True):
    """An API key, and what it may do."""

    name: str
    grants: list[Grant]
    quota: Quota | None = None


class KeyId(msgspec.Struct, frozen=True):
    key_id: str


class UserToSet(msgspec.Struct, frozen=True):
    """A user, and what that one may do."""

    name: str
    password: str
    grants: list[Grant]
    quota: Quota | None = None


class UserName(msgspec.Struct, frozen=True):
    name: str


class Call(msgspec.Struct, frozen=True):
    """One operation: the struct of its arguments and the type of its answer."""

    arguments: type[msgspec.Struct]
    answer: Any


CALLS: Final[Mapping[str, Call]] = {
    "create_topic": Call(NewTopic, None),
    "alter_topic": Call(NewTopic, None),
    "delete_topic": Call(TopicName, None),
    "topics": Call(Nothing, list[str]),
    "describe_topic": Call(TopicName, TopicInfo),
    "stage": Call(Stage, int),
    "publish_staged": Call(PublishStaged, StagedPublish),
    "published_version": Call(OfApplication, int | None),
    "create_group": Call(NewGroup, None),
    "delete_group": Call(GroupName, None),
    "describe_group": Call(GroupName, GroupInfo),
    "delivery_states": Call(Range, list[DeliveryState]),
    "seek": Call(Seek, None),
    "commit_offsets": Call(Positions, None),
    "offsets": Call(At, dict[int, int]),
    "begin_restore": Call(BeginRestore, Restore),
    "restore": Call(RestoreSome, int),
    "finish_restore": Call(FinishRestore, None),
    "read": Call(Read, list[StoredMessage]),
    "peek": Call(Peek, list[StoredMessage]),
    "trace": Call(Place, Trace),
    "schedule": Call(Recurring, str),
    "scheduled": Call(Listing, list[ScheduledMessage]),
    "scheduled_count": Call(OfTopic, int),
    "cancel": Call(ScheduleId, Cancelled),
    "reschedule": Call(Reschedule, bool),
    "dead_letters": Call(Listing, list[DeadLetter]),
    "dead_letter_errors": Call(AnyTopic, list[DeadLetterErrors]),
    "redrive": Call(RedriveSome, Redrive),
    "create_key": Call(KeyToMake, NewKey),
    "keys": Call(Nothing, list[KeyInfo]),
    "revoke_key": Call(KeyId, None),
    "set_user": Call(UserToSet, None),
    "users": Call(Nothing, list[UserInfo]),
    "delete_user": Call(UserName, None),
    "stats": Call(Nothing, BrokerInfo),
}


def plain(value: Any) -> Any:
    """A duration, a time or an option as msgpack has it; what is none of these is left for the broker."""
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
        return _encode(whole_characters(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_stored)))


def decode_answer(operation: str, data: bytes | memoryview) -> Any:
    decoder = _DECODERS.get(operation)
    if decoder is None:
        decoder = msgspec.msgpack.Decoder(CALLS[operation].answer, dec_hook=_message)
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


def _stored(message: Any) -> _Stored:
    """A stored message, as it travels."""
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
    told = msgspec.convert(value, _Stored)
    record = Record(told.offset, told.timestamp, told.key, told.value, told.headers, told.attributes)
    return StoredMessage(told.topic, told.partition, record)


def whole_characters(value: Any) -> Any:
    """The same without halves of characters, which no encoding has."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {whole_characters(name): whole_characters(item) for name, item in value.items()}
        case list() | tuple():
            return [whole_characters(item) for item in value]
        case _:
            return value


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_stored).encode


# Messages that the server places.


def wire_message(message: Message) -> WireMessage:
    """A message that was checked for its topic, as it travels."""
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
        ttl_ms=None if message.ttl is None else duration_ms("ttl", message.ttl),
        delay_ms=None if message.delay is None else _delay_ms(message.delay),
        deliver_at_ms=None if message.deliver_at is None else instant_ms("deliver_at", message.deliver_at),
        dedup_id=message.dedup_id,
        partition=message.partition,
    )


def _delay_ms(delay: Any) -> int:
    """Of any size and sign: the topic has the limits."""
    bounded = max(min(signed_duration_ms("delay", delay), DURATION_MS_MAX + 1), -DURATION_MS_MAX)
    return round(bounded)


def message_of(told: WireMessage) -> Message:
    """The message as a program in the broker's process would have made it."""
    return Message(
        told.value,
        told.key,
        dict(told.headers) or None,
        told.priority,
        None if told.ttl_ms is None else told.ttl_ms / 1000,
        None if told.delay_ms is None else told.delay_ms / 1000,
        None if told.deliver_at_ms is None else told.deliver_at_ms / 1000,
        told.dedup_id,
        told.partition,
    )


def wire_receipt(receipt: Receipt) -> WireReceipt:
    """A receipt as it travels: the topic is known."""
    return WireReceipt(
        receipt.partition, receipt.offset, receipt.timestamp, receipt.schedule_id, receipt.duplicate
    )


def receipt_of(topic: str, told: WireReceipt) -> Receipt:
    """The receipt as the broker gave it."""
    return Receipt(topic, told.partition, told.offset, told.timestamp, told.schedule_id, told.duplicate)


def arguments_of(operation: str, **arguments: Any) -> msgspec.Struct:
    """The arguments of a call, by the names of its struct."""
    plainly = {name: plain(value) for name, value in arguments.items()}
    return CALLS[operation].arguments(**plainly)
