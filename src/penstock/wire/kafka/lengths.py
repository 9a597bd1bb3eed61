"""Lengths and counts of the flexible versions: numbers of one to five bytes, and tagged fields passed over.

A length is written as the next higher number, so that 0 means null.  It is compared with the rest of the
message before anything is allocated for it.
"""

from typing import NoReturn

from penstock.errors import ProtocolViolation


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of one to five bytes, and the position behind it."""
    value = shift = 0
    while shift < 35:
        byte: int = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return refuse()


def passed_over(data: memoryview, at: int) -> int:
    """The position behind tagged fields of which none is known."""
    count, at = varint(data, at)
    for _ in range(count):
        _, at = varint(data, at)
        size, at = varint(data, at)
        at += size
    return at


def refuse() -> NoReturn:
    """Refuse a length that no valid message has."""
    raise ProtocolViolation(why="a length in the message does not fit")


def varint_bytes(value: int) -> bytes:
    """An unsigned number in as many groups of seven bits as it needs."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
