"""Frames of the native protocol, and the bodies of its performance-critical operations.

    0        1              5             9
    opcode | length (u32)  | correlation | the rest of the body ...
             └ of the body ┘ └── a Penstock body begins with it ──

Both sides split a stream into frames with ``transport/frames.py``.  Encoders return whole frames;
decoders take a body including the correlation id, and raise ``ProtocolViolation``
if it is invalid: bytes from a network never cause any other error.

Publishing, receiving and acknowledging use fixed-size or counted fields
(``struct``); less frequent operations use msgpack (``native_bodies.py``).
Record batches are opaque bytes here.  All numbers are big-endian.

Costs: a body is one or two unpacks, and one slice for each batch of records.

``docs/protocols/native.md`` has every frame byte by byte.
"""

from collections.abc import Callable, Iterable
from struct import Struct, error
from typing import Final, final

from penstock.errors import ProtocolViolation
from penstock.types import mypyc_attr
from penstock.wire.records import Record

VERSION: Final = 1
HEADER_BYTES: Final = 5
FRAME_BYTES_MAX: Final = (1 << 28) + (1 << 20)  # The largest batch a log may hold, and room around it.
COUNT_MAX: Final = 0xFFFF  # Of batches, runs and ranges in one frame.
UINT32_MAX: Final = 0xFFFF_FFFF
NO_LEASE: Final = -1  # In a stream group, and where messages are settled before they are sent.
UNASKED: Final = 0  # The correlation of frames that answer nothing.

# Client to server.
HELLO: Final = 0x10
PING: Final = 0x11
METADATA: Final = 0x12
NEW_PRODUCER: Final = 0x13
PUBLISH: Final = 0x20
PUBLISH_MESSAGES: Final = 0x21
OPEN_CONSUMER: Final = 0x30
CLOSE_CONSUMER: Final = 0x31
RECEIVE: Final = 0x32
CREDIT: Final = 0x33
ACK: Final = 0x34
NACK: Final = 0x35
REJECT: Final = 0x36
EXTEND: Final = 0x37
COMMIT: Final = 0x38
HEARTBEAT: Final = 0x39
ACK_AND_PUBLISH: Final = 0x3A
FETCH: Final = 0x3B
CALL: Final = 0x40

# Server to client.
OK: Final = 0x80
ERROR: Final = 0x81
DELIVERY: Final = 0x82
CONSUMER_CLOSED: Final = 0x83
ASSIGNED: Final = 0x84

# How far a publish must be before it is answered.
ACKS_NONE: Final = 0  # Not answered at all, unless it is refused.
ACKS_WRITTEN: Final = 1  # In the log, perhaps not on disk yet.
ACKS_DURABLE: Final = 2  # As durable as the topic promises.

# What became of one batch of a publish.
WRITTEN: Final = 0
DUPLICATE: Final = 1  # It was there already; the answer says where.
REFUSED: Final = 2  # Its error follows.

DURABILITIES: Final = ("fsync", "os", "memory")  # As the answer to a publish numbers them.

Run = tuple[int, int, int, int]  # Partition, lease, and the offsets from start up to end.
Position = tuple[int, int]  # Partition and offset.

_FRAME: Final = Struct(">BI")
_REPLY: Final = Struct(">BII")  # Opcode, length, correlation.
_UINT32: Final = Struct(">I")
_unpack_uint32: Final[Callable[[bytes, int], tuple[int]]] = _UINT32.unpack_from
_UINT16: Final = Struct(">H")
_unpack_uint16: Final[Callable[[bytes, int], tuple[int]]] = _UINT16.unpack_from
_UINT64: Final = Struct(">Q")
_unpack_uint64: Final[Callable[[bytes, int], tuple[int]]] = _UINT64.unpack_from
_PUBLISH: Final = Struct(">IBQB")  # Correlation, acks, version of the topic's settings, length of its name.
_unpack_publish: Final[Callable[[bytes, int], tuple[int, int, int, int]]] = _PUBLISH.unpack_from
_BATCH: Final = Struct(">II")  # Partition, size.
_unpack_batch: Final[Callable[[bytes, int], tuple[int, int]]] = _BATCH.unpack_from
_OUTCOME: Final = Struct(">IqqB")  # Partition, offset, timestamp, what became of it.
_unpack_outcome: Final[Callable[[bytes, int], tuple[int, int, int, int]]] = _OUTCOME.unpack_from
_ONE_OUTCOME: Final = Struct(">BIIHIqqBB")  # A whole frame that answers a publish of one batch.
_RECEIVE: Final = Struct(">BIIIII")
_unpack_receive: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">III").unpack_from
_CREDIT: Final = Struct(">BIIII")
_unpack_credit: Final[Callable[[bytes, int], tuple[int, int]]] = Struct(">II").unpack_from
_CONSUMER: Final = Struct(">BIII")  # Opcode, length, correlation, consumer.
_COUNTED: Final = Struct(">BIIIH")  # Opcode, length, correlation, consumer, count.
_unpack_counted: Final[Callable[[bytes, int], tuple[int, int]]] = Struct(">IH").unpack_from
_RUN: Final = Struct(">Iqqq")
_unpack_run: Final[Callable[[bytes, int], Run]] = _RUN.unpack_from
_POSITION: Final = Struct(">Iq")
_unpack_position: Final[Callable[[bytes, int], Position]] = _POSITION.unpack_from
_FETCH: Final = Struct(">IIqIB")  # Correlation, partition, offset, most bytes, whether of the journal.
_unpack_fetch: Final[Callable[[bytes, int], tuple[int, int, int, int, int]]] = _FETCH.unpack_from
_FETCHED: Final = Struct(">BIIqqq")  # Opcode, length, correlation, start, end and next offset of the log.
_unpack_fetched: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">qqq").unpack_from
_LEASED: Final = Struct(">IqIqqI")  # Partition, lease, attempt, start, end, size.
_unpack_leased: Final[Callable[[bytes, int], tuple[int, int, int, int, int, int]]] = _LEASED.unpack_from

_CORRELATION_BYTES: Final = 4
_OUTCOME_BYTES: Final = 21
_LEASED_BYTES: Final = 36
_FETCHED_BYTES: Final = 28  # Of the body, before the batches.


@final
@mypyc_attr(acyclic=True)
class LeasedBatch:
    """A lease as it is sent: offsets, and record batches with these records, and maybe others."""

    __slots__ = ("attempt", "data", "end", "lease", "partition", "records", "start")

    def __init__(self, partition: int, lease: int, attempt: int, start: int, end: int, data: bytes) -> None:
        self.partition = partition
        self.lease = lease  # -1 in a stream group, and if it is delivered at most once: nothing to answer.
        self.attempt = attempt
        self.start = start
        self.end = end
        self.data = data  # RecordBatch v2, one or more.
        self.records: list[Record] = []  # In place of the data, for front ends that decode it anyway.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeasedBatch) and self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash(self.facts())

    def __repr__(self) -> str:
        return f"LeasedBatch{self.facts()!r}"

    def facts(self) -> tuple[object, ...]:
        """All fields, in their order on the wire."""
        return (self.partition, self.lease, self.attempt, self.start, self.end, self.data)


@final
class Publish:
    """A request to append encoded batches."""

    __slots__ = ("acks", "batches", "topic", "version")

    def __init__(self, topic: str, version: int, acks: int, batches: list[tuple[int, bytes]]) -> None:
        self.topic = topic
        self.version = version  # Of the topic's settings that the batches were made for.
        self.acks = acks
        self.batches = batches  # Partition and RecordBatch v2.


@final
@mypyc_attr(acyclic=True)
class PublishOutcome:
    """The outcome of one batch of a publish; ``error`` holds bytes for ``decode_error``, or nothing."""

    __slots__ = ("error", "offset", "partition", "state", "timestamp")

    def __init__(self, partition: int, offset: int, timestamp: int, state: int, error: bytes = b"") -> None:
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.state = state  # WRITTEN, DUPLICATE or REFUSED.
        self.error = error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublishOutcome) and self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash(self.facts())

    def __repr__(self) -> str:
        return f"Outcome{self.facts()!r}"

    def facts(self) -> tuple[object, ...]:
        """All fields, in their order on the wire."""
        return (self.partition, self.offset, self.timestamp, self.state, self.error)


# Frames.


def frame(opcode: int, correlation: int, payload: bytes = b"") -> bytes:
    """A frame with a Penstock body."""
    return _REPLY.pack(opcode, len(payload) + _CORRELATION_BYTES, correlation) + payload


def correlation_of(body: bytes) -> int:
    """The correlation id of a request or response."""
    if len(body) < _CORRELATION_BYTES:
        raise ProtocolViolation(why="a body is shorter than its correlation id")
    return _unpack_uint32(body, 0)[0]


# Publishing.


def encode_publish(
    correlation: int, topic: str, version: int, acks: int, batches: list[tuple[int, bytes]]
) -> bytes:
    """A request to append batches (partition, RecordBatch v2) to one topic."""
    name = topic.encode()
    pieces = [b"", _PUBLISH.pack(correlation, acks, version, len(name)), name, _UINT16.pack(len(batches))]
    for partition, batch in batches:
        pieces.append(_BATCH.pack(partition, len(batch)))
        pieces.append(batch)
    return _framed(PUBLISH, pieces)


def decode_publish(body: bytes) -> Publish:
    """The request in a PUBLISH body."""
    try:
        _, acks, version, name_bytes = _unpack_publish(body, 0)
        at = _PUBLISH.size + name_bytes
        topic = body[_PUBLISH.size : at].decode("ascii")
        count = _unpack_uint16(body, at)[0]
        at += 2
        batches: list[tuple[int, bytes]] = []
        for _ in range(count):
            partition, size = _unpack_batch(body, at)
            at += 8
            batches.append((partition, _slice(body, at, size)))
            at += size
    except (error, UnicodeDecodeError):
        raise _short("publish") from None
    _check_end(body, at)
    if acks > ACKS_DURABLE:
        raise ProtocolViolation(why=f"acks is 0, 1 or 2, not {acks}")
    return Publish(topic, version, acks, batches)


def encode_published(correlation: int, outcomes: list[PublishOutcome], durability: int) -> bytes:
    """The response to a publish, an outcome for each batch; errors follow the fixed part."""
    pieces = [b"", _UINT32.pack(correlation), _UINT16.pack(len(outcomes))]
    pieces += [_OUTCOME.pack(each.partition, each.offset, each.timestamp, each.state) for each in outcomes]
    pieces.append(bytes((durability,)))
    for each in outcomes:
        if each.state == REFUSED:
            pieces.append(_UINT32.pack(len(each.error)))
            pieces.append(each.error)
    return _framed(OK, pieces)


def encode_published_one(
    correlation: int, partition: int, offset: int, timestamp: int, state: int, durability: int
) -> bytes:
    """``encode_published`` for one batch that was not refused: the same bytes, faster."""
    return _ONE_OUTCOME.pack(OK, 28, correlation, 1, partition, offset, timestamp, state, durability)


def decode_published(body: bytes) -> tuple[list[PublishOutcome], int]:
    """Outcomes and durability in the answer to a publish."""
    outcomes: list[PublishOutcome] = []
    try:
        count = _unpack_uint16(body, _CORRELATION_BYTES)[0]
        at = _CORRELATION_BYTES + 2
        for _ in range(count):
            partition, offset, timestamp, state = _unpack_outcome(body, at)
            at += _OUTCOME_BYTES
            outcomes.append(PublishOutcome(partition, offset, timestamp, state))
        durability = _slice(body, at, 1)[0]
        at += 1
        for each in outcomes:
            if each.state == REFUSED:
                size = _unpack_uint32(body, at)[0]
                each.error = _slice(body, at + 4, size)
                at += 4 + size
    except error:
        raise _short("answer to a publish") from None
    _check_end(body, at)
    if durability >= len(DURABILITIES):
        raise ProtocolViolation(why=f"there is no durability {durability}")
    return outcomes, durability


def encode_producer(correlation: int, producer_id: int) -> bytes:
    return frame(OK, correlation, _UINT64.pack(producer_id))


def decode_producer(body: bytes) -> int:
    """The producer id in the answer to NEW_PRODUCER."""
    try:
        return _unpack_uint64(body, _CORRELATION_BYTES)[0]
    except error:
        raise _short("producer id") from None


# Consuming.


def encode_consumer(opcode: int, correlation: int, consumer: int) -> bytes:
    """CLOSE_CONSUMER and HEARTBEAT: the number of a consumer."""
    return _CONSUMER.pack(opcode, 8, correlation, consumer)


def decode_consumer(body: bytes) -> int:
    """The number of a consumer, with which many bodies begin."""
    try:
        return _unpack_uint32(body, _CORRELATION_BYTES)[0]
    except error:
        raise _short("consumer") from None


def encode_receive(correlation: int, consumer: int, max_messages: int, wait_ms: int) -> bytes:
    """Request messages, and wait for the first; a request for none ends the waits of this consumer."""
    return _RECEIVE.pack(RECEIVE, 16, correlation, consumer, max_messages, wait_ms)


def decode_receive(body: bytes) -> tuple[int, int, int]:
    """Consumer, maximum of messages, longest wait."""
    try:
        return _unpack_receive(body, _CORRELATION_BYTES)
    except error:
        raise _short("receive") from None


def encode_credit(consumer: int, credit: int) -> bytes:
    """Allow the server to push this many more messages."""
    return _CREDIT.pack(CREDIT, 12, UNASKED, consumer, credit)


def decode_credit(body: bytes) -> tuple[int, int]:
    try:
        return _unpack_credit(body, _CORRELATION_BYTES)
    except error:
        raise _short("credit") from None


def encode_ack(correlation: int, consumer: int, runs: list[Run]) -> bytes:
    """Ack these runs of messages."""
    pieces = [_COUNTED.pack(ACK, 10 + 28 * len(runs), correlation, consumer, len(runs))]
    for partition, lease, start, end in runs:
        pieces.append(_RUN.pack(partition, lease, start, end))
    return b"".join(pieces)


def decode_ack(body: bytes) -> tuple[int, list[Run]]:
    try:
        consumer, count = _unpack_counted(body, _CORRELATION_BYTES)
        runs = [_unpack_run(body, 10 + 28 * number) for number in range(count)]
    except error:
        raise _short("ack") from None
    _check_end(body, 10 + 28 * count)
    return consumer, runs


def encode_commit(correlation: int, consumer: int, positions: Iterable[Position]) -> bytes:
    """Stream groups: commit these offsets."""
    rows = [_POSITION.pack(partition, offset) for partition, offset in positions]
    return _COUNTED.pack(COMMIT, 10 + 12 * len(rows), correlation, consumer, len(rows)) + b"".join(rows)


def decode_commit(body: bytes) -> tuple[int, list[Position]]:
    try:
        consumer, count = _unpack_counted(body, _CORRELATION_BYTES)
        positions = [_unpack_position(body, 10 + 12 * number) for number in range(count)]
    except error:
        raise _short("commit") from None
    _check_end(body, 10 + 12 * count)
    return consumer, positions


def encode_received(correlation: int, batches: list[LeasedBatch]) -> bytes:
    pieces = [b"", _UINT32.pack(correlation)]
    _add_batches(pieces, batches)
    return _framed(OK, pieces)


def encode_delivery(consumer: int, batches: list[LeasedBatch]) -> bytes:
    """A push of batches to a consumer, within its credit."""
    pieces = [b"", _CREDIT_HEAD.pack(UNASKED, consumer)]
    _add_batches(pieces, batches)
    return _framed(DELIVERY, pieces)


def decode_received(body: bytes) -> list[LeasedBatch]:
    """The batches in the answer to RECEIVE."""
    return _batches(body, _CORRELATION_BYTES)


def decode_delivery(body: bytes) -> tuple[int, list[LeasedBatch]]:
    """Consumer and batches of a push."""
    return decode_consumer(body), _batches(body, _CORRELATION_BYTES + 4)


_CREDIT_HEAD: Final = Struct(">II")


def _add_batches(pieces: list[bytes], batches: list[LeasedBatch]) -> None:
    pieces.append(_UINT16.pack(len(batches)))
    for each in batches:
        data: bytes = each.data
        head = _LEASED.pack(each.partition, each.lease, each.attempt, each.start, each.end, len(data))
        pieces.append(head)
        pieces.append(data)


def _batches(body: bytes, at: int) -> list[LeasedBatch]:
    batches: list[LeasedBatch] = []
    try:
        count = _unpack_uint16(body, at)[0]
        at += 2
        for _ in range(count):
            partition, lease, attempt, start, end, size = _unpack_leased(body, at)
            at += _LEASED_BYTES
            batches.append(LeasedBatch(partition, lease, attempt, start, end, _slice(body, at, size)))
            at += size
    except error:
        raise _short("delivery") from None
    _check_end(body, at)
    return batches


# Fetching.


def encode_fetch(
    correlation: int, topic: str, partition: int, offset: int, max_bytes: int, journal: bool
) -> bytes:
    """Request batches from an offset on."""
    return _framed(
        FETCH, [b"", _FETCH.pack(correlation, partition, offset, max_bytes, journal), topic.encode()]
    )


def decode_fetch(body: bytes) -> tuple[str, int, int, int, bool]:
    """Topic, partition, offset, maximum of bytes, and whether it is about the journal."""
    try:
        _, partition, offset, max_bytes, journal = _unpack_fetch(body, 0)
        topic = body[_FETCH.size :].decode("ascii")
    except (error, UnicodeDecodeError):
        raise _short("fetch") from None
    return topic, partition, offset, max_bytes, journal != 0


def encode_fetched(correlation: int, start: int, end: int, next_offset: int, size: int) -> bytes:
    """The response to FETCH without the batches of this size, which follow as they are."""
    return _FETCHED.pack(OK, _FETCHED_BYTES + size, correlation, start, end, next_offset)


def decode_fetched(body: bytes) -> tuple[int, int, int, bytes]:
    """Start and end of the log, the next offset, and the batches."""
    try:
        start, end, next_offset = _unpack_fetched(body, _CORRELATION_BYTES)
    except error:
        raise _short("answer to a fetch") from None
    return start, end, next_offset, body[_FETCHED_BYTES:]


# Shared.


def _framed(opcode: int, pieces: list[bytes]) -> bytes:
    """Join the pieces of a body; the first is empty and becomes the header."""
    size = 0
    for piece in pieces:
        size += len(piece)
    pieces[0] = _FRAME.pack(opcode, size)
    return b"".join(pieces)


def _slice(body: bytes, at: int, size: int) -> bytes:
    piece = body[at : at + size]
    if len(piece) != size:
        raise ProtocolViolation(why="a length leads beyond the end of its body")
    return piece


def _check_end(body: bytes, at: int) -> None:
    if at != len(body):
        raise ProtocolViolation(why="a body is longer than its fields")


def _short(what: str) -> ProtocolViolation:
    return ProtocolViolation(why=f"the body of a {what} ends too early")
