"""Confluent's wire format: how a value says which schema it was written with.

0          magic byte 0
1 - 4      schema id, big-endian
5 ...      Protobuf only: indexes of the message in the file, as zigzag varints with their count in
           front; a single 0 stands for the first message
           then the value
"""

from typing import Final

MAGIC: Final = 0
ID_BYTES: Final = 5  # With the magic byte.
_INDEXES_MAX: Final = 100  # Levels of nesting.


def schema_id(data: bytes) -> int | None:
    """The id in front of a value; None if there is none."""
    if len(data) < ID_BYTES or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:ID_BYTES], "big")


def message_indexes(data: bytes, start: int = ID_BYTES) -> tuple[tuple[int, ...], int]:
    """The path to the message in a Protobuf file, and where the value begins; ValueError if malformed."""
    count, start = _zigzag(data, start)
    if count == 0:
        return (0,), start
    if not 0 < count <= _INDEXES_MAX:
        raise ValueError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, start = _zigzag(data, start)
        if index < 0:
            raise ValueError(f"a message index of {index}")
        indexes.append(index)
    return tuple(indexes), start


def _zigzag(data: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if start >= len(data) or shift > 63:
            raise ValueError("the message indexes are cut short")
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), start
        shift += 7
