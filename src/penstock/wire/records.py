"""Record batches: the bytes that are the same on disk, on the native wire and on Kafka's.

A batch is Kafka's RecordBatch v2: a header of 61 bytes, then records.

    0            8      12           16    17   21         23                27
    base offset | size | leader epoch | 2 | crc | attributes | last offset delta | ...
                                            └── CRC-32C of everything from byte 21 on ──

Base offset and leader epoch lie outside the CRC, so a broker places a batch
in its log without touching the records or summing them again.  Penstock's own
facts ride in attribute bits that Kafka's clients ignore:

    bit   0-2    3           4              5        8-10  11         12       13     14
          codec  append time transactional  control  lane  SCHEDULED  EXPIRES  DEDUP  REDRIVEN

Invariants of what ``decode_batch`` returns: offsets rise strictly and stay
within the header's range; there are as many records as the header counts
(unless a sub-range was asked for); no byte of the batch is left over.  Every
length is checked against what is left before it is used, so damaged bytes
give ``InvalidBatch`` and nothing else.

Costs, compiled by mypyc: a record of 100 bytes takes about 0.1 us either way.
The encoder never writes a byte at a time: a record is a handful of ready-made
pieces, and the batch is one join of them.  Plain typed Python, so the same
file runs uncompiled, slower.  Leaves out: the older formats (magic 0 and 1).

``docs/format/record-batch.md`` has the format byte by byte.
"""

from struct import Struct
from typing import Final, final

from crc32c import crc32c

from penstock.errors import InvalidBatch
from penstock.wire.compression import compress, decompress

Buffer = bytes | bytearray | memoryview
Headers = list[tuple[str, bytes | None]]

HEADER_BYTES: Final = 61
RECORD_BYTES_MIN: Final = 7  # Length, attributes, two deltas, key and value length, header count.
RECORDS_MAX: Final = 1_000_000  # Bounds the objects that one small compressed batch can make us build.
BATCH_BYTES_MAX: Final = 1 << 30  # The size field would allow 2 GiB; nobody means that.
RECORDS_BYTES_MAX: Final = 1 << 28  # Of one batch, decompressed: far above any real one, far below the memory.

CODEC_MASK: Final = 0x0007
APPEND_TIME: Final = 1 << 3
TRANSACTIONAL: Final = 1 << 4
CONTROL: Final = 1 << 5
LANE_SHIFT: Final = 8
LANE_MASK: Final = 0x7 << 8
SCHEDULED: Final = 1 << 11  # The records carry x-schedule-id.
EXPIRES: Final = 1 << 12  # Some record carries x-expires-at.
DEDUP: Final = 1 << 13  # Some record carries x-dedup-id.
REDRIVEN: Final = 1 << 14  # The records carry x-redrive-group.

_MAGIC: Final = 2
_SIZE_BEGIN: Final = 12  # The size field counts from here.
_CRC_BEGIN: Final = 21  # The checksum covers from here to the end.
_CODEC_LAST: Final = 4
_LANE_LOWEST: Final = -2
_LANE_HIGHEST: Final = 2
_OFFSET_MAX: Final = (1 << 63) - 1
_TIMESTAMP_MIN: Final = -(1 << 63)

_HEADER: Final = Struct(">qiibIhiqqqhii")
_PLACE: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")

_NO_HEADERS: Final[Headers] = []  # Shared by all records without headers: never change it.


@final
class Record:
    """One record of a log.  ``attributes`` are its batch's; ``headers`` may be shared: do not change them."""

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        attributes: int,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp  # Milliseconds since 1970.
        self.key = key
        self.value = value
        self.headers = headers
        self.attributes = attributes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
            and self.attributes == other.attributes
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp, self.key, self.value))

    def __repr__(self) -> str:
        return (
            f"Record({self.offset}, {self.timestamp}, {self.key!r}, {self.value!r}, "
            f"{self.headers!r}, {self.attributes})"
        )


@final
class Header:
    """The header of a batch, in the order of its bytes."""

    def __init__(
        self,
        base_offset: int,
        size: int,
        leader_epoch: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        count: int,
    ) -> None:
        self.base_offset = base_offset
        self.size = size  # Of the whole batch in bytes, header included.
        self.leader_epoch = leader_epoch
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id  # -1 when the producer is not idempotent, as are the next two.
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.count = count  # Of records; after compaction less than the offsets the batch spans.

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def lane(self) -> int:
        """The lane of all records of the batch."""
        return lane_of(self.attributes)

    @property
    def codec(self) -> int:
        """The number of the codec."""
        return self.attributes & CODEC_MASK


def lane_attributes(lane: int) -> int:
    """The attribute bits of a lane."""
    assert _LANE_LOWEST <= lane <= _LANE_HIGHEST, f"there is no lane {lane}"
    return (lane & 7) << LANE_SHIFT


def lane_of(attributes: int) -> int:
    """The lane in a batch's attributes."""
    lane = (attributes & LANE_MASK) >> LANE_SHIFT
    return lane - 8 if lane > 3 else lane


# --- encoding -------------------------------------------------------------------------------------------------


def _encode_varint(number: int) -> bytes:
    assert _TIMESTAMP_MIN <= number <= _OFFSET_MAX, f"{number} does not fit into 64 bits"
    rest = number << 1 if number >= 0 else ((-number) << 1) - 1
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_VARINTS_MAX: Final = 1024  # Covers the offsets and most lengths of ordinary batches, in 50 KB.
_VARINTS: Final[list[bytes]] = [_encode_varint(number) for number in range(_VARINTS_MAX)]
_NO_BYTES: Final = _encode_varint(-1)
_ZERO: Final = _encode_varint(0)
_AT_BASE: Final = b"\x00" + _ZERO  # Record attributes (none are defined) and a timestamp delta of 0.
_HEADER_SPACE: Final = bytes(HEADER_BYTES)


def _varint(number: int) -> bytes:
    if 0 <= number < _VARINTS_MAX:
        return _VARINTS[number]
    return _encode_varint(number)


@final
class BatchBuilder:
    """Collects the records of one batch; ``build`` once, then throw it away."""

    def __init__(self) -> None:
        self.count = 0  # Records so far.
        self.size = HEADER_BYTES  # Of the batch if it were built now and not compressed.
        self._next_delta = 0
        self._pieces: list[bytes] = [_HEADER_SPACE]

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        timestamp_delta: int = 0,
        offset_delta: int = -1,
    ) -> None:
        """Add a record; its offset is the next one unless given (gaps are allowed, going back is not)."""
        if offset_delta < 0:
            offset_delta = self._next_delta
        assert offset_delta >= self._next_delta, "offsets rise within a batch"
        times = _AT_BASE if timestamp_delta == 0 else b"\x00" + _varint(timestamp_delta)
        delta = _varint(offset_delta)
        key_size = _NO_BYTES if key is None else _varint(len(key))
        value_size = _NO_BYTES if value is None else _varint(len(value))
        size = len(times) + len(delta) + len(key_size) + len(value_size)
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        tail = _encode_headers(headers) if headers else _ZERO
        size += len(tail)
        length = _varint(size)
        pieces = self._pieces
        pieces.append(length)
        pieces.append(times)
        pieces.append(delta)
        pieces.append(key_size)
        if key is not None:
            pieces.append(key)
        pieces.append(value_size)
        if value is not None:
            pieces.append(value)
        pieces.append(tail)
        self._next_delta = offset_delta + 1
        self.count += 1
        self.size += size + len(length)

    def build(
        self,
        base_timestamp: int,
        max_timestamp: int,
        attributes: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> bytearray:
        """The batch at base offset 0, checksum set, compressed if the attributes name a codec."""
        assert self.count > 0, "a batch holds at least one record"
        return _assemble(
            self._pieces, self._next_delta - 1, self.count,
            base_timestamp, max_timestamp, attributes, producer_id, producer_epoch, base_sequence,
        )  # fmt: skip


def _encode_headers(headers: list[tuple[str, bytes | None]]) -> bytes:
    pieces = [_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        pieces.append(_varint(len(encoded)))
        pieces.append(encoded)
        if value is None:
            pieces.append(_NO_BYTES)
        else:
            pieces.append(_varint(len(value)))
            pieces.append(value)
    return b"".join(pieces)


def _assemble(
    pieces: list[bytes],
    last_offset_delta: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytearray:
    codec = attributes & CODEC_MASK
    if codec:
        pieces = [_HEADER_SPACE, compress(codec, b"".join(pieces)[HEADER_BYTES:])]
    batch = bytearray().join(pieces)
    _HEADER.pack_into(
        batch, 0, 0, len(batch) - _SIZE_BEGIN, 0, _MAGIC, 0, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    _seal(batch)
    return batch


def _seal(batch: bytearray) -> None:
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[_CRC_BEGIN:]))


def encode_values(values: list[bytes], base_timestamp: int, attributes: int = 0) -> bytearray:
    """A batch of values without keys and headers, all of one time: the quick way for many."""
    builder = BatchBuilder()
    for value in values:
        builder.add(None, value, _NO_HEADERS)
    return builder.build(base_timestamp, base_timestamp, attributes)


def place_batch(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in a log; the checksum does not cover it, so it stays right."""
    _PLACE.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, 12, leader_epoch)


def stamp_batch(batch: bytearray, timestamp: int) -> None:
    """Make a timestamp that of every record (LogAppendTime), and sum the batch again."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, 21)
    _ATTRIBUTES.pack_into(batch, 21, attributes | APPEND_TIME)
    _TIMESTAMP.pack_into(batch, 35, timestamp)
    _seal(batch)


def rewrite_batch(header: Header, records: list[Record]) -> bytearray:
    """The same batch with fewer records: offsets, their range and the producer's fields stay."""
    builder = BatchBuilder()
    for record in records:
        builder.add(
            record.key, record.value, record.headers,
            record.timestamp - header.base_timestamp, record.offset - header.base_offset,
        )  # fmt: skip
    batch = _assemble(
        builder._pieces, header.last_offset_delta, builder.count, header.base_timestamp, header.max_timestamp,
        header.attributes, header.producer_id, header.producer_epoch, header.base_sequence,
    )  # fmt: skip
    place_batch(batch, header.base_offset, header.leader_epoch)
    return batch


# --- decoding -------------------------------------------------------------------------------------------------


def read_header(data: Buffer, position: int = 0) -> Header:
    """The header of the batch at a position of data; InvalidBatch if it cannot be one."""
    left = len(data) - position
    if left < HEADER_BYTES:
        raise InvalidBatch(why=f"{left} bytes are less than the {HEADER_BYTES} of a header")
    (
        base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = _HEADER.unpack_from(data, position)  # fmt: skip
    if magic != _MAGIC:
        raise InvalidBatch(why=f"its format is {magic}, and only {_MAGIC} is supported")
    header = Header(
        base_offset, length + _SIZE_BEGIN, leader_epoch, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    why = _complaint(header)
    if why:
        raise InvalidBatch(why=why)
    return header


def _complaint(header: Header) -> str:
    """What is absurd about a header; empty if nothing is."""
    if not HEADER_BYTES <= header.size <= BATCH_BYTES_MAX:
        return f"its size is {header.size} bytes"
    if header.last_offset_delta < 0 or not 0 <= header.base_offset <= _OFFSET_MAX - header.last_offset_delta - 1:
        return f"it begins at offset {header.base_offset} and ends {header.last_offset_delta} later"
    if not 0 <= header.count <= min(RECORDS_MAX, header.last_offset_delta + 1):
        return f"it has {header.count} records in {header.last_offset_delta + 1} offsets"
    if header.codec > _CODEC_LAST:
        return f"there is no codec {header.codec}"
    if header.codec == 0 and header.count * RECORD_BYTES_MIN > header.size - HEADER_BYTES:
        return f"{header.count} records do not fit into {header.size} bytes"
    if not _LANE_LOWEST <= header.lane <= _LANE_HIGHEST:
        return f"there is no lane {header.lane}"
    return ""


def check_batch(data: Buffer, position: int = 0) -> Header:
    """The header of the batch at a position of data, all of which is there and matches its checksum."""
    header = _whole_header(data, position)
    crc = crc32c(memoryview(data)[position + _CRC_BEGIN : position + header.size])
    if crc != header.crc:
        raise InvalidBatch(why=f"its checksum is {crc:08x}, not {header.crc:08x}")
    return header


def _whole_header(data: Buffer, position: int) -> Header:
    header = read_header(data, position)
    if header.size > len(data) - position:
        raise InvalidBatch(why=f"only {len(data) - position} of its {header.size} bytes are there")
    return header


@final
class _Reader:
    """A cursor over encoded records that never moves back and never passes ``end``."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data: Final = data
        self.position = position
        self.end = end  # Of the records; while one record is read, of that record.

    def varint(self) -> int:
        position = self.position
        if position >= self.end:
            raise InvalidBatch(why=f"a number is cut short at byte {position} of the records")
        byte = self.data[position]
        if byte < 0x80:  # Nearly always.
            self.position = position + 1
            return (byte >> 1) ^ -(byte & 1)
        return self._long_varint()

    def _long_varint(self) -> int:
        position = self.position
        result = 0
        shift = 0
        while position < self.end and shift < 70:
            byte = self.data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 and result < 1 << 64:
                self.position = position
                return (result >> 1) ^ -(result & 1)
        raise InvalidBatch(why=f"a number is cut short or too long at byte {self.position} of the records")

    def length(self, least: int) -> int:
        """The length of what follows: at least ``least``, at most what is left."""
        length = self.varint()
        if length < least or length > self.end - self.position:
            raise InvalidBatch(why=f"a length of {length} at byte {self.position} of the records")
        return length

    def blob(self) -> bytes | None:
        """A byte string; a length of -1 is None."""
        length = self.length(-1)
        if length < 0:
            return None
        start = self.position
        self.position = start + length
        return self.data[start : start + length]

    def headers(self) -> list[tuple[str, bytes | None]]:
        count = self.length(0)
        if count == 0:
            return _NO_HEADERS
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name = self.blob()
            if name is None:
                raise InvalidBatch(why=f"a header without a name at byte {self.position} of the records")
            headers.append((name.decode(), self.blob()))
        return headers


def decode_batch(
    data: Buffer,
    position: int = 0,
    start: int = 0,
    end: int = _OFFSET_MAX,
    limit_bytes: int = RECORDS_BYTES_MAX,
) -> list[Record]:
    """The records of the batch at a position of data with offsets in [start, end); the CRC is not checked.

    Records outside the range are skipped without being built, and those after
    it are not looked at.  ``limit_bytes`` bounds what a compressed batch may unfold to.
    """
    header = _whole_header(data, position)
    body_start = position + HEADER_BYTES
    body_end = position + header.size
    if header.codec:
        body = decompress(header.codec, memoryview(data)[body_start:body_end], limit_bytes)
        reader = _Reader(body, 0, len(body))
    else:
        raw = data if isinstance(data, bytes) else bytes(data)
        reader = _Reader(raw, body_start, body_end)
    try:
        return _decode_records(reader, header, start, end)
    except UnicodeDecodeError:
        raise InvalidBatch(why="the name of a header is not UTF-8") from None


def _decode_records(reader: _Reader, header: Header, start: int, end: int) -> list[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    attributes = header.attributes
    append_time = attributes & APPEND_TIME != 0
    body_end = reader.end
    least = base_offset
    records: list[Record] = []
    for _ in range(header.count):
        reader.end = reader.length(RECORD_BYTES_MIN - 1) + reader.position
        reader.position += 1  # The record's own attributes: none are defined.
        timestamp = base_timestamp + reader.varint()
        offset = base_offset + reader.varint()
        if offset < least or offset >= header.next_offset:
            raise InvalidBatch(why=f"offset {offset} is out of order or outside the batch")
        if offset >= end:
            return records
        least = offset + 1
        if offset >= start:
            if append_time:
                timestamp = header.max_timestamp
            elif not _TIMESTAMP_MIN <= timestamp <= _OFFSET_MAX:
                raise InvalidBatch(why=f"a timestamp of {timestamp}")
            records.append(
                Record(offset, timestamp, reader.blob(), reader.blob(), reader.headers(), attributes)
            )
            if reader.position != reader.end:
                raise InvalidBatch(why=f"a record does not end where it should, at byte {reader.end}")
        reader.position = reader.end
        reader.end = body_end
    if reader.position != body_end:
        raise InvalidBatch(why=f"{body_end - reader.position} bytes are left over after its records")
    return records
