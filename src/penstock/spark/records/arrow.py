"""Decodes record batches of a log into Arrow, without a Python object per record.

    bytes of fetch() ──> decode_columns (compiled) ──> buffers ──> arrays of the requested columns

``decode_rows`` makes the columns of ``schema.ROW``; ``source/slices.py`` adds the
metadata columns.

Cost: about 65 ns per record with all columns, a fifth of which is copying the value.
A batch has the rows of one fetch, or as many as decompress to 16 MiB.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidBatch
from penstock.model.ranges import OffsetRange
from penstock.spark.records.extra_columns import HEADER_LIST
from penstock.spark.records.schema import ROW
from penstock.wire import columns as wire
from penstock.wire.columns import Columns, Spans, decode_columns

KEPT_ROWS: Final = 1 << 16  # As many rows with a long name of a topic are 13 MB; a fetch has some 10,000.

HEADERS_LISTED: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BITS: Final = {
    "offset": wire.OFFSET,
    "timestamp": wire.TIMESTAMP,
    "key": wire.KEY,
    "value": wire.VALUE,
    "headers": wire.HEADERS,
    "lane": wire.LANE,
    HEADER_LIST: wire.HEADERS | wire.EVERY_HEADER,
}
TIMESTAMP: Final = ROW.field("timestamp").type


def decode_rows(data: bytes, wanted_range: OffsetRange, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of fetched batches whose offsets are in a range, with the named columns in that order."""
    names = list(names)
    listed = pa.field(HEADER_LIST, HEADERS_LISTED)
    schema = pa.schema([listed if name == HEADER_LIST else ROW.field(name) for name in names])
    wanted = 0
    for name in names:
        wanted |= BITS.get(name, 0)
    position = 0
    while position < len(data):
        columns = decode_columns(data, position, wanted_range.start, wanted_range.end, wanted)
        position = columns.position
        if columns.rows:
            arrays = [_array(name, columns, wanted_range) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(name: str, columns: Columns, wanted_range: OffsetRange) -> pa.Array:
    if name == "topic":
        return topic_column(wanted_range.topic, columns.rows)
    if name == "partition":
        return _partitions(wanted_range.partition, _size(columns.rows))[: columns.rows]
    return _MAKERS[name](columns)


# Columns that are the same for every fetch of a task are made once, a little too long, and cut.  They are
# made of buffers, as is everything here: of Python's objects Arrow would make them with the help of pandas,
# which takes 0.4 s to come, in each of Spark's workers.


def topic_column(topic: str, count: int) -> pa.Array:
    """The same topic in each of some rows."""
    make = _kept_topics if count <= KEPT_ROWS else _topics
    return make(topic, _size(count))[:count]


def _size(count: int) -> int:
    """How long such a column is, for some rows: one of a dozen sizes."""
    return 1 << max(count - 1, (1 << 12) - 1).bit_length()


def _topics(topic: str, size: int) -> pa.Array:
    name = topic.encode()
    ends = array("i", range(0, (size + 1) * len(name), len(name)))
    return pa.Array.from_buffers(pa.string(), size, [None, pa.py_buffer(ends), pa.py_buffer(name * size)])


_kept_topics = lru_cache(maxsize=2)(_topics)


@lru_cache(maxsize=2)
def _partitions(partition: int, size: int) -> pa.Array:
    return _numbers(pa.int32(), array("i", [partition]) * size, size)


def time_column(time_ms: int | None, count: int) -> pa.Array:
    """The same time, or null, in each of some rows."""
    if time_ms is None:
        return pa.nulls(count, TIMESTAMP)
    return _numbers(TIMESTAMP, array("q", [time_ms * 1000]) * count, count)


def within(rows: pa.RecordBatch, from_ms: int | None, to_ms: int | None) -> pa.RecordBatch:
    """The rows of a time: from the first on, if that is given, and before the second."""
    for limit_ms, compare in ((from_ms, pc.greater_equal), (to_ms, pc.less)):
        if limit_ms is not None:
            [limit] = _numbers(rows["timestamp"].type, array("q", [limit_ms * 1000]), 1)
            rows = rows.filter(compare(rows["timestamp"], limit))
    return rows


def _numbers(kind: pa.DataType, buffer: "bytes | array[int]", count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(buffer)])


def _blobs(spans: Spans, data: bytes) -> pa.Array:
    """The byte strings of a column: every other entry of an array over all of the data."""
    count = spans.count
    if spans.nulls == count:
        return pa.nulls(count, pa.binary())
    buffers = [None, pa.py_buffer(spans.bounds.getvalue()), pa.py_buffer(data)]
    between = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    taken = between.take(_even(_size(count))[:count])
    if spans.nulls == 0:
        return taken
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(spans.bitmap()), *taken.buffers()[1:]])


@cache  # At most a dozen, of which the largest has as many as a batch may have records.
def _even(count: int) -> pa.Array:
    return _numbers(pa.int32(), array("i", range(0, 2 * count, 2)), count)


def _headers(columns: Columns) -> pa.Array:
    """A map for each row; where there are no headers, an empty one."""
    ends = bytes(4) + columns.header_ends.getvalue()
    names = _blobs(columns.names, columns.data)
    try:
        entries = names.cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidBatch(why="a header name is not valid UTF-8") from None
    contents = _blobs(columns.contents, columns.data)
    offsets = _numbers(pa.int32(), ends, columns.rows + 1)
    return pa.MapArray.from_arrays(offsets, entries, contents)


def _headers_as_map(columns: Columns) -> pa.Array:
    """A map for each row, also where all headers were decoded: then one by one."""
    found = _headers(columns)
    if not columns.wanted & wire.EVERY_HEADER:
        return found
    return pa.array([list(dict(pairs).items()) for pairs in found.to_pylist()], found.type)


def header_list(headers: pa.Array) -> pa.Array:
    """Headers as a list of names and values, in their order; unlike a map it may have a name twice."""
    entries = pa.StructArray.from_arrays([headers.keys, headers.items], fields=[*HEADERS_LISTED.value_type])
    return pa.ListArray.from_arrays(headers.offsets, entries, type=HEADERS_LISTED)


_MAKERS: Final[dict[str, Callable[[Columns], pa.Array]]] = {
    "offset": lambda columns: _numbers(pa.int64(), columns.offsets.getvalue(), columns.rows),
    "timestamp": lambda columns: _numbers(TIMESTAMP, columns.timestamps.getvalue(), columns.rows),
    "key": lambda columns: _blobs(columns.keys, columns.data),
    "value": lambda columns: _blobs(columns.values, columns.data),
    "headers": _headers_as_map,
    HEADER_LIST: lambda columns: header_list(_headers(columns)),
    "lane": lambda columns: _numbers(pa.int32(), columns.lanes.getvalue(), columns.rows),
}
