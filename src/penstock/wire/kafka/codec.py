"""Kafka's messages as bytes, and back: a reader and a writer for each class and version, made from its table.

    decode(FetchRequest, 12, frame) -> FetchRequest(max_wait_ms=500, ...)
    encode(FetchResponse(...), 12)  -> [bytes, records, bytes, ...]

A table (``fields``) is turned into the Python text of one function, as ``dataclasses`` makes an ``__init__``:
neighbours of fixed size, and the length of what follows them, are read with a single ``struct`` call, and
nothing is decided at run time that the version has decided already.  The text is made at first use.

    I1  bytes from a network cause ``ProtocolViolation`` and no other error, and never more memory than a
        small multiple of their number: a count is compared with what is left before anything is made for it
    I2  unknown tagged fields are passed over, and so is what lies behind a message: Kafka does it, too, and
        librdkafka relies on it

Produce has functions written by hand besides (``producing``): it is the one that comes in great numbers.

Cost: 2 to 5 us for a request of one topic.  Records are slices of the frame when read; when written they are
parts of the answer of their own, so that a megabyte goes to the socket without a copy.
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
