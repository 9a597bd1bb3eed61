"""Options of the source: what they mean, and what is refused before anything is asked."""

from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, VariantType

from penstock.errors import PenstockError
from penstock.spark.source.options import source_options
from penstock.spark.source.source import PenstockSource, check_schema, value_type
from penstock.spark.source.stream import StreamReader

AVRO = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]}'


def test_options_are_read_as_they_are_written() -> None:
    options = source_options(
        {
            "Servers": "broker:7070",
            "topic": "orders, refunds,orders",
            "starting": '{"orders": {"0": 5, "1": 7}}',
            "to_time": "2026-11-14T15:00:00Z",
            "max_records_per_trigger": "1_000_000",
            "columns": "id, state",
            "group": "billing",
            "on_gap": "skip",
        }
    )

    assert options.address.servers == "broker:7070"
    assert options.topics == ("orders", "refunds")
    assert options.starting == {"orders": {0: 5, 1: 7}}
    assert options.to_ms("orders", 3) == 1_794_668_400_000
    assert options.max_records == 1_000_000
    assert options.columns == ("id", "state")
    assert options.on_gap == "skip"


def test_options_of_sparks_kafka_connector_mean_the_same_here() -> None:
    kafka = source_options(
        {
            "subscribe": "orders,returns",
            "startingOffsetsByTimestamp": '{"orders": {"0": 1000, "1": 2000}, "returns": {"0": 3000}}',
            "failOnDataLoss": "false",
            "maxOffsetsPerTrigger": "500",
            "minOffsetsPerTrigger": "100",
            "maxTriggerDelay": "5m",
        }
    )

    assert kafka.topics == ("orders", "returns")
    assert [kafka.from_ms("orders", each) for each in (0, 1, 2)] == [1000, 2000, None]
    assert (kafka.from_ms("returns", 0), kafka.from_ms("others", 0)) == (3000, None)
    assert (kafka.on_gap, kafka.max_records, kafka.min_records) == ("skip", 500, 100)
    assert kafka.trigger_delay_ms == 300_000
    placed = source_options({"subscribePattern": "o.*", "startingOffsets": '{"orders": {"0": -1, "1": -2}}'})
    assert (placed.pattern, placed.starting) == ("o.*", {"orders": {0: -1, 1: -2}})


def test_what_is_not_said_has_a_default() -> None:
    options = source_options({"topic": "orders"})

    assert (options.address.servers, options.starting, options.ending) == ("127.0.0.1:7070", None, "latest")
    assert (options.value_format, options.on_gap, options.max_records) == ("raw", "error", None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "set either topic or topic_pattern"),
        ({"topic": "a", "topic_pattern": "b"}, "set either topic or topic_pattern"),
        ({"topic": "a b"}, "topic name 'a b' is not allowed"),
        ({"topic": "a,"}, "topic name '' is not allowed"),
        ({"topic_pattern": "("}, "not a valid regular expression"),
        ({"topic": "a", "startingOffset": "earliest"}, "did you mean starting?"),
        ({"topic": "a", "kafka.bootstrap.servers": "x:9092"}, "the native address of the broker"),
        ({"topic": "a", "subscribe": "b"}, "it is the same as topic; set one of them"),
        ({"subscribe": "b", "failOnDataLoss": "maybe"}, "it must be true or false"),
        ({"topic": "a", "from_time": '{"a": {"x": 1}}'}, "a partition must be a number"),
        ({"topic": "a", "from_time": "{"}, "it must be a time"),
        ({"topic": "a", "from_time": '{"a": 5}', "to_time": '{"a": 4}'}, "it is before from_time"),
        (
            {"topic": "a", "min_records_per_trigger": "5", "max_records_per_trigger": "4"},
            "it must not be above max_records_per_trigger",
        ),
        ({"topic": "a", "starting": "first"}, "it must be earliest, latest"),
        ({"topic": "a", "starting": "[1]"}, "it must be earliest, latest"),
        ({"topic": "a", "starting": '{"0": -3}'}, "it must be earliest, latest"),
        ({"topic": "a", "starting": '{"zero": 1}'}, "it must be earliest, latest"),
        ({"topic": "a", "starting": '{"0": true}'}, "it must be earliest, latest"),
        ({"topic": "a,b", "starting": '{"0": 1}'}, "with several topics"),
        ({"topic": "a", "from_time": "yesterday"}, "write it like"),
        ({"topic": "a", "from_time": "2026-11-14T15:00:00Z", "starting": "latest"}, "set either"),
        (
            {"topic": "a", "from_time": "2026-11-14T15:00:00Z", "to_time": "2026-11-13T15:00:00Z"},
            "it is before from_time",
        ),
        ({"topic": "a", "partition_records": "0"}, "at least 1"),
        ({"topic": "a", "max_bytes_per_trigger": "1MB"}, "at least 1"),
        ({"topic": "a", "value_format": "xml"}, "it must be one of raw, text, json, avro, registry"),
        ({"topic": "a", "value_format": "avro"}, "value_format=avro needs the schema"),
        ({"topic": "a", "on_gap": "ignore"}, "it must be one of error, skip"),
        ({"topic": "a", "columns": "age"}, "the columns are id, header_list, attempts, state"),
        ({"topic": "a", "columns": "state"}, "requires the option group"),
        ({"topic": "a", "group": ""}, "group name '' is not allowed"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(PenstockError) as raised:
        source_options(given)

    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "binary"),
        ({"value_format": "text"}, "string"),
        ({"value_format": "json", "value_schema": "a int, b string"}, "struct<a int, b string>"),
        ({"value_format": "json", "value_schema": "Array<int>"}, "Array<int>"),
        ({"value_format": "avro", "value_schema": AVRO}, "struct<`a`:bigint>"),
    ],
)
def test_the_format_of_values_gives_their_type(given: dict[str, str], expected: str) -> None:
    assert value_type(source_options({"topic": "a"} | given)) == expected
    assert f"`value` {expected}" in PenstockSource({"topic": "a"} | given).schema()


def test_columns_on_demand_come_last() -> None:
    schema = PenstockSource({"topic": "a", "group": "g", "columns": "attempts,id"}).schema()

    assert schema.endswith("`lane` int NOT NULL, `attempts` int, `id` string")


def typed(**columns: str) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made.add(name, kind)
    return made


@pytest.mark.parametrize(
    ("columns", "given", "words"),
    [
        ({"ofset": "long"}, {}, "column cannot be 'ofset': the columns are topic, partition, offset"),
        ({"offset": "integer"}, {}, "the type of offset cannot be 'int': it must be bigint"),
        ({"value": "long"}, {}, "the type of value cannot be 'bigint'"),
        ({"state": "string"}, {}, "requires the option group"),
    ],
)
def test_a_schema_with_other_columns_is_refused(
    columns: dict[str, str], given: dict[str, str], words: str
) -> None:
    with pytest.raises(PenstockError) as raised:
        check_schema(typed(**columns), source_options({"topic": "a"} | given))

    assert words in str(raised.value)


@pytest.mark.parametrize(
    "kind",
    [
        VariantType(),
        StructType().add("amount", VariantType()),
        ArrayType(StructType().add("amount", VariantType())),
        MapType(StringType(), VariantType()),
    ],
)
def test_a_variant_is_refused_with_what_to_do_instead(kind: DataType) -> None:
    options = source_options({"topic": "a", "value_format": "json", "value_schema": "amount variant"})

    with pytest.raises(PenstockError, match=r"value_schema cannot be 'variant': .* parse_json\(value\)"):
        check_schema(StructType().add("value", kind), options)


def test_a_schema_may_have_any_of_the_columns_and_texts_as_text() -> None:
    check_schema(typed(value="string", key="string", offset="long"), source_options({"topic": "a"}))


@pytest.mark.parametrize(
    ("given", "columns", "words"),
    [
        ({"ending": "earliest"}, {"offset": "long"}, "a stream has no end"),
        ({"to_time": "2026-11-14T15:00:00Z"}, {"offset": "long"}, "a stream has no end"),
        ({"group": "g"}, {"state": "string"}, "read a table instead"),
    ],
)
def test_a_stream_refuses_what_only_a_table_has(
    given: dict[str, str], columns: dict[str, Any], words: str
) -> None:
    with pytest.raises(PenstockError) as raised:
        StreamReader(source_options({"topic": "a"} | given), typed(**columns))

    assert words in str(raised.value)
