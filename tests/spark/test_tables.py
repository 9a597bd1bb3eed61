"""Topics and what a broker knows as tables of SQL, against a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import penstock
import penstock.spark
from penstock.errors import QueryFailed, QueryInvalid
from penstock.spark.queries.query_result import result_of
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def tables(spark: "SparkSession", servers: str) -> Iterator[Tables]:
    """The tables of the server; views are gone after the test."""
    yield Tables(spark, Address(servers))
    for view in spark.catalog.listTables():
        spark.catalog.dropTempView(view.name)


def rows(tables: Tables, query: str) -> list[list[Any]]:
    return result_of(tables.sql(query)).rows()


def test_a_topic_is_a_view_that_shows_what_is_there_when_it_is_asked(
    tables: Tables, broker: penstock.Broker
) -> None:
    broker.create_topic("shop.orders", partitions=2)
    broker.publish("shop.orders", b'{"amount": 3}', key="anna", partition=0)
    broker.publish("shop.orders", b"\xff", key="bob", partition=1, headers={"trace": "7"}, priority="high")
    query = "select partition, offset, key, value, headers, lane from `shop.orders` order by partition"

    first = rows(tables, query)
    broker.publish("shop.orders", b"more", key="anna", partition=0)
    later = rows(tables, "SELECT key, count(*) FROM `SHOP.ORDERS` WHERE key = 'anna' GROUP BY key")
    amounts = rows(
        tables,
        "select get_json_object(cast(value as string), '$.amount') from `shop.orders`"
        " where timestamp > now() - interval 1 hour and key = 'anna' and offset = 0",
    )

    assert first == [
        [0, 0, b"anna", b'{"amount": 3}', {}, 0],
        [1, 0, b"bob", b"\xff", {"trace": b"7"}, 1],
    ]
    assert later == [[b"anna", 2]]
    assert amounts == [["3"]]


def test_fields_of_json_values_are_extracted_with_a_colon(tables: Tables, broker: penstock.Broker) -> None:
    broker.create_topic("baskets", partitions=1)
    for value in (b'{"customer": "ada", "items": [{"n": 3}]}', b'{"customer": {"id": 7}}', b"\xff", b"none"):
        broker.publish("baskets", value, key=b'{"shop": "x:y"}')

    found = result_of(
        tables.sql(
            "select value:customer, b.value:items[0].n::int, `KEY`:shop from baskets b order by offset"
        )
    )
    counted = rows(
        tables,
        "select value:customer::string as c, count(*) from baskets"
        " where value:customer is not null and key:shop::string = 'x:y' group by 1 order by 1",
    )
    whole = rows(tables, "select array(try_parse_json(string(value))) from baskets order by offset limit 1")

    assert found.columns == ["customer", "n", "shop"]
    assert found.rows() == [
        ["ada", 3, "x:y"], ['{"id":7}', None, "x:y"], [None, None, "x:y"], [None, None, "x:y"],
    ]  # fmt: skip
    assert counted == [["ada", 1], ['{"id":7}', 1]]
    assert whole == [['[{"customer":"ada","items":[{"n":3}]}]']]


def test_values_are_shown_as_text(
    tables: Tables, broker: penstock.Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("shown", partitions=1)
    broker.publish("shown", "grün".encode(), key=b"\xff")

    tables.sql("select key, value from shown").show()

    assert "grün" in (shown := capsys.readouterr().out)
    assert "\N{REPLACEMENT CHARACTER}" in shown


def test_what_became_of_messages_is_in_the_views_beside_their_topic(
    tables: Tables, broker: penstock.Broker
) -> None:
    broker.create_topic("parcels", partitions=1)
    for value in (b"good", b"bad"):
        broker.publish("parcels", value)
    assert rows(tables, "select * from parcels__dlq") == []
    with broker.consumer("parcels", group="post", max_attempts=1, start="earliest") as consumer:
        good, bad = consumer.receive(2)
        consumer.ack(good)
        consumer.nack(bad, error=ValueError("no address"))
        while not broker.dead_letters("parcels"):
            consumer.receive(1, wait="100ms")

    letters = rows(
        tables,
        "select value, source_partition, source_offset, `group`, attempts, reason,"
        " error_class, error_message, first_failed = last_failed from parcels__dlq",
    )
    happened = rows(
        tables, "select event, start, end, attempt, error_class from parcels__journal where `group` = 'post'"
    )
    [group] = rows(
        tables, "select kind, lag, acked, dead_lettered, consumers from __groups where topic = 'parcels'"
    )

    assert letters == [[b"bad", 0, 1, "post", 1, "nacked", "ValueError", "no address", True]]
    assert ["delivered", 0, 2, 1, None] in happened
    assert ["acked", 0, 1, 1, None] in happened
    assert ["nacked", 1, 2, 1, "ValueError"] in happened
    assert group == ["queue", 0, 1, 1, 0]


def test_what_waits_for_its_time_is_a_view(tables: Tables, broker: penstock.Broker) -> None:
    broker.create_topic("reports", partitions=1)
    broker.publish("reports", b"monthly", key="k", delay="1h", headers={"to": "anna"})
    broker.schedule("reports", b"weekly", cron="0 8 * * MON", timezone="Europe/Berlin")

    found = rows(
        tables,
        "select value, key, headers['to'], cron, timezone, due > now() from __schedules"
        " where topic = 'reports' order by value",
    )

    assert found == [
        [b"monthly", b"k", b"anna", None, None, True],
        [b"weekly", None, None, "0 8 * * MON", "Europe/Berlin", True],
    ]


def test_gaps_are_a_view_also_before_there_are_any(tables: Tables) -> None:
    columns = tables.sql("select * from __gaps").columns

    assert columns == ["time", "topic", "partition", "start", "end", "reader"]


def test_tables_that_pipelines_made_in_the_lake_are_views(tables: Tables, lake: Path) -> None:
    path = str(lake / "_tables" / "totals")
    write_deltalake(path, pa.table({"day": ["mon", "tue"], "n": [1, 2]}), partition_by=["day"])

    first = rows(tables, "select sum(n) from totals")
    write_deltalake(path, pa.table({"day": ["wed"], "n": [4]}), mode="append")

    assert first == [[3]]
    assert rows(tables, "select sum(n) from totals") == [[7]]


def test_a_program_gets_all_views_at_once(
    spark: "SparkSession", servers: str, broker: penstock.Broker
) -> None:
    broker.create_topic("cards", partitions=1)
    broker.publish("cards", b"x")
    for name in ("Twins", "twins"):  # One name for SQL: no view is better than the wrong one.
        broker.create_topic(name)

    made = penstock.spark.tables(spark, servers=servers)

    assert {"cards", "cards__dlq", "cards__journal", "__groups", "__schedules", "__gaps"} <= set(made.names())
    assert spark.sql("select value from cards").collect()[0].value == b"x"
    with pytest.raises(
        QueryInvalid, match="Twins and twins are the same name in SQL; read each with the format"
    ):
        made.sql("select * from twins")
    for name in ("Twins", "twins"):
        broker.delete_topic(name)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("select * from lettrs", "there is no topic or view 'lettrs'; did you mean letters?"),
        ("select vlaue from letters", "there is no column 'vlaue'; did you mean value?"),
        ("select l.vlaue from letters l", "there is no column 'vlaue'; did you mean value?"),
        ("select * from dotted.name", "names with a dot need backticks: `dotted.name`"),
        ("select * from dash-name", "need backticks: `dash-name`"),
        ("selekt 1", "there is a syntax error at 'selekt', line 1, character 1"),
        ("select upperr(key) from letters", "there is no function 'upperr'"),
        ("select from_json(value, 'a int') from letters", r"use cast\(value as string\)"),
    ],
)
def test_a_typo_is_told_in_one_sentence(
    query: str, why: str, tables: Tables, broker: penstock.Broker
) -> None:
    for name in ("letters", "dotted.name"):
        if name not in broker.topics():
            broker.create_topic(name)

    with pytest.raises(QueryInvalid, match=why) as caught:
        tables.sql(query)

    assert "\n" not in str(caught.value)


def test_what_fails_while_it_runs_is_told_in_one_sentence(tables: Tables, broker: penstock.Broker) -> None:
    broker.create_topic("numbers", partitions=1)
    broker.publish("numbers", b"seven")

    with pytest.raises(QueryFailed, match='\'seven\' of the type "STRING" cannot be cast to "INT"') as caught:
        result_of(tables.sql("select cast(cast(value as string) as int) from numbers"))

    assert "\n" not in str(caught.value)
