"""The columns that a topic accepts from a DataFrame: their types, and their conversion from Arrow.

    key, value    binary or text               headers     map of text to binary or text, or a list of
    topic         text                                     struct<key, value>, for repeated names
    partition     whole number                 timestamp   timestamp
    priority      whole number or name         delay, ttl  interval, seconds, or text such as "30s"

Only ``value`` is required.  A null is treated as if the column were absent from that
row.  Types are checked once, before the query runs; only values can be invalid later.

Cost: byte strings are sliced from Arrow's buffers in compiled code, and numbers are
copied in one call.  Columns with nulls, and text instead of numbers, take the slower
way through ``to_pylist``.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.errors import InvalidValue
from penstock.types import check_name, duration_ms, lane_number, signed_duration_ms
from penstock.wire.gathering import Rows, slices
from penstock.wire.records import Headers

TOPIC: Final = "topic"  # Not of the message: it says where a row goes.
BYTES: Final = (BinaryType, StringType)
WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
SECONDS: Final = (*WHOLE, FloatType, DoubleType, DecimalType)
SINK_COLUMNS: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "key": (BYTES, "binary or string"),
    "value": (BYTES, "binary or string"),
    "headers": ((MapType, ArrayType), "map<string, binary> or array<struct<key: string, value: binary>>"),
    TOPIC: ((StringType,), "string"),
    "partition": (WHOLE, "int"),
    "timestamp": ((TimestampType,), "timestamp"),
    "delay": ((DayTimeIntervalType, StringType, *SECONDS), 'interval, seconds, or text such as "30s"'),
    "priority": ((StringType, *WHOLE), 'int from -2 to 2, or text such as "high"'),
    "ttl": ((DayTimeIntervalType, StringType, *SECONDS), 'interval, seconds, or text such as "30s"'),
}


def check_columns(schema: StructType) -> None:
    """Refuse a DataFrame that a topic cannot take, with all that is wrong in one sentence."""
    problems = [problem for field in schema.fields if (problem := _problem(field.name, field.dataType))]
    if "value" not in schema.fieldNames():
        problems.append("the column value is missing")
    if problems:
        why = f"{'; '.join(problems)}. A topic accepts {', '.join(SINK_COLUMNS)}"
        raise InvalidValue(name="columns", value=", ".join(schema.fieldNames()), why=why)


def _problem(name: str, kind: DataType) -> str | None:
    if name not in SINK_COLUMNS:
        return f"drop or rename {name}"
    kinds, described = SINK_COLUMNS[name]
    fits = isinstance(kind, kinds)
    if isinstance(kind, MapType):
        fits = isinstance(kind.keyType, StringType) and isinstance(kind.valueType, BYTES)
    if isinstance(kind, ArrayType):
        fields = kind.elementType.fields if isinstance(kind.elementType, StructType) else []
        fits = [field.name for field in fields] == ["key", "value"]
        fits = fits and all(isinstance(field.dataType, BYTES) for field in fields)
    return None if fits else f"{name} is {kind.simpleString()}, but must be {described}"


def sink_rows(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """The rows of an Arrow batch; one whose timestamp is null is of ``now_ms``."""
    rows = Rows(batch.num_rows)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count < len(column) and name != TOPIC:
            _PUT[name](rows, column, now_ms)
    return rows


def by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic that a column names, in their order."""
    topics = batch[TOPIC]
    if topics.null_count:
        why = "a row has no topic; set the option topic, or fill the column"
        raise InvalidValue(name=TOPIC, value=None, why=why)
    for topic in topics.unique().to_pylist():
        yield check_name("topic", topic), batch.filter(pc.equal(topics, topic))


def _bytes(column: Any) -> list[bytes | None]:
    column = column.cast(pa.binary())  # Text, and what has 64-bit offsets by some setting.
    if column.null_count:
        found: list[bytes | None] = column.to_pylist()
        return found
    _, bounds, data = column.buffers()
    begin = column.offset
    offsets = memoryview(bounds).cast("i")[begin : begin + len(column) + 1].tolist()
    return slices(data.to_pybytes() if data is not None else b"", offsets)


def _numbers(column: Any) -> list[int | None]:
    """Whole numbers, times and intervals, in the unit they have."""
    if column.null_count:
        found: list[int | None] = column.cast(pa.int64()).to_pylist()
        return found
    column = column.cast(pa.int64())
    first = column.offset
    return [*memoryview(column.buffers()[1]).cast("q")[first : first + len(column)]]


def _put_keys(rows: Rows, column: Any, _: int) -> None:
    rows.keys = _bytes(column)


def _put_values(rows: Rows, column: Any, _: int) -> None:
    rows.values = _bytes(column)


def _put_headers(rows: Rows, column: Any, _: int) -> None:
    listed = not pa.types.is_map(column.type)
    names = _bytes(column.values.field("key") if listed else column.keys)
    values = _bytes(column.values.field("value") if listed else column.items)
    bounds = column.offsets.to_pylist()
    pairs: Headers = [
        ((name or b"").decode("utf-8", "replace"), value) for name, value in zip(names, values, strict=True)
    ]
    rows.headers = [
        pairs[bounds[at] : bounds[at + 1]] if valid else []
        for at, valid in enumerate(column.is_valid().to_pylist())
    ]


def _put_partitions(rows: Rows, column: Any, _: int) -> None:
    rows.partitions = _numbers(column)


def _put_times(rows: Rows, column: Any, now_ms: int) -> None:
    rows.times_ms = [_time_ms(time_us, now_ms) for time_us in _numbers(column)]


def _time_ms(time_us: int | None, now_ms: int) -> int:
    if time_us is None:
        return now_ms
    if time_us < 1000:
        raise InvalidValue(name="timestamp", value=time_us / 1e6, why="it must not be before 1970")
    return time_us // 1000


def _put_lanes(rows: Rows, column: Any, _: int) -> None:
    rows.lanes = [None if lane is None else lane_number(lane) for lane in column.to_pylist()]


def _put_delays(rows: Rows, column: Any, _: int) -> None:
    rows.delays_ms = _durations("delay", column)


def _put_ttls(rows: Rows, column: Any, _: int) -> None:
    rows.ttls_ms = _durations("ttl", column)


def _durations(name: str, column: Any) -> list[int | None]:
    if pa.types.is_duration(column.type):
        return [None if time_us is None else time_us // 1000 for time_us in _numbers(column)]
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return [None if given is None else _duration_ms(name, given) for given in column.to_pylist()]


@lru_cache(maxsize=1024)
def _duration_ms(name: str, given: Any) -> int:
    return round(signed_duration_ms(name, given)) if name == "delay" else duration_ms(name, given)


_PUT: Final[dict[str, Callable[[Rows, Any, int], None]]] = {
    "key": _put_keys,
    "value": _put_values,
    "headers": _put_headers,
    "partition": _put_partitions,
    "timestamp": _put_times,
    "delay": _put_delays,
    "priority": _put_lanes,
    "ttl": _put_ttls,
}
