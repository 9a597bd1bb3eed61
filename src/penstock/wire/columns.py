"""Decodes record batches into columns, the buffers of Arrow arrays, without creating an object per record.

    fetched bytes   header │ record record record ... │ header │ record ...
                                    │
    spans of values        begin end begin end ...          int32, into the bytes themselves
    offsets, timestamps    int64 int64 ...                  timestamps in microseconds, as Spark has them

The spans of a column are also the offsets of an Arrow array over the fetched bytes:
every other entry is a value of the column, and the entries between are the bytes
between two values.  Arrow selects every other entry in C, so no value is copied
here.  Only the requested columns are decoded.

Invariants: batches that ``decode_batch`` refuses are refused here, too, with
``InvalidBatch`` (except header names that are not UTF-8, which fail when they are
converted to text), and so are timestamps that do not fit into 64 bits of
microseconds.  Rows are in the order of their offsets.  Control batches contain
markers, not messages, and produce no rows.

Costs, compiled: 35 ns for the value of a record, 50 ns for all its columns, and 15
to 30 ns for each header; most of this is memory latency.  Compressed batches are
unpacked one after the other into one buffer.  Interpreted, it is fifty times slower.

Creating arrays is left to callers that have Arrow.  Only ``penstock.spark`` imports this
module, because it needs ``librt``.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_le, write_i64_le

from penstock.errors import InvalidBatch
from penstock.types import i32, i64, u8
from penstock.wire.compression import decompress
from penstock.wire.records import (
    APPEND_TIME,
    BATCH_BYTES_MAX,
    CONTROL,
    HEADER_BYTES,
    MS_MAX,
    RECORD_BYTES_MIN,
    Header,
    long_varint,
    read_header,
)

OFFSET: Final = 1  # Columns, as bits of ``wanted``.
TIMESTAMP: Final = 2
KEY: Final = 4
VALUE: Final = 8
HEADERS: Final = 16
LANE: Final = 32
EVERY_HEADER: Final = 64  # With HEADERS: also those whose name repeats.

CHUNK_BYTES: Final = 1 << 24  # Unpacked at a time; one batch may be larger.  Spans are int32: far below.

_FEW: Final = 8  # Headers of one record: so many names are compared with each other, more are looked up.


@final
class Spans:
    """A column of byte strings: where each begins and ends in the data, and which of them are there."""

    def __init__(self) -> None:
        self.bounds = BytesWriter()  # int32: begin and end of each.
        self.valid = BytesWriter()  # A bit for each, lowest first, as Arrow has it; see ``bitmap``.
        self.count: i64 = 0
        self.nulls: i64 = 0
        self._bits: i64 = 0  # Of the last byte, which is not full yet.

    def put(self, begin: i64, end: i64, there: bool) -> None:
        """Add one; what is not there is empty, too."""
        write_i32_le(self.bounds, i32(begin))
        write_i32_le(self.bounds, i32(end))
        bit = self.count & 7
        if there:
            self._bits |= 1 << bit
        else:
            self.nulls += 1
        if bit == 7:
            self.valid.append(u8(self._bits))
            self._bits = 0
        self.count += 1

    def bitmap(self) -> bytes:
        """The bits, to the last."""
        full = self.valid.getvalue()
        return full + bytes([self._bits]) if self.count & 7 else full


@final
class Columns:
    """The requested columns of some batches; the others are empty."""

    def __init__(self, data: bytes, wanted: int) -> None:
        self.data = data  # What the spans point into.
        self.wanted: Final = wanted
        self.rows: i64 = 0
        self.offsets = BytesWriter()  # int64
        self.timestamps = BytesWriter()  # int64, microseconds since 1970
        self.lanes = BytesWriter()  # int32
        self.keys = Spans()
        self.values = Spans()
        self.header_ends = BytesWriter()  # int32: for each row, how many headers there are up to its end.
        self.names = Spans()
        self.contents = Spans()
        self.position = 0  # In what was fetched: where the next batch begins.


@final
class _Cursor:
    """Reads records, never moves back and never passes ``end``."""

    def __init__(self, data: bytes, position: i64, end: i64) -> None:
        self.data: Final = data
        self.position: i64 = position
        self.end: i64 = end  # Of the records; while one record is read, of that record.

    def varint(self) -> i64:
        position = self.position
        if position >= self.end:
            raise InvalidBatch(why=f"a number is cut short at byte {position}")
        byte: i64 = self.data[position]
        position += 1
        if byte >= 0x80:
            if position >= self.end:
                raise InvalidBatch(why=f"a number is cut short at byte {position}")
            second: i64 = self.data[position]
            if second >= 0x80:
                number, self.position = long_varint(self.data, self.position, self.end)
                return i64(number)
            position += 1
            byte = byte - 0x80 + second * 0x80
        self.position = position
        return -(byte >> 1) - 1 if byte & 1 else byte >> 1

    def length(self, least: i64) -> i64:
        """The length of what follows: at least ``least``, at most what is left."""
        length = self.varint()
        if length < least or length > self.end - self.position:
            raise InvalidBatch(why=f"a length of {length} at byte {self.position}")
        return length

    def blob(self, spans: Spans | None) -> None:
        """A byte string, noted in ``spans`` if it is wanted."""
        length = self.length(-1)
        begin = self.position
        if length > 0:
            self.position = begin + length
        if spans is not None:
            spans.put(begin, self.position, length >= 0)

    def name(self, spans: Spans | None) -> i64:
        """The name of a header, which must be there; returns where it begins."""
        length = self.length(-1)
        if length < 0:
            raise InvalidBatch(why=f"a header without a name at byte {self.position}")
        begin = self.position
        self.position = begin + length
        if spans is not None:
            spans.put(begin, self.position, True)
        return begin


def decode_columns(data: bytes, position: int, start: int, end: int, wanted: int) -> Columns:
    """The records with an offset in [``start``, ``end``) of the batches from a position of data on.

    Of all batches, or of as many as unpack to about ``CHUNK_BYTES``: the answer's position says where the
    next one begins.  The checksum is not checked.
    """
    batches = _Batches(data, position)
    headers = batches.collect(start, end)
    columns = Columns(batches.unpacked(), wanted)
    columns.position = batches.position
    for header, begin, stop in headers:
        _decode_records(columns, header, begin, stop, start, end)
    return columns


@final
class _Batches:
    """Collects batches whose records shall lie in one buffer: the data itself, unless some are compressed."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data: Final = data
        self.position = position
        self._pieces: list[bytes] = []  # If they are compressed: what they unpack to.
        self._size = 0  # Of the pieces.

    def collect(self, start: int, end: int) -> list[tuple[Header, int, int]]:
        """The headers of batches that hold the range, and where the records of each begin and end."""
        found: list[tuple[Header, int, int]] = []
        while self.position < len(self.data) and self._size < CHUNK_BYTES:
            header = read_header(self.data, self.position)
            if header.size > len(self.data) - self.position:
                left = len(self.data) - self.position
                raise InvalidBatch(why=f"only {left} of its {header.size} bytes are there")
            inside = start < header.next_offset and header.base_offset < end
            if inside and header.count and not header.attributes & CONTROL:
                if found and (header.codec != 0) != bool(self._pieces):
                    break  # Packed and plain ones lie in different buffers.
                found.append(self._place(header))
            self.position += header.size
        return found

    def _place(self, header: Header) -> tuple[Header, int, int]:
        begin = self.position + HEADER_BYTES
        stop = self.position + header.size
        if not header.codec:
            return header, begin, stop
        piece = decompress(header.codec, memoryview(self.data)[begin:stop], BATCH_BYTES_MAX)
        self._pieces.append(piece)
        self._size += len(piece)
        return header, self._size - len(piece), self._size

    def unpacked(self) -> bytes:
        """What the places refer to."""
        if not self._pieces:
            return self.data
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def _decode_records(columns: Columns, header: Header, begin: int, stop: int, start: int, end: int) -> None:
    cursor = _Cursor(columns.data, begin, stop)
    place = _Place(columns, header)
    keys = columns.keys if columns.wanted & KEY else None
    values = columns.values if columns.wanted & VALUE else None
    first: i64 = start
    last: i64 = end
    body_end: i64 = stop
    base_offset: i64 = header.base_offset
    next_offset: i64 = header.next_offset
    least = base_offset
    for _number in range(header.count):
        cursor.end = cursor.length(RECORD_BYTES_MIN - 1) + cursor.position
        cursor.position += 1  # The record's own attributes: none are defined.
        delta_ms = cursor.varint()
        offset = base_offset + cursor.varint()
        if offset < least or offset >= next_offset:
            raise InvalidBatch(why=f"offset {offset} is out of order or outside the batch")
        if offset >= last:
            return
        least = offset + 1
        if offset >= first:
            place.put(offset, delta_ms)
            cursor.blob(keys)
            cursor.blob(values)
            _decode_headers(columns, cursor)
            if cursor.position != cursor.end:
                raise InvalidBatch(why=f"a record does not end where it should, at byte {cursor.end}")
        cursor.position = cursor.end
        cursor.end = body_end
    if cursor.position != body_end:
        raise InvalidBatch(why=f"{body_end - cursor.position} bytes are left over after its records")


@final
class _Place:
    """Offsets and times of the records of a batch: all that a row has besides byte strings."""

    def __init__(self, columns: Columns, header: Header) -> None:
        append_time = header.attributes & APPEND_TIME != 0
        self._columns: Final = columns
        self._offset: Final = columns.wanted & OFFSET != 0
        self._timestamp: Final = columns.wanted & TIMESTAMP != 0
        self._lane: Final = columns.wanted & LANE != 0
        self._base_ms: i64 = header.max_timestamp if append_time else header.base_timestamp
        self._fixed: Final = append_time
        self._number: i64 = header.lane

    def put(self, offset: i64, delta_ms: i64) -> None:
        columns = self._columns
        columns.rows += 1
        if self._offset:
            write_i64_le(columns.offsets, offset)
        if self._timestamp:
            write_i64_le(columns.timestamps, self._time(delta_ms))
        if self._lane:
            write_i32_le(columns.lanes, i32(self._number))

    def _time(self, delta_ms: i64) -> i64:
        base_ms = self._base_ms
        if self._fixed:
            delta_ms = 0
        if -MS_MAX <= base_ms <= MS_MAX and -MS_MAX <= delta_ms <= MS_MAX:
            timestamp = base_ms + delta_ms
            if -MS_MAX <= timestamp <= MS_MAX:
                return timestamp * 1000
        raise InvalidBatch(why=f"a timestamp of {base_ms} + {delta_ms} ms")


def _decode_headers(columns: Columns, cursor: _Cursor) -> None:
    """The headers of a record as the entries of a map: where a name repeats, the last one wins.

    With EVERY_HEADER all of them, as the entries of a list.
    """
    count = cursor.length(0)
    if not columns.wanted & HEADERS:
        for _number in range(count):
            cursor.name(None)
            cursor.blob(None)
        return
    if count > 1 and not columns.wanted & EVERY_HEADER and (count > _FEW or _repeats(cursor, count)):
        _decode_last_ones(columns, cursor, count)
    else:
        for _number in range(count):
            cursor.name(columns.names)
            cursor.blob(columns.contents)
    write_i32_le(columns.header_ends, i32(columns.names.count))


def _repeats(cursor: _Cursor, count: i64) -> bool:
    """Does a name come twice among the next headers?  For few of them, without making an object of each."""
    data = cursor.data
    other = _Cursor(data, cursor.position, cursor.end)
    following = cursor.position
    for number in range(count - 1):
        other.position = following
        begin = other.name(None)
        end = other.position
        other.blob(None)
        following = other.position
        for _other in range(count - 1 - number):
            again = other.name(None)
            if other.position - again == end - begin and data[again : other.position] == data[begin:end]:
                return True
            other.blob(None)
    return False


def _decode_last_ones(columns: Columns, cursor: _Cursor, count: i64) -> None:
    """Several headers: the place where each begins, and only then what is left of them into the columns."""
    begins: dict[bytes, i64] = {}
    for _number in range(count):
        begin = cursor.position
        name = cursor.data[cursor.name(None) : cursor.position]
        cursor.blob(None)
        begins.pop(name, None)  # So that the last one is last, and places rise.
        begins[name] = begin
    stop = cursor.position
    for begin in begins.values():
        cursor.position = begin
        cursor.name(columns.names)
        cursor.blob(columns.contents)
    cursor.position = stop
