"""A broker that asks for keys: the driver has one, executors use it, and nobody gets to see it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.guarded import Guarded

import penstock
import penstock.spark
from penstock.cli.main import main
from penstock.errors import InvalidConfiguration, InvalidValue
from penstock.spark.lake.table import LakeTable
from penstock.spark.pipelines import transform
from penstock.spark.pipelines.run.settings import load
from penstock.spark.runtime.connections import Address, address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def shown_plans(spark: "SparkSession") -> str:
    """All that Spark keeps of its queries, for its pages and its event log."""
    queries = spark._jsparkSession.sharedState().statusStore().executionsList()
    kept = [queries.apply(number) for number in range(queries.size())]
    return "".join(each.details() + each.physicalPlanDescription() for each in kept)


def test_who_may_only_publish_to_a_topic_writes_it_and_who_may_only_read_it_reads_it(
    spark: "SparkSession", guarded: Guarded, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    guarded.admin.create_topic("keyed", partitions=2)
    guarded.admin.create_topic("keyed-copy", partitions=2)
    writes = {"servers": guarded.servers, "key": guarded.key("producer:keyed", "producer:keyed-copy")}
    reads = {"servers": guarded.servers, "key": guarded.key("consumer:keyed:spark")}

    rows = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value")
    rows.write.format("penstock").options(topic="keyed", **writes).mode("append").save()
    table = spark.read.format("penstock").options(topic="keyed", **reads).load()
    table.explain(extended=True)
    assert table.count() == 100
    stream = spark.readStream.format("penstock").options(
        topic="keyed", starting="earliest", group="spark", **reads
    )
    copied = stream.load().select("value")
    copied.explain(extended=True)
    query = (
        copied.writeStream.format("penstock")
        .options(topic="keyed-copy", checkpointLocation=str(tmp_path / "checkpoint"), **writes)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(extended=True)

    assert sorted(int(each.value) for each in guarded.admin.read("keyed-copy", limit=1000)) == list(
        range(100)
    )
    kept = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    told = (
        "".join(capfd.readouterr()) + shown_plans(spark) + kept + json.dumps(query.lastProgress, default=str)
    )
    assert "topic=keyed, " in told  # Options are shown ...
    for options in (writes, reads):
        assert options["key"].split("_", 2)[2] not in told  # ... and this is not.


def test_who_is_not_known_or_may_not_is_told_so_and_the_key_is_not(
    spark: "SparkSession", guarded: Guarded
) -> None:
    guarded.admin.create_topic("closed")
    reader = guarded.key("reader:closed")
    rows = spark.sql("select 'x' as value").write.format("penstock").mode("append")

    for login, sentence in (
        ({}, "this server requires an API key"),
        ({"key": reader + "x"}, "pass a valid key"),
        ({"key": reader}, "is not allowed to publish to topic closed; it needs the producer role"),
        ({"user": "anna"}, "give a key, or a user and a password"),
    ):
        with pytest.raises(PySparkException) as caught:
            rows.options(servers=guarded.servers, topic="closed", **login).save()
        assert sentence in str(caught.value)
        assert reader.split("_", 2)[2] not in str(caught.value)


def test_tables_are_those_that_a_user_may_read(spark: "SparkSession", guarded: Guarded) -> None:
    guarded.admin.create_topic("open")
    guarded.admin.create_topic("hidden")
    guarded.admin.publish("open", b"x")
    guarded.admin.set_user("anna", "correct horse", [penstock.Grant(role="reader", topics=["open"])])

    tables = penstock.spark.tables(spark, guarded.servers, user="anna", password="correct horse")

    assert {"open", "open__dlq", "open__journal"} <= set(tables.names())
    assert not [name for name in tables.names() if name.startswith(("hidden", "closed"))]
    assert [row.value for row in tables.sql("select value from open").collect()] == [b"x"]
    assert tables.sql("select * from open__journal").collect() == []


def test_a_pipeline_logs_in_by_its_settings(
    spark: "SparkSession", guarded: Guarded, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    guarded.admin.create_topic("archived-by-key", partitions=1)
    guarded.admin.publish("archived-by-key", b"x")
    key = guarded.key("consumer:archived-by-key:archive", "admin:__pipelines")
    file = tmp_path / "archive.toml"
    file.write_text(f'topic = "archived-by-key"\n[login]\nkey = "{key}"\n')

    code = main(["pipeline", "run", "archive", "--once", "--config", str(file), "--server", guarded.servers])

    assert code == 0, capfd.readouterr().err
    assert LakeTable.open(guarded.lake, "archived-by-key").next_offsets() == {0: 1}


# Without Spark.


def test_a_login_that_cannot_be_is_told_without_its_secrets() -> None:
    with pytest.raises(InvalidConfiguration, match="unknown field") as caught:
        load(transform.Settings, text='[login]\nkye = "secret"', file="x.toml", given={}, now_ms=0)

    assert "secret" not in str(caught.value)


def test_an_address_shows_no_secrets_and_is_told_to_executors_by_its_options() -> None:
    address = Address("broker:7070", user="anna", password="secret")

    assert "secret" not in repr(address) + repr(Address(key="secret"))
    assert address_of(address.options) == address
    with pytest.raises(InvalidValue, match="give a key, or a user and a password"):
        address_of({"key": "k", "user": "anna", "password": "p"})


def test_the_key_of_the_driver_goes_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KEY", "k")

    assert address_of({}).key == "k"
    assert address_of({"key": "other"}).key == "other"
    assert address_of({"user": "anna", "password": "p"}).key is None
