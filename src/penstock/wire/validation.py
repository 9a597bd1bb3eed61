"""Validates every record of a batch that a client encoded, before the batch is written.

A checksum proves that the bytes arrived as they were sent, not that they are valid records: a batch of
garbage, or one that unpacks to a gigabyte, would be acknowledged, and then stop every reader.  So the
records of batches from clients are checked first (``check_records``):

    lengths      of records, keys, values and headers fit into each other, and no byte is left over
    count        there are as many records as the header says, and none is missing in between
    names        of headers are UTF-8
    times        are in the range that readers can hold
    size         of each record, as the topic's limit counts it: key, value and headers
    unpacked     a compressed batch is not longer than its limit, of which never more is unpacked

``decode_batch`` and ``decode_columns`` can decode every valid batch, which a property test verifies.  No
objects are created, so validation costs about a fifth of decoding.

``at_most`` limits the number of bytes to check now, so that an event loop can leave large batches to a
thread.  The first record of a large batch is checked in any case: a record that is too large is refused by
its length, whatever its size.
"""

from typing import Final, final

from penstock.errors import InvalidBatch, InvalidRecords, MessageTooLarge
from penstock.types import i64
from penstock.wire.compression import unpack
from penstock.wire.records import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    MS_MAX,
    RECORD_BYTES_MIN,
    Header,
    long_varint,
)

# What is looked at on an event loop: a millisecond, with what unpacking costs.  A record counts as so many
# bytes at least, or a megabyte of the smallest would take ten times as long.
INLINE_BYTES: Final = 1 << 20
_RECORD_BYTES: Final = 100
EVERYTHING: Final = 1 << 60  # No limit.
# Of a compressed batch, unless a single record may be larger: what readers unpack at once, and hold.
UNPACKED_BYTES: Final = 16 << 20
_OVERHEAD_BYTES: Final = 64  # More than the lengths and deltas of a record with its key and value take.
_VARINT_BYTES_MAX: Final = 10


@final
class Limits:
    """What the records of a batch may be."""

    def __init__(self, record_bytes_max: int, *, dense: bool = True, keyed: bool = False) -> None:
        self.record_bytes_max: Final[i64] = record_bytes_max  # Key, value and headers of one.
        # With the lengths of all parts, which the limit does not count: empty headers are nothing but that.
        self.encoded_bytes_max: Final[i64] = 2 * record_bytes_max + _OVERHEAD_BYTES
        self.dense: Final = dense  # None is missing in between, as compaction leaves batches.
        self.keyed: Final = keyed  # Each has a key.
        self.unpacked_bytes_max: Final = min(
            max(UNPACKED_BYTES, record_bytes_max + record_bytes_max // 8 + _OVERHEAD_BYTES), BATCH_BYTES_MAX
        )


def check_records(data: bytes, header: Header, limits: Limits, at_most: int) -> list[int] | None:
    """The indexes of records that lack a key, if all need one; None if more than ``at_most`` is to look at.

    ``data`` is one whole batch.  Raises ``InvalidRecords`` or ``MessageTooLarge``.
    """
    if limits.dense and (header.count != header.last_offset_delta + 1 or header.count == 0):
        raise InvalidRecords(why=f"it has {header.count} records for {header.last_offset_delta + 1} offsets")
    for time_ms in (header.base_timestamp, header.max_timestamp):
        if not -MS_MAX <= time_ms <= MS_MAX:
            raise InvalidRecords(why=f"a timestamp of {time_ms}")
    if header.count * _RECORD_BYTES > at_most:
        return None
    if not header.codec:
        return _walk(data, HEADER_BYTES, header, limits)
    try:
        body, is_whole = unpack(
            header.codec, memoryview(data)[HEADER_BYTES:], min(at_most, limits.unpacked_bytes_max)
        )
    except InvalidBatch as error:
        raise InvalidRecords(why=error.why) from None
    if is_whole:
        return _walk(body, 0, header, limits)
    _check_first(body, limits)
    if at_most >= limits.unpacked_bytes_max:
        raise MessageTooLarge(size_bytes=limits.unpacked_bytes_max + 1, limit_bytes=limits.unpacked_bytes_max)
    return None


def _check_first(beginning: bytes, limits: Limits) -> None:
    """Refuse by the beginning of the records what is one record that is too large."""
    if len(beginning) >= _VARINT_BYTES_MAX:
        length, _ = _varint(beginning, 0, len(beginning))
        if length > limits.encoded_bytes_max:
            raise MessageTooLarge(size_bytes=length, limit_bytes=limits.record_bytes_max)


def _refusal(why: str, index: int) -> InvalidRecords:
    """The error for a batch in which one record is to blame."""
    error = InvalidRecords(why=why)
    error.records.append(index)
    return error


def _varint(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """A number, and the position behind it."""
    if position >= end:
        raise InvalidRecords(why=f"a number is cut short at byte {position}")
    byte: i64 = data[position]
    position += 1
    if byte >= 0x80:
        if position >= end:
            raise InvalidRecords(why=f"a number is cut short at byte {position}")
        second: i64 = data[position]
        if second >= 0x80:
            return _long_varint(data, position - 1, end)
        position += 1
        byte = byte - 0x80 + second * 0x80
    return (-(byte >> 1) - 1 if byte & 1 else byte >> 1), position


def _long_varint(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    try:
        number, behind = long_varint(data, position, end)
    except InvalidBatch as error:
        raise InvalidRecords(why=error.why) from None
    return i64(number), i64(behind)


def _blob(data: bytes, position: i64, end: i64, index: i64) -> tuple[i64, i64]:
    """The length of a byte string, -1 if there is none, and the position behind it."""
    length, position = _varint(data, position, end)
    if length < -1 or length > end - position:
        raise _refusal(f"record {index} has a part of {length} bytes", index)
    return length, (position + length if length > 0 else position)


def _begin(data: bytes, position: i64, end: i64, limits: Limits, index: i64) -> tuple[i64, i64]:
    """Where the next record begins, behind its length, and where it ends."""
    length, position = _varint(data, position, end)
    if length < RECORD_BYTES_MIN - 1 or length > end - position:
        raise _refusal(f"record {index} has a length of {length}", index)
    if length > limits.encoded_bytes_max:
        raise MessageTooLarge(size_bytes=length, limit_bytes=limits.record_bytes_max)
    return position, position + length


def _walk(data: bytes, begin: i64, header: Header, limits: Limits) -> list[int]:
    """Along all records, which lie from ``begin`` to the end of ``data``."""
    position = begin
    body_end: i64 = len(data)
    last_delta: i64 = header.last_offset_delta
    record_bytes_max: i64 = limits.record_bytes_max
    base_ms: i64 = header.base_timestamp
    count: i64 = header.count
    dense, keyed = limits.dense, limits.keyed
    keyless: list[int] = []
    following: i64 = 0  # The least offset delta of the next record.
    index: i64 = 0
    while index < count:
        position, end = _begin(data, position, body_end, limits, index)
        delta_ms, position = _varint(data, position + 1, end)  # Behind its attributes: none are defined.
        if not -MS_MAX <= delta_ms <= MS_MAX or not -MS_MAX <= base_ms + delta_ms <= MS_MAX:
            raise _refusal(f"record {index} is {delta_ms} ms from the first", index)
        delta, position = _varint(data, position, end)
        if delta < following or delta > last_delta or (dense and delta != index):
            raise _refusal(f"record {index} is {delta} offsets from the first", index)
        following = delta + 1
        key_bytes, position = _blob(data, position, end, index)
        value_bytes, position = _blob(data, position, end, index)
        if key_bytes < 0 and keyed:
            keyless.append(index)
        size = max(key_bytes, 0) + max(value_bytes, 0)
        headers, position = _varint(data, position, end)
        if headers:
            more, position = _walk_headers(data, position, end, headers, index)
            size += more
        if position != end:
            raise _refusal(f"record {index} does not end where it should", index)
        if size > record_bytes_max:
            raise MessageTooLarge(size_bytes=size, limit_bytes=record_bytes_max)
        index += 1
    if position != body_end:
        raise InvalidRecords(why=f"{body_end - position} bytes are left over after its records")
    return keyless


def _walk_headers(data: bytes, position: i64, end: i64, count: i64, index: i64) -> tuple[i64, i64]:
    """How many bytes the headers of a record have, and the position behind them."""
    if count < 0 or count > end - position:
        raise _refusal(f"record {index} has {count} headers", index)
    size: i64 = 0
    while count > 0:
        length, position = _varint(data, position, end)
        if length < 0 or length > end - position:
            raise _refusal(f"record {index} has a header without a name", index)
        try:
            data[position : position + length].decode()
        except UnicodeDecodeError:
            why = f"record {index} has a header whose name is not UTF-8"
            raise _refusal(why, index) from None
        size += length
        position += length
        length, position = _blob(data, position, end, index)
        if length > 0:
            size += length
        count -= 1
    return size, position
