"""Record batches of the conversations: made for requests, and taken apart for comparison."""

import struct
from typing import Any, Final

from crc32c import crc32c

HEAD: Final = struct.Struct(">qiibIhiqqqhii")
TIMESTAMP_DELTA: Final = b"\0"


def batch(
    *values: bytes | None,
    at_ms: int = 0,
    key: bytes | None = b"k",
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    magic: int = 2,
    crc: int | None = None,
) -> bytes:
    """One batch; ``producer`` is its id, epoch and first sequence number."""
    records = b"".join(_record(number, key, value) for number, value in enumerate(values))
    pid, epoch, sequence = producer
    tail = struct.pack(
        ">hiqqqhii", attributes, len(values) - 1, at_ms, at_ms, pid, epoch, sequence, len(values)
    )
    tail += records
    checked = crc32c(tail) if crc is None else crc
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, magic, checked) + tail


def _record(number: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + TIMESTAMP_DELTA + _varint(number) + _sized(key) + _sized(value) + b"\0"
    return _varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def summary(data: bytes) -> list[dict[str, Any]]:
    """What a client reads in the batches of an answer, without the checksum."""
    found: list[dict[str, Any]] = []
    at = 0
    while at + HEAD.size <= len(data):
        base, size, epoch, magic, _, attributes, last, first_ms, last_ms, pid, producer, sequence, count = (
            HEAD.unpack_from(data, at)
        )
        end = at + 12 + size
        found.append({
            "base_offset": base, "leader_epoch": epoch, "magic": magic, "attributes": attributes,
            "last_offset_delta": last, "base_timestamp": first_ms, "max_timestamp": last_ms,
            "producer_id": pid, "producer_epoch": producer, "base_sequence": sequence, "count": count,
            "content": data[at + HEAD.size : end],
        })  # fmt: skip
        at = end
    return found
