"""Message options in record headers, for producers that have no other way to set them: Kafka clients.

    x-delay-ms     deliver after so many milliseconds
    x-deliver-at   deliver at that time, in milliseconds since 1970
    x-priority     the lane, by name or number
    x-ttl-ms       expires after so many milliseconds
    x-dedup-id     deduplication id

Only on topics whose setting ``kafka_headers`` is on; otherwise records are not inspected.  A record without
such headers is stored unchanged, and so is a batch of such records; the others are published like messages
of Penstock's own clients."""

from typing import Any, Final

from penstock.errors import InvalidValue
from penstock.model.message import Message, RawHeaders
from penstock.wire.headers import DEDUP_ID, DELAY_MS, DELIVER_AT, PRIORITY, TTL_MS
from penstock.wire.records import SEQUENCES, Header, Record

NAMES: Final = frozenset({DELAY_MS, DELIVER_AT, PRIORITY, TTL_MS, DEDUP_ID})

MessageWithHeaders = tuple[Message, RawHeaders]  # A message, and the headers that are its own.


def messages_with_options(records: list[Record], partition: int) -> list[MessageWithHeaders] | None:
    """The records as messages; None if none of them has such headers."""
    if not any(name in NAMES for record in records for name, _ in record.headers):
        return None
    return [_with_options(record, partition) for record in records]


def part_id(header: Header, partition: int, index: int) -> str:
    """A dedup id for one record of a producer's batch: the same whenever it is sent."""
    sequence = (header.base_sequence + index) % SEQUENCES
    return f"kafka:{header.producer_id}:{header.producer_epoch}:{partition}:{sequence}"


def _with_options(record: Record, partition: int) -> MessageWithHeaders:
    options = {name: _text(name, value) for name, value in record.headers if name in NAMES}
    own: RawHeaders = [header for header in record.headers if header[0] not in NAMES]
    message = Message(record.value, key=record.key, partition=partition)
    if DELAY_MS in options:
        message.delay = _number(DELAY_MS, options[DELAY_MS]) / 1000
    if DELIVER_AT in options:
        message.deliver_at = _number(DELIVER_AT, options[DELIVER_AT]) / 1000
    if TTL_MS in options:
        message.ttl = _number(TTL_MS, options[TTL_MS]) / 1000
    if PRIORITY in options:
        message.priority = _priority(options[PRIORITY])
    message.dedup_id = options.get(DEDUP_ID)
    return message, own


def _text(name: str, value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise InvalidValue(name=name, value=value, why="it is text") from None


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidValue(name=name, value=text[:40], why="it is a number of milliseconds")
    return int(text)


def _priority(text: str) -> Any:
    return int(text) if text.removeprefix("-").isdecimal() else text
