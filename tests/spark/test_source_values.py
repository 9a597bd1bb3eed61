"""Values as text, JSON and Avro; what is none of it is null."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidValue
from penstock.spark.source.options import source_options
from penstock.spark.source.value_decoding import (
    ValueConversion,
    as_text,
    avro_schema,
    avro_type,
    decoded,
    python_type,
)

UTC_TIME = pa.timestamp("us", "UTC")
AT = datetime.datetime(2026, 11, 16, 12, tzinfo=datetime.UTC)


def converted(values: list[bytes | None], kind: pa.DataType, **options: str) -> list[Any]:
    conversion = ValueConversion(source_options({"topic": "orders"} | options))
    found: list[Any] = conversion.converted(pa.array(values, pa.binary()), kind).to_pylist()
    return found


def test_raw_values_are_as_they_are() -> None:
    blobs = pa.array([b"\xff", None])

    assert ValueConversion(source_options({"topic": "orders"})).converted(blobs, pa.binary()) is blobs


def test_what_is_no_text_is_null_and_no_other_row_is() -> None:
    assert as_text(pa.array([b"one", None, "zwölf".encode()])).to_pylist() == ["one", None, "zwölf"]
    assert as_text(pa.array([b"one", b"\xff\xfe", None, b"four"])).to_pylist() == ["one", None, None, "four"]


def test_json_is_decoded_by_its_schema() -> None:
    kind = pa.struct(
        [
            ("id", pa.int32()),
            ("name", pa.string()),
            ("price", pa.decimal128(10, 2)),
            ("at", UTC_TIME),
            ("day", pa.date32()),
            ("tags", pa.list_(pa.string())),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("inner", pa.struct([("flag", pa.bool_()), ("ratio", pa.float64())])),
        ]
    )
    full = {
        "id": 7,
        "name": "seven",
        "price": "12.50",
        "at": "2026-11-16T12:00:00Z",
        "day": "2026-11-16",
        "tags": ["a", None],
        "counts": {"x": 1, "y": 2},
        "inner": {"flag": True, "ratio": 1},
        "unknown": [1, 2, 3],
    }

    rows = converted([json.dumps(full).encode(), b'{"id": 1}', b"null", None], kind, value_format="json")

    nothing = dict.fromkeys((each.name for each in kind), None)
    assert rows == [
        {
            "id": 7,
            "name": "seven",
            "price": Decimal("12.50"),
            "at": AT,
            "day": AT.date(),
            "tags": ["a", None],
            "counts": [("x", 1), ("y", 2)],
            "inner": {"flag": True, "ratio": 1.0},
        },
        nothing | {"id": 1},
        None,
        None,
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[1]",
        b'{"id": "text"}',
        b'{"id": 3000000000}',
        b'{"id": 1.5}',
        b"\xff",
        b'{"price": "1e30"}',
    ],
)
def test_what_is_not_json_of_the_schema_is_null_and_no_other_row_is(value: bytes) -> None:
    kind = pa.struct([("id", pa.int32()), ("price", pa.decimal128(10, 2))])
    good = b'{"id": 1, "price": "0.50"}'

    rows = converted([good, value, good], kind, value_format="json")

    assert rows[1] is None
    assert rows[0] == rows[2] == {"id": 1, "price": Decimal("0.50")}


def test_a_type_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidValue, match="cannot be decoded to this type"):
        python_type(pa.duration("us"))


# Avro.  The bytes are those of the specification, by hand.

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["new", "old"]}},
            {"name": "again", "type": "kind"},
            {"name": "ratio", "type": "double"},
            {"name": "weight", "type": "float"},
            {"name": "flag", "type": "boolean"},
            {"name": "blob", "type": "bytes"},
            {"name": "mark", "type": {"type": "fixed", "name": "mark", "size": 2}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
        ],
    }
)
ORDER = (
    b"\x7f"  # id -64
    b"\x02\x06abc"  # name: the second branch, 3 bytes
    b"\x02"  # kind: old
    b"\x00"  # again: new
    b"\x00\x00\x00\x00\x00\x00\xf8\x3f"  # ratio 1.5
    b"\x00\x00\x00\x40"  # weight 2.0
    b"\x01"  # flag
    b"\x04\xff\x00"  # blob
    b"hi"  # mark
    b"\x03\x08\x02a\x02b\x02\x02c\x00"  # tags: a block of two with its size, a block of one
    b"\x02\x02x\x0a\x00"  # counts: x 5
    b"\x80\xe8\xd3\xc3\xbch"  # at, in milliseconds
    b"\xca\xc4\x02"  # day 20,773
    b"\x04\xff\x85"  # price -1.23
)
TYPE = (
    "struct<`id`:bigint,`name`:string,`kind`:string,`again`:string,`ratio`:double,`weight`:float,`flag`:boolean,"
    "`blob`:binary,`mark`:binary,`tags`:array<string>,`counts`:map<string,int>,`at`:timestamp,`day`:date,"
    "`price`:decimal(9,2)>"
)


def test_avro_is_decoded_by_the_schema_it_was_written_with() -> None:
    value = avro_schema(SCHEMA).decode(ORDER)

    assert avro_type(SCHEMA) == TYPE
    assert value == {
        "id": -64,
        "name": "abc",
        "kind": "old",
        "again": "new",
        "ratio": 1.5,
        "weight": 2.0,
        "flag": True,
        "blob": b"\xff\x00",
        "mark": b"hi",
        "tags": ["a", "b", "c"],
        "counts": {"x": 5},
        "at": AT,
        "day": AT.date(),
        "price": Decimal("-1.23"),
    }


@pytest.mark.parametrize("cut", range(1, len(ORDER), 7))
def test_half_an_avro_value_is_null(cut: int) -> None:
    kind = pa.struct([("id", pa.int64())])

    rows = decoded(
        pa.array([ORDER[:cut], ORDER + b"\x00", None]), kind, avro_schema(SCHEMA).decode
    ).to_pylist()

    assert rows == [None, None, None]


def test_an_array_that_could_claim_to_be_endless_is_refused() -> None:
    with pytest.raises(InvalidValue, match="an array has items that take no bytes"):
        avro_schema('{"type": "array", "items": "null"}')


def test_a_missing_value_of_avro_is_null() -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["int", "null"]}]}'

    rows = converted(
        [b"\x00\x08", b"\x02", b"\x04", b"\x00\x08\x00"],
        pa.struct([("a", pa.int32())]),
        value_format="avro",
        value_schema=schema,
    )

    assert rows == [{"a": 4}, {"a": None}, None, None]


@pytest.mark.parametrize("schema", ["{", '"number"', '{"type": "recrd"}', '["int", "string"]', "7", "null"])
def test_what_is_no_avro_schema_is_refused(schema: str) -> None:
    with pytest.raises(InvalidValue, match="value_schema"):
        avro_type(schema)
