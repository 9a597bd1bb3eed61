"""Compatibility against a simple model: what is called readable is read, by the libraries themselves."""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from penstock.schemas.formats import parse

# Avro: a reader that is called compatible decodes what the writer has written.

NAMES = st.sampled_from(["a", "b", "c"])
PLAIN = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string", "bytes"])
DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5,
    "string": "x", "bytes": "y",
}  # fmt: skip


@st.composite
def avro_field(draw: st.DrawFn, name: str, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    kind = draw(inner)
    field = {"name": name, "type": kind}
    if isinstance(kind, str) and kind in DEFAULTS and draw(st.booleans()):
        field["default"] = DEFAULTS[kind]
    return field


@st.composite
def avro_record(draw: st.DrawFn, inner: st.SearchStrategy[Any], name: str = "R") -> dict[str, Any]:
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
    return {"type": "record", "name": name, "fields": [draw(avro_field(each, inner)) for each in names]}


ENUM = st.lists(st.sampled_from("XYZ"), min_size=1, max_size=3, unique=True).flatmap(
    lambda symbols: st.sampled_from([None, symbols[0]]).map(
        lambda default: (
            {"type": "enum", "name": "E", "symbols": symbols}
            | ({} if default is None else {"default": default})
        )
    )
)
NESTED = st.one_of(
    PLAIN,
    PLAIN.filter(lambda kind: kind != "null").map(lambda kind: {"type": "array", "items": kind}),
    PLAIN.map(lambda kind: {"type": "map", "values": kind}),
    PLAIN.filter(lambda kind: kind != "null").map(lambda kind: ["null", kind]),
    st.sampled_from([["int", "string"], ["string", "long"], ["float", "bytes"]]),
    st.integers(1, 2).map(lambda size: {"type": "fixed", "name": "F", "size": size}),
    ENUM,
)


def names_once(schema: Any) -> bool:
    """Avro defines a name once; the fields here draw enums and fixed types independently."""
    text = json.dumps(schema)
    return all(text.count(f'"name": "{name}"') <= 1 for name in "EF")


def avro_value(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.sampled_from(schema).flatmap(avro_value)
    if isinstance(schema, dict):
        kind = schema["type"]
        made: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
            "record": lambda: st.fixed_dictionaries(
                {each["name"]: avro_value(each["type"]) for each in schema["fields"]}
            ),
            "array": lambda: st.lists(avro_value(schema["items"]), max_size=2),
            "map": lambda: st.dictionaries(st.text(max_size=2), avro_value(schema["values"]), max_size=2),
            "enum": lambda: st.sampled_from(schema["symbols"]),
            "fixed": lambda: st.binary(min_size=schema["size"], max_size=schema["size"]),
        }
        return made[kind]()
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(1 << 31), (1 << 31) - 1),
        "long": st.integers(-(1 << 53), 1 << 53),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "string": st.text(max_size=3),
        "bytes": st.text(max_size=3).map(str.encode),  # As text it can be read as a string, too.
    }[schema]


@st.composite
def evolved(draw: st.DrawFn, writer: dict[str, Any]) -> dict[str, Any]:
    """A later version: fields stay, go, or have another type; others are added."""
    wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
    fields = []
    for field in writer["fields"]:
        kind = field["type"]
        changes = [kind, kind, None, draw(NESTED), wider.get(kind, kind) if isinstance(kind, str) else kind]
        changes.append(["null", kind] if isinstance(kind, str) and kind != "null" else kind)
        changed = draw(st.sampled_from(changes))
        if changed is not None:
            fields.append({"name": field["name"], "type": changed})
    fields += draw(st.lists(avro_field("d", NESTED), max_size=1))
    return {**writer, "fields": fields}


@given(st.data())
def test_a_compatible_avro_reader_decodes_what_the_writer_has_written(data: st.DataObject) -> None:
    writer = data.draw(avro_record(NESTED).filter(names_once))
    reader = data.draw(evolved(writer).filter(names_once))
    written = parse("AVRO", json.dumps(writer), {})
    if parse("AVRO", json.dumps(reader), {}).unreadable(written):
        return
    value = data.draw(avro_value(writer))
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(writer), value)

    assert written.decode(file.getvalue()).keys() == value.keys()
    file.seek(0)
    found: Any = fastavro.schemaless_reader(
        file, fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )

    assert found.keys() == {each["name"] for each in reader["fields"]}


@given(avro_record(NESTED).filter(names_once))
def test_every_avro_schema_can_read_itself(schema: dict[str, Any]) -> None:
    parsed = parse("AVRO", json.dumps(schema), {})

    assert parsed.unreadable(parse("AVRO", parsed.canonical, {})) == []


# JSON: every value that is valid for the writer is valid for the compatible reader.

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from([0.5, 2.5]), st.text("ab", max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)
SMALL = st.integers(0, 3)
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(
        ["null", "boolean", "integer", "number", "string", "array", "object", ["string", "null"]]
    ),
    "minLength": SMALL, "maxLength": SMALL, "minimum": SMALL, "maximum": SMALL, "exclusiveMinimum": SMALL,
    "multipleOf": st.sampled_from([1, 2, 0.5]), "minItems": SMALL, "maxItems": SMALL,
    "uniqueItems": st.booleans(),
    "minProperties": SMALL, "maxProperties": SMALL, "pattern": st.sampled_from(["^a", "b$"]),
    "enum": st.lists(SCALARS, min_size=1, max_size=3), "const": SCALARS,
    "required": st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2),
}  # fmt: skip


def json_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    nested = {
        "properties": st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2),
        "additionalProperties": inner,
        "items": inner,
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
    }
    words = KEYWORDS | nested
    return st.lists(st.sampled_from(sorted(words)), max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({word: words[word] for word in chosen})
    )


SCHEMAS = json_schemas(json_schemas(st.booleans()) | st.booleans())
CHANGED = st.tuples(SCHEMAS, SCHEMAS, st.sampled_from(["other", "drop", "widen"]))


def pair(drawn: tuple[Any, Any, str]) -> tuple[Any, Any]:
    """An old and a new schema: independent, or the new one derived so that many pairs are compatible."""
    old, other, how = drawn
    if how == "drop" and old:
        return old, {key: each for key, each in old.items() if key != min(old)}
    if how == "widen":
        return old, {"anyOf": [other, old]}
    return old, other


@given(CHANGED.map(pair), VALUES)
def test_a_compatible_json_schema_accepts_what_the_old_one_accepted(
    pair: tuple[Any, Any], value: Any
) -> None:
    old, new = pair
    before, now = (parse("JSON", json.dumps(each), {}) for each in (old, new))
    if now.unreadable(before):
        return
    draft = "http://json-schema.org/draft-07/schema#"

    if jsonschema_rs.is_valid({"$schema": draft, **old}, value):
        assert jsonschema_rs.is_valid({"$schema": draft, **new}, value)
