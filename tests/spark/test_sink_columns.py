"""From Arrow's columns to rows, whatever shape the arrays have; no session is needed."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidValue, UnknownPriority
from penstock.spark.sink.columns import sink_rows
from penstock.wire.gathering import Rows

NOW_MS = 1_767_225_600_000


def rows(**columns: Any) -> Rows:
    return sink_rows(pa.RecordBatch.from_pydict(columns), NOW_MS)


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=9)), min_size=1),
    st.sampled_from([pa.binary(), pa.large_binary()]),
    st.data(),
)
def test_byte_strings_come_out_as_they_are_also_of_slices(
    values: list[bytes | None], kind: pa.DataType, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(begin, len(values)))
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["value"]).slice(begin, end - begin)

    found = sink_rows(batch, NOW_MS)

    expected = values[begin:end]
    assert found.count == len(expected)
    assert found.values == (expected if any(value is not None for value in expected) else None)


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=3),
        ),
        min_size=1,
    ),
    st.data(),
)
def test_headers_come_out_as_they_are_also_of_slices(
    headers: list[list[tuple[str, bytes | None]] | None], data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(headers)))
    column = pa.array(headers, pa.map_(pa.string(), pa.binary()))
    batch = pa.RecordBatch.from_arrays([column], ["headers"]).slice(begin)

    found = sink_rows(batch, NOW_MS).headers

    expected = [each or [] for each in headers[begin:]]
    assert (found or [[]] * len(expected)) == expected


def test_a_list_of_headers_may_have_a_name_twice() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    pairs = [("a", b"1"), ("b", None), ("a", b"2")]
    column = pa.array([[], [{"key": key, "value": value} for key, value in pairs], None], kind)

    assert rows(headers=column).headers == [[], pairs, []]
    assert rows(headers=column.slice(1)).headers == [pairs, []]


def test_text_is_utf_8() -> None:
    found = rows(key=["ä", None], value=["€", ""])
    assert (found.keys, found.values) == (["ä".encode(), None], ["€".encode(), b""])


def test_times_are_milliseconds_and_null_is_now() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)
    column = pa.array([moment, None], pa.timestamp("us", "UTC"))
    assert rows(value=["a", "b"], timestamp=column).times_ms == [1_767_225_600_999, NOW_MS]
    assert rows(value=["a"], timestamp=column[:1]).times_ms == [1_767_225_600_999]


def test_a_time_before_1970_is_refused() -> None:
    column = pa.array([datetime(1969, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    with pytest.raises(InvalidValue, match="not be before 1970"):
        rows(value=["a"], timestamp=column)


@pytest.mark.parametrize(
    ("given_delays", "expected"),
    [
        (["30s", None, "1h30m"], [30_000, None, 5_400_000]),
        ([30, None, 1], [30_000, None, 1000]),
        ([0.25, None, 1.5], [250, None, 1500]),
        ([Decimal("0.5"), None, Decimal(2)], [500, None, 2000]),
        ([timedelta(seconds=90), None, timedelta(milliseconds=1)], [90_000, None, 1]),
        ([timedelta(seconds=90)], [90_000]),
    ],
)
def test_durations_are_intervals_seconds_or_text(given_delays: list[Any], expected: list[int | None]) -> None:
    values = ["x"] * len(given_delays)
    assert rows(value=values, delay=given_delays).delays_ms == expected
    assert rows(value=values, ttl=given_delays).ttls_ms == expected


def test_priorities_are_names_or_numbers() -> None:
    assert rows(value=["a", "b"], priority=["high", None]).lanes == [1, None]
    assert rows(value=["a", "b"], priority=[-2, 2]).lanes == [-2, 2]
    with pytest.raises(UnknownPriority):
        rows(value=["a"], priority=["urgent"])


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()])
def test_partitions_are_whole_numbers(kind: pa.DataType) -> None:
    assert rows(value=["a", "b"], partition=pa.array([1, None], kind)).partitions == [1, None]
    assert rows(value=["a", "b"], partition=pa.array([1, 0], kind)).partitions == [1, 0]


def test_a_column_of_nulls_is_as_if_it_were_not_there() -> None:
    found = rows(value=["a"], key=pa.array([None], pa.string()), ttl=pa.array([None], pa.string()))
    assert found.only_values()
