"""Twenty small queries have the same answers on Spark, on DuckDB over what ``read`` gives, and at once.

DuckDB is no engine of Penstock (``docs/decisions/0036-no-second-engine.md``): it checks the tables of Spark,
and gets the fields of the values from another decoder.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

import penstock
from penstock.model.schemas import NewSchema
from penstock.spark.queries.engine import LocalEngine
from penstock.spark.queries.quick_answers import quick_answer
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    '{"properties": {"customer": {"type": "string"}, "total": {"type": "number"}, '
    '"note": {"type": "string"}}, "required": ["customer"]}'
)
NAMES = ("anna", "bob", "zoë", None)
# And of those that DuckDB has another text for, that text; it also wants quotes around ``offset``.
QUERIES: dict[str, str | None] = {
    "select count(*) from twenty": None,
    "select partition, count(*) from twenty group by partition": None,
    "select distinct key from twenty": None,
    "select max(offset), min(offset) from twenty": None,
    "select offset, value from twenty where partition = 0 and offset < 5": None,
    "select partition, offset from twenty where partition = 5 or offset in (3, 7)": None,
    "select count(*) from twenty where key is null": None,
    "select count(*) from twenty where value is null": None,
    "select max(offset) from twenty": None,
    "select string(headers['n']) from twenty where lane = 1": (
        "select decode(headers['n']) from twenty where lane = 1"
    ),
    "select lane, count(*) from twenty group by lane having count(*) > 3": None,
    "select sum(length(value)) from twenty": "select sum(octet_length(value))::bigint from twenty",
    "select count(*) from twenty where timestamp > timestamp '2020-01-01 00:00:00Z'": None,
    "select a.offset from twenty a join twenty b on a.offset = b.offset and a.partition < b.partition": None,
    "select value:total::int from twenty where partition = 1 and value:note::string = 'n15'": (
        "select trunc(total)::int from decoded where partition = 1 and note = 'n15'"
    ),
    "select customer, sum(total), count(*) from twenty_typed group by customer": None,
    "select customer, total from twenty_typed where total between 4 and 8": None,
    "select count(note), count(*) from twenty_typed": None,
    "select key, avg(total) from twenty_typed where note like 'n%' group by key": None,
    "select count(*), max(offset) from twenty_typed__invalid": None,
}


@pytest.fixture(scope="module")
def filled(served: Any) -> Iterator[tuple[penstock.Broker, str]]:
    """The same values in a topic without a schema, and in one with."""
    servers = f"127.0.0.1:{served.ports['native']}"
    with penstock.connect(servers) as broker:
        for topic in ("twenty", "twenty_typed"):
            broker.create_topic(topic, partitions=2)
        broker.register_schema("twenty_typed-value", NewSchema(type="JSON", schema=SCHEMA))
        for number in range(40):
            document: dict[str, Any] = {"customer": NAMES[number % 3], "total": number / 4}
            if number % 5 == 0:
                document["note"] = f"n{number}"
            if number % 11 == 3:
                del document["customer"]
            value = None if number % 12 == 5 else msgspec.json.encode(document)
            for topic in ("twenty", "twenty_typed"):
                broker.publish(
                    topic, value, key=NAMES[number % 4], partition=number % 2, headers={"n": str(number)},
                    priority="high" if number % 7 == 0 else "normal",
                )  # fmt: skip
        yield broker, servers


def decoded(rows: pa.Table) -> pa.Table:
    """The rows with the fields of their values."""
    values = [{} if each is None else msgspec.json.decode(each) for each in rows["value"].to_pylist()]
    fields = {"customer": pa.string(), "total": pa.float64(), "note": pa.string()}
    for name, kind in fields.items():
        rows = rows.append_column(name, pa.array([each.get(name) for each in values], kind))
    return rows


def in_duckdb(broker: penstock.Broker) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    plain, typed = broker.read("twenty").to_arrow(), decoded(broker.read("twenty_typed").to_arrow())
    connection.register("twenty", plain)
    connection.register("decoded", decoded(plain))
    connection.register("all_typed", typed)
    connection.sql(
        "create view twenty_typed__invalid as from all_typed where customer is null and value is not null"
    )
    connection.sql("create view twenty_typed as from all_typed where customer is not null or value is null")
    return connection


def ordered(rows: Any) -> list[str]:
    return sorted(str([round(each, 6) if isinstance(each, float) else each for each in row]) for row in rows)


def test_twenty_queries_have_the_same_answers(
    spark: "SparkSession", filled: tuple[penstock.Broker, str]
) -> None:
    broker, servers = filled
    engine = LocalEngine(Tables(spark.newSession(), address_of({"servers": servers})))
    other = in_duckdb(broker)
    quick: list[str] = []

    for query, text in QUERIES.items():
        answer = ordered(engine.ask(query, None).rows())
        quoted = re.sub(r"\boffset\b", '"offset"', text or query)
        assert answer == ordered(other.sql(quoted).fetchall()), query
        assert answer, query
        at_once = quick_answer(broker, query)
        if at_once is not None:
            quick.append(query)
            assert ordered(at_once.rows()) == answer, query

    assert len(QUERIES) == 20
    assert quick == ["select count(*) from twenty", "select max(offset) from twenty"]
