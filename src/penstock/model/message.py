"""Messages: as a producer passes them, as the log stores them, as a consumer receives them.

    Message            to be published: a value and its options
    StoredMessage      in the log: what reads, replay and peek return
    ReceivedMessage    leased to a consumer, with its attempt number, and ack, nack, reject and extend
    AsyncReceivedMessage   the same, with methods to await

A received message does not know how it is settled; it passes itself to the
``Settler`` (the consumer) it came from.  All messages of one lease share one
``Delivery``, so a received message costs one small object of its own.

The classes are plain and typed, and this module is compiled where a C
compiler is present: building a hundred messages is the inner loop of
``receive``.  Header values are text; bytes that are not UTF-8 survive a round
trip as surrogate escapes, and ``raw_headers`` has the bytes as stored.  Values
are bytes; ``content.py`` makes them from objects and text, and reads them.
"""

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, cast, overload

from msgspec import UNSET, UnsetType

from penstock.errors import AlreadySettled, InvalidValue, LeaseLost, PenstockError, RequestError
from penstock.model.content import decoded, decoded_text, encoded
from penstock.types import LANE_NAMES, Duration, Instant, Priority, Unchecked, mypyc_attr
from penstock.wire.headers import BROKER_HEADER_BITS, BROKER_HEADERS, EXPIRES_AT
from penstock.wire.records import EXPIRES, REDRIVEN, Record, lane_of

T = TypeVar("T")
RawHeaders = list[tuple[str, bytes | None]]
_UNSET: Final[Any] = UNSET  # Compiled, a constant of this module takes no lookup.


def own_headers(headers: RawHeaders, attributes: int) -> RawHeaders:
    """The headers that the message was published with: without those that the broker has added."""
    if not attributes & BROKER_HEADER_BITS:
        return headers
    own = list(headers)
    for bit, added in BROKER_HEADERS:
        if attributes & bit:
            for at in range(len(own) - 1, -1, -1):  # The message's own of that name come before.
                if own[at][0] == added:
                    del own[at]
                    break
    return own


def last_header(headers: RawHeaders, name: str) -> bytes:
    """The value of the last header of that name; empty if there is none."""
    for known, value in reversed(headers):
        if known == name:
            return value or b""
    return b""


@mypyc_attr(allow_interpreted_subclasses=True)
class Message:
    """A message to publish, for ``publish_batch``; the same fields as the arguments of ``publish``.

    One of value, ``json`` (an object) and ``text`` is given, and the value has it as bytes.

    What a worker's function gets is one too, with more to it (``workers/message.py``).
    """

    def __init__(
        self,
        value: bytes | UnsetType | Unchecked | None = UNSET,
        key: str | bytes | Unchecked | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority | Unchecked = 0,
        ttl: Duration | None = None,
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | Unchecked | None = None,
        partition: int | Unchecked | None = None,
        json: Any = UNSET,
        text: str | UnsetType | Unchecked = UNSET,
    ) -> None:
        if value is _UNSET or json is not _UNSET or text is not _UNSET:
            value = encoded(value, json, text)
        # Checked on publish, where the topic's limits are known.
        self.value: Any = value
        self.key: Any = key
        self.headers: Any = headers
        self.priority: Any = priority
        self.ttl = ttl
        self.delay = delay
        self.deliver_at = deliver_at
        self.dedup_id: Any = dedup_id
        self.partition: Any = partition

    @overload
    def json(self, kind: type[T]) -> T: ...

    @overload
    def json(self, kind: Any = None) -> Any: ...

    def json(self, kind: Any = None) -> Any:
        """The value, which is JSON, as plain objects; or as a type, which validates it: ``json(Order)``."""
        return decoded(self.value, kind, self)

    @property
    def text(self) -> str:
        """The value, which is UTF-8, as text."""
        return decoded_text(self.value, self)

    def __repr__(self) -> str:
        return f"Message({self.value!r}, key={self.key!r})"


@mypyc_attr(acyclic=True)
class Receipt:
    """The result of a publish: where the message was stored."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int | None,
        timestamp: int,
        schedule_id: str | None = None,
        duplicate: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset  # None while the message waits in the schedule.
        self.timestamp = timestamp  # Milliseconds since 1970, when the broker took it.
        self.schedule_id = schedule_id
        self.duplicate = duplicate  # True: the dedup id was seen before, and this is where the first one is.

    @property
    def id(self) -> str:
        """The message's id, or the schedule's while it is not due."""
        if self.schedule_id is not None:
            return self.schedule_id
        return f"{self.topic}:{self.partition}:{self.offset}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def __repr__(self) -> str:
        return f"Receipt({self.id!r}, timestamp={self.timestamp}, duplicate={self.duplicate})"

    def _facts(self) -> tuple[object, ...]:
        return (self.topic, self.partition, self.offset, self.timestamp, self.schedule_id, self.duplicate)


class StoredMessage:
    """A message in the log."""

    def __init__(self, topic: str, partition: int, record: Record) -> None:
        self.topic = topic
        self.partition = partition
        self._record = record

    @property
    def record(self) -> Record:
        """The record as it is stored in the log."""
        return self._record

    @property
    def value(self) -> bytes:
        """The payload; empty for a tombstone (see ``is_tombstone``)."""
        value = self._record.value
        return b"" if value is None else value

    @overload
    def json(self, kind: type[T]) -> T: ...

    @overload
    def json(self, kind: Any = None) -> Any: ...

    def json(self, kind: Any = None) -> Any:
        """The value, which is JSON, as plain objects; or as a type, which validates it: ``json(Order)``."""
        return decoded(self._record.value, kind, self)

    @property
    def text(self) -> str:
        """The value, which is UTF-8, as text; empty for a tombstone."""
        return decoded_text(self._record.value, self)

    @property
    def is_tombstone(self) -> bool:
        """True for a message that deletes its key in a compacted topic."""
        return self._record.value is None

    @property
    def key(self) -> bytes | None:
        """The key; messages with equal keys keep their order."""
        return self._record.key

    @property
    def offset(self) -> int:
        """The message's position in its partition."""
        return self._record.offset

    @property
    def timestamp(self) -> int:
        """When the message was appended, or a Kafka client created it, in milliseconds since 1970."""
        return self._record.timestamp

    @property
    def published_at(self) -> datetime:
        """The timestamp as a datetime in UTC."""
        return datetime.fromtimestamp(self._record.timestamp / 1000, UTC)

    @property
    def expires_at(self) -> datetime | None:
        """When its own time to live ends, in UTC; None if it was published without one."""
        if not self._record.attributes & EXPIRES:
            return None
        expires_ms = last_header(self._record.headers, EXPIRES_AT)
        return datetime.fromtimestamp(int(expires_ms) / 1000, UTC) if expires_ms.isdigit() else None

    @property
    def headers(self) -> dict[str, str]:
        """The headers it was published with, as text; the last one wins where a name repeats."""
        return {
            name: "" if value is None else value.decode("utf-8", "surrogateescape")
            for name, value in own_headers(self._record.headers, self._record.attributes)
        }

    @property
    def raw_headers(self) -> RawHeaders:
        """The headers as stored, in order, with repeats and with those of the broker."""
        return self._record.headers

    @property
    def attributes(self) -> int:
        """The attribute bits of the message's record batch."""
        return self._record.attributes

    @property
    def priority(self) -> str:
        """The name of the message's lane."""
        return LANE_NAMES[lane_of(self._record.attributes)]

    @property
    def id(self) -> str:
        """``topic:partition:offset``, which is what ``trace`` takes."""
        return f"{self.topic}:{self.partition}:{self._record.offset}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} key={self.key!r} {len(self.value)} bytes>"


class Settler(Protocol):
    """Settles received messages: the consumer that they came from."""

    def ack(self, messages: Any) -> Any: ...

    def nack(self, message: Any, *, delay: Duration | None, error: BaseException | str | None) -> Any: ...

    def reject(self, message: Any, reason: Any) -> Any: ...

    def extend(self, message: Any, duration: Duration) -> Any: ...


class Delivery:
    """The facts that the messages of one lease share."""

    def __init__(
        self,
        topic: str,
        partition: int,
        group: str,
        lease: int,
        start: int,
        end: int,
        attempt: int,
        settler: Settler,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.group = group
        self.lease = lease  # Number of the lease in its engine; -1 for a stream group.
        self.start = start
        self.end = end
        self.attempt = attempt
        self.settler = settler
        self.watch: Any = None  # Notified of work on a message, for spans (api/otel.py).


class Delivered(StoredMessage):
    """A leased message: its facts, without the methods that settle it."""

    def __init__(self, delivery: Delivery, record: Record) -> None:
        self.topic = delivery.topic
        self.partition = delivery.partition
        self._record = record
        self._delivery: Final = delivery
        self._settled = False

    @property
    def attempt(self) -> int:
        """1 for the first delivery; rises with every redelivery."""
        return self._delivery.attempt

    @property
    def group(self) -> str:
        """The group this delivery belongs to."""
        return self._delivery.group

    @property
    def delivery(self) -> Delivery:
        """The lease this message came in."""
        return self._delivery

    @property
    def settled(self) -> bool:
        """True once this delivery was acked, nacked or rejected through this object."""
        return self._settled

    def mark_settled(self) -> None:
        """For the consumer: this delivery is settled."""
        self._settled = True


class ReceivedMessage(Delivered):
    """A message leased to this consumer until it is settled or the visibility timeout passes.

    As a context manager it acks when the block ends well and nacks with the
    error when it raises; the error goes on to the caller.
    """

    def ack(self) -> None:
        """Mark the message as processed: it is not delivered to this group again."""
        self._delivery.settler.ack(self)

    def nack(self, *, delay: Duration | None = None, error: BaseException | str | None = None) -> None:
        """Processing failed: deliver again after ``delay``, or after the group's backoff."""
        self._delivery.settler.nack(self, delay=delay, error=error)

    def reject(self, reason: str | Unchecked) -> None:
        """Move the message to the dead letters, without further attempts."""
        self._delivery.settler.reject(self, reason)

    def extend(self, duration: Duration) -> None:
        """Extend the lease: keep the message for this long from now."""
        self._delivery.settler.extend(self, duration)

    def __enter__(self) -> "ReceivedMessage":
        if self._delivery.watch is not None:
            self._delivery.watch.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._delivery.watch is not None:
            self._delivery.watch.end(self, error)
        if self._settled:
            return
        if error is None:
            self.ack()
        elif self._delivery.lease >= 0:  # A stream group has no nack: uncommitted messages are redelivered.
            try:
                self.nack(error=error)
            except PenstockError as refusal:
                error.add_note(f"and the message could not be nacked: {refusal}")


class AsyncReceivedMessage(Delivered):
    """``ReceivedMessage`` with methods to await."""

    def ack(self) -> Awaitable[None]:
        """Mark the message as processed: it is not delivered to this group again."""
        return cast("Awaitable[None]", self._delivery.settler.ack(self))

    def nack(
        self, *, delay: Duration | None = None, error: BaseException | str | None = None
    ) -> Awaitable[None]:
        """Processing failed: deliver again after ``delay``, or after the group's backoff."""
        return cast("Awaitable[None]", self._delivery.settler.nack(self, delay=delay, error=error))

    def reject(self, reason: str | Unchecked) -> Awaitable[None]:
        """Move the message to the dead letters, without further attempts."""
        return cast("Awaitable[None]", self._delivery.settler.reject(self, reason))

    def extend(self, duration: Duration) -> Awaitable[None]:
        """Extend the lease: keep the message for this long from now."""
        return cast("Awaitable[None]", self._delivery.settler.extend(self, duration))

    async def __aenter__(self) -> "AsyncReceivedMessage":
        if self._delivery.watch is not None:
            self._delivery.watch.begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._delivery.watch is not None:
            self._delivery.watch.end(self, error)
        if self._settled:
            return
        if error is None:
            await self.ack()
        elif self._delivery.lease >= 0:  # A stream group has no nack: uncommitted messages are redelivered.
            try:
                await self.nack(error=error)
            except PenstockError as refusal:
                error.add_note(f"and the message could not be nacked: {refusal}")


def received(delivery: Delivery, records: list[Record]) -> list[ReceivedMessage]:
    """Wrap the records of one lease for a sync consumer."""
    return [ReceivedMessage(delivery, record) for record in records]


def received_async(delivery: Delivery, records: list[Record]) -> list[AsyncReceivedMessage]:
    """Wrap the records of one lease for an async consumer."""
    return [AsyncReceivedMessage(delivery, record) for record in records]


def bare_values(messages: list[Any], value_bytes_max: int) -> list[bytes] | None:
    """The values of messages that are nothing but a value of fitting size; None if any is more than that."""
    values: list[bytes] = []
    for message in messages:
        value = message
        if isinstance(message, Message) and _is_bare(message):
            value = message.value
        if type(value) is not bytes or len(value) > value_bytes_max:
            return None
        values.append(value)
    return values


def _is_bare(message: Message) -> bool:
    return (
        message.key is None
        and not message.headers
        and message.priority == 0
        and message.ttl is None
        and message.delay is None
        and message.deliver_at is None
        and message.dedup_id is None
        and message.partition is None
    )


def receipts_from(topic: str, partition: int, offset: int, timestamp: int, count: int) -> list[Receipt]:
    """Receipts of messages with consecutive offsets."""
    return [Receipt(topic, partition, number, timestamp) for number in range(offset, offset + count)]


class LeaseRun:
    """Consecutive offsets of one lease that are settled together."""

    def __init__(self, partition: int, lease: int, attempt: int, start: int, end: int) -> None:
        self.partition = partition
        self.lease = lease
        self.attempt = attempt
        self.start = start
        self.end = end


def run_of(message: Delivered) -> LeaseRun:
    delivery, offset = message._delivery, message._record.offset
    return LeaseRun(delivery.partition, delivery.lease, delivery.attempt, offset, offset + 1)


def lease_runs(messages: list[Any], settler: Settler) -> list[LeaseRun]:
    """Group messages into runs, so that a hundred acks in order become one settlement.

    They are marked as settled, all of them or none: a message that was settled
    before, or that another consumer received, is an error.
    """
    runs: list[LeaseRun] = []
    run: LeaseRun | None = None
    delivery: Delivery | None = None  # Of the run.
    for count, message in enumerate(messages):
        if not isinstance(message, Delivered) or message._settled or message._delivery.settler is not settler:
            refusal = refused(message)
            unanswer(messages[:count])
            raise refusal
        offset = message._record.offset
        if run is not None and delivery is message._delivery and run.end == offset:
            run.end = offset + 1
        else:
            run, delivery = run_of(message), message._delivery
            runs.append(run)
        message._settled = True
    return runs


def unanswer(messages: list[Delivered]) -> None:
    """Undo ``mark_settled`` after a settlement has failed: they may be settled again."""
    for message in messages:
        message._settled = False


def check_held(message: Any, settler: Settler, name: str) -> None:
    """Refuse values that are not messages of this consumer."""
    if not isinstance(message, Delivered) or message._delivery.settler is not settler:
        raise refused(message, name)


def refused(message: Any, name: str = "messages") -> RequestError:
    """Why this consumer cannot settle the message: not a message, already settled, or the lease is lost."""
    if not isinstance(message, Delivered):
        return InvalidValue(name=name, value=message, why="give what receive returned")
    kind = AlreadySettled if message._settled else LeaseLost
    return kind(topic=message.topic, partition=message.partition, offset=message.offset)


LOOK_INSIDE: Final = EXPIRES | REDRIVEN  # Attributes of messages that not every consumer gets.


def all_plain(records: list[Record], count: int) -> bool:
    """True if these are all ``count`` records of a range, and no header of them has to be checked."""
    if len(records) != count:
        return False
    for record in records:
        if record.attributes & LOOK_INSIDE:
            return False
    return True
