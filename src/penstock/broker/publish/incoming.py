"""Checks of batches that clients encoded, before they are written.

    checked        the header: complete, one batch, with a valid checksum, for this topic
    Look           also all records if it is small (``wire/validation.py``); large ones are left to a thread
    check_repeat   whether a batch with the sequence numbers of an earlier one has the same records

Nothing here writes or waits; ``publishing.py`` does.
"""

from typing import Any, NamedTuple

from penstock.broker.publish.header_options import messages_with_options
from penstock.broker.publish.repeats import is_repeat_of
from penstock.broker.state import Partition, Topic
from penstock.errors import (
    CorruptionError,
    InvalidBatch,
    InvalidValue,
    KeyMissing,
    MessageTooLarge,
    OffsetOutOfRange,
    PenstockError,
    SequenceReused,
)
from penstock.log.transactions import IN_TRANSACTION
from penstock.schemas.values import ValueMismatch
from penstock.wire.records import (
    CONTROL,
    TRANSACTIONAL,
    Header,
    Record,
    check_batch,
    decode_batch,
    read_header,
)
from penstock.wire.validation import EVERYTHING, INLINE_BYTES, Limits, check_records


class Invalid(NamedTuple):
    """A message with an invalid value: its record, and what is wrong with it."""

    record: Record
    finding: ValueMismatch


class Look:
    """A batch from outside, and what a look at it has shown."""

    __slots__ = ("data", "header", "invalid", "is_large", "kept", "number", "refusal")

    def __init__(self, topic: Topic, number: Any, data: Any) -> None:
        self.number = number  # Of the partition.
        self.data = data
        self.header: Header | None = None
        self.is_large = False  # Its records were not looked at yet: that takes a thread.
        self.refusal: PenstockError | None = None
        # Typed topics: the records whose values are invalid, and the batch without these.
        self.invalid: list[Invalid] = []
        self.kept = b""
        try:
            topic.partition(number)
            self.header = checked(topic, data)
            self.is_large = not check_small(topic, data, self.header, limits_of(topic))
        except PenstockError as refusal:
            self.refusal = refusal


def check_small(topic: Topic, data: bytes, header: Header, limits: Limits) -> bool:
    """Look at all records of a batch, unless that would take too long here; returns whether it is done."""
    keyless = check_records(data, header, limits, INLINE_BYTES)
    if keyless:
        raise key_missing(topic, keyless)
    return keyless is not None


def key_missing(topic: Topic, records: list[int]) -> KeyMissing:
    error = KeyMissing(topic=topic.name)
    error.records += records
    return error


def look_closely(data: bytes, header: Header, limits: Limits) -> list[int] | PenstockError | None:
    """What a look at all records shows; what a thread raises would end the whole operation."""
    try:
        return check_records(data, header, limits, EVERYTHING)
    except PenstockError as error:
        return error


def limits_of(topic: Topic) -> Limits:
    """What the topic's settings allow the records of a batch to be."""
    settings = topic.settings
    limits = topic.limits
    if limits.record_bytes_max != settings.message_bytes_max or limits.keyed != settings.compact:
        topic.limits = limits = Limits(settings.message_bytes_max, keyed=settings.compact)
    return limits


def check_repeat(partition: Partition, header: Header, first: int, data: bytes) -> None:
    """Refuse a batch that only has the numbers of an earlier one: as a repeat its messages would be lost.

    That happens: librdkafka drops what waits for its second try when a transaction is aborted, and gives
    the numbers to the next transaction.
    """
    why = ""
    opened = partition.log.transactions.open.get(header.producer_id, -1)
    if header.attributes & TRANSACTIONAL and not 0 <= opened <= first:
        why = "the transaction that had it has ended"
    elif not _was_in_parts(partition, data):
        why = _difference(partition, first, data)
    if why:
        raise SequenceReused(producer_id=header.producer_id, sequence=header.base_sequence, why=why)


def _was_in_parts(partition: Partition, data: bytes) -> bool:
    """Whether a batch was not written as it is, but as the messages that its headers describe."""
    if not partition.topic.settings.kafka_headers:
        return False
    return messages_with_options(decode_batch(data), partition.number) is not None


def _difference(partition: Partition, first: int, data: bytes) -> str:
    """Why the batch at ``first`` is not what was sent again; empty if it is."""
    try:
        stored, _ = partition.log.fetch_all(first, len(data), partition.log.end)
        header = read_header(stored)
        if header.base_offset != first:  # It is damaged, and passed over.
            return "the batch that had it is gone"
        if header.count == 0 and partition.topic.settings.validation == "dead-letter":
            return ""  # All its values were invalid.
        return "" if is_repeat_of(stored, data) else "the batch that had it has other records"
    except (OffsetOutOfRange, CorruptionError, InvalidBatch):
        return "the batch that had it is gone"


def check_bytes(data: Any) -> None:
    """Refuse what cannot be a batch by its type."""
    if type(data) is not bytes:
        raise InvalidValue(name="batch", value=data, why="a record batch is bytes")


def checked(topic: Topic, data: Any) -> Header:
    """The header of a batch that the topic may take."""
    check_bytes(data)
    header = check_batch(data)
    if header.size != len(data):
        why = f"it holds one batch of {header.size} bytes and more"
        raise InvalidValue(name="batch", value=len(data), why=why)
    if header.attributes & IN_TRANSACTION and (header.attributes & CONTROL or header.producer_id < 0):
        raise InvalidBatch(why="markers are the broker's, and a transaction is a producer's")
    if header.size > topic.settings.message_bytes_max + 1024 * header.count:
        raise MessageTooLarge(size_bytes=header.size, limit_bytes=topic.settings.message_bytes_max)
    return header
