"""examples/pipelines: each one is run as its readers would, by the command line, on messages of its kind."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest
from deltalake import DeltaTable
from examples.pipelines.invoices import app
from pyspark.sql import SparkSession
from tests.server.process import Server

import penstock
from penstock.cli.main import main
from penstock.clock import SystemClock
from penstock.spark.reports import result_tables

FOLDER = Path(__file__).parents[2] / "examples" / "pipelines"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One of its own: the topics of the examples have everyday names."""
    with Server(tmp_path_factory.mktemp("examples")) as running:
        yield running


@pytest.fixture
def url(server: Server) -> str:
    return f"127.0.0.1:{server.ports['native']}"


@pytest.fixture
def client(url: str) -> Iterator[penstock.Broker]:
    with penstock.connect(url) as connected:
        yield connected


@pytest.fixture
def pipeline(spark: SparkSession, url: str) -> Callable[..., int]:
    """``penstock pipeline run ... --once``, in this process, which has a Spark session."""

    def run(*arguments: str) -> int:
        return main(["pipeline", "run", *arguments, "--once", "--server", url])

    return run


def publish(client: penstock.Broker, topic: str, *documents: object) -> None:
    client.create_topic(topic, partitions=1)
    client.publish_batch(topic, [json.dumps(document).encode() for document in documents])


def test_clicks_per_minute(pipeline: Callable[..., int], client: penstock.Broker) -> None:
    now = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    minute = (now - timedelta(minutes=3)).replace(second=0, microsecond=0)

    def click(page: str, seconds: int) -> dict[str, str]:
        return {"page": page, "at": (minute + timedelta(seconds=seconds)).isoformat()}

    late = click("home", -3600)
    publish(client, "clicks", click("home", 1), click("home", 59), click("home", 61), click("cart", 0), late)

    assert pipeline("transform", "--config", str(FOLDER / "clicks_per_minute.toml")) == 0

    counted = {
        (document["page"], datetime.fromisoformat(document["minute"])): document["clicks"]
        for document in (json.loads(message.value) for message in client.read("clicks-per-minute"))
    }
    assert counted == {
        ("home", minute): 2,
        ("home", minute + timedelta(minutes=1)): 1,
        ("cart", minute): 1,
    }
    assert {message.key for message in client.read("clicks-per-minute")} == {b"home", b"cart"}
    [bad] = client.read("clicks-per-minute.bad")
    assert json.loads(bad.value) == late
    assert bad.headers["x-reason"] == "late: it was published more than 10m after its at"


def test_paid_orders(
    pipeline: Callable[..., int], client: penstock.Broker, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    customers = str(tmp_path / "customers")
    rows = [("anna", "Berlin"), ("ben", "Rome")]
    spark.createDataFrame(rows, "name string, city string").write.parquet(customers)
    publish(client, "orders", {"id": 1, "customer": "anna"}, {"id": 2, "customer": "ben"})
    publish(client, "payments", {"order_id": 1, "amount": 9.5})
    tables = f'tables={{customers="{customers}"}}'

    assert pipeline("transform", "--config", str(FOLDER / "paid_orders.toml"), "--set", tables) == 0

    path = result_tables.path_of(client.stats().lake, "paid_orders")
    assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"id": 1, "city": "Berlin", "amount": 9.5}]


def test_shipping_rates(pipeline: Callable[..., int], client: penstock.Broker) -> None:
    publish(client, "parcels", {"id": "a", "grams": 500, "express": True}, {"id": "b", "grams": 1500})

    assert pipeline("transform", "--config", str(FOLDER / "shipping_rates.toml")) == 0

    found = {(message.value, message.priority) for message in client.read("shipping-rates")}
    assert found == {(b"a: 4.75 EUR", "high"), (b"b: 6.00 EUR", "normal")}


@pytest.mark.skipif(
    find_spec("pandas") is None or find_spec("google") is None,
    reason="transformWithState needs Pandas and protobuf, and Penstock does not",
)
def test_running_totals(pipeline: Callable[..., int], client: penstock.Broker) -> None:
    file = str(FOLDER / "running_totals.toml")
    publish(client, "spending", *({"customer": "anna", "amount": amount} for amount in (3, 4, 5)))

    assert pipeline("transform", "--config", file, "--set", "max_records=2") == 0  # In two batches.

    found = [(message.key, message.value) for message in client.read("running-totals")]
    assert found == [(b"anna", b'{"total":7.0}'), (b"anna", b'{"total":12.0}')]


def test_invoices(
    pipeline: Callable[..., int], client: penstock.Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(client, "invoiced-orders", {"customer": "anna", "amount": 3}, {"customer": "ben", "amount": -3})
    client.create_topic("bills")
    app.drain(client)

    assert pipeline("rehearse", "--set", "handler=examples.pipelines.invoices:invoice") == 0

    assert capsys.readouterr().out.splitlines() == [
        "invoice over 2 messages of invoiced-orders, as group invoices:",
        "           2  same",
    ]
    assert len(client.read("bills")) == 1
