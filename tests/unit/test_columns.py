"""Record batches as columns: the same records that ``decode_batch`` gives, and the same refusals."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidBatch
from penstock.model.ranges import OffsetRange
from penstock.spark.records.arrow import KEPT_ROWS, decode_rows
from penstock.spark.records.schema import ROW, row_columns
from penstock.wire import columns
from penstock.wire.compression import CODEC_NAMES
from penstock.wire.records import (
    APPEND_TIME,
    CONTROL,
    OFFSET_MAX,
    BatchBuilder,
    Headers,
    Record,
    decode_batch,
    encode_values,
    lane_attributes,
    lane_of,
    place_batch,
)

Row = tuple[Any, ...]  # As the names of columns say.
OWN = ["offset", "timestamp", "key", "value", "headers", "lane"]


def batch_of(
    base: int,
    records: list[tuple[bytes | None, bytes | None, Headers]],
    attributes: int = 0,
    gap: int = 0,
    base_ms: int = 1000,
) -> bytes:
    builder = BatchBuilder()
    for number, (key, value, headers) in enumerate(records):
        builder.add(key, value, headers, number, number * (gap + 1))
    batch = builder.build(base_ms, base_ms + len(records), attributes)
    place_batch(batch, base, 0)
    return bytes(batch)


def some(count: int) -> list[tuple[bytes | None, bytes | None, Headers]]:
    return [
        (
            None if number % 3 == 0 else b"key %d" % number,
            None if number % 5 == 1 else b"v" * (number * 7 % 300),
            [(f"name {each}", None if each == 2 else b"content %d" % number) for each in range(number % 4)],
        )
        for number in range(count)
    ]


def rows(data: bytes, start: int = 0, end: int = OFFSET_MAX, names: list[str] = OWN) -> list[Row]:
    batches = list(decode_rows(data, OffsetRange("orders", 3, start, end), names))
    for batch in batches:
        batch.validate(full=True)
    return [tuple(row.values()) for batch in batches for row in plain(batch)]


def plain(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    if "timestamp" in batch.schema.names:
        at = batch.schema.get_field_index("timestamp")
        batch = batch.set_column(at, "timestamp", batch["timestamp"].cast(pa.int64()))
    return [
        {name: dict(value) if name == "headers" else value for name, value in row.items()}
        for row in batch.to_pylist()
    ]


def expected(records: list[Record]) -> list[Row]:
    return [
        (
            record.offset,
            record.timestamp * 1000,
            record.key,
            record.value,
            dict(record.headers),
            lane_of(record.attributes),
        )
        for record in records
    ]


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES))
@pytest.mark.parametrize("gap", [0, 2])
def test_columns_hold_the_records_that_decode_batch_gives(codec: int, gap: int) -> None:
    data = batch_of(70, some(200), codec | lane_attributes(-2), gap)

    assert rows(data) == expected(decode_batch(data))


def test_the_batches_of_a_fetch_follow_each_other_whatever_their_codecs() -> None:
    batches = [batch_of(index * 10, some(10), codec) for index, codec in enumerate([0, 0, 4, 3, 0, 1, 2, 2])]

    found = rows(b"".join(batches))

    assert found == [row for batch in batches for row in expected(decode_batch(batch))]
    assert [row[0] for row in found] == list(range(80))


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize(("start", "end"), [(0, 5), (13, 27), (19, 20), (20, 20), (35, 99)])
def test_only_the_offsets_of_the_range_are_rows(codec: int, start: int, end: int) -> None:
    data = b"".join(batch_of(base, some(10), codec) for base in (0, 10, 20, 30))

    assert [row[0] for row in rows(data, start, end)] == list(range(start, min(end, 40)))


@pytest.mark.parametrize("name", ROW.names)
def test_a_column_alone_is_as_among_all(name: str) -> None:
    data = batch_of(5, some(30), lane_attributes(1))
    everything = list(decode_rows(data, OffsetRange("orders", 3, 0, OFFSET_MAX), ROW.names))

    alone = list(decode_rows(data, OffsetRange("orders", 3, 0, OFFSET_MAX), [name]))

    assert [batch[name] for batch in alone] == [batch[name] for batch in everything]
    assert alone[0].schema == row_columns(name)


def test_topic_and_partition_are_the_same_in_every_row() -> None:
    found = rows(batch_of(0, some(3)), names=["partition", "topic"])

    assert found == [(3, "orders")] * 3


def test_of_headers_with_one_name_the_last_wins() -> None:
    headers: Headers = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", None), ("b", None)]

    [row] = rows(batch_of(0, [(None, b"v", headers)]))

    assert row[4] == {"a": b"3", "c": None, "b": None}


@pytest.mark.parametrize("count", [2, 8, 9, 40])
def test_a_record_may_have_many_headers(count: int) -> None:
    headers: Headers = [(f"n{each}", b"%d" % each) for each in range(count)]

    rows_of_two = rows(batch_of(0, [(None, b"v", headers), (None, b"w", [*headers, ("n1", b"last")])]))

    assert [row[4] for row in rows_of_two] == [dict(headers), dict(headers) | {"n1": b"last"}]


def test_the_time_of_appending_is_that_of_every_record() -> None:
    assert [row[1] for row in rows(batch_of(0, some(3), APPEND_TIME))] == [1_003_000] * 3


def test_markers_are_no_rows() -> None:
    assert rows(batch_of(0, some(3), CONTROL) + batch_of(3, some(2))) == rows(batch_of(3, some(2)))


def test_much_that_was_packed_is_unpacked_in_parts() -> None:
    data = b"".join(batch_of(base, some(10), 4) for base in (0, 10, 20))
    whole = columns.decode_columns(data, 0, 0, 99, columns.OFFSET)
    large = b"".join(batch_of(base, [(None, bytes(columns.CHUNK_BYTES), [])], 4) for base in (0, 1))

    part = columns.decode_columns(large, 0, 0, 99, columns.OFFSET)

    assert (whole.rows, whole.position) == (30, len(data))
    assert (part.rows, part.position) == (1, len(large) // 2)
    assert [row[0] for row in rows(large)] == [0, 1]


def cut(data: bytes, count: int) -> bytes:
    return data[:-count]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(cut(batch_of(0, some(3)), 1), id="cut short"),
        pytest.param(batch_of(0, some(3))[:40], id="half a header"),
        pytest.param(batch_of(0, some(1), base_ms=1 << 60), id="a timestamp of the far future"),
    ],
)
def test_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidBatch):
        rows(data)


def test_a_header_whose_name_is_no_text_is_refused() -> None:
    data = batch_of(0, [(None, b"v", [("naming", b"v")])])

    with pytest.raises(InvalidBatch, match="UTF-8"):
        rows(data.replace(b"naming", b"nam\xff\xffg"))


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, KEPT_ROWS, KEPT_ROWS + 1])
def test_topic_and_partition_are_those_of_the_fetch_however_many_rows_it_has(count: int) -> None:
    data = bytes(encode_values([b""] * count, 0))
    for topic, partition in (("orders", 3), ("café", 2**31 - 1), ("orders", 0)):
        found = list(decode_rows(data, OffsetRange(topic, partition, 0, OFFSET_MAX), ["topic", "partition"]))

        assert [batch.num_rows for batch in found] == [count]
        found[0].validate(full=True)
        assert found[0]["topic"].unique().to_pylist() == [topic]
        assert found[0]["partition"].unique().to_pylist() == [partition]
