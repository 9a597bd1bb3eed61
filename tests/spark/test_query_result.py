"""Answers of queries as rows, and as charts; without Spark, which only sends them."""

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.spark import rows
from penstock.errors import QueryInvalid
from penstock.spark.queries import plot
from penstock.spark.queries.query_result import QueryResult
from penstock.spark.queries.result_values import text_value

PNG = b"\x89PNG\r\n\x1a\n"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NESTED = pa.struct([("names", pa.list_(pa.string())), ("headers", pa.map_(pa.string(), pa.binary()))])


def answer(**columns: Any) -> QueryResult:
    return QueryResult(pa.table(columns))


def not_utf8() -> pa.Array:
    """Text as Spark casts it from any bytes."""
    return pa.array([b"a\xff"]).view(pa.string())


def test_rows_are_values_of_python_and_text_that_is_none_is_escaped() -> None:
    nested = pa.array([{"names": ["x", None], "headers": [("trace", b"1")]}], NESTED)
    found = answer(
        text=not_utf8(), blob=[b"\xff"], none=pa.nulls(1, pa.string()), nested=nested, at=[NOON], n=[7]
    )

    [row] = found.rows()

    assert row == [
        "a\\xff", b"\xff", None, {"names": ["x", None], "headers": {"trace": b"1"}}, NOON, 7,
    ]  # fmt: skip


def test_two_columns_of_one_name_have_no_place_in_documents() -> None:
    twice = QueryResult(pa.table([pa.array([1]), pa.array([2])], names=["key", "key"]))

    with pytest.raises(QueryInvalid, match="two columns are called 'key'; rename one with AS"):
        twice.check_names()
    assert twice.rows() == [[1, 2]]


def test_parquet_is_the_answer_as_it_is() -> None:
    found = answer(key=[b"\xff", None], n=[1, 2])
    out = io.BytesIO()

    found.write_parquet(out)

    assert pq.read_table(io.BytesIO(out.getvalue())).equals(found.table)


@pytest.mark.parametrize(
    ("value", "people", "programs"),
    [
        (b"caf\xc3\xa9\x1b", "café\\x1b", "café\x1b"),
        (NOON, "2026-11-15 12:00:00", "2026-11-15T12:00:00.000Z"),
        (NOON.replace(microsecond=1), "2026-11-15 12:00:00.000001", "2026-11-15T12:00:00.000001Z"),
        (datetime(2026, 1, 1), "2026-01-01 00:00:00", "2026-01-01T00:00:00.000"),  # noqa: DTZ001 - has none
        (date(2026, 1, 1), "2026-01-01", "2026-01-01"),
        (Decimal("1.50"), "1.50", "1.50"),
        (True, "true", "true"),
        ({"a": [b"x", None]}, '{"a": ["x", null]}', '{"a": ["x", null]}'),
        (0.1, "0.1", "0.1"),
    ],
)
def test_a_value_as_text(value: object, people: str, programs: str) -> None:
    assert rows.cell_text(value) == people
    assert text_value(value) == programs


# Charts.


@pytest.mark.parametrize(
    "first",
    [
        [NOON, NOON.replace(hour=10), None],
        [date(2026, 1, 1), date(2026, 1, 2), None],
        [2.5, 1.0, None],
        [b"anna", b"$\xff$", None],
        ["a", "b" * 200, None],
    ],
)
def test_two_columns_are_a_chart(first: list[Any]) -> None:
    out = io.BytesIO()

    plot.draw(answer(x=first, y=[Decimal("1.5"), Decimal(-2), Decimal(3)]), out, title="select $1$")

    assert out.getvalue().startswith(PNG)
    assert len(out.getvalue()) > 5000


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (answer(a=[1]), "a chart needs two columns, but the result has 1"),
        (answer(a=[1], b=[1], c=[1]), "a chart needs two columns, but the result has 3"),
        (answer(a=[1], b=["x"]), "the second column of a chart, 'b', must be numeric"),
        (answer(a=pa.array([], pa.int64()), b=pa.array([], pa.int64())), "the result has no rows to draw"),
        (
            answer(a=[str(number) for number in range(101)], b=list(range(101))),
            "101 bars are too many for a chart; use ORDER BY and LIMIT 100",
        ),
    ],
)
def test_what_is_no_chart_is_told(found: QueryResult, why: str) -> None:
    with pytest.raises(QueryInvalid, match=why):
        plot.draw(found, io.BytesIO())


def test_a_line_breaks_at_a_null() -> None:
    def drawn(x: list[int], y: list[int | None]) -> bytes:
        out = io.BytesIO()
        plot.draw(answer(x=x, y=y), out)
        return out.getvalue()

    assert drawn([1, 2, 3, 4], [1, 2, None, 4]) != drawn([1, 2, 4], [1, 2, 4])


def test_a_line_over_time_breaks_where_nothing_was_measured() -> None:
    def at(*minutes: float) -> list[tuple[datetime, float]]:
        return [(NOON + timedelta(minutes=minute), 1.0) for minute in minutes]

    found = plot.broken(at(0, 1, 2, 5, 6))

    assert [point[0] for point in found if isnan(point[1])] == [NOON + timedelta(minutes=3)]
    assert [point for point in found if not isnan(point[1])] == at(0, 1, 2, 5, 6)
    # Without a common step there is nothing missing.
    assert plot.broken(at(0, 0.4, 3, 3.3)) == at(0, 0.4, 3, 3.3)
    assert plot.broken(at(0, 1)) == at(0, 1)
    assert plot.broken(at(0)) == at(0)
    assert plot.broken(at(0, 0, 1)) == at(0, 0, 1)


def test_a_notebook_shows_rows_that_cannot_be_markup() -> None:
    table = pa.table({"key": [b"<b>\xff", None], "n": [1, 2]})

    shown = QueryResult(table)._repr_html_()

    assert "<th>key</th><th>n</th>" in shown
    assert "<tr><td>&lt;b&gt;\\xff</td><td>1</td></tr><tr><td>null</td><td>2</td></tr>" in shown
    assert QueryResult(pa.table({"n": range(60)}))._repr_html_().endswith("<p>and 10 more</p>")
