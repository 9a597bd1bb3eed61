"""Less frequent bodies of the native protocol: msgpack after the correlation id.

    maps       bodies that may get more fields: hello, metadata, opening a consumer, results
    arrays     bodies that are sent in large numbers: messages, receipts, nacks

Readers ignore unknown fields, and new fields have defaults, so both sides can be
upgraded independently.  Errors are sent as code, facts and message, and become the
same class on the other side.  An unknown code from a newer server becomes a
``RequestError`` or, if it is retryable, an ``UnavailableError`` with that code.

A fact that is not a plain value (such as an object passed as a duration) is sent as
its ``repr``, which looks the same in the message.

Decoders raise ``ProtocolViolation`` for invalid bytes, and no other error.
"""

from typing import Any, Final, TypeVar

import msgspec

import penstock.errors as errors  # The module: "from penstock" would be the whole package.
from penstock.config.broker import TopicSettings
from penstock.errors import PenstockError, ProtocolViolation, RequestError, UnavailableError
from penstock.wire.native import (
    ASSIGNED,
    CALL,
    CONSUMER_CLOSED,
    ERROR,
    OK,
    UNASKED,
    Run,
    decode_consumer,
    frame,
)

T = TypeVar("T")

SHOWN: Final = 1  # The extension type of a value that travels as its repr.
_PAYLOAD_AT: Final = 4  # Behind the correlation.


class Hello(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first request of a client, with a key or a user if the server requires one."""

    versions: list[int]
    client: str
    key: str | None = None
    user: str | None = None
    password: str | None = None


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The response of the server: the version that both use, and its limits."""

    version: int
    server: str
    frame_bytes_max: int
    requests_max: int  # In flight on one connection; more are left unread until some are answered.
    receive_messages_max: int  # What one receive may ask for.
    resume_ms: int  # How long the consumers of a lost connection are kept.
    node: int = 0  # In a cluster: the number of this node; 0: there is no cluster.


class Metadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client needs to encode batches for a topic, and the owners in a cluster."""

    version: int
    settings: TopicSettings
    owners: list[tuple[int, int]] = []  # By partition: the owner (-1: none), and since which epoch.
    nodes: dict[int, tuple[str, int]] = {}  # By number: where clients find a node.


class OpenConsumer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A consumer to open; with ``resume``, one that lost its connection."""

    topic: str
    group: str = "default"
    consumer_id: str | None = None
    max_in_flight: int | None = None
    options: dict[str, Any] = {}
    resume: bytes | None = None  # The token of the consumer that was.
    held: list[tuple[int, int]] = []  # Its partitions and leases that the client still works on.
    positions: dict[int, int] = {}  # Stream groups: by partition, the next offset the client expects.
    here: bool = False  # In a cluster: only from partitions of this node, for clients that ask each owner.
    assignments: bool = False  # Stream groups: have ASSIGNED sent whenever the partitions change.


class OpenedConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer that is open."""

    consumer: int  # Its number on this connection.
    consumer_id: str
    kind: str
    token: bytes  # For ``resume``; keep it secret.
    resumed: bool  # False: the old one is gone, and this one holds nothing.
    visibility_ms: int
    session_ms: int
    assignment: list[int]


class NackBody(msgspec.Struct, frozen=True, array_like=True):
    """Processing of these runs failed."""

    consumer: int
    runs: list[Run]
    delay_ms: int | None = None
    error_class: str = ""
    error_message: str = ""
    fingerprint: str = ""


class RejectBody(msgspec.Struct, frozen=True, array_like=True):
    """Dead-letter these runs, for one reason."""

    consumer: int
    runs: list[Run]
    reason: str


class ExtendBody(msgspec.Struct, frozen=True, array_like=True):
    """Extend these leases, each given by partition and number, counted from now."""

    consumer: int
    leases: list[tuple[int, int]]
    duration_ms: int


class WireMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message whose partition the server chooses."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes]] = []
    priority: int = 0
    ttl_ms: int | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    dedup_id: str | None = None
    partition: int | None = None


class PublishMessages(msgspec.Struct, frozen=True, array_like=True):
    """Messages that need more than a batch says: a time to live, a due time, a dedup id."""

    topic: str
    acks: int
    messages: list[WireMessage]


class WireReceipt(msgspec.Struct, frozen=True, array_like=True):
    """The position of a published message."""

    partition: int
    offset: int | None
    timestamp: int
    schedule_id: str | None = None
    duplicate: bool = False


class AckAndPublish(msgspec.Struct, frozen=True, array_like=True):
    """Ack these runs and publish these messages (topic, message), atomically."""

    consumer: int
    runs: list[Run]
    outputs: list[tuple[str, WireMessage]]


class ShownValue:
    """A value that was sent as its repr."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShownValue) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


_encode: Final = msgspec.msgpack.Encoder().encode


def encode_body(opcode: int, correlation: int, value: Any) -> bytes:
    """A frame whose body is msgpack."""
    return frame(opcode, correlation, _encode(value))


def decode_body(body: bytes, kind: type[T], at: int = _PAYLOAD_AT) -> T:
    """The msgpack value of a body."""
    try:
        return msgspec.msgpack.decode(memoryview(body)[at:], type=kind)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as problem:
        raise ProtocolViolation(why=str(problem)) from None


def encode_call(correlation: int, operation: str, arguments: Any) -> bytes:
    """A request by name; ``arguments`` is a map or a struct."""
    return encode_body(CALL, correlation, (operation, arguments))


def decode_call(body: bytes) -> tuple[str, msgspec.Raw]:
    """The name of an operation, and its arguments still encoded."""
    return decode_body(body, tuple[str, msgspec.Raw])


# Errors.


def encode_error(error: PenstockError) -> bytes:
    """An error as bytes: a map of code, retryable, facts and text."""
    facts = {name: _plain(value) for name, value in error.facts.items()}
    text = str(error).encode("utf-8", "backslashreplace").decode()
    return _encode({"code": error.code, "retryable": error.retryable, "facts": facts, "text": text})


def decode_error(data: bytes) -> PenstockError:
    """The error in the bytes; only ``ProtocolViolation`` is raised, if there is none."""
    try:
        decoded = _ERRORS.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as problem:
        raise ProtocolViolation(why=str(problem)) from None
    kind = _KINDS.get(decoded.code)
    if kind is not None:
        try:
            error = kind(**decoded.facts)
            str(error)  # A newer server may have other facts than the sentence asks for.
        except (TypeError, ValueError, LookupError, AttributeError):
            pass
        else:
            return error
    stranger = (UnavailableError if decoded.retryable else RequestError)(
        reason=decoded.text.removesuffix(f" [{decoded.code}]")
    )
    stranger.code = decoded.code  # type: ignore[misc]
    return stranger


def error_frame(correlation: int, error: PenstockError) -> bytes:
    """The response to a request that was refused."""
    return frame(ERROR, correlation, encode_error(error))


def decode_error_frame(body: bytes) -> PenstockError:
    """The error in the body of an ERROR frame."""
    return decode_error(body[_PAYLOAD_AT:])


def consumer_closed_frame(consumer: int, error: PenstockError) -> bytes:
    """The server has closed a consumer, with the reason."""
    return frame(CONSUMER_CLOSED, UNASKED, consumer.to_bytes(4, "big") + encode_error(error))


def decode_consumer_closed(body: bytes) -> tuple[int, PenstockError]:
    return decode_consumer(body), decode_error(body[_PAYLOAD_AT + 4 :])


def assigned_frame(consumer: int, partitions: list[int]) -> bytes:
    """The partitions of a stream consumer from now on."""
    return frame(ASSIGNED, UNASKED, consumer.to_bytes(4, "big") + msgspec.msgpack.encode(partitions))


def decode_assigned(body: bytes) -> tuple[int, list[int]]:
    """Which consumer, and its partitions."""
    return decode_consumer(body), decode_body(body[4:], list[int])


def ok_frame(correlation: int, value: Any) -> bytes:
    """The response to a request, as msgpack."""
    return encode_body(OK, correlation, value)


class _Told(msgspec.Struct, frozen=True):
    code: str
    retryable: bool
    facts: dict[str, Any]
    text: str


def _shown(code: int, data: memoryview) -> Any:
    if code != SHOWN:
        raise ValueError(f"there is no extension {code}")
    return ShownValue(bytes(data).decode())


_ERRORS: Final = msgspec.msgpack.Decoder(_Told, ext_hook=_shown)


def _plain(value: object) -> object:
    if value is None or type(value) in (bool, float, bytes, int, str):
        try:
            _encode(value)
        except (OverflowError, UnicodeEncodeError):
            pass  # More than 64 bits, or half a character.
        else:
            return value
    return msgspec.msgpack.Ext(SHOWN, repr(value).encode("utf-8", "backslashreplace"))


def _every(kind: type[PenstockError]) -> dict[str, type[PenstockError]]:
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            found |= _every(child)
    return found


_KINDS: Final = _every(PenstockError)
