"""JSON Schema: values validated by jsonschema-rs, in every draft.

Schemas are never loaded from a network: a ``$ref`` to another document is one of the schema's references.
Patterns are matched in linear time, so those with look-around or back-references are refused.  Schemas and
values that would take too long or too much memory are refused, too (``json_limits.py``).

Cost: 1 to 5 microseconds for a small document, most of it for parsing the JSON.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonschema_rs
import msgspec

from penstock.errors import SchemaInvalid
from penstock.model.schemas import SchemaType
from penstock.schemas import json_limits, json_rules
from penstock.schemas.mismatch import Mismatch
from penstock.schemas.spark_types import spark_fields, spark_struct

_DRAFT: Final = (
    "http://json-schema.org/draft-07/schema#"  # Of a schema that names none, as in Confluent's registry.
)
_BASE: Final = "json-schema:///"  # Of a schema that has no $id.
_SIMPLE: Final = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_WHY_MAX: Final = 300  # Characters; an error may quote the whole value.


class JsonSchema:
    kind: SchemaType = "JSON"

    def __init__(self, text: str, references: Mapping[str, Any]) -> None:
        try:
            self.document = json.loads(text)
        except ValueError as error:
            raise SchemaInvalid(type="JSON", why=f"it is not valid JSON ({error})") from None
        if not isinstance(self.document, dict | bool):
            raise SchemaInvalid(type="JSON", why="a schema is an object, true or false")
        self.references: dict[str, Any] = {}
        for name, reference in references.items():
            self.references |= reference.references | {name: reference.document}
        try:
            drafted = (
                {"$schema": _DRAFT, **self.document} if isinstance(self.document, dict) else self.document
            )
            json_limits.check_draft(self.document)
            patterns = json_limits.pattern_options(self.document)
            jsonschema_rs.meta.validate(drafted)
            self._limits: Final = json_limits.Limits(self.document, self.references)
            self._validator = jsonschema_rs.validator_for(
                drafted, retriever=self._retrieve, pattern_options=patterns
            )
        except (
            jsonschema_rs.ValidationError,
            jsonschema_rs.ReferencingError,
            ValueError,
            TypeError,
        ) as error:
            raise SchemaInvalid(type="JSON", why=str(error).partition("\n")[0][:_WHY_MAX]) from None
        self.canonical = json.dumps(self.document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)

    def _retrieve(self, uri: str) -> Any:
        for name, document in self.references.items():
            if uri in (name, _BASE + name) or uri.endswith("/" + name):
                return document
        raise ValueError(f"{uri.removeprefix(_BASE)!r} is not among the references of the schema")

    @property
    def is_quick(self) -> bool:
        return self._limits.is_quick

    def unreadable(self, writer: "JsonSchema") -> list[str]:
        return json_rules.unreadable(
            json_rules.Document(self.document, self.references),
            json_rules.Document(writer.document, writer.references),
        )

    def decode(self, data: bytes, start: int = 0, indexes: tuple[int, ...] = (0,)) -> Any:  # noqa: ARG002
        try:
            return msgspec.json.decode(memoryview(data)[start:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Mismatch("/", f"it is not valid JSON ({error})") from None

    def validate(self, data: bytes, start: int = 0, indexes: tuple[int, ...] = (0,)) -> None:  # noqa: ARG002
        self.validated(data, start)

    def validated(self, data: bytes, start: int = 0) -> Any:
        """The value, if it is one of this schema."""
        self._limits.check(data)
        value = self.decode(data, start)
        try:
            if self._validator.is_valid(value):
                return value
            if not self._limits.detail_is_quick(value):
                raise Mismatch("/", "it does not match; finding out why would take too long")
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            where = "".join(f"/{each}" for each in error.instance_path) or "/"
            raise Mismatch(where, error.message[:_WHY_MAX]) from None
        except ValueError as refused:  # It is nested too deeply for the library.
            raise Mismatch("/", str(refused)[:_WHY_MAX]) from None
        raise AssertionError("an invalid value has an error")

    def all_validated(self, values: Sequence[bytes]) -> list[Any]:
        """Validate many values; the error of one that does not match does not say which it was."""
        if not self._limits.are_within(values):
            for each in values:
                self._limits.check(each)
        return self._all_valid(values)

    def all_match(self, values: Sequence[bytes], indexes: tuple[int, ...]) -> bool:  # noqa: ARG002
        if not self._limits.are_within(values):
            return False
        try:
            self._all_valid(values)
        except Mismatch:
            return False
        return True

    def _all_valid(self, values: Sequence[bytes]) -> list[Any]:
        decode = msgspec.json.decode
        try:
            found = [decode(each) for each in values]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Mismatch("/", f"it is not valid JSON ({error})") from None
        try:
            if all(self._validator.is_valid(each) for each in found):  # Other threads run between two values.
                return found
        except ValueError as refused:  # It is nested too deeply for the library.
            raise Mismatch("/", str(refused)[:_WHY_MAX]) from None
        raise Mismatch("/", "a value does not match")

    def fields(self) -> dict[str, str] | None:
        root = json_rules.Document(self.document, self.references).root
        schema = root.resolved()
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            return None
        fields = ((name, _spark_type(root.child(each), 0)) for name, each in properties.items())
        return spark_fields("JSON", fields)


def _spark_type(node: json_rules.Node, depth: int) -> str:
    """The type of a value in Spark's words; text, as JSON, where there is none."""
    schema = node.resolved()
    kinds = schema.get("type")
    kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    if len(kinds) != 1 or depth > json_rules.DEPTH_MAX:
        return "string"
    kind = kinds[0]
    if kind == "string":
        return {"date-time": "timestamp", "date": "date"}.get(schema.get("format", ""), "string")
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"array<{_spark_type(node.child(schema['items']), depth + 1)}>"
    if kind == "object" and schema.get("properties"):
        properties = schema["properties"].items()
        return spark_struct(
            "JSON", ((name, _spark_type(node.child(each), depth + 1)) for name, each in properties)
        )
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map<string,{_spark_type(node.child(schema['additionalProperties']), depth + 1)}>"
    return _SIMPLE.get(kind or "", "string")
