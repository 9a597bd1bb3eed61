"""Which JSON a reader accepts: whether every value that the writer's schema allows is valid for the reader's.

A sound comparison: what it calls readable is.  It does not find every case (that is undecidable in practice):
constraints that it cannot compare, such as two patterns, must be equal.

    limits        of lengths, numbers and counts may only become wider
    type, enum    the reader's types or values include the writer's
    properties    one that only the reader describes may have any value in data of an open writer, so it is
                  refused, unless the reader allows any value
    required      only what the writer requires, too
    allOf         the reader's parts all accept it; anyOf and oneOf: one of them does
    $ref          followed within the document and into the references

Cost: bounded by ``PAIRS_MAX`` pairs of subschemas and ``VALUES_MAX`` values in them that are compared, beyond
which the answer is no.  Patterns are matched in
linear time: schemas come from strangers.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs

DEPTH_MAX: Final = 50
PAIRS_MAX: Final = 20_000
VALUES_MAX: Final = 2_000_000  # A second or two.
PATTERN_VALUES: Final = 20  # As many values as one match of a pattern costs.
_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
_LOWER: Final = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties", "minContains")
_UPPER: Final = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties", "maxContains")
_SIMPLE: Final = frozenset({*_LOWER, *_UPPER, "multipleOf", "pattern", "uniqueItems", "type"})
_EQUAL: Final = (
    "pattern", "contains", "if", "then", "else", "dependencies", "dependentSchemas", "dependentRequired",
    "propertyNames", "unevaluatedProperties", "unevaluatedItems", "patternProperties",
)  # fmt: skip
LINEAR: Final = jsonschema_rs.RegexOptions()  # A matcher without backtracking.
_NOTHING: Final[dict[str, Any]] = {"not": {}}  # Accepts no value, as ``false`` does.


class Document:
    """A schema and the documents that it refers to."""

    def __init__(self, document: Any, references: Mapping[str, Any]) -> None:
        self.document = document
        self.references = references

    @property
    def root(self) -> "Node":
        return Node(self, self.document, self.document)


class Node:
    """A subschema, in the document that its references are relative to."""

    def __init__(self, within: Document, base: Any, schema: Any) -> None:
        self.within = within
        self.base = base
        self.schema = schema

    def child(self, schema: Any) -> "Node":
        return Node(self.within, self.base, schema)

    def resolved(self) -> dict[str, Any]:
        """The schema as an object, with its references followed; ``self.base`` moves along."""
        schema = self.schema
        for _ in range(DEPTH_MAX):
            if schema is True:
                return {}
            if schema is False:
                return _NOTHING
            target = schema.get("$ref")
            if target is None:
                break
            siblings = {
                key: each for key, each in schema.items() if key not in ("$ref", "$defs", "definitions")
            }
            schema = self._target(target)
            if siblings and isinstance(schema, dict):
                schema = (
                    {**schema, **siblings}
                    if not siblings.keys() & schema.keys()
                    else {"allOf": [schema, siblings]}
                )
        self.schema = schema
        return schema if isinstance(schema, dict) else {}

    def _target(self, target: str) -> Any:
        name, _, pointer = target.partition("#")
        if name:
            known = self.within.references
            self.base = known.get(
                name, next((known[each] for each in known if name.endswith("/" + each)), {})
            )
        found = self.base
        for part in filter(None, unquote(pointer).split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(part)] if part.isdigit() and int(part) < len(found) else {}
            else:
                found = found.get(part, {}) if isinstance(found, dict) else {}
        return found


def unreadable(reader: Document, writer: Document) -> list[str]:
    """Why not all values of the writer's schema are valid for the reader's; empty: they are."""
    try:
        return list(_JsonComparison().differences(reader.root, writer.root, ""))
    except _TooLarge:
        return ["/: the schemas are too large to compare"]


class _TooLarge(Exception):  # noqa: N818 - it is an answer, not an error.
    pass


class _JsonComparison:
    def __init__(self) -> None:
        self._open: set[tuple[int, int]] = set()  # Pairs that are being compared: recursive schemas end here.
        self._pairs = 0
        self._values = 0
        self._patterns: dict[str, Any] = {}

    def _spend(self, values: int) -> None:
        self._values += values
        if self._values > VALUES_MAX:
            raise _TooLarge

    def _additional(self, schema: dict[str, Any], name: str) -> Any:
        """What a schema says about a property that it does not list."""
        for pattern, each in _dict(schema.get("patternProperties")).items():
            self._spend(PATTERN_VALUES)
            known = self._patterns.get(pattern)
            if known is None:
                known = jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=LINEAR)
                self._patterns[pattern] = known
            if known.is_valid(name):
                return each
        return schema.get("additionalProperties", True)

    def _equal(self, one: Any, other: Any) -> bool:
        """Whether two documents are the same.  For Python alone, 0 equals false, and 1 equals true."""
        self._spend(1)
        if one is other:
            return True
        if type(one) is not type(other):
            return False
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(
                self._equal(each, other[key]) for key, each in one.items()
            )
        if isinstance(one, list):
            return len(one) == len(other) and all(map(self._equal, one, other))
        return bool(one == other)

    def _same(self, old: dict[str, Any], new: dict[str, Any], word: str) -> bool:
        return word in new and word in old and self._equal(old[word], new[word])

    def differences(self, reader: Node, writer: Node, path: str) -> Iterator[str]:
        new, old = reader.resolved(), writer.resolved()
        pair = (id(new), id(old))
        self._pairs += 1
        self._spend(_width(new) + _width(old))
        if (
            pair in self._open
            or new == {}
            or old == _NOTHING
            or (self._equal(new, old) and self._equal(reader.base, writer.base))
        ):
            return
        if self._pairs > PAIRS_MAX:
            yield f"{path or '/'}: the schemas are too large to compare"
            return
        self._open.add(pair)
        try:
            yield from self._compare(reader, new, writer, old, path)
        finally:
            self._open.discard(pair)

    def _compare(
        self, reader: Node, new: dict[str, Any], writer: Node, old: dict[str, Any], path: str
    ) -> Iterator[str]:
        if "allOf" in old and not self._same(old, new, "allOf"):
            merged: Any = {key: each for key, each in old.items() if key != "allOf"}
            for part in old["allOf"]:
                merged = _merged(merged, writer.child(part).resolved())
            yield from self.differences(reader, writer.child(merged), path)
            return
        for word in ("anyOf", "oneOf"):
            if old.get(word) and not self._same(old, new, word):
                rest = {key: each for key, each in old.items() if key != word}
                for branch in old[word]:  # Each is a way to be valid.
                    merged = _merged(rest, writer.child(branch).resolved())
                    yield from self.differences(reader, writer.child(merged), path)
                return
        for word in ("allOf", "anyOf", "oneOf", "not"):
            if word in new and not self._same(old, new, word):
                yield from self._combined(word, reader, new, writer, old, path)
        yield from self._plain(reader, new, writer, old, path)

    def _fits(self, reader: Node, writer: Node, path: str) -> bool:
        return next(self.differences(reader, writer, path), None) is None

    def _combined(
        self, word: str, reader: Node, new: dict[str, Any], writer: Node, old: dict[str, Any], path: str
    ) -> Iterator[str]:
        parts = [reader.child(each) for each in new[word]] if word != "not" else []
        if word == "allOf":
            for part in parts:
                yield from self.differences(part, writer.child(old), path)
        elif word == "not":
            if "not" not in old or not self._fits(writer.child(old["not"]), reader.child(new["not"]), path):
                yield f"{path or '/'}: values are excluded that were allowed"
        else:
            fitting = [part for part in parts if self._fits(part, writer.child(old), path)]
            others = [part for part in parts if part not in fitting[:1]]
            if not fitting:
                yield f"{path or '/'}: no schema of {word} accepts all values that were allowed"
            elif word == "oneOf" and not all(_disjoint(part.resolved(), old) for part in others):
                yield f"{path or '/'}: several schemas of oneOf may accept a value that was allowed"

    def _plain(
        self, reader: Node, new: dict[str, Any], writer: Node, old: dict[str, Any], path: str
    ) -> Iterator[str]:
        place = path or "/"
        before = _types(old)
        missing = before - _types(new)
        if missing:
            yield f"{place}: the type {', '.join(sorted(missing))} is no longer allowed"
            return
        yield from _values(new, old, place)
        yield from _limits(new, old, before, place)
        if "object" in before:
            yield from self._objects(reader, new, writer, old, path)
        if "array" in before:
            yield from self._arrays(reader, new, writer, old, path)

    def _objects(
        self, reader: Node, new: dict[str, Any], writer: Node, old: dict[str, Any], path: str
    ) -> Iterator[str]:
        properties, known = _dict(new.get("properties")), _dict(old.get("properties"))
        for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
            if "default" not in _dict(properties.get(name)):
                yield f"{path}/{name}: the property is required now"
        for name, schema in properties.items():
            before = known[name] if name in known else self._additional(old, name)
            yield from self.differences(reader.child(schema), writer.child(before), f"{path}/{name}")
        for name, schema in known.items():
            if name not in properties:
                now = self._additional(new, name)
                yield from self.differences(reader.child(now), writer.child(schema), f"{path}/{name}")
        yield from self.differences(
            reader.child(new.get("additionalProperties", True)),
            writer.child(old.get("additionalProperties", True)),
            f"{path}/*",
        )

    def _arrays(
        self, reader: Node, new: dict[str, Any], writer: Node, old: dict[str, Any], path: str
    ) -> Iterator[str]:
        first, rest = _items(new)
        old_first, old_rest = _items(old)
        for index in range(max(len(first), len(old_first))):
            now = first[index] if index < len(first) else rest
            before = old_first[index] if index < len(old_first) else old_rest
            yield from self.differences(reader.child(now), writer.child(before), f"{path}/{index}")
        yield from self.differences(reader.child(rest), writer.child(old_rest), f"{path}/[]")


def _width(schema: dict[str, Any]) -> int:
    """How much one look at a schema goes through: its properties, branches and listed values."""
    return sum([len(each) for each in schema.values() if isinstance(each, dict | list)])


def _dict(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}


def _listed(schema: dict[str, Any]) -> list[Any] | None:
    """The values that a schema lists; None if it allows others."""
    if "const" not in schema:
        listed: list[Any] | None = schema.get("enum")
        return listed
    constant = schema["const"]
    return [constant] if "enum" not in schema or _text(constant) in map(_text, schema["enum"]) else []


def _text(value: Any) -> str:
    """Equal for equal values, and not for 0 and false."""
    return json.dumps(value, sort_keys=True)


def _merged(rest: dict[str, Any], branch: dict[str, Any]) -> dict[str, Any]:
    """Both at once, or something that allows more: of constraints that cannot be joined one is left out."""
    merged = {**rest, **branch}
    if "required" in rest and "required" in branch:
        merged["required"] = [*rest["required"], *branch["required"]]
    if "properties" in rest and "properties" in branch:
        merged["properties"] = {**rest["properties"], **branch["properties"]}
    if "patternProperties" in rest and "patternProperties" in branch:
        merged.pop("additionalProperties", None)  # It would speak about names that the other one allows.
    return merged


def _types(schema: dict[str, Any]) -> frozenset[str]:
    """The types that a schema allows; an integer is a number that ``_limits`` looks at."""
    listed = _listed(schema)
    if listed is not None:
        return frozenset(map(_type_of, listed))
    kinds = schema.get("type")
    if kinds is None:
        return frozenset() if schema == _NOTHING else _TYPES
    return frozenset(
        "number" if each == "integer" else each for each in ([kinds] if isinstance(kinds, str) else kinds)
    )


def _type_of(value: Any) -> str:
    names: dict[type, str] = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), "null")


def _values(new: dict[str, Any], old: dict[str, Any], place: str) -> Iterator[str]:
    allowed, before = _listed(new), _listed(old)
    if allowed is None:
        return
    if before is None:
        yield f"{place}: only certain values are allowed now"
        return
    texts = set(map(_text, allowed))
    gone = [each for each in before if _text(each) not in texts]
    if gone:
        yield f"{place}: the values {json.dumps(gone)} are no longer allowed"


_OF_TYPE: Final = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {
        "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems",
    },
    "object": {
        "minProperties", "maxProperties", "dependencies", "dependentSchemas", "dependentRequired",
        "propertyNames", "unevaluatedProperties", "patternProperties",
    },
}  # fmt: skip


def _limits(new: dict[str, Any], old: dict[str, Any], types: frozenset[str], place: str) -> Iterator[str]:
    irrelevant = {word for kind, words in _OF_TYPE.items() if kind not in types for word in words}
    listed = _listed(old)
    if listed is not None:  # Values can be tried.
        simple = {key: each for key, each in new.items() if key in _SIMPLE}
        if not all(map(jsonschema_rs.validator_for(simple, pattern_options=LINEAR).is_valid, listed)):
            yield f"{place}: a value that was listed is no longer allowed"
        new = {key: each for key, each in new.items() if key not in _SIMPLE}
    integers = ("integer" in _kinds(old)) >= ("integer" in _kinds(new) and "number" not in _kinds(new))
    if "number" in types and not integers:
        yield f"{place}: only integers are allowed now"
    yield from _ranges({key: each for key, each in new.items() if key not in irrelevant}, old, place)
    if new.get("uniqueItems") and not old.get("uniqueItems") and "uniqueItems" not in irrelevant:
        yield f"{place}: items must be unique now"
    for word in _EQUAL:
        if (
            word in new
            and word not in irrelevant
            and new[word] != old.get(word)
            and not _is_relaxed(word, new, old)
        ):
            yield f"{place}: {word} was {'changed' if word in old else 'added'}"


def _ranges(new: dict[str, Any], old: dict[str, Any], place: str) -> Iterator[str]:
    for words, narrower in ((_LOWER, float.__gt__), (_UPPER, float.__lt__)):
        for word in words:
            if word in new and not _is_implied(word, new, old, narrower):
                yield f"{place}: {word} is {new[word]} now; it was {old.get(word, 'not limited')}"
    if "multipleOf" in new:
        step = old.get("multipleOf")
        if step is None or step % new["multipleOf"]:
            yield f"{place}: multipleOf is {new['multipleOf']} now; it was {step or 'not limited'}"


def _is_implied(
    word: str, new: dict[str, Any], old: dict[str, Any], narrower: Callable[[float, float], bool]
) -> bool:
    if isinstance(new[word], bool):  # Of exclusiveMinimum in draft 4.
        return bool(new[word] == old.get(word, False))
    return word in old and not narrower(float(new[word]), float(old[word]))


def _is_relaxed(word: str, new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether a dependency or pattern was only taken away."""
    before, now = old.get(word), new[word]
    if (
        not isinstance(before, dict)
        or not isinstance(now, dict)
        or word not in ("dependencies", "dependentRequired")
    ):
        return False
    return all(
        name in before
        and (
            each == before[name]
            or (isinstance(each, list) and isinstance(before[name], list) and set(each) <= set(before[name]))
        )
        for name, each in now.items()
    )


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def _items(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """Schemas of the first items, and of all others; in the words of old and new drafts."""
    if isinstance(schema.get("items"), list):
        return schema["items"], schema.get("additionalItems", True)
    return schema.get("prefixItems", []), schema.get("items", True)


def _disjoint(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether no value can match both, as far as types and values show."""
    if not _types(one) & _types(other):
        return True
    values = _listed(one), _listed(other)
    if values[0] is not None and values[1] is not None:
        return set(map(_text, values[0])).isdisjoint(map(_text, values[1]))
    properties = [_dict(each.get("properties")) for each in (one, other)]
    return any(
        name in properties[1]
        and name in one.get("required", ())
        and name in other.get("required", ())
        and _disjoint(_dict(each), _dict(properties[1][name]))
        for name, each in properties[0].items()
    )
