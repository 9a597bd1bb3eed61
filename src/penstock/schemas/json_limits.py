"""Limits of a JSON Schema, so that no value takes minutes to validate and no pattern takes gigabytes.

Schemas that are too expensive are refused, by their *width*: how many of their parts at most are compared
with one place of a value.  40 definitions that each refer twice to the next one are 2**40 parts:

    in the same place     allOf, anyOf, oneOf, not, if, then, else, dependencies, $ref
    in places below it    properties, items and so on: only parts that are for the same place count together

Entries of an enum and patterns take much longer than other parts, so they are counted again by themselves.
A value is refused (``Limits.check``) if its places, and its bytes where there are patterns, times what the
schema compares with each are more than ``STEPS_MAX``: while the library validates, no other thread runs.

A schema that contains itself is counted as one part where it begins again: jsonschema-rs does not compare it
twice with one place.  It does so to find out why a value does not match (``detail_is_quick``).

Cost: linear in the schema if it refers to nothing; ``WORK_MAX`` steps at most.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import jsonschema_rs

from penstock.errors import SchemaInvalid
from penstock.schemas.mismatch import Mismatch

WIDTH_MAX: Final = 10_000  # Parts, entries or patterns; a tenth of a millisecond for each place of a value.
WORK_MAX: Final = 1_000_000
# For one value, in steps of some 10 ns: a quarter of a second.
STEPS_MAX: Final = 25_000_000
ENTRY_STEPS: Final = 100  # To compare a place with a number, list or object of an enum; texts are looked up.
PATTERN_STEPS: Final = 20  # To match a byte with a pattern that is too large for a table.
QUICK_STEPS: Final = 20  # For each place, and for each byte: more is left to a thread.
DETAILS_MAX: Final = 100_000  # Parts that are compared to find out what is wrong; each may be a long text.
PATTERNS_MAX: Final = 10_000
PATTERN_BYTES_MAX: Final = 4 << 20  # Of all compiled patterns of a schema; compiling them takes 40 ms.
PATTERN_BYTES_MIN: Final = 8 << 10  # That each of many may have.
_DRAFTS: Final = (
    "json-schema.org/draft-04/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema", "json-schema.org/draft/2020-12/schema",
)  # fmt: skip
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_ANY_PROPERTY: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_ANY_ITEM: Final = ("additionalItems", "unevaluatedItems", "contains")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def check_draft(document: Any) -> None:
    """Refuse an unknown ``$schema``: the library would load it from its address."""
    name = document.get("$schema", "") if isinstance(document, dict) else ""
    known = isinstance(name, str) and name.removesuffix("#").partition("://")[2] in _DRAFTS
    if name != "" and not known:
        raise SchemaInvalid(
            type="JSON",
            why=f"$schema is {str(name)[:100]!r}; known are the drafts 4, 6, 7, 2019-09 and 2020-12",
        )


def pattern_options(document: Any) -> "jsonschema_rs.RegexOptions":
    """How patterns are compiled: matched without backtracking, and small, all together."""
    patterns = list(_patterns(document))
    if len(patterns) > PATTERNS_MAX:
        raise SchemaInvalid(type="JSON", why=f"it has more than {PATTERNS_MAX} patterns")
    size = max(PATTERN_BYTES_MAX // max(len(patterns), 1), PATTERN_BYTES_MIN)
    options = jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)
    for pattern in set(patterns):
        try:
            jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
        except (jsonschema_rs.ValidationError, ValueError):
            why = f"the pattern {pattern[:100]!r} is invalid, uses look-around, or is too large when compiled"
            raise SchemaInvalid(type="JSON", why=why) from None
    return options


def _patterns(document: Any) -> Iterator[str]:
    """Everything that may be a pattern."""
    for each in _objects(document):
        if isinstance(pattern := each.get("pattern"), str):
            yield pattern
        if isinstance(named := each.get("patternProperties"), dict):
            yield from named


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document, at any depth."""
    waiting = [document]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            waiting += found.values()
            yield found


def places(data: bytes) -> int:
    """How many places a value in JSON has, at most."""
    return 1 + sum(map(data.count, (b",", b"[", b"{", b":")))


def depth(value: Any) -> int:
    """How deeply a value is nested."""
    found, level = 0, [value]
    while level:
        found += 1
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return found


class Part(NamedTuple):
    """A part of a schema, and what its references are relative to: the innermost one around it with an id."""

    schema: Any
    base: Any

    def inner(self, schema: Any) -> "Part":
        return Part(schema, schema if _has_id(schema) else self.base)


class Limits:
    """What a schema takes, for each place and for each byte of a value."""

    def __init__(self, document: Any, references: Mapping[str, Any]) -> None:
        self._parts = Width(document, references, _is_compared, least=1)
        entries = Width(document, references, _slow_entries).width
        self._for_place: Final = self._parts.width + ENTRY_STEPS * entries
        self._for_byte: Final = PATTERN_STEPS * Width(document, references, _patterns_here).width

    @property
    def is_quick(self) -> bool:
        """Whether values of some kilobytes take less than a millisecond."""
        return max(self._for_place, self._for_byte) <= QUICK_STEPS

    def are_within(self, values: Sequence[bytes]) -> bool:
        """Whether values together take no longer than one may; usually their size alone shows it."""
        size = sum(map(len, values))
        if size * (self._for_place + self._for_byte) <= STEPS_MAX:
            return True
        return sum(map(places, values)) * self._for_place + size * self._for_byte <= STEPS_MAX

    def check(self, data: bytes) -> None:
        """Refuse a value that would take too long."""
        if not self.are_within([data]):
            raise Mismatch(
                "/", "it is too large for a schema with so many branches, patterns or enum entries"
            )

    def detail_is_quick(self, value: Any) -> bool:
        """Whether to ask for what is wrong with a value: branches that contain themselves multiply there."""
        width = self._parts.width
        return not self._parts.recursive or width == 1 or width ** min(depth(value), 64) <= DETAILS_MAX


class Width:
    """How many parts, weighed by ``weigh``, meet in one place; and whether the schema contains itself."""

    def __init__(
        self, document: Any, references: Mapping[str, Any], weigh: Callable[[Any], int], least: int = 0
    ) -> None:
        self._references = references
        self._weigh, self._least = weigh, least
        self._identified = _identified([document, *references.values()])
        self._beside: dict[int, Counter[int] | None] = {}  # By the identity of the part; None: it is in this.
        self._widths: dict[int, int | None] = {}
        self._parts: dict[int, Part] = {}
        self._work = 0
        self.recursive = False
        self.width: Final = self._width(Part(document, document))

    def _spend(self, steps: int) -> None:
        self._work += steps
        if self._work > WORK_MAX:
            raise SchemaInvalid(type="JSON", why="it refers to its parts in too many ways")

    def _in_place(self, part: Part) -> Counter[int]:
        """What is compared with the same place of a value, and how often: the part itself, too."""
        if not isinstance(part.schema, dict):
            return Counter()
        number = id(part.schema)
        if number in self._beside:
            self.recursive = self.recursive or self._beside[number] is None
            return self._beside[number] or Counter()
        self._parts[number] = part
        self._beside[number] = None
        found = Counter([number])
        for inner in self._others(part):
            more = self._in_place(inner)
            self._spend(len(more) + 1)
            found.update(more)
            if found.total() > WIDTH_MAX:
                raise _too_wide()
        self._beside[number] = found
        return found

    def _others(self, part: Part) -> Iterator[Part]:
        schema = part.schema
        for word in _REFERENCES:
            if isinstance(schema.get(word), str):
                yield from self._referred(part, schema[word])
        for word in _LISTS:
            yield from map(part.inner, _list(schema.get(word)))
        for word in _SINGLE:
            if word in schema:
                yield part.inner(schema[word])
        for word in _BY_NAME:
            yield from map(part.inner, _dict(schema.get(word)).values())

    def _referred(self, part: Part, target: str) -> list[Part]:
        """What a reference may mean; the library has refused those that mean nothing."""
        name, _, fragment = target.partition("#")
        fragment = unquote(fragment)
        bases = [part.base]
        if name:
            bases = self._identified.get(name, self._identified.get(name.rpartition("/")[2], []))
            bases += [each for known, each in self._references.items() if _is_named(name, known)]
        if fragment and not fragment.startswith("/"):
            return [Part(each, each) for each in self._identified.get(fragment, [])]
        found = [_pointed(each, fragment) for each in bases]
        return [each for each in found if each is not None]

    def _width(self, part: Part) -> int:
        if not isinstance(part.schema, dict):
            return self._least
        number = id(part.schema)
        if number in self._widths:
            self.recursive = self.recursive or self._widths[number] is None
            return self._widths[number] or self._least
        self._widths[number] = None
        parts = self._in_place(part)
        here = sum(count * self._weigh(self._parts[each].schema) for each, count in parts.items())
        found = max(here, self._least, *self._below(parts))
        if found > WIDTH_MAX:
            raise _too_wide()
        self._widths[number] = found
        return found

    def _below(self, parts: Counter[int]) -> tuple[int, int]:
        """The widths of the properties and of the items below."""
        properties: Counter[str] = Counter()
        items: Counter[int] = Counter()
        any_property = any_item = 0
        for number, count in parts.items():
            part = self._parts[number]
            schema = part.schema
            self._spend(len(schema))

            def width(inner: Any, part: Part = part, count: int = count) -> int:
                self._spend(1)
                return count * self._width(part.inner(inner))

            any_property += sum(width(schema[word]) for word in _ANY_PROPERTY if word in schema)
            any_property += sum(map(width, _dict(schema.get("patternProperties")).values()))
            any_item += sum(width(schema[word]) for word in _ANY_ITEM if word in schema)
            if isinstance(schema.get("items"), dict):
                any_item += width(schema["items"])
            for name, each in _dict(schema.get("properties")).items():
                properties[name] += width(each)
            for index, each in enumerate(_list(schema.get("prefixItems")) or _list(schema.get("items"))):
                items[index] += width(each)
        return any_property + max(properties.values(), default=0), any_item + max(items.values(), default=0)


def _pointed(base: Any, pointer: str) -> Part | None:
    """The part that a JSON pointer means."""
    found = Part(base, base)
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found.schema, dict) and token in found.schema:
            found = found.inner(found.schema[token])
        elif isinstance(found.schema, list) and token.isdecimal() and int(token) < len(found.schema):
            found = found.inner(found.schema[int(token)])
        else:
            return None
    return found


def _is_named(name: str, known: str) -> bool:
    return name == known or name.endswith("/" + known)


def _has_id(schema: Any) -> bool:
    name = schema.get("$id", schema.get("id")) if isinstance(schema, dict) else None
    return isinstance(name, str) and not name.startswith("#")


def _too_wide() -> SchemaInvalid:
    why = f"more than {WIDTH_MAX} of its parts would be compared with one place of a value"
    return SchemaInvalid(type="JSON", why=why)


def _is_compared(schema: Mapping[str, Any]) -> bool:
    """Whether a part does more than refer to another one."""
    return not set(schema) <= {"$ref", "$defs", "definitions", "$schema", "$id", "title", "description"}


def _slow_entries(schema: Mapping[str, Any]) -> int:
    """The entries of an enum that are compared one after the other."""
    entries = _list(schema.get("enum"))
    return sum(isinstance(each, int | float | list | dict) and not isinstance(each, bool) for each in entries)


def _patterns_here(schema: Mapping[str, Any]) -> int:
    """The patterns that one text, or the name of one property, is matched with."""
    return ("pattern" in schema) + len(_dict(schema.get("patternProperties")))


def _identified(document: Any) -> dict[str, list[Any]]:
    """The subschemas that have a name of their own, by it: anchors, and ids with and without their base."""
    found: dict[str, list[Any]] = {}
    for each in _objects(document):
        names = [each[word] for word in ("$anchor", "$dynamicAnchor") if isinstance(each.get(word), str)]
        for word in ("$id", "id"):
            if isinstance(each.get(word), str):
                base = each[word].removesuffix("#")
                names += {base, base.rpartition("/")[2], base.rpartition("#")[2]}
        for name in filter(None, names):
            found.setdefault(name, []).append(each)
    return found


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _dict(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
