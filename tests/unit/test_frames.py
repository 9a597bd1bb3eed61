"""Messages as data frames, and how a notebook shows them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.testing import TestBroker

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker.open() as opened:
        opened.create_topic("orders", partitions=1, compact=True)
        opened.publish("orders", b'{"amount": 3}', key="anna", headers={"trace": "1"}, priority="high")
        opened.publish("orders", None, key="anna")
        opened.publish("orders", b"<b>\xff</b>", key="bob")
        yield opened


def test_messages_become_the_columns_that_spark_and_the_lake_have(broker: TestBroker) -> None:
    from penstock.spark.records.schema import ROW

    table = broker.read("orders").to_arrow()

    assert table.schema == ROW
    first, tombstone, _ = table.to_pylist()
    assert first["headers"] == [("trace", b"1")]
    assert (first["topic"], first["partition"], first["offset"], first["lane"]) == ("orders", 0, 0, 1)
    assert (first["key"], first["value"]) == (b"anna", b'{"amount": 3}')
    assert first["timestamp"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert tombstone["value"] is None
    assert broker.peek("orders", 2).to_arrow()["offset"].to_pylist() == [1, 2]


def test_no_messages_are_a_frame_without_rows(broker: TestBroker) -> None:
    assert broker.read("orders", offset=3, partition=0).to_arrow().num_rows == 0


def test_pandas_gets_times_with_a_zone(broker: TestBroker) -> None:
    frame = broker.read("orders").to_pandas()

    assert frame["offset"].tolist() == [0, 1, 2]
    assert str(frame["timestamp"].dt.tz) == "UTC"


def test_polars_gets_the_same_rows(broker: TestBroker) -> None:
    assert broker.read("orders").to_polars()["key"].to_list() == [b"anna", b"anna", b"bob"]


def test_a_notebook_shows_values_as_text_that_cannot_be_markup(broker: TestBroker) -> None:
    shown = broker.read("orders")._repr_html_()

    assert "{&quot;amount&quot;: 3}" in shown
    assert "&lt;b&gt;\\xff&lt;/b&gt;" in shown
    assert "<td>orders:0:1</td>" in shown
    assert "<td>trace: 1</td>" in shown


def test_a_notebook_shows_control_characters_of_a_binary_value_escaped(broker: TestBroker) -> None:
    broker.publish("orders", b"\x00\x00\x01c7\x9b\xc2\x9b\n", key="carl")

    shown = broker.read("orders")._repr_html_()

    assert r"\x00\x00\x01c7\x9b\x9b" in shown


def test_a_notebook_shows_a_topic_with_its_partitions(broker: TestBroker) -> None:
    broker.create_group("orders", "billing")

    shown = broker.describe_topic("orders")._repr_html_()

    assert shown.startswith("<p><b>orders: 3 messages, ")
    assert "groups billing</b>" in shown
    assert "<th>end</th>" in shown
    assert "<tr><td>0</td><td>0</td><td>3</td>" in shown


def test_a_notebook_shows_a_group_with_its_lag(broker: TestBroker) -> None:
    broker.create_group("orders", "billing")
    broker.seek("orders", "billing", "earliest")

    shown = broker.describe_group("orders", "billing")._repr_html_()

    assert shown.startswith("<p><b>billing on orders: ")
    assert "lag 3, the oldest " in shown
    assert "<tr><td>0</td><td>0</td><td>3</td><td>3</td><td>0</td><td>0</td></tr>" in shown


def test_a_notebook_shows_the_beginning_of_much(broker: TestBroker) -> None:
    broker.publish_batch("orders", [penstock.Message(b"x" * 1000, key=str(number)) for number in range(60)])

    shown = broker.read("orders", limit=100)._repr_html_()

    assert shown.endswith("<p>and 13 more</p>")
    assert "x" * 200 + "…" in shown
    assert "x" * 201 not in shown


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.name))
def test_a_notebook_of_the_examples_runs_from_its_first_cell_to_its_last(path: Path) -> None:
    pytest.importorskip("pandas")
    names: dict[str, Any] = {}

    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)

    assert names["totals"].to_dict() == {
        f"c{rest}": sum(amount for amount in range(100) if amount % 3 == rest) for rest in range(3)
    }
