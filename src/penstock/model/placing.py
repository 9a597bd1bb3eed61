"""Validates messages for publishing, and chooses their partition.

The embedded broker uses it for its own program, and a client before it encodes and
sends.  So both refuse the same messages with the same errors, and equal keys, or without
a key equal deduplication ids, go to the same partition.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from penstock.config.broker import Compression
from penstock.errors import DelayOutOfRange, EmptyMessage, InvalidValue, MessageTooLarge, PartitionNotFound
from penstock.model.message import Message, RawHeaders
from penstock.types import DURATION_MS_MAX, Duration, Instant, instant_ms, lane_number, signed_duration_ms
from penstock.wire.murmur import partition_of
from penstock.wire.records import lane_attributes

DEDUP_ID_LENGTH_MAX: Final = 200  # Bytes; ids are kept in memory for the whole window.
CODECS: Final[dict[Compression, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NO_HEADERS: Final[RawHeaders] = []
ANYWHERE: Final = -1  # In place of a partition: the writer chooses.


class Placed:
    """A checked message in its stored form, not yet written."""

    __slots__ = ("attributes", "dedup_id", "due_ms", "headers", "key", "partition", "value")

    def __init__(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        self.partition = partition
        self.key = key
        self.value = value
        self.headers: RawHeaders = NO_HEADERS
        self.attributes = 0  # Its lane; in the broker also which system headers it has.
        self.due_ms = -1  # When it is to be delivered, in the broker; -1: at once.
        self.dedup_id: str | None = None


def placed(topic: str, message: Message, partitions: int) -> Placed:
    """Check a message and find its partition; its size is checked when it is complete."""
    value = message.value
    if value is None:
        if message.key is None:
            raise EmptyMessage(topic=topic)
    elif type(value) is not bytes:
        value = value_bytes(value)
    raw_key = message.key
    key = raw_key if raw_key is None or type(raw_key) is bytes else key_bytes(raw_key)
    partition = place(topic, message.partition, key, partitions)
    if partition == ANYWHERE and message.dedup_id is not None:
        # By its id, so that a repeat meets the first one: each partition knows its own ids.
        partition = partition_of(dedup_bytes(message.dedup_id), partitions)
    item = Placed(partition, key, value)
    if message.headers:
        item.headers = raw_headers(message.headers)
    if message.priority != 0:
        item.attributes = lane_attributes(lane_number(message.priority))
    return item


def place(topic: str, partition: Any, key: bytes | None, partitions: int) -> int:
    """The requested partition, or that of the key; ``ANYWHERE`` if neither is given."""
    if partition is not None:
        if type(partition) is int and 0 <= partition < partitions:
            return int(partition)
        raise PartitionNotFound(topic=topic, partition=partition, last=partitions - 1)
    if partitions == 1:
        return 0
    return ANYWHERE if key is None else partition_of(key, partitions)


def due_ms(delay: Duration | None, deliver_at: Instant | None, now_ms: int, delay_max_ms: int) -> int:
    """When a message is due; giving both a delay and a time is an error."""
    if delay is not None and deliver_at is not None:
        raise InvalidValue(name="deliver_at", value=deliver_at, why="give delay or deliver_at, not both")
    if deliver_at is not None:
        due = instant_ms("deliver_at", deliver_at)
        if due - now_ms > delay_max_ms:
            raise DelayOutOfRange(delay_ms=due - now_ms, limit_ms=delay_max_ms)
        return max(due, now_ms)  # A time that has passed is due now.
    if delay is None:
        raise InvalidValue(name="delay", value=delay, why="give delay or deliver_at")
    wanted_ms = signed_duration_ms("delay", delay)
    if not 0 <= wanted_ms <= delay_max_ms:
        bounded = max(min(wanted_ms, DURATION_MS_MAX), -DURATION_MS_MAX)
        raise DelayOutOfRange(delay_ms=math.floor(bounded), limit_ms=delay_max_ms)
    return now_ms + round(wanted_ms)


def stored_bytes(key: bytes | None, value: bytes | None, headers: RawHeaders) -> int:
    """The size of a message, as limits count it."""
    size = (len(key) if key else 0) + (len(value) if value else 0)
    if headers:
        size += sum(len(name) + len(data or b"") for name, data in headers)
    return size


def check_size(key: bytes | None, value: bytes | None, headers: RawHeaders, limit_bytes: int) -> None:
    """Refuse a message that is larger than its topic takes."""
    size = stored_bytes(key, value, headers)
    if size > limit_bytes:
        raise MessageTooLarge(size_bytes=size, limit_bytes=limit_bytes)


def value_bytes(value: object) -> bytes:
    """A value as it is stored."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InvalidValue(name="value", value=value, why="a value is bytes; text= and json= encode others")


def key_bytes(key: object) -> bytes:
    """A key as it is stored."""
    try:
        if isinstance(key, str):
            return key.encode()
    except UnicodeEncodeError:
        pass
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    raise InvalidValue(name="key", value=key, why="a key is text or bytes")


def dedup_bytes(dedup_id: object) -> bytes:
    """A dedup id as it is stored."""
    try:
        if isinstance(dedup_id, str) and 0 < len(dedup_id) <= DEDUP_ID_LENGTH_MAX:
            return dedup_id.encode()
    except UnicodeEncodeError:
        pass
    why = f"it is text of 1 to {DEDUP_ID_LENGTH_MAX} characters"
    raise InvalidValue(name="dedup_id", value=dedup_id, why=why)


def raw_headers(headers: Any) -> RawHeaders:
    """Headers as they are stored."""
    if type(headers) is not dict and not isinstance(headers, Mapping):  # The second alone takes 0.3 us.
        raise InvalidValue(name="headers", value=headers, why="give a mapping of text to text or bytes")
    raw: RawHeaders = []
    for name, value in headers.items():
        try:
            if not isinstance(name, str) or not isinstance(value, (str, bytes)):
                raise TypeError
            name.encode()
            raw.append((name, value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value))
        except (TypeError, UnicodeEncodeError):
            raise InvalidValue(
                name="headers", value={name: value}, why="names are text, values are text or bytes"
            ) from None
    return raw
