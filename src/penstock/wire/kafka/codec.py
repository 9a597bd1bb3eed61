"""Encodes and decodes Kafka messages, with a generated reader and writer for each class and version.

    decode(FetchRequest, 12, frame) -> FetchRequest(max_wait_ms=500, ...)
    encode(FetchResponse(...), 12)  -> [bytes, records, bytes, ...]

Each table (``fields``) is translated to the source of one Python function, as ``dataclasses`` does for
``__init__``: adjacent fixed-size fields, and the length of the next field, are read with a single ``struct``
call, and nothing that depends on the version is decided at run time.  The source is generated on first use.

    I1  bytes from a network cause ``ProtocolViolation`` and no other error, and never more memory than a
        small multiple of their number: a count is compared with the remaining bytes before it is used
    I2  unknown tagged fields and trailing bytes are ignored, as in Kafka; librdkafka relies on it

Produce, by far the most frequent request, also has handwritten functions (``producing``).

Cost: 2 to 5 us for a request of one topic.  Records are read as slices of the frame, and written as separate
parts of the response, so that a megabyte is sent without a copy.
"""

import struct
from typing import TypeVar, cast

from penstock.errors import ProtocolViolation
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.messages.produce import ProduceRequest, ProduceResponse
from penstock.wire.kafka.producing import read_produce, write_produced
from penstock.wire.kafka.readers import part_reader
from penstock.wire.kafka.writers import Cuts, part_writer

T = TypeVar("T", bound=KafkaMessage)
Buffer = bytes | bytearray | memoryview


def decode(message: type[T], version: int, data: memoryview, at: int = 0) -> T:
    """The message that begins at a position of the data."""
    flexible = version >= message.FLEXIBLE
    value: T
    try:
        if message is ProduceRequest and flexible:
            request, end = read_produce(data, at, version)
            value = cast("T", request)
        else:
            value, end = part_reader(message, version, flexible)(data, at)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolViolation(why=f"{message.__name__} v{version} ends early or is garbled") from error
    if end > len(data):
        raise ProtocolViolation(why=f"{message.__name__} v{version} is longer than its frame")
    return value


def encode(message: KafkaMessage, version: int) -> list[Buffer]:
    """The message's bytes, in parts that belong one after the other."""
    flexible = version >= message.FLEXIBLE
    if flexible and isinstance(message, ProduceResponse):
        written = write_produced(message, version)
        if written is not None:
            return [written]
    out = bytearray()
    cuts: Cuts = []
    part_writer(type(message), version, flexible)(message, out, cuts)
    return spliced(out, cuts) if cuts else [out]


def spliced(out: bytearray, cuts: Cuts) -> list[Buffer]:
    """What was written, with the records that belong into it at their positions."""
    parts: list[Buffer] = []
    view = memoryview(out)
    done = 0
    for at, records in cuts:
        parts += (view[done:at], records)
        done = at
    parts.append(view[done:])
    return parts
