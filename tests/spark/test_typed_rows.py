"""Values of a schema as columns: types, evolution, and why a value is invalid; without Spark or a broker."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from itertools import accumulate, pairwise
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.schemas.formats import ParsedSchema, parse
from penstock.schemas.mismatch import Mismatch
from penstock.spark.typed.field_columns import arrow_type, field_columns, same_type
from penstock.spark.typed.typed_rows import TypedRows

AT = datetime(2026, 11, 16, 12, tzinfo=UTC)
TAKEN = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "lane", "invalid")


def framed(schema_id: int, value: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + value


def rows_of(
    planned: ParsedSchema, blobs: list[bytes | None], *writers: ParsedSchema
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """The fields of each value, and the reasons; schema 1 is the first writer, and so on."""
    known = dict(enumerate(writers or (planned,), 1))
    columns = field_columns(planned, TAKEN)
    arrays, reasons = TypedRows(planned, columns, known.get).columns(pa.array(blobs, pa.binary()))
    assert {name: each.type for name, each in arrays.items()} == {n: c.arrow for n, c in columns.items()}
    return pa.table(arrays).to_pylist(), reasons


# Avro.


def avro(*fields: str, **others: object) -> ParsedSchema:
    """A record with fields such as ``total double``, or as JSON."""
    made = [
        json.loads(each) if each.startswith("{") else dict(zip(("name", "type"), each.split(), strict=True))
        for each in fields
    ]
    return parse("AVRO", json.dumps({"type": "record", "name": "Order", "fields": made, **others}), {})


def avro_value(schema: ParsedSchema, **fields: object) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, json.loads(schema.canonical), fields)
    return out.getvalue()


def test_avro_fields_have_their_types() -> None:
    schema = avro(
        "id long",
        '{"name": "note", "type": ["null", "string"]}',
        '{"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}',
        '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}',
        '{"name": "day", "type": {"type": "int", "logicalType": "date"}}',
        '{"name": "who", "type": {"type": "string", "logicalType": "uuid"}}',
        '{"name": "opens", "type": {"type": "int", "logicalType": "time-millis"}}',
        '{"name": "closes", "type": {"type": "long", "logicalType": "time-micros"}}',
        '{"name": "counts", "type": {"type": "map", "values": "long"}}',
        '{"name": "any", "type": ["long", "string", {"type": "array", "items": "long"}]}',
        '{"name": "to", "type": {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}]}}',
    )
    value = avro_value(
        schema, id=7, note=None, price=Decimal("-1.23"), at=AT, day=AT.date(), who=UUID(int=1),
        opens=time(0, 0, 1), closes=time(0, 0, 2), counts={"x": 5}, any=[1, 2], to={"a": 4},
    )  # fmt: skip

    rows, reasons = rows_of(schema, [framed(1, value), value, None])

    expected = {
        "id": 7, "note": None, "price": Decimal("-1.23"), "at": AT, "day": date(2026, 11, 16),
        "who": str(UUID(int=1)), "opens": 1000, "closes": 2_000_000, "counts": [("x", 5)], "any": "[1,2]",
        "to": {"a": 4},
    }  # fmt: skip
    assert rows == [expected, expected, dict.fromkeys(expected)]
    assert reasons == [None, None, None]


def test_avro_of_older_versions_is_resolved() -> None:
    first = avro("id int", "customer string", "gone long")
    second = avro(
        "id long",
        '{"name": "client", "type": "string", "aliases": ["customer"]}',
        '{"name": "total", "type": "double", "default": 1.5}',
        '{"name": "note", "type": ["null", "string"], "default": null}',
    )
    old = framed(1, avro_value(first, id=1, customer="anna", gone=9))
    new = framed(2, avro_value(second, id=2, client="bob", total=3.0, note="hi"))

    rows, reasons = rows_of(second, [old, new, old], first, second)

    anna = {"id": 1, "client": "anna", "total": 1.5, "note": None}
    assert rows == [anna, {"id": 2, "client": "bob", "total": 3.0, "note": "hi"}, anna]
    assert reasons == [None, None, None]


def test_avro_that_no_reader_can_resolve_is_invalid() -> None:
    first, second = avro("id string"), avro("id long")

    rows, [old, new] = rows_of(
        second, [framed(1, avro_value(first, id="x")), framed(2, avro_value(second, id=1))], first, second
    )

    assert rows == [{"id": None}, {"id": 1}]
    assert old is not None
    assert "cannot be read as the schema that is asked for" in old
    assert new is None


# JSON Schema.


def json_schema(**properties: Any) -> ParsedSchema:
    return parse("JSON", json.dumps({"type": "object", "properties": properties, "required": ["id"]}), {})


def test_json_fields_have_their_types() -> None:
    day = {"type": "string", "format": "date"}
    schema = json_schema(
        id={"type": "integer"},
        at={"type": "string", "format": "date-time"},
        day=day,
        ratio={"type": ["number", "null"]},
        any={},
        tags={"type": "array", "items": {"type": "string"}},
        to={"type": "object", "properties": {"city": {"type": "string"}, "since": day}},
        counts={"type": "object", "additionalProperties": {"type": "integer"}},
    )  # fmt: skip
    full = {
        "id": 7, "at": "2026-11-16T13:00:00.000+01:00", "day": "2026-11-16", "ratio": 1, "any": {"a": [1]},
        "tags": ["x"],
        "to": {"city": "Oslo", "since": "2026-11-16"}, "counts": {"x": 5}, "unknown": 1,
    }  # fmt: skip

    rows, reasons = rows_of(schema, [framed(1, msgspec.json.encode(full)), b' {"id": 8.0, "any": "text"}\n'])

    assert reasons == [None, None]
    assert rows[0] == {
        "id": 7, "at": AT, "day": AT.date(), "ratio": 1.0, "any": '{"a":[1]}', "tags": ["x"],
        "to": {"city": "Oslo", "since": AT.date()}, "counts": [("x", 5)],
    }  # fmt: skip
    assert rows[1] == dict.fromkeys(rows[0]) | {"id": 8, "any": "text"}


def test_json_of_older_versions_is_read_by_name() -> None:
    first = json_schema(id={"type": "integer"}, gone={"type": "string"})
    document = json.loads(json_schema(id={"type": "integer"}, total={"type": "number"}).canonical)
    second = parse("JSON", json.dumps(document | {"required": ["id", "total"]}), {})

    rows, reasons = rows_of(
        second, [framed(1, b'{"id":1,"gone":"x"}'), framed(2, b'{"id":1}')], first, second
    )

    assert rows == [{"id": 1, "total": None}, {"id": None, "total": None}]
    assert reasons[0] is None
    assert reasons[1] is not None
    assert "total" in reasons[1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"{", "/: it is not valid JSON"),
        (b'{"id": "x"}', '/id: "x" is not of type "integer"'),
        (b"{}", '/: "id" is a required property'),
        (b"7", '/: 7 is not of type "object"'),
        (b'{"id": 9223372036854775808}', "id: it does not fit into the column"),
        (b'{"id": 1, "at": "noon"}', '/at: "noon" is not a "date-time"'),
        (framed(9, b'{"id": 1}'), "byte 1: there is no schema with the id 9"),
        (framed(2, b'{"id": 1}'), "byte 1: schema 2 is AVRO, and that of the topic JSON"),
    ],
)
def test_an_invalid_value_has_a_reason_and_no_other_row_is_affected(value: bytes, why: str) -> None:
    schema = json_schema(id={"type": "integer"}, at={"type": "string", "format": "date-time"})
    good = b'{"id": 1, "at": "2026-11-16T12:00:00Z"}'

    rows, reasons = rows_of(schema, [good, None, value, good, good], schema, avro("id long"))

    nothing = {"id": None, "at": None}
    row = {"id": 1, "at": AT}
    assert rows == [row, nothing, nothing, row, row]
    assert reasons[2] is not None
    assert reasons[2].startswith(why)
    assert [*reasons[:2], *reasons[3:]] == [None] * 4


def test_several_values_that_do_not_fit_are_all_found() -> None:
    schema = json_schema(id={"type": "integer"}, other={"type": "integer"})
    large = 1 << 70
    values = [
        b'{"id": %d, "other": %d}' % (large if n % 3 == 0 else n, large if n % 5 == 0 else n)
        for n in range(40)
    ]

    rows, reasons = rows_of(schema, list(values))

    unfit = {n for n in range(40) if n % 3 == 0 or n % 5 == 0}
    assert {n for n, why in enumerate(reasons) if why} == unfit
    assert [row["id"] for row in rows] == [None if n in unfit else n for n in range(40)]


# Protobuf.

Kind = descriptor_pb2.FieldDescriptorProto
OPTIONAL, REPEATED = Kind.LABEL_OPTIONAL, Kind.LABEL_REPEATED


def protobuf(make: Callable[[descriptor_pb2.FileDescriptorProto], None]) -> ParsedSchema:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    make(file)
    return parse("PROTOBUF", b64encode(file.SerializeToString()).decode(), {})


def plain(*fields: tuple[str, int, Any]) -> ParsedSchema:
    """A message of single fields, and another one."""

    def make(file: descriptor_pb2.FileDescriptorProto) -> None:
        message = file.message_type.add(name="Order")
        for name, number, kind in fields:
            message.field.add(name=name, number=number, type=kind, label=OPTIONAL)
        file.message_type.add(name="Other").field.add(
            name="x", number=1, type=Kind.TYPE_INT64, label=OPTIONAL
        )

    return protobuf(make)


def message_of(schema: Any, **fields: object) -> bytes:
    data: bytes = schema.message((0,))(**fields).SerializeToString()
    return data


def test_protobuf_fields_have_their_types() -> None:
    def make(file: descriptor_pb2.FileDescriptorProto) -> None:
        file.dependency.append("google/protobuf/timestamp.proto")
        file.dependency.append("google/protobuf/duration.proto")
        message = file.message_type.add(name="Order")
        message.field.add(name="id", number=1, type=Kind.TYPE_UINT64, label=OPTIONAL)
        message.field.add(name="kind", number=2, type=Kind.TYPE_ENUM, type_name=".shop.Kind", label=OPTIONAL)
        message.field.add(
            name="at",
            number=3,
            type=Kind.TYPE_MESSAGE,
            type_name=".google.protobuf.Timestamp",
            label=OPTIONAL,
        )
        message.field.add(
            name="took",
            number=4,
            type=Kind.TYPE_MESSAGE,
            type_name=".google.protobuf.Duration",
            label=OPTIONAL,
        )
        message.field.add(name="tags", number=5, type=Kind.TYPE_STRING, label=REPEATED)
        message.field.add(name="to", number=6, type=Kind.TYPE_MESSAGE, type_name=".shop.To", label=OPTIONAL)
        message.field.add(
            name="parent", number=7, type=Kind.TYPE_MESSAGE, type_name=".shop.Order", label=OPTIONAL
        )
        message.field.add(
            name="counts",
            number=8,
            type=Kind.TYPE_MESSAGE,
            type_name=".shop.Order.CountsEntry",
            label=REPEATED,
        )
        entry = message.nested_type.add(name="CountsEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=Kind.TYPE_STRING, label=OPTIONAL)
        entry.field.add(name="value", number=2, type=Kind.TYPE_INT64, label=OPTIONAL)
        kind = file.enum_type.add(name="Kind")
        kind.value.add(name="NEW", number=0)
        kind.value.add(name="OLD", number=1)
        file.message_type.add(name="To").field.add(
            name="city", number=1, type=Kind.TYPE_STRING, label=OPTIONAL
        )

    schema = protobuf(make)
    value = message_of(
        schema, id=(1 << 64) - 1, kind=1, at=AT, took={"seconds": 90}, tags=["a", "b"], to={"city": "Oslo"},
        parent={"id": 1}, counts={"x": 5},
    )  # fmt: skip

    rows, reasons = rows_of(schema, [framed(1, b"\0" + value), value, framed(1, b"\0"), b"\x10\x07"])

    full = {
        "id": Decimal((1 << 64) - 1), "kind": "OLD", "at": AT, "took": '"90s"', "tags": ["a", "b"],
        "to": {"city": "Oslo"}, "parent": '{"id": "1"}', "counts": [("x", 5)],
    }  # fmt: skip
    empty = {
        "id": Decimal(0), "kind": "NEW", "at": None, "took": None, "tags": [], "to": None, "parent": None,
        "counts": [],
    }  # fmt: skip
    assert rows == [full, full, empty, empty | {"kind": "7"}]
    assert reasons == [None] * 4


def test_protobuf_of_older_versions_is_read_by_number() -> None:
    first = plain(
        ("id", 1, Kind.TYPE_INT64), ("gone", 2, Kind.TYPE_STRING), ("customer", 3, Kind.TYPE_STRING)
    )
    second = plain(
        ("id", 1, Kind.TYPE_INT64), ("client", 3, Kind.TYPE_STRING), ("total", 4, Kind.TYPE_DOUBLE)
    )

    old = framed(1, b"\0" + message_of(first, id=1, gone="x", customer="anna"))

    assert rows_of(second, [old], first, second) == ([{"id": 1, "client": "anna", "total": 0.0}], [None])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\xff", "it is not a shop.Order"),
        (framed(1, b"\0\xff"), "it is not a shop.Order"),
        (framed(1, b"\x80"), "the message indexes are cut short"),
        (framed(1, b"\x02\x02\x08\x01"), "it is the message Other; the columns are those of Order"),
        (framed(1, b"\x02\x12\x08\x01"), "the schema has no message 9"),
    ],
)
def test_what_is_not_the_message_is_invalid(value: bytes, why: str) -> None:
    schema = plain(("id", 1, Kind.TYPE_INT64))

    rows, [reason] = rows_of(schema, [value])

    assert rows == [{"id": None}]
    assert reason is not None
    assert why in reason


# Batches of one schema are read in bulk.

AVRO_ORDER = avro("id long", "customer string")
PROTOBUF_ORDER = plain(("id", 1, Kind.TYPE_INT64), ("customer", 2, Kind.TYPE_STRING))


@pytest.mark.parametrize("has_frame", [True, False])
@pytest.mark.parametrize(
    ("schema", "value_of"),
    [
        (AVRO_ORDER, lambda n: avro_value(AVRO_ORDER, id=n + 1, customer=f"c{n}")),
        (
            json_schema(id={"type": "integer"}, customer={"type": "string"}),
            lambda n: msgspec.json.encode({"id": n + 1, "customer": f"c{n}"}),
        ),
        (PROTOBUF_ORDER, lambda n: message_of(PROTOBUF_ORDER, id=n + 1, customer=f"c{n}")),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_a_batch_of_one_schema_is_read_like_single_values(
    schema: ParsedSchema, value_of: Callable[[int], bytes], has_frame: bool
) -> None:
    indexes = b"\0" if schema.kind == "PROTOBUF" else b""
    values = [framed(1, indexes + value_of(n)) if has_frame else value_of(n) for n in range(1000)]
    expected = [{"id": n + 1, "customer": f"c{n}"} for n in range(1000)]
    nothing = {"id": None, "customer": None}

    assert rows_of(schema, [*values]) == (expected, [None] * 1000)
    assert rows_of(schema, [None, *values]) == ([nothing, *expected], [None] * 1001)
    rows, reasons = rows_of(schema, [*values, values[0][:-1]])
    assert rows == [*expected, nothing]
    assert reasons[:1000] == [None] * 1000
    assert reasons[1000]


WHOLE_ORDERS = [avro_value(AVRO_ORDER, id=n, customer="c" * n) for n in range(4)]
ENDS = [*accumulate(map(len, WHOLE_ORDERS))][:-1]


@given(st.lists(st.integers(1, len(b"".join(WHOLE_ORDERS)) - 1), unique=True, max_size=6).map(sorted))
@example(ENDS)
@example([ENDS[0], ENDS[1] + 1, ENDS[2]])
def test_avro_values_that_are_decoded_together_end_where_they_end_alone(cuts: list[int]) -> None:
    """Cut at other places, the same bytes are other values, of which some are too short and some too long."""
    data = b"".join(WHOLE_ORDERS)
    values = [data[begin:end] for begin, end in pairwise([0, *cuts, len(data)])]
    schema: Any = AVRO_ORDER

    try:
        alone = [schema.decode(each) for each in values]
    except Mismatch:
        with pytest.raises(Mismatch):
            schema.decode_all(values)
    else:
        together = schema.decode_all(values)
        assert [{name: each[name] for name in ("id", "customer")} for each in together] == alone


def test_values_of_several_schemas_in_one_batch_are_each_read_by_their_own() -> None:
    first, second = avro("id long"), avro("id long", '{"name": "total", "type": "long", "default": 7}')
    old, new = framed(1, avro_value(first, id=1)), framed(2, avro_value(second, id=2, total=3))

    rows, reasons = rows_of(second, [old, new] * 100, first, second)

    assert rows == [{"id": 1, "total": 7}, {"id": 2, "total": 3}] * 100
    assert reasons == [None] * 200


def test_an_unknown_id_is_asked_for_once_in_a_task() -> None:
    schema = avro("id long")
    asked: list[int] = []
    rows = TypedRows(schema, field_columns(schema, TAKEN), asked.append)

    _, reasons = rows.columns(pa.array([framed(9, b"\0")] * 3))

    assert reasons == ["byte 1: there is no schema with the id 9"] * 3
    assert asked == [9]


# Names and types.


def test_a_field_that_is_called_like_another_column_has_a_prefix() -> None:
    schema = avro("id long", "key string", "Timestamp long", "value_key long", "total double", "TOTAL double")

    found = {name: column.field for name, column in field_columns(schema, TAKEN).items()}

    assert found == {
        "id": "id",
        "value_key": "key",
        "value_Timestamp": "Timestamp",
        "value_value_key": "value_key",
        "total": "total",
        "value_TOTAL": "TOTAL",
    }


def test_types_in_sparks_words_become_arrows() -> None:
    assert arrow_type("struct<`a``b`:array<map<string,decimal(20,0)>>,c:struct<d:timestamp>>") == pa.struct(
        [
            ("a`b", pa.list_(pa.map_(pa.string(), pa.decimal128(20, 0)))),
            ("c", pa.struct([("d", pa.timestamp("us", "UTC"))])),
        ]
    )
    assert same_type("struct<a:bigint>", "struct<`a`:BIGINT>")
    assert not same_type("bigint", "int")
