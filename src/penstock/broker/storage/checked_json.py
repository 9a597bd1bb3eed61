"""Small JSON files with a checksum, so that a damaged digit is not read as a setting."""

from typing import TypeVar

import msgspec
from crc32c import crc32c

T = TypeVar("T")


def encode_checked(value: msgspec.Struct) -> bytes:
    """A line of JSON, and a line with its checksum."""
    text = msgspec.json.encode(value)
    return text + b"\ncrc32c %08x\n" % crc32c(text)


def decode_checked(data: bytes, kind: type[T]) -> T:
    """The value; ``msgspec.DecodeError`` if something was changed."""
    text, _, seal = data.partition(b"\n")
    if seal != b"crc32c %08x\n" % crc32c(text):
        raise msgspec.DecodeError("its checksum does not match")
    return msgspec.json.decode(text, type=kind)
