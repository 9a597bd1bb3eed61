"""Record batches of a log as Arrow: from fetched bytes to rows, with nothing in Python for each record.

    bytes of fetch() ──> decode_columns (compiled) ──> buffers ──> arrays of the wanted columns

``rows_of`` knows the columns that a record has by itself, and its topic and
partition; ``slices.py`` adds what a reader may ask for besides.

Costs: about 0.1 us a record with all columns, of which a fifth is the copy of
its value.  An answer holds as many rows as one fetch, or as unpack to 16 MiB.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final

import pyarrow as pa

from penstock.errors import InvalidBatch
from penstock.wire import columns as wire
from penstock.wire.columns import Columns, Spans, decode_columns

BITS: Final = {
    "offset": wire.OFFSET,
    "timestamp": wire.TIMESTAMP,
    "key": wire.KEY,
    "value": wire.VALUE,
    "headers": wire.HEADERS,
    "lane": wire.LANE,
}
TYPES: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.map_(pa.string(), pa.binary()),
    "lane": pa.int32(),
}


def rows_of(
    data: bytes, topic: str, partition: int, start: int, end: int, names: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """The rows with an offset in [``start``, ``end``) of fetched batches; the columns as named, in order."""
    names = list(names)
    schema = pa.schema([(name, TYPES[name]) for name in names])
    wanted = 0
    for name in names:
        wanted |= BITS.get(name, 0)
    position = 0
    while position < len(data):
        columns = decode_columns(data, position, start, end, wanted)
        position = columns.position
        if columns.rows:
            arrays = [_array(name, columns, topic, partition) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(name: str, columns: Columns, topic: str, partition: int) -> pa.Array:
    if name == "topic":
        return pa.repeat(pa.scalar(topic), columns.rows)
    if name == "partition":
        return pa.repeat(pa.scalar(partition, pa.int32()), columns.rows)
    return _MAKERS[name](columns)


def _numbers(kind: pa.DataType, buffer: bytes, count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(buffer)])


def _blobs(spans: Spans, data: bytes) -> pa.Array:
    """The byte strings of a column: every other entry of an array over all of the data."""
    count = spans.count
    if spans.nulls == count:
        return pa.nulls(count, pa.binary())
    buffers = [None, pa.py_buffer(spans.bounds.getvalue()), pa.py_buffer(data)]
    between = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    taken = between.take(_every_other(count))
    if spans.nulls == 0:
        return taken
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(spans.bitmap()), *taken.buffers()[1:]])


def _every_other(count: int) -> pa.Array:
    """0, 2, 4 ...; kept, since every fetch needs about as many."""
    size = 1 << 12
    while size < count:
        size *= 2
    return _even(size)[:count]


@cache  # At most a dozen, of which the largest has as many as a batch may have records.
def _even(count: int) -> pa.Array:
    return pa.array(range(0, 2 * count, 2), pa.int32())


def _headers(columns: Columns) -> pa.Array:
    """A map for each row; where there are no headers, an empty one."""
    ends = bytes(4) + columns.header_ends.getvalue()
    names = _blobs(columns.names, columns.data)
    try:
        entries = names.cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidBatch(why="the name of a header is not UTF-8") from None
    contents = _blobs(columns.contents, columns.data)
    offsets = _numbers(pa.int32(), ends, columns.rows + 1)
    return pa.MapArray.from_arrays(offsets, entries, contents)


_MAKERS: Final[dict[str, Callable[[Columns], pa.Array]]] = {
    "offset": lambda columns: _numbers(pa.int64(), columns.offsets.getvalue(), columns.rows),
    "timestamp": lambda columns: _numbers(TYPES["timestamp"], columns.timestamps.getvalue(), columns.rows),
    "key": lambda columns: _blobs(columns.keys, columns.data),
    "value": lambda columns: _blobs(columns.values, columns.data),
    "headers": _headers,
    "lane": lambda columns: _numbers(pa.int32(), columns.lanes.getvalue(), columns.rows),
}
