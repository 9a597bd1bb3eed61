"""``rehearse``: another version of a handler over what was worked on, compared with what happened."""

import json
import sys
import uuid
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import penstock
from penstock.errors import InvalidValue
from penstock.spark.pipelines import rehearse
from penstock.spark.pipelines.run import runner
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.reports import result_tables

ORDERS = [
    {"customer": "anna", "amount": 3},
    {"customer": "ben", "amount": 4},
    {"customer": "carl", "amount": 5},
    {"customer": "dora"},
    {"customer": "emil", "amount": -1},
]
TOPIC = f"orders-{uuid.uuid4().hex[:8]}"
BILLS = f"{TOPIC}-bills"

first_app = penstock.App()
second_app = penstock.App()


@first_app.worker(TOPIC, group="invoices", max_attempts=1)
def first(message: penstock.WorkerMessage) -> None:
    """What really ran."""
    order = json.loads(message.value)
    if order["amount"] < 0:
        raise penstock.Reject("negative")
    message.ack(publish=[(BILLS, penstock.Message(f"{order['amount']:.2f}".encode()))])


@second_app.worker(TOPIC, group="invoices", timeout="5s")
async def second(message: penstock.AsyncWorkerMessage) -> None:
    """What shall run: anna fails, ben pays more, dora needs no amount, and emil fails otherwise."""
    order = json.loads(message.value)
    if order["customer"] == "anna":
        raise LookupError("who is anna?")
    if order["customer"] == "emil":
        raise ValueError("negative")
    amount = order.get("amount", 0) + (order["customer"] == "ben")
    await message.ack(publish=[(BILLS, penstock.Message(f"{amount:.2f}".encode()))])


def elsewhere(message: penstock.Message) -> None:
    """A function that no app declares."""


@pytest.fixture
def worked(broker: penstock.Broker) -> penstock.Broker:
    """Orders that the first version has worked on, and one that nobody has."""
    broker.create_topic(TOPIC, partitions=2)
    broker.create_topic(BILLS)
    broker.publish_batch(TOPIC, [json.dumps(order).encode() for order in ORDERS])
    first_app.drain(broker)
    broker.publish(TOPIC, b'{"customer": "fred", "amount": 7}')
    return broker


def test_what_differs_is_told_and_nothing_is_done(
    worked: penstock.Broker,
    spark: SparkSession,
    servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = worked.describe_group(TOPIC, "invoices"), len(worked.read(BILLS))
    settings = rehearse.Settings(handler=f"{__name__}:second", table="rehearsal", examples=2)

    last = runner.run(
        "rehearse", rehearse, RunSettings(name=TOPIC, lake=str(tmp_path)), settings, worked, servers=servers
    )

    assert (last.state, last.records, last.total) == ("done", 6, 6)
    rows = DeltaTable(result_tables.path_of(str(tmp_path), "rehearsal")).to_pyarrow_table().to_pylist()
    values = {
        (each.partition, each.offset): json.loads(each.value)["customer"] for each in worked.read(TOPIC)
    }
    assert {values[row["partition"], row["offset"]]: row["verdict"] for row in rows} == {
        "anna": "newly failing",
        "ben": "changed output",
        "carl": "same",
        "dora": "newly passing",
        "emil": "changed error",
        "fred": "not known",
    }
    told = capsys.readouterr().out
    assert told.splitlines()[0] == f"second over 6 messages of {TOPIC}, as group invoices:"
    assert "           1  newly failing\n" in told
    assert "was acked, is now LookupError: who is anna?" in told
    assert "was KeyError: 'amount', is now done" in told
    assert f'[["{BILLS}", null, "4.00", {{}}]] is now [["{BILLS}", null, "5.00", {{}}]]' in told
    assert "was rejected: negative, is now ValueError: negative" in told
    after = worked.describe_group(TOPIC, "invoices"), len(worked.read(BILLS))
    assert (after[0].partitions, after[0].dead_lettered, after[1]) == (
        before[0].partitions,
        before[0].dead_lettered,
        before[1],
    )


def test_the_topic_and_the_group_are_those_of_the_app_or_of_the_settings() -> None:
    def found(handler: str, **settings: str) -> tuple[str, str, str]:
        handler = f"{__name__}:{handler}"
        function = rehearse.find_handler(rehearse.Settings(handler=handler, **settings))  # type: ignore[arg-type]
        return function.name, function.topic, function.group

    assert found("second") == found("second_app") == ("second", TOPIC, "invoices")
    assert found("second", group="others") == ("second", TOPIC, "others")
    assert found("elsewhere", topic="a", group="b") == ("elsewhere", "a", "b")
    with pytest.raises(InvalidValue, match="no app in its module declares it"):
        found("elsewhere")
    with pytest.raises(InvalidValue, match="has no 'nothing'"):
        found("nothing")
    with pytest.raises(InvalidValue, match="write it as module:name"):
        rehearse.find_handler(rehearse.Settings(handler="nothing"))


def test_an_app_with_several_functions_must_be_more_precise(monkeypatch: pytest.MonkeyPatch) -> None:
    both = penstock.App()
    both.worker("a", group="a")(elsewhere)
    both.worker("b", group="b")(first)
    monkeypatch.setattr(sys.modules[__name__], "both", both, raising=False)

    with pytest.raises(InvalidValue, match=r"several functions \(elsewhere, first\)"):
        rehearse.find_handler(rehearse.Settings(handler=f"{__name__}:both"))
