"""``transform``: from topics to a topic and a table, with bad and late records set aside."""

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.clock import SystemClock
from penstock.errors import InvalidConfiguration, PenstockError
from penstock.model.info import PipelineRun
from penstock.model.schemas import NewSchema
from penstock.spark.pipelines import transform
from penstock.spark.pipelines.run import runner, states
from penstock.spark.pipelines.run.settings import load
from penstock.spark.reports import result_tables

RunTransform = Callable[..., PipelineRun]


@pytest.fixture
def run(spark: SparkSession, broker: penstock.Broker, servers: str, tmp_path: Path) -> RunTransform:
    """Run a transform, by its TOML; its checkpoint is the test's own."""

    def run_once(text: str, *, once: bool = True) -> PipelineRun:
        given = {"checkpoint": str(tmp_path / "checkpoint"), "lake": str(tmp_path / "lake")}
        run_settings, settings = load(transform.Settings, text=text, file="x.toml", given=given, now_ms=0)
        return runner.run("transform", transform, run_settings, settings, broker, servers=servers, once=once)

    return run_once


@pytest.fixture
def topic(broker: penstock.Broker) -> Callable[..., str]:
    """A topic of a name nobody else has, with these documents."""

    def make(name: str, *documents: Any) -> str:
        unique = f"{name}_{uuid.uuid4().hex[:8]}"
        broker.create_topic(unique, partitions=2)
        publish(broker, unique, *documents)
        return unique

    return make


def publish(broker: penstock.Broker, topic: str, *documents: Any) -> None:
    values = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    broker.publish_batch(topic, [penstock.Message(value, key=f"k{n}") for n, value in enumerate(values)])


def documents(broker: penstock.Broker, topic: str) -> list[Any]:
    return [json.loads(message.value) for message in broker.read(topic, limit=1000)]


def test_sql_makes_messages_and_table_rows_of_json_and_sets_aside_what_is_none(
    run: RunTransform, broker: penstock.Broker, topic: Callable[..., str], tmp_path: Path, spark: SparkSession
) -> None:
    source = topic(
        "orders", {"customer": "anna", "amount": 3}, b"no json", {"customer": "ben", "amount": "x"}
    )
    text = f"""
        name = "{source}-big"
        topic = "{source}-out"
        table = "big"
        sql = "select key, customer, amount * 2 as twice from orders where amount > 1"
        [sources.orders]
        topic = "{source}"
        schema = "customer string, amount int"
    """

    first = run(text)
    publish(broker, source, {"customer": "carl", "amount": 5})
    spark.newSession().createDataFrame([], "number int")  # Which makes it the active session.
    second = run(text)

    assert (first.state, first.records, first.files) == ("done", 3, 1)
    assert (second.state, second.records, second.files) == ("done", 1, 1)
    out = broker.read(f"{source}-out")
    assert sorted((message.key, message.value) for message in out) == [
        (b"k0", b'{"customer":"anna","twice":6}'),
        (b"k0", b'{"customer":"carl","twice":10}'),
    ]
    path = result_tables.path_of(str(tmp_path / "lake"), "big")
    rows = DeltaTable(path).to_pyarrow_table().select(["customer", "twice"]).to_pylist()
    assert sorted(row["customer"] for row in rows) == ["anna", "carl"]
    assert result_tables.read(spark, path).count() == 2
    bad = broker.read(f"{source}-big.bad")
    assert sorted((each.value, each.headers["x-reason"]) for each in bad) == [
        (b"no json", "its value is not JSON of the schema"),
        (b'{"customer": "ben", "amount": "x"}', "its value is not JSON of the schema"),
    ]
    assert {each.headers["x-source"].rpartition(":")[0] for each in bad} <= {f"{source}:0", f"{source}:1"}
    assert broker.describe_group(source, f"{source}-big").kind == "stream"


def test_a_topic_with_a_schema_is_read_by_it_and_what_does_not_match_is_set_aside(
    run: RunTransform, broker: penstock.Broker, topic: Callable[..., str]
) -> None:
    source = topic("typed")
    schema = '{"properties": {"a.b": {"type": "integer"}, "amount": {"type": "integer"}}}'
    broker.register_schema(f"{source}-value", NewSchema(type="JSON", schema=schema))
    publish(broker, source, {"a.b": 1, "amount": 3}, {"amount": "x"})

    run(f"""
        name = "{source}-big"
        topic = "{source}-out"
        sql = "select key, `a.b` as number, amount * 2 as twice from orders where amount > 1"
        [sources.orders]
        topic = "{source}"
        schema = "registry"
    """)

    assert documents(broker, f"{source}-out") == [{"number": 1, "twice": 6}]
    [bad] = broker.read(f"{source}-big.bad", limit=10)
    assert bad.value == b'{"amount": "x"}'
    assert bad.headers["x-reason"] == '/amount: "x" is not of type "integer"'


def test_windows_count_by_the_records_own_time_and_late_ones_are_set_aside(
    run: RunTransform, broker: penstock.Broker, topic: Callable[..., str]
) -> None:
    now = datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)
    start = now - timedelta(minutes=50)

    def at(minutes: float) -> dict[str, Any]:
        return {"page": "home", "at": (start + timedelta(minutes=minutes)).isoformat()}

    source = topic("clicks", at(0), at(1), at(30), at(31), at(-60), at(500), {"page": "home"})
    text = f"""
        name = "{source}-counts"
        topic = "{source}-out"
        mode = "update"
        sql = '''select page, window.start as start, count(*) as clicks
                 from clicks group by page, window(at, '10 minutes', '10 minutes')'''
        [sources.clicks]
        topic = "{source}"
        schema = "page string, at timestamp"
        time = "at"
        watermark = "1h"
    """

    run(text)

    counts: dict[str, int] = {}
    for document in documents(broker, f"{source}-out"):
        counts[document["start"]] = document["clicks"]
    assert sorted(counts.values()) in ([2, 2], [1, 1, 2], [1, 1, 1, 1])  # By where the windows begin.
    assert sum(counts.values()) == 4
    reasons = [message.headers["x-reason"] for message in broker.read(f"{source}-counts.bad")]
    assert sorted(reasons) == [
        "it has no at",
        "its at is after it was published",
        "late: it was published more than 1h after its at",
    ]


def test_a_run_goes_on_until_somebody_asks_it_to_stop(
    run: RunTransform, broker: penstock.Broker, topic: Callable[..., str], servers: str
) -> None:
    source = topic("lines", b"one")
    name, target = f"{source}-copy", f"{source}-out"
    broker.create_topic(target)

    def elsewhere() -> None:
        """Another machine: sees the first line come out, publishes a second, and stops the run after it."""
        with penstock.connect(servers) as other:
            copied = other.consumer(target, group="reader")
            assert [message.value for message in copied.receive(wait="5m")] == [b"one"]
            publish(other, source, b"two")
            assert [message.value for message in copied.receive(wait="5m")] == [b"two"]
            states.ask_to_stop(other, states.runs(other)[name], by="there", now_ms=0)

    with ThreadPoolExecutor(1) as threads:
        watcher = threads.submit(elsewhere)
        last = run(
            f'name = "{name}"\ntopic = "{target}"\nsql = "select key, value from lines"\n'
            f'[sources.lines]\ntopic = "{source}"',
            once=False,
        )
        watcher.result()

    assert (last.state, last.records) == ("stopped", 2)
    assert broker.describe_group(source, name).lag <= 1  # Of the last batch: it is committed with the next.


def shout(orders: DataFrame, greetings: DataFrame) -> DataFrame:
    """A user's function."""
    return orders.crossJoin(greetings)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sources = {}\nsql='x'\ntopic='t'", "at least one is required"),
        ("[sources.a]", "sql cannot be '': set either sql or function"),
        ("sql='x'\n[sources.a]", "set topic or table"),
        ("sql='x'\ntopic='t'\n[sources.a]\ntime='at'", "requires a watermark"),
        ("sql='x'\ntopic='t'\n[sources.a]\nwatermark='soon'", "sources.a.watermark cannot be 'soon'"),
        ("sql='x'\ntable='t'\nmode='update'\n[sources.a]", "a table only supports the mode append"),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        load(transform.Settings, text=text, file="x.toml", given={}, now_ms=0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ('sql = "select nothing from orders"', "nothing"),
        (
            'function = "tests.spark.test_transform:shout"',
            "it has parameters greetings, but the views are orders",
        ),
        ('function = "tests.spark.test_transform:none"', "has no 'none'"),
        ('sql = "select * from orders"', "drop or rename offset"),
    ],
)
def test_what_is_wrong_with_the_users_part_is_one_sentence(
    run: RunTransform, topic: Callable[..., str], change: str, sentence: str
) -> None:
    source = topic("orders")

    with pytest.raises(PenstockError, match=sentence) as failure:
        run(f'name = "{source}"\ntopic = "{source}-out"\n{change}\n[sources.orders]\ntopic = "{source}"')

    assert "\n" not in str(failure.value)
