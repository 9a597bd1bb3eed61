"""Schemas and values of strangers that would take for ever, or end the process."""

import json
from base64 import b64encode
from typing import Any

import pytest

from penstock.broker.schemas.protoc import compiled
from penstock.broker.steps import Arrival, Aside
from penstock.errors import InvalidValue, SchemaInvalid
from penstock.model.schemas import NewSchema, SchemaReference, SchemaSettings, SchemaType
from penstock.schemas import json_limits, json_rules
from penstock.schemas.formats import ParsedSchema, parse
from penstock.schemas.mismatch import Mismatch
from penstock.schemas.registry import MESSAGE_LENGTH_MAX, ParsedSchemas, SchemaBook, SchemaRegistry
from penstock.schemas.values import ValueChecker, WouldBlock
from penstock.testing import TestBroker

LEVELS = 60  # With two ways at each: nobody can try them all.


def registry(book: SchemaBook | None = None) -> SchemaRegistry:
    return SchemaRegistry(book or SchemaBook(), compiled, {})


def schema(kind: SchemaType, document: Any) -> ParsedSchema:
    return parse(kind, json.dumps(document), {})


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def nested(levels: int, last: dict[str, Any]) -> dict[str, Any]:
    """Records with the next one twice."""
    for level in reversed(range(levels)):
        last = record(f"R{level}", last, last["name"])
    return last


@pytest.mark.slow
def test_avro_unions_that_fail_at_the_end_are_not_tried_in_all_combinations() -> None:
    reader: Any = [record("a.R", "int"), record("b.R", "int")]
    writer: Any = record("R", "string")
    for level in range(LEVELS):
        names = [each["name"] for each in reader]
        reader = [record(f"a.R{level}", reader), record(f"b.R{level}", names)]
        writer = record(f"R{level}", writer)

    assert schema("AVRO", reader).unreadable(schema("AVRO", writer))


def test_arrays_of_avro_items_without_bytes_are_found_at_once() -> None:
    with pytest.raises(SchemaInvalid, match="an array has items that take no bytes"):
        schema("AVRO", {"type": "array", "items": nested(LEVELS, record("Last"))})

    schema("AVRO", {"type": "array", "items": nested(LEVELS, record("Last", "int"))})
    hidden = record("Y", {"type": "array", "items": "null"})
    with pytest.raises(SchemaInvalid, match="an array has items that take no bytes"):
        schema("AVRO", record("X", {"type": "array", "items": "X"}, hidden))


def test_avro_values_of_few_bytes_that_would_be_large_are_refused() -> None:
    nulls = ["null"] * 100
    with pytest.raises(SchemaInvalid, match="too many values that take no bytes"):
        schema("AVRO", nested(40, record("Last")))  # 2**40 records in no byte.
    with pytest.raises(SchemaInvalid, match="an array has items that take no bytes, or few for many fields"):
        schema("AVRO", {"type": "array", "items": record("R", "boolean", *nulls)})
    with pytest.raises(SchemaInvalid, match="a map has values that take no bytes, or few for many fields"):
        schema("AVRO", {"type": "map", "values": record("R", "boolean", *nulls)})
    with pytest.raises(SchemaInvalid, match="R contains itself, and has few bytes for its fields"):
        schema("AVRO", record("R", ["null", "R"], *nulls))

    wide = schema("AVRO", record("R", *nulls, "int"))
    assert wide.decode(b"\2")["f100"] == 1
    optional = [["null", "string"]] * 100
    schema("AVRO", {"type": "array", "items": record("R", *optional)}).validate(b"\2" + b"\0" * 101)
    schema("AVRO", record("R", "int", ["null", "R"])).validate(b"\2\0")


def test_avro_records_that_are_nested_too_deeply_are_refused() -> None:
    """The reader in C would overflow the stack, and end the process."""
    chain = [record("R0", "int"), *(record(f"R{at}", f"R{at - 1}", "int") for at in range(1, 501))]

    schema("AVRO", chain[:490])
    with pytest.raises(SchemaInvalid, match="nested too deeply: more than 500 levels"):
        schema("AVRO", chain)


@pytest.mark.parametrize("document", [[], {"type": "map", "values": []}])
def test_an_avro_union_of_nothing_is_refused(document: Any) -> None:
    with pytest.raises(SchemaInvalid, match="a union has no types"):
        schema("AVRO", document)


@pytest.mark.parametrize("precision", [{}, {"precision": 0}, {"precision": True}])
@pytest.mark.parametrize("base", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 4}])
def test_an_avro_decimal_without_a_precision_is_refused(
    base: dict[str, Any], precision: dict[str, Any]
) -> None:
    with pytest.raises(SchemaInvalid, match="a decimal needs a precision"):
        schema("AVRO", record("Order", {**base, "logicalType": "decimal", **precision}))


@pytest.mark.parametrize(
    ("base", "logical"), [("string", "decimal"), ("int", "decimal"), ("string", "date"), ("int", ["x"])]
)
def test_a_logical_type_on_another_type_than_its_own_has_no_effect(base: str, logical: object) -> None:
    plain, strange = (
        schema("AVRO", record("Order", {"type": base, **more})) for more in ({}, {"logicalType": logical})
    )

    assert strange.fields() == plain.fields()
    value = b"\2a" if base == "string" else b"\2"
    assert strange.decode(value) == plain.decode(value)


@pytest.mark.slow
def test_many_symbols_and_values_are_compared_in_linear_time() -> None:
    symbols = [f"S{at}" for at in range(30_000)]
    enum = {"type": "enum", "name": "E", "symbols": symbols}
    assert schema("AVRO", enum).unreadable(schema("AVRO", {**enum, "symbols": symbols[::-1]})) == []

    values = schema("JSON", {"enum": symbols})
    assert values.unreadable(schema("JSON", {"enum": symbols[::-1]})) == []
    assert values.unreadable(schema("JSON", {"enum": [False, *symbols]})) != []


@pytest.mark.parametrize(
    "attributes", [{"__fastavro_parsed": True}, {"__fastavro_parsed": True, "__named_schemas": {}}]
)
def test_an_avro_schema_cannot_say_that_it_was_checked(attributes: dict[str, Any]) -> None:
    for document in ({"type": "record", **attributes}, [{"type": "record", **attributes}]):
        with pytest.raises(SchemaInvalid):
            schema("AVRO", document)


def test_a_deep_value_of_a_recursive_avro_schema_is_a_mismatch() -> None:
    chain = schema("AVRO", record("Chain", ["null", "Chain"]))

    chain.validate(b"\2" * 50 + b"\0")
    with pytest.raises(Mismatch, match="nested too deeply"):
        chain.validate(b"\2" * 500_000 + b"\0")


def twice(levels: int, where: str) -> dict[str, Any]:
    """Definitions with the next one twice: in the same place, or for all items below it."""
    found: dict[str, Any] = {f"d{levels}": {"type": "number"}}
    for level in range(levels):
        both = {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}
        found[f"d{level}"] = both if where == "here" else {where: both}
    return {"$ref": "#/$defs/d0", "$defs": found}


@pytest.mark.parametrize("where", ["here", "items", "additionalProperties"])
def test_a_json_schema_that_no_value_could_be_compared_with_is_refused(where: str) -> None:
    schema("JSON", twice(10, where))
    with pytest.raises(SchemaInvalid, match="more than 10000 of its parts would be compared with one place"):
        schema("JSON", twice(40, where))


def test_references_of_all_kinds_are_followed_to_the_parts_of_a_json_schema() -> None:
    anchors = {f"d{at}": {"$anchor": f"a{at}", "allOf": [{"$ref": f"#a{at + 1}"}] * 2} for at in range(40)}
    ids = {f"d{at}": {"$id": f"i{at}", "allOf": [{"$ref": f"i{at + 1}"}] * 2} for at in range(40)}
    last: dict[str, Any] = {"d40": {"$anchor": "a40", "$id": "i40"}}
    draft = "https://json-schema.org/draft/2020-12/schema"

    for found, first in ((anchors, "#a0"), (ids, "i0")):
        with pytest.raises(SchemaInvalid, match="more than 10000 of its parts"):
            schema("JSON", {"$schema": draft, "$ref": first, "$defs": {**found, **last}})


def test_the_same_json_schema_in_many_different_places_is_no_problem() -> None:
    kinds = {
        f"t{at}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/t{at + 1}"} for key in "ab"}}
        for at in range(40)
    }
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "items": {"items": {"$ref": "#"}}}}

    schema("JSON", {"$ref": "#/$defs/t0", "$defs": {**kinds, "t40": {"type": "string"}}}).validate(b"{}")
    with pytest.raises(Mismatch, match="/left/right/left"):
        schema("JSON", {**tree, "type": "object"}).validate(b'{"left": {"right": {"left": 1}}}')


def test_a_value_with_too_many_parts_for_a_json_schema_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_limits, "STEPS_MAX", 1000)
    wide = schema("JSON", {"items": {"anyOf": [{"const": at} for at in range(100)]}})

    wide.validate(b"[1, 2]")
    with pytest.raises(Mismatch, match=r"^/0: "):
        wide.validate(b'["%s"]' % (b"x" * 1000))
    with pytest.raises(Mismatch, match="it is too large"):
        wide.validate(b"[%s]" % b",".join([b"1"] * 20))
    assert not wide.all_match([b"[%s]" % b",".join([b"1"] * 20)] * 2, (0,))


def in_items(*parts: Any) -> ParsedSchema:
    """A list whose items are compared with all of these parts, whether they match or not."""
    return schema("JSON", {"items": {"allOf": [{"anyOf": [part, {}]} for part in parts]}})


@pytest.mark.parametrize(
    "entries", [list(range(1000)), [[at] for at in range(1000)], [{"a": at} for at in range(1000)]]
)
def test_a_long_value_is_not_compared_with_a_long_list_of_numbers_or_objects(entries: list[Any]) -> None:
    limited = in_items({"enum": entries})

    limited.validate(b"[%s]" % b",".join([b"-1.5"] * 200))
    with pytest.raises(Mismatch, match="it is too large"):
        limited.validate(b"[%s]" % b",".join([b"-1.5"] * 500))
    with pytest.raises(SchemaInvalid, match="would be compared with one place"):
        in_items({"enum": entries * 11})


def test_texts_of_an_enum_are_looked_up() -> None:
    names = in_items({"enum": [f"name{at}" for at in range(20_000)] + [None]})

    names.validate(b"[%s]" % b",".join([b'"name"'] * 10_000))


def test_a_long_text_is_not_matched_with_many_patterns() -> None:
    limited = in_items(*({"pattern": f"b[bc]{{{at % 50}}}[^bc]"} for at in range(100)))
    named = schema("JSON", {"patternProperties": {f"b[bc]{{{at}}}[^bc]": {} for at in range(100)}})

    limited.validate(b'["%s"]' % (b"bc" * 5000))
    for value in (b'["%s"]' % (b"bc" * 10_000), b'{"%s": 1}' % (b"bc" * 10_000)):
        with pytest.raises(Mismatch, match="it is too large"):
            (limited if value.startswith(b"[") else named).validate(value)


def test_values_of_a_schema_that_takes_long_are_left_to_a_thread() -> None:
    wide = {"items": {"anyOf": [{"const": at} for at in range(100)]}}
    narrow = {"properties": {f"f{at}": {"type": "string", "pattern": "^a"} for at in range(100)}}
    book = None
    for topic, document in (("wide", wide), ("narrow", narrow)):
        new = NewSchema(schema=json.dumps(document), type="JSON")
        book, _ = registry(book).register(f"{topic}-value", new)
    narrow_checker, wide_checker = (ValueChecker(registry(book), topic) for topic in ("narrow", "wide"))
    for checker in (narrow_checker, wide_checker):
        assert checker.check(0, b"[]", True) is None  # Which parses the schema.

    assert narrow_checker.check(0, b"{}", False) is None
    with pytest.raises(WouldBlock):
        wide_checker.check(0, b"[1]", False)
    with pytest.raises(WouldBlock):
        wide_checker.all_match([b"[1]", b"[2]"], False)


def test_branches_that_contain_themselves_are_not_tried_in_all_combinations_to_explain_a_mismatch() -> None:
    branches = [{"$ref": "#", "minItems": 2}, {"$ref": "#", "maxItems": 1}]
    draft = "https://json-schema.org/draft/2020-12/schema"
    either = schema("JSON", {"$schema": draft, "type": ["array", "number"], "items": {"oneOf": branches}})

    with pytest.raises(Mismatch, match="/0: "):
        either.validate(b"[[1]]")
    with pytest.raises(Mismatch, match="finding out why would take too long"):
        either.validate(b"[" * 60 + b"1" + b"]" * 60)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "file:///etc/hostname", 1])
def test_a_json_schema_of_an_unknown_draft_is_refused_without_loading_that(address: Any) -> None:
    with pytest.raises(SchemaInvalid, match="known are the drafts"):
        schema("JSON", {"$schema": address})


def test_patterns_that_are_large_when_compiled_are_refused() -> None:
    letters = {f"p{at}": {"pattern": rf"\p{{L}}{{100}}{at}"} for at in range(100)}
    with pytest.raises(SchemaInvalid, match="too large when compiled"):
        schema("JSON", {"properties": letters})
    with pytest.raises(SchemaInvalid, match="too large when compiled"):
        schema("JSON", {"patternProperties": {r"\p{L}{100}": {}}})

    hosts = {f"p{at}": {"pattern": "^[a-z0-9-]{1,63}$"} for at in range(200)}
    schema("JSON", {"properties": hosts}).validate(b'{"p1": "a-b"}')


def test_patterns_of_properties_are_matched_in_linear_time() -> None:
    writer = {"patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    reader = {"properties": {"a" * 60 + "!": {"type": "string"}, "aa": {"type": "string"}}}

    assert schema("JSON", reader).unreadable(schema("JSON", writer)) == []


@pytest.mark.slow
def test_many_patterns_are_not_tried_on_many_names_for_ever() -> None:
    writer = {"patternProperties": {f"^x{at}$": {"type": "string"} for at in range(5000)}}
    reader = {"properties": {f"p{at}": {"type": "string"} for at in range(20_000)}}

    assert schema("JSON", reader).unreadable(schema("JSON", writer)) == [
        "/: the schemas are too large to compare"
    ]


@pytest.mark.slow
def test_wide_objects_in_many_branches_are_not_joined_for_ever() -> None:
    fields = {f"p{at}": {"type": "string"} for at in range(5000)}
    branches = [{"properties": {f"q{at}": {"type": "string"}}} for at in range(5000)]
    writer = {"properties": fields, "anyOf": branches}

    assert schema("JSON", {"minProperties": 1}).unreadable(schema("JSON", writer)) == [
        "/: the schemas are too large to compare"
    ]


@pytest.mark.slow
def test_large_equal_parts_are_not_compared_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rules, "VALUES_MAX", 10_000)
    part = {"enum": list(range(1000))}
    writer = {"properties": {f"p{at}": part for at in range(100)}, "title": "old"}
    reader = {**writer, "title": "new"}

    assert schema("JSON", reader).unreadable(schema("JSON", writer)) == [
        "/: the schemas are too large to compare"
    ]


@pytest.mark.slow
def test_a_field_whose_type_would_be_too_long_for_spark_is_text() -> None:
    found = schema("AVRO", nested(LEVELS, record("Last", "int"))).fields()

    assert found is not None
    assert set(found.values()) == {"string"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
def test_a_type_that_would_be_too_long_for_spark_is_refused(kind: SchemaType) -> None:
    if kind == "JSON":
        kinds: dict[str, Any] = {
            f"t{at}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/t{at + 1}"} for key in "ab"}}
            for at in range(40)
        }
        found = schema(kind, {**kinds["t0"], "$defs": {**kinds, "t40": {"type": "string"}}})
    else:
        found = parse(kind, _nested_messages(), {})

    with pytest.raises(SchemaInvalid, match=f"not a valid {kind} schema: it has too many fields for Spark"):
        found.fields()


def _nested_messages() -> str:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="deep.proto", syntax="proto3")
    for level in range(LEVELS):
        message = file.message_type.add(name=f"M{level}")
        for number in (1, 2) if level < LEVELS - 1 else ():
            name = f".M{level + 1}"
            message.field.add(name=f"f{number}", number=number, type=11, label=1, type_name=name)
    return b64encode(file.SerializeToString()).decode()


def _many_fields(fields: int, label: int) -> ParsedSchema:
    """A message that has any number of messages with many fields."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="wide.proto", syntax="proto2")
    top, inner = file.message_type.add(name="Top"), file.message_type.add(name="Inner")
    top.field.add(name="inner", number=1, type=11, label=3, type_name=".Inner")
    for number in range(fields):
        inner.field.add(name=f"f{number}", number=number + 1, type=8, label=label)
    return parse("PROTOBUF", b64encode(file.SerializeToString()).decode(), {})


def test_a_protobuf_value_of_few_bytes_and_a_million_fields_is_not_shown() -> None:
    wide = _many_fields(1000, label=3)

    assert len(wide.decode(b"\x0a\0" * 2)["inner"]) == 2
    wide.validate(b"\x0a\0" * 5000)
    with pytest.raises(Mismatch, match="more than 1,000,000 fields"):
        wide.decode(b"\x0a\0" * 5000)


def test_missing_fields_of_a_protobuf_value_are_not_listed_by_the_million() -> None:
    wide = _many_fields(60, label=2)

    with pytest.raises(Mismatch, match=r"inner\[1\]\.f0"):
        wide.validate(b"\x0a\0" * 2)
    with pytest.raises(Mismatch, match="required fields are missing: too many to list"):
        wide.validate(b"\x0a\0" * 5000)


# The registry.


def test_references_that_meet_again_are_parsed_once() -> None:
    book = SchemaBook()
    for level in range(18):
        references = [
            SchemaReference(name=f"r{at}", subject=f"s{level - 1}", version=1)
            for at in range(5 if level else 0)
        ]
        new = NewSchema(schema=json.dumps({"title": str(level)}), type="JSON", references=references)
        book, _ = registry(book).register(f"s{level}", new)

    many = [SchemaReference(name=f"r{at}", subject="s0", version=1) for at in range(1001)]
    with pytest.raises(SchemaInvalid, match="more than 1000 references"):
        registry(book).register("many", NewSchema(schema="{}", type="JSON", references=many))


def test_schemas_that_are_too_deep_to_compare_are_incompatible() -> None:
    deep = '{"type": "array", "items": ' * 400 + '"%s"' + "}" * 400
    book, _ = registry().register("deep", NewSchema(schema=deep % "int"))

    verdict = registry(book).check("deep", NewSchema(schema=deep % "string"), "latest")

    assert not verdict.compatible
    assert "nested too deeply" in verdict.messages[0]


def test_a_difference_does_not_quote_a_whole_schema() -> None:
    symbols = [f"S{at}" for at in range(10_000)]
    enum = {"type": "enum", "name": "E"}
    book, _ = registry().register("e", NewSchema(schema=json.dumps({**enum, "symbols": symbols})))

    verdict = registry(book).check("e", NewSchema(schema=json.dumps({**enum, "symbols": ["A"]})), "latest")

    assert len(verdict.messages[0]) < MESSAGE_LENGTH_MAX + 50


def test_versions_follow_each_other_and_ids_have_four_bytes() -> None:
    book, first = registry().register("s", NewSchema(schema='"int"'))
    assert registry(book).register("s", NewSchema(schema='"int"', version=1)) == (book, first)
    for version in (1, 3, 2**31 - 1):
        with pytest.raises(InvalidValue, match="the next one of 's' is 2"):
            registry(book).register("s", NewSchema(schema='"long"', version=version))
    _, second = registry(book).register("s", NewSchema(schema='"long"', version=2))
    assert second.version == 2

    imported = registry(book).alter(None, SchemaSettings(mode="IMPORT"), force=True)
    for wanted in (0, 2**31, 2**70):
        with pytest.raises(InvalidValue, match="from 1 to 2147483647"):
            registry(imported).register("t", NewSchema(schema='"bytes"', id=wanted))
    with pytest.raises(InvalidValue, match="version"):
        registry(imported).register("t", NewSchema(schema='"bytes"', version=-1))


def test_an_imported_schema_with_the_id_of_a_deleted_one_is_not_taken_for_that() -> None:
    parsed: ParsedSchemas = {}

    def at(book: SchemaBook) -> SchemaRegistry:
        return SchemaRegistry(book, compiled, parsed)

    book, first = at(SchemaBook()).register("s", NewSchema(schema='"int"'))
    assert at(book).parsed(first.id).canonical == '"int"'
    for permanent in (False, True):
        book, _ = at(book).delete("s", 1, permanent=permanent)
    book = at(book).alter("s", SchemaSettings(mode="IMPORT"), force=True)
    book, _ = at(book).register("s", NewSchema(schema='"string"', id=first.id, version=1))

    assert at(book).parsed(first.id).canonical == '"string"'


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 300, "schema.proto/a.proto"])
def test_an_import_that_cannot_be_a_file_is_an_error_of_the_schema(name: str) -> None:
    with pytest.raises(SchemaInvalid, match="cannot be a file"):
        compiled('syntax = "proto3";', {name: 'syntax = "proto3";'})


def test_questions_take_one_thread_at_a_time(penstock: TestBroker) -> None:
    schemas = penstock._core.schemas
    first, second = (schemas.check("s", NewSchema(schema='"int"'), None, None) for _ in range(2))

    assert isinstance(next(first), Aside)
    assert isinstance(next(second), Arrival)
    first.close()
    assert isinstance(next(second), Aside)
    second.close()
