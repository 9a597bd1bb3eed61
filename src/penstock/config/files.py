"""Configuration files in TOML, YAML and JSON: one schema, read into a flat list of values with their lines.

    [topic]                    topic:                     {"topic":
    retention = "14d"            retention: 14d             {"retention": "14d"}}

The name of the file says what it is: ``.yaml`` and ``.yml``, ``.json``; everything else is TOML.  Keys are
joined by dots (``topic.retention``), however deep they are nested: other systems nest deeper than ours.

The caller limits the size of the text.  YAML is read with its safe loader; aliases, with which a few lines
become a huge document, are refused.  So is a key that is there twice, of which the parsers of YAML and JSON
would silently keep the last.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

DEPTH_MAX: Final = 20  # Of nested tables; the deepest that is known has four.

_TABLE: Final = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_PAIR: Final = re.compile(r"""\s*["']?([\w.-]+)["']?\s*=""")
_JSON_TOKEN: Final = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|"(?:[^"\\]|\\.)*"|[{}\[\]]')


class UnreadableError(Exception):
    """The text is not what its name says."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One value of a file; an empty table has the value None and ``empty``."""

    key: str
    value: Any
    line: int | None  # None: not known.
    empty: bool = False


def read(text: str, file: str) -> Iterator[FileEntry]:
    """Every value of a file; raises ``UnreadableError`` before the first."""
    kind = file.rpartition(".")[2].lower()
    if kind in ("yaml", "yml"):
        tables, lines = _yaml(text)
    elif kind == "json":
        tables, lines = _json(text)
    else:
        tables, lines = _toml(text), key_lines(text)
    if tables is None:
        return iter(())
    if not isinstance(tables, dict):
        raise UnreadableError("the file is not a list of sections with their settings")
    return iter(list(_flat("", tables, lines, DEPTH_MAX)))


def key_lines(text: str) -> dict[str, int]:
    """The line of each key in a TOML file; keys written in an unusual way are left out."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = header[1]
            lines.setdefault(table, number)
        elif pair := _PAIR.match(line):
            lines.setdefault(f"{table}.{pair[1]}" if table else pair[1], number)
    return lines


def _flat(prefix: str, table: Mapping[Any, Any], lines: Mapping[str, int], depth: int) -> Iterator[FileEntry]:
    if depth == 0:
        raise UnreadableError(f"tables are nested deeper than {DEPTH_MAX}")
    for name, value in table.items():
        key = f"{prefix}{name}"
        if not isinstance(value, dict):
            yield FileEntry(key, value, lines.get(key))
        elif value:
            yield from _flat(f"{key}.", value, lines, depth - 1)
        else:
            yield FileEntry(key, None, lines.get(key), empty=True)


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(str(error)) from None


def _json(text: str) -> tuple[Any, dict[str, int]]:
    try:
        return json.loads(text), _distinct(_json_lines(text))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(str(error)) from None


def _json_lines(text: str) -> Iterator[tuple[str, int]]:
    """The line of each key of a JSON document that is known to be valid; objects in lists are left out."""
    opened: list[str | None] = []  # The key of each object around the token; None: a list.
    key, line, counted = "", 1, 0
    for token in _JSON_TOKEN.finditer(text):
        word = token[0]
        if word in ("{", "["):
            opened.append(key if word == "{" else None)
        elif word in ("}", "]"):
            opened.pop()
        elif token["key"] is not None and None not in opened:
            line, counted = line + text.count("\n", counted, token.start()), token.start()
            key = ".".join([*(name for name in opened[-1:] if name), json.loads(word)])
            yield key, line


def _distinct(keys: Iterator[tuple[str, int]]) -> dict[str, int]:
    """The line of each key; the parsers would silently keep the last of two."""
    lines: dict[str, int] = {}
    for key, line in keys:
        if key in lines:
            raise UnreadableError(f"{key} is there twice, at lines {lines[key]} and {line}; merge the two")
        lines[key] = line
    return lines


def _yaml(text: str) -> tuple[Any, dict[str, int]]:
    import yaml  # Only now: most servers have no such file.

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise UnreadableError("aliases (*name) are not supported")
        return yaml.safe_load(text), _distinct(_node_lines("", yaml.compose(text, yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UnreadableError(" ".join(str(error).split())) from None


def _node_lines(prefix: str, node: Any) -> Iterator[tuple[str, int]]:
    """The line of each key of a YAML document."""
    for name, value in getattr(node, "value", ()) if getattr(node, "id", "") == "mapping" else ():
        key = f"{prefix}{name.value}"
        yield key, name.start_mark.line + 1
        yield from _node_lines(f"{key}.", value)
