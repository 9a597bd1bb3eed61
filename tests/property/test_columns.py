"""Columns say what records say: of any batch, whole or damaged, and of several."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_records import attribute_bits, batch_of, damaged_batches, record_lists

from penstock.errors import InvalidBatch
from penstock.model.ranges import OffsetRange
from penstock.spark.records.arrow import decode_rows
from penstock.wire.records import OFFSET_MAX, Record, decode_batch, lane_of

NAMES = ["offset", "timestamp", "key", "value", "headers", "lane"]
MS_MAX = ((1 << 63) - 1) // 1000  # What fits into microseconds.


def rows(data: bytes, start: int, end: int, names: list[str]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in decode_rows(data, OffsetRange("orders", 0, start, end), names):
        batch.validate(full=True)
        columns = [
            batch[name].cast("int64") if name == "timestamp" else batch[name] for name in batch.schema.names
        ]
        found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def outcome(data: bytes, start: int, end: int, names: list[str]) -> str | list[tuple[Any, ...]]:
    """What decoding comes to; any other exception fails the test."""
    try:
        return rows(data, start, end, names)
    except InvalidBatch as error:
        return str(error)


def row_of(record: Record, names: list[str]) -> tuple[Any, ...]:
    headers: dict[str, bytes | None] = {}
    for name, content in record.headers:
        headers.pop(name, None)
        headers[name] = content
    facts = {
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "key": record.key,
        "value": record.value,
        "headers": list(headers.items()),
        "lane": lane_of(record.attributes),
    }
    return tuple(facts[name] for name in names)


columns = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


@given(st.lists(st.tuples(record_lists(), attribute_bits), min_size=1, max_size=3), columns, st.data())
def test_columns_hold_what_records_hold(
    batches: list[tuple[list[Record], int]], names: list[str], draw: st.DataObject
) -> None:
    pieces = [bytes(batch_of(records, attributes)) for records, attributes in batches]
    stored = [record for piece in pieces for record in decode_batch(piece)]
    places = st.sampled_from([record.offset for record in stored]) | st.just(OFFSET_MAX) | st.just(0)
    start, end = draw.draw(places), draw.draw(places)
    wanted = [record for record in stored if start <= record.offset < end]
    expected = [row_of(record, names) for record in wanted]

    found = outcome(b"".join(pieces), start, end, names)

    if isinstance(found, str):
        assert "a timestamp of" in found
        assert any(abs(record.timestamp) > MS_MAX // 2 for record in stored)
    else:
        assert found == expected


@given(damaged_batches())
def test_what_is_refused_as_records_is_refused_as_columns(batches: tuple[bytes, bytes]) -> None:
    _, damaged = batches
    try:
        stored = [row_of(record, NAMES) for record in decode_batch(damaged)]
    except InvalidBatch:
        stored = None

    found = outcome(damaged, 0, OFFSET_MAX, NAMES)

    if isinstance(found, str):
        assert stored is None or "a timestamp of" in found
    else:
        assert found == stored
