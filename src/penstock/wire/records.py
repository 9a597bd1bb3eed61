"""Record batches, whose bytes are the same on disk, in the native protocol and in Kafka's.

A batch is Kafka's RecordBatch v2: a header of 61 bytes, then records.

    0            8      12           16    17   21         23                27
    base offset | size | leader epoch | 2 | crc | attributes | last offset delta | ...
                                            └── CRC-32C of everything from byte 21 on ──

The CRC does not cover base offset and leader epoch, so a broker can assign them
without touching the records or computing the checksum again.  Penstock uses
attribute bits that Kafka clients ignore:

    bit   0-2    3           4              5        8-10  11         12       13     14
          codec  append time transactional  control  lane  SCHEDULED  EXPIRES  DEDUP  REDRIVEN

Invariants of what ``decode_batch`` returns: offsets rise strictly and stay
within the header's range; there are as many records as the header counts
(unless a sub-range was requested); no trailing bytes.  Every length is checked
against the remaining bytes before it is used, so damaged data raises
``InvalidBatch`` and no other error.

Costs, compiled by mypyc: a record of 100 bytes takes 0.15 to 0.2 us either
way, twice that with a key and a header; skipping one in ``decode_batch`` takes
0.04 us.  The encoder never writes a byte at a time: a record is a handful of
ready-made pieces, and the batch is one join of them.  Plain typed Python, so
the same file runs uncompiled: four times slower to encode, fifteen to decode.

Not supported: the older formats (magic 0 and 1).  Not checked: whether the records
have the headers that attribute bits 11 to 14 announce; that is up to the writer.

``docs/format/record-batch.md`` has the format byte by byte.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, final

from crc32c import crc32c

from penstock.errors import InvalidBatch, InvalidValue
from penstock.types import mypyc_attr
from penstock.wire.compression import compress, decompress

Buffer = bytes | bytearray | memoryview
Headers = list[tuple[str, bytes | None]]

HEADER_BYTES: Final = 61
SEQUENCES: Final = 1 << 31  # A producer's numbers are int32: from 0 up to this, and then from 0 again.
RECORD_BYTES_MIN: Final = 7  # Length, attributes, two deltas, key and value length, header count.
BATCH_BYTES_MAX: Final = 1 << 28  # Packed or unpacked: a whole segment of the default size.
RECORDS_MAX: Final = 1_000_000  # Bounds the objects that one small compressed batch can make us build.
MS_MAX: Final = ((1 << 63) - 1) // 1000  # A timestamp in microseconds, as Spark has them, has 64 bits.
SPAN_MAX: Final = (1 << 31) - 1  # The most offsets that one batch can span: a delta has 31 bits.
OFFSET_MAX: Final = (1 << 62) - 1  # Compiled code holds numbers up to here in a machine word.

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

MAGIC: Final = 2
MAGIC_AT: Final = 16
SIZE_BEGIN: Final = 12  # The size field counts from here.
CRC_BEGIN: Final = 21  # The checksum covers from here to the end.
_SIZE_AT: Final = 8
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_LAST_OFFSET_DELTA_AT: Final = 23
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_AT: Final = 43
_COUNT_AT: Final = 57
_CODEC_LAST: Final = 4
_LANE_LOWEST: Final = -2
_LANE_HIGHEST: Final = 2
_TIMESTAMP_MAX: Final = OFFSET_MAX  # For the same reason; both ways from 1970.
_UINT64_MAX: Final = (1 << 64) - 1
_COPY_BYTES_MAX: Final = 4096  # Up to here a copy to sum is cheaper than a view, which is three objects.

_HEADER: Final = Struct(">qiibIhiqqqhii")
# The type says that numbers come out, so that compiled code holds them in machine words.
_unpack_header: Final[
    Callable[[Buffer, int], tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]]
] = _HEADER.unpack_from
_PLACE: Final = Struct(">qii")  # Base offset, size and leader epoch: what lies before the checksum.
_PRODUCER: Final = Struct(">qhi")  # Id, epoch, sequence.
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_UINT32: Final = Struct(">I")
_unpack_int16: Final[Callable[[Buffer, int], tuple[int]]] = _INT16.unpack_from
_unpack_int32: Final[Callable[[Buffer, int], tuple[int]]] = _INT32.unpack_from
_unpack_int64: Final[Callable[[Buffer, int], tuple[int]]] = _INT64.unpack_from
_unpack_uint32: Final[Callable[[Buffer, int], tuple[int]]] = _UINT32.unpack_from

# Fields that are read together by code that walks along many batches and has no use for a ``Header``.
# Its size field comes as it is: less by SIZE_BEGIN than the batch.
_Numbers4 = tuple[int, int, int, int]
_Numbers6 = tuple[int, int, int, int, int, int]
_Numbers7 = tuple[int, int, int, int, int, int, int]
# Size, attributes, last offset delta, max timestamp.
unpack_extent: Final[Callable[[Buffer, int], _Numbers4]] = Struct(">8xi9xhi8xq").unpack_from
# Base offset, size, magic, last offset delta.
unpack_chain: Final[Callable[[Buffer, int], _Numbers4]] = Struct(">qi4xb6xi").unpack_from
# Base offset, size, magic, checksum, attributes, last offset delta.
unpack_link: Final[Callable[[Buffer, int], _Numbers6]] = Struct(">qi4xbIhi").unpack_from
# The same and the max timestamp.
unpack_link_and_time: Final[Callable[[Buffer, int], _Numbers7]] = Struct(">qi4xbIhi8xq").unpack_from
# Base offset, size, magic, attributes, last offset delta, producer id.
unpack_link_and_producer: Final[Callable[[Buffer, int], _Numbers6]] = Struct(">qi4xb4xhi16xq").unpack_from

_NO_HEADERS: Final[Headers] = []  # Shared by all records without headers: never change it.


@final
@mypyc_attr(acyclic=True)
class Record:
    """One record of a log.  ``attributes`` are its batch's; ``headers`` may be shared: do not change them."""

    __slots__ = ("attributes", "headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
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


def _encode_varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else ((-number) << 1) - 1  # Zigzag: 0, -1, 1, -2 become 0, 1, 2, 3.
    assert rest <= _UINT64_MAX, f"{number} does not fit into 64 bits"
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
# Pieces that records of a value alone are made of; see the two functions below.
_ENDS_AND_BEGINS: Final[list[bytes]] = [_ZERO + _VARINTS[number] + _AT_BASE for number in range(_VARINTS_MAX)]
_DELTAS_NO_KEY: Final[list[bytes]] = [_VARINTS[number] + _NO_BYTES for number in range(_VARINTS_MAX)]


def _varint(number: int) -> bytes:
    if 0 <= number < _VARINTS_MAX:
        return _VARINTS[number]
    return _encode_varint(number)


def _end_and_begin(size: int) -> bytes:
    """The end of a record without headers, and the beginning of the next, which takes ``size`` bytes."""
    if 0 <= size < _VARINTS_MAX:
        return _ENDS_AND_BEGINS[size]
    return _ZERO + _encode_varint(size) + _AT_BASE


def _delta_no_key(delta: int) -> bytes:
    if 0 <= delta < _VARINTS_MAX:
        return _DELTAS_NO_KEY[delta]
    return _encode_varint(delta) + _NO_BYTES


@final
class BatchBuilder:
    """Collects the records of one batch; ``build`` is called once."""

    def __init__(self) -> None:
        self.count = 0  # Records so far.
        self.size = HEADER_BYTES  # Of the batch if it were built now and not compressed.
        self._next_delta = 0
        self._pieces: list[bytes] = [_HEADER_SPACE]

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_delta: int = 0,
        offset_delta: int = -1,
    ) -> None:
        """Add a record; its offset is the next one unless given (gaps are allowed, going back is not)."""
        if offset_delta < 0:
            offset_delta = self._next_delta
        assert offset_delta >= self._next_delta, "offsets rise within a batch"
        times = _AT_BASE if timestamp_delta == 0 else b"\x00" + _varint(timestamp_delta)
        delta = _varint(offset_delta)
        pieces = self._pieces
        begin = len(pieces)
        pieces.append(_ZERO)  # For the record's length, known last.
        pieces.append(times)
        pieces.append(delta)
        size = len(times) + len(delta) + _put(pieces, key) + _put(pieces, value)
        if headers:
            try:
                size += _put_headers(pieces, headers)
            except UnicodeEncodeError as error:
                del pieces[begin:]
                why = "the name of a header must be valid Unicode"
                raise InvalidValue(name="headers", value=error.object, why=why) from None
        else:
            pieces.append(_ZERO)
            size += 1
        length = _varint(size)
        pieces[begin] = length
        self._next_delta = offset_delta + 1
        self.count += 1
        self.size += size + len(length)

    def add_values(self, values: list[bytes]) -> None:
        """Add a record for each value, as ``add(None, value, [])`` does, in half the pieces and the time."""
        if not values:
            return
        pieces = self._pieces
        begin = len(pieces)
        delta = self._next_delta
        total = 0
        for value in values:
            length = _varint(len(value))
            head = _delta_no_key(delta)
            size = len(head) + len(length) + len(value) + 3  # 3: attributes, time, no headers.
            border = _end_and_begin(size)
            pieces.append(border)
            pieces.append(head)
            pieces.append(length)
            pieces.append(value)
            total += size + len(border) - 3  # 3: what the border holds besides the record's length.
            delta += 1
        pieces[begin] = pieces[begin][1:]  # Before the first there is none to end ...
        pieces.append(_ZERO)  # ... and the last ends here.
        self.count += len(values)
        self._next_delta = delta
        self.size += total

    def build(
        self,
        base_timestamp: int,
        max_timestamp: int,
        attributes: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        last_offset_delta: int = -1,
    ) -> bytearray:
        """The batch at base offset 0, with its checksum, compressed if the attributes name a codec.

        ``last_offset_delta`` is the last record's unless given: a batch that
        lost its last records in compaction still spans their offsets.
        """
        last_offset_delta = max(last_offset_delta, self._next_delta - 1)
        assert last_offset_delta >= 0, "a batch spans at least one offset"
        pieces = self._pieces
        if self.count == 0:
            attributes &= ~CODEC_MASK  # As Kafka does: nothing is never compressed.
        elif attributes & CODEC_MASK:
            pieces = [_HEADER_SPACE, compress(attributes & CODEC_MASK, b"".join(pieces[1:]))]
        batch = bytearray().join(pieces)
        size = max(self.size, len(batch))  # Compression can make it longer.
        if size > BATCH_BYTES_MAX or self.count > RECORDS_MAX:
            why = f"{self.count} records of {size} bytes; {RECORDS_MAX} and {BATCH_BYTES_MAX} are the limits"
            raise InvalidBatch(why=why)
        _HEADER.pack_into(
            batch, 0, 0, len(batch) - SIZE_BEGIN, 0, MAGIC, 0, attributes, last_offset_delta,
            base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, self.count,
        )  # fmt: skip
        seal_batch(batch)
        return batch


def _put(pieces: list[bytes], blob: bytes | None) -> int:
    """Append a byte string with its length in front; returns how many bytes that makes."""
    if blob is None:
        pieces.append(_NO_BYTES)
        return 1
    length = _varint(len(blob))
    pieces.append(length)
    pieces.append(blob)
    return len(length) + len(blob)


def _put_headers(pieces: list[bytes], headers: Headers) -> int:
    count = _varint(len(headers))
    pieces.append(count)
    size = len(count)
    for name, value in headers:
        size += _put(pieces, name.encode()) + _put(pieces, value)
    return size


def seal_batch(batch: bytearray) -> None:
    """Write the checksum of what the batch holds now."""
    _UINT32.pack_into(batch, _CRC_AT, checksum(batch, CRC_BEGIN, len(batch)))


def checksum(data: Buffer, begin: int, end: int) -> int:
    if end - begin > _COPY_BYTES_MAX:
        return crc32c(memoryview(data)[begin:end])
    if isinstance(data, bytes):  # The same, but compiled code cuts known bytes without a slice object.
        return crc32c(data[begin:end])
    return crc32c(data[begin:end])


def encode_values(values: list[bytes], base_timestamp: int, attributes: int = 0) -> bytearray:
    """A batch of values without keys and headers that share a timestamp; faster than one by one."""
    builder = BatchBuilder()
    builder.add_values(values)
    return builder.build(base_timestamp, base_timestamp, attributes)


def place_batch(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Write the offset and leader epoch of a batch, which the checksum does not cover."""
    _PLACE.pack_into(batch, 0, base_offset, len(batch) - SIZE_BEGIN, leader_epoch)


def stamp_batch(batch: bytearray, timestamp: int, cleared: int = 0) -> None:
    """Set the timestamp of every record (LogAppendTime), clear some attributes, write the checksum."""
    _INT16.pack_into(batch, _ATTRIBUTES_AT, attributes_of(batch) & ~cleared | APPEND_TIME)
    _INT64.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp)
    seal_batch(batch)


def clear_attributes(batch: bytearray, cleared: int) -> None:
    """Clear some attributes and write the checksum again."""
    _INT16.pack_into(batch, _ATTRIBUTES_AT, attributes_of(batch) & ~cleared)
    seal_batch(batch)


def number_batch(batch: bytearray, producer_id: int, sequence: int) -> None:
    """Set the producer of a batch and the sequence number of its first record; seal it afterwards."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, 0, sequence)


def recount_batch(batch: bytearray, last_offset_delta: int, count: int) -> None:
    """Write size, extent, count and checksum of a batch from which records were removed."""
    _INT32.pack_into(batch, _SIZE_AT, len(batch) - SIZE_BEGIN)
    _INT32.pack_into(batch, _LAST_OFFSET_DELTA_AT, last_offset_delta)
    _INT32.pack_into(batch, _COUNT_AT, count)
    seal_batch(batch)


# Single fields of the batch at a position of data.  Nothing is checked; all of the header must be there,
# except for the base offset, which is compared where a header may be cut short.


def base_offset_of(data: Buffer, position: int = 0) -> int:
    return int.from_bytes(data[position : position + _SIZE_AT], "big")


def size_of(data: Buffer, position: int = 0) -> int:
    """The bytes of the whole batch, its header included."""
    return SIZE_BEGIN + _unpack_uint32(data, position + _SIZE_AT)[0]


def leader_epoch_of(data: Buffer, position: int = 0) -> int:
    return _unpack_int32(data, position + SIZE_BEGIN)[0]


def magic_of(data: Buffer, position: int = 0) -> int:
    """The version of the batch's format."""
    return data[position + MAGIC_AT]


def attributes_of(data: Buffer, position: int = 0) -> int:
    return _unpack_int16(data, position + _ATTRIBUTES_AT)[0]


def last_offset_delta_of(data: Buffer, position: int = 0) -> int:
    return _unpack_int32(data, position + _LAST_OFFSET_DELTA_AT)[0]


def max_timestamp_of(data: Buffer, position: int = 0) -> int:
    return _unpack_int64(data, position + _MAX_TIMESTAMP_AT)[0]


def producer_id_of(data: Buffer, position: int = 0) -> int:
    """The producer's id; -1 if it is not idempotent."""
    return _unpack_int64(data, position + _PRODUCER_AT)[0]


def count_of(data: Buffer, position: int = 0) -> int:
    return _unpack_int32(data, position + _COUNT_AT)[0]


def read_header(data: Buffer, position: int = 0) -> Header:
    """The header of the batch at a position of data; InvalidBatch if it cannot be one."""
    assert position >= 0
    left = len(data) - position
    if left < HEADER_BYTES:
        raise InvalidBatch(why=f"{left} bytes are less than the {HEADER_BYTES} of a header")
    (
        base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    ) = _unpack_header(data, position)  # fmt: skip
    if magic != MAGIC:
        raise InvalidBatch(why=f"its format is {magic}, and only {MAGIC} is supported")
    size = length + SIZE_BEGIN
    span = last_offset_delta + 1
    codec = attributes & CODEC_MASK
    lane = lane_of(attributes)
    # What no writer means and no reader could use.
    if not HEADER_BYTES <= size <= BATCH_BYTES_MAX:
        raise InvalidBatch(why=f"its size is {size} bytes")
    if span < 1 or not 0 <= base_offset <= OFFSET_MAX - span:
        raise InvalidBatch(why=f"it spans {span} offsets from {base_offset}")
    if not 0 <= count <= min(RECORDS_MAX, span):
        raise InvalidBatch(why=f"it has {count} records in {span} offsets")
    if codec > _CODEC_LAST:
        raise InvalidBatch(why=f"there is no codec {codec}")
    if size < HEADER_BYTES + (min(count, 1) if codec else count * RECORD_BYTES_MIN):
        raise InvalidBatch(why=f"{count} records do not fit into {size} bytes")
    if not _LANE_LOWEST <= lane <= _LANE_HIGHEST:
        raise InvalidBatch(why=f"there is no lane {lane}")
    return Header(
        base_offset, size, leader_epoch, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip


def check_batch(data: Buffer, position: int = 0) -> Header:
    """The header of the batch at a position of data, all of which is there and matches its checksum."""
    header = _read_whole(data, position)
    crc = checksum(data, position + CRC_BEGIN, position + header.size)
    if crc != header.crc:
        raise InvalidBatch(why=f"its checksum is {crc:08x}, not {header.crc:08x}")
    return header


def _read_whole(data: Buffer, position: int) -> Header:
    header = read_header(data, position)
    if header.size > len(data) - position:
        raise InvalidBatch(why=f"only {len(data) - position} of its {header.size} bytes are there")
    return header


def long_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number of more than two bytes, which is rare, and the position behind it."""
    number = 0  # Of any size, unlike a machine word.
    for shift in range(0, 70, 7):
        if position >= end:
            raise InvalidBatch(why=f"a number is cut short at byte {position}")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if byte >= 0x80 or number > _UINT64_MAX:
        raise InvalidBatch(why=f"a number does not fit into 64 bits at byte {position}")
    return -(number >> 1) - 1 if number & 1 else number >> 1, position


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
            raise InvalidBatch(why=f"a number is cut short at byte {position}")
        byte = self.data[position]
        position += 1
        if byte >= 0x80:
            if position >= self.end:
                raise InvalidBatch(why=f"a number is cut short at byte {position}")
            second = self.data[position]
            if second >= 0x80:
                number, self.position = long_varint(self.data, self.position, self.end)
                return number
            position += 1
            byte = byte - 0x80 + second * 0x80
        self.position = position
        return -(byte >> 1) - 1 if byte & 1 else byte >> 1

    def length(self, least: int) -> int:
        """The length of what follows: at least ``least``, at most what is left."""
        length = self.varint()
        if length < least or length > self.end - self.position:
            raise InvalidBatch(why=f"a length of {length} at byte {self.position}")
        return length

    def blob(self) -> bytes | None:
        """A byte string; a length of -1 is None."""
        length = self.length(-1)
        if length < 0:
            return None
        start = self.position
        self.position = start + length
        return self.data[start : start + length]

    def headers(self) -> Headers:
        count = self.length(0)
        if count == 0:
            return _NO_HEADERS
        headers: Headers = []
        for _number in range(count):
            name = self.blob()
            if name is None:
                raise InvalidBatch(why=f"a header without a name at byte {self.position}")
            headers.append((name.decode(), self.blob()))
        return headers


def record_at(data: bytes, position: int, end: int, count: int) -> int:
    """Where the record after the next ``count`` begins, for records that are not compressed."""
    reader = _Reader(data, position, end)
    for _number in range(count):
        length = reader.length(RECORD_BYTES_MIN - 1)  # Which moves the position, too.
        reader.position += length
    return reader.position


def decode_batch(
    data: Buffer,
    position: int = 0,
    start: int = 0,
    end: int = OFFSET_MAX,
    limit_bytes: int = BATCH_BYTES_MAX,
) -> list[Record]:
    """The records of the batch at a position of data; the checksum is not checked.

    Only those with an offset in [``start``, ``end``): the ones before are
    skipped without building them, the ones after are not looked at.
    ``limit_bytes`` bounds what a compressed batch may unpack to.
    """
    header = _read_whole(data, position)
    if header.size == HEADER_BYTES or end <= header.base_offset or start >= header.next_offset:
        return []
    body_start = position + HEADER_BYTES
    body_end = position + header.size
    if header.codec:
        body = decompress(header.codec, memoryview(data)[body_start:body_end], limit_bytes)
        reader = _Reader(body, 0, len(body))
    elif isinstance(data, bytes):
        reader = _Reader(data, body_start, body_end)
    else:
        body = bytes(memoryview(data)[body_start:body_end])
        reader = _Reader(body, 0, len(body))
    try:
        return _decode_records(reader, header, start, end)
    except UnicodeDecodeError:
        raise InvalidBatch(why="the name of a header is not UTF-8") from None


def _decode_records(reader: _Reader, header: Header, start: int, end: int) -> list[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    attributes = header.attributes
    append_time = attributes & APPEND_TIME != 0
    next_offset = header.next_offset
    body_end = reader.end
    least = base_offset
    records: list[Record] = []
    for _number in range(header.count):
        reader.end = reader.length(RECORD_BYTES_MIN - 1) + reader.position
        reader.position += 1  # The record's own attributes: none are defined.
        timestamp = base_timestamp + reader.varint()
        offset = base_offset + reader.varint()
        if offset < least or offset >= next_offset:
            raise InvalidBatch(why=f"offset {offset} is out of order or outside the batch")
        if offset >= end:
            return records
        least = offset + 1
        if offset >= start:
            if append_time:
                timestamp = header.max_timestamp
            elif not -_TIMESTAMP_MAX <= timestamp <= _TIMESTAMP_MAX:
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
