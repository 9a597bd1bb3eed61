"""Topics with a schema in Spark and SQL: their fields are columns, and invalid rows are in a side table."""

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from tests.server.process import until
from tests.spark.archived import archive

import penstock
from penstock.errors import InvalidValue
from penstock.model.schemas import NewSchema
from penstock.spark.queries.engine import LocalEngine
from penstock.spark.queries.quick_answers import quick_answer
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import address_of
from penstock.spark.source.source import PenstockSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "customer", "type": "string"}, {"name": "total", "type": "int"}],
}
SECOND: dict[str, Any] = FIRST | {
    "fields": [
        FIRST["fields"][0],
        {"name": "total", "type": "double"},
        {"name": "currency", "type": "string", "default": "EUR"},
        {"name": "timestamp", "type": ["null", "long"], "default": None},
    ]
}
JSON_SCHEMA = (
    '{"type": "object", "properties": {"customer": {"type": "string"}, "total": {"type": "number"}},'
    ' "required": ["customer"]}'
)


def avro(schema_id: int, schema: dict[str, Any], **fields: object) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, fields)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def evolved(broker: penstock.Broker, topic: str) -> None:
    """A topic with values of two versions of an Avro schema, a tombstone, and two values that are invalid."""
    broker.create_topic(topic, partitions=1)
    first = broker.register_schema(f"{topic}-value", NewSchema(schema=json.dumps(FIRST)))
    broker.publish(topic, avro(first.id, FIRST, customer="anna", total=3), key="a")
    second = broker.register_schema(f"{topic}-value", NewSchema(schema=json.dumps(SECOND)))
    broker.publish(
        topic, avro(second.id, SECOND, customer="bob", total=4.5, currency="NOK", timestamp=7), key="b"
    )
    broker.publish(topic, avro(second.id, SECOND, customer="", total=0.0)[:-3], key="broken")
    broker.publish(topic, None, key="a")
    broker.publish(topic, b"hello")


ROWS = [
    (0, "a", "anna", 3.0, "EUR", None),
    (1, "b", "bob", 4.5, "NOK", 7),
    (3, "a", None, None, None, None),
]
COLUMNS = "offset, string(key), customer, total, currency, value_timestamp"


def test_fields_are_columns_of_the_newest_version(
    spark: "SparkSession", broker: penstock.Broker, servers: str, tmp_path: Path
) -> None:
    evolved(broker, "typed")
    tables = Tables(spark, address_of({"servers": servers}))

    rows = tables.sql(f"select {COLUMNS} from typed order by offset").collect()
    invalid = tables.sql("select * from typed__invalid order by offset").collect()

    assert [tuple(row) for row in rows] == ROWS
    assert {"typed", "typed__invalid"} <= set(tables.names())
    assert [(row.partition, row.offset, bytes(row.key or b"")) for row in invalid] == [
        (0, 2, b"broken"),
        (0, 4, b""),
    ]
    assert "it is not Avro of this schema" in invalid[0].reason
    assert bytes(invalid[1].value) == b"hello"
    assert tables.sql("select sum(total) from typed where currency = 'NOK'").collect() == [(4.5,)]
    tables.create()
    assert spark.sql("select count(*), max(offset) from typed").collect() == [(3, 3)]


def test_a_reader_gets_reasons_or_valid_rows(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    evolved(broker, "typed.read")
    reader = spark.read.format("penstock").options(
        servers=servers, topic="typed.read", value_format="registry"
    )

    everything = reader.load()
    named = reader.schema("total double, offset bigint").load()

    assert everything.columns == [
        "topic", "partition", "offset", "timestamp", "key", "value", "headers", "lane",
        "customer", "total", "currency", "value_timestamp", "invalid",
    ]  # fmt: skip
    reasons = {row.offset: row.invalid for row in everything.collect()}
    assert {offset for offset, why in reasons.items() if why} == {2, 4}
    assert [tuple(row) for row in named.collect()] == [(3.0, 0), (4.5, 1), (None, 3)]
    assert reader.schema("offset bigint").load().count() == 3


def test_a_stream_keeps_invalid_rows_with_the_reason(
    spark: "SparkSession", broker: penstock.Broker, servers: str, tmp_path: Path
) -> None:
    evolved(broker, "typed.stream")
    options = {
        "servers": servers,
        "topic": "typed.stream",
        "value_format": "registry",
        "starting": "earliest",
    }
    stream = spark.readStream.format("penstock").options(**options).load()

    query = stream.writeStream.format("memory").queryName("typed_stream").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    rows = spark.sql(
        "select offset, customer, invalid is null as valid from typed_stream order by offset"
    ).collect()
    assert [tuple(row) for row in rows] == [
        (0, "anna", True), (1, "bob", True), (2, None, False), (3, None, True), (4, None, False),
    ]  # fmt: skip


def test_the_lake_has_the_same_columns_and_a_replay_too(
    spark: "SparkSession", broker: penstock.Broker, servers: str, lake: Path
) -> None:
    evolved(broker, "typed.lake")
    archive(broker, "typed.lake", str(lake))
    broker.alter_topic("typed.lake", retention="1ms")
    until(lambda: all(each.start == each.end for each in broker.describe_topic("typed.lake").partitions))
    tables = Tables(spark, address_of({"servers": servers}))

    rows = tables.sql(f"select {COLUMNS} from `typed.lake` order by offset").collect()
    invalid = tables.sql("select offset from `typed.lake__invalid` order by offset").collect()

    assert broker.offsets("typed.lake", "earliest") == {0: 5}
    assert [tuple(row) for row in rows] == ROWS
    assert invalid == [(2,), (4,)]


def test_json_values_are_typed_by_their_schema_with_and_without_a_frame(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("typed.json", partitions=1)
    broker.publish_batch("typed.json", [b'{"customer": "anna", "total": 3}', b'{"total": 3}'])
    tables = Tables(spark, address_of({"servers": servers}))
    untyped = tables.sql("select value:customer::string from `typed.json` order by offset").collect()

    info = broker.register_schema("typed.json-value", NewSchema(type="JSON", schema=JSON_SCHEMA))
    broker.publish("typed.json", b"\0" + info.id.to_bytes(4, "big") + b'{"customer": "bob", "total": 4.5}')

    assert untyped == [("anna",), (None,)]
    assert tables.sql("select customer, total from `typed.json` order by offset").collect() == [
        ("anna", 3.0),
        ("bob", 4.5),
    ]
    assert tables.sql("select value:total::int from `typed.json` limit 1").collect() == [(3,)]
    [row] = tables.sql("select offset, reason from `typed.json__invalid`").collect()
    assert tuple(row) == (1, '/: "customer" is a required property')


def test_a_quick_answer_does_not_count_an_invalid_row(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    evolved(broker, "typed_quick")
    query = "select max(offset) from typed_quick"

    assert quick_answer(broker, query) is None
    engine = LocalEngine(Tables(spark.newSession(), address_of({"servers": servers})))
    assert engine.ask(query, None).rows() == [[3]]


def test_a_schema_without_fields_changes_nothing(
    spark: "SparkSession", broker: penstock.Broker, servers: str
) -> None:
    broker.create_topic("typed.number", partitions=1)
    broker.register_schema("typed.number-value", NewSchema(schema='"long"'))
    broker.publish("typed.number", b"\x02")
    tables = Tables(spark, address_of({"servers": servers}))

    [row] = tables.sql("select value from `typed.number`").collect()

    assert bytes(row.value) == b"\x02"
    assert tables.sql("select * from `typed.number__invalid`").collect() == []


# Without Spark.


def test_what_cannot_be_typed_is_refused(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("typed.none")
    options = {"servers": servers, "topic": "typed.none", "value_format": "registry"}
    with pytest.raises(InvalidValue, match="has no schema whose values have fields"):
        PenstockSource(options).schema()
    broker.register_schema("typed.none-value", NewSchema(schema='"long"'))
    with pytest.raises(InvalidValue, match="has no schema whose values have fields"):
        PenstockSource(options).schema()
    with pytest.raises(InvalidValue, match="it is for one topic"):
        PenstockSource(options | {"topic": "a,b"}).schema()


def test_a_field_may_have_the_name_of_an_optional_column(broker: penstock.Broker, servers: str) -> None:
    broker.create_topic("typed.names")
    schema = json.dumps(FIRST | {"fields": [{"name": "id", "type": "long"}, {"name": "key", "type": "long"}]})
    broker.register_schema("typed.names-value", NewSchema(schema=schema))
    options = {"servers": servers, "topic": "typed.names", "value_format": "registry"}

    assert PenstockSource(options).schema().endswith("`id` bigint, `value_key` bigint, `invalid` string")
    assert (
        PenstockSource(options | {"columns": "id"})
        .schema()
        .endswith("`value_id` bigint, `value_key` bigint, `invalid` string, `id` string")
    )


def test_a_column_of_another_type_than_the_schemas_is_refused(broker: penstock.Broker, servers: str) -> None:
    from pyspark.sql.types import StructType

    evolved(broker, "typed.types")
    source = PenstockSource({"servers": servers, "topic": "typed.types", "value_format": "registry"})

    with pytest.raises(
        InvalidValue, match="the topic's schema says double; if it has changed, load the table again"
    ):
        source.reader(StructType().add("total", "integer"))
    with pytest.raises(InvalidValue, match=r"the columns are .*customer.*invalid"):
        source.reader(StructType().add("gone", "integer"))
