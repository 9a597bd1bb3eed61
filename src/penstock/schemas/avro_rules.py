"""Which Avro data a reader can read: schema resolution of the Avro specification.

    reader union        some branch can read what the writer has
    writer union        every branch can be read
    record              fields by name or alias; a reader's field that the writer lacks needs a default
    enum                the writer's symbols are known to the reader, or it has a default
    fixed, decimal      the same size; the same precision and scale
    numbers             int > long > float > double;   text: string <> bytes

Names are compared without their namespaces, as Apache's implementation does.

Cost: bounded by ``PAIRS_MAX`` pairs of types, beyond which the answer is no: a union in a union in a union is
tried in every combination.
"""

from collections.abc import Mapping
from typing import Any, Final

PAIRS_MAX: Final = 100_000
Names = Mapping[str, Any]
_PROMOTED: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_PLAIN: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def variant(schema: Any, names: Names) -> Any:
    """A schema as a primitive's name, a list (union), or a dict with a complex or logical type."""
    while True:
        if isinstance(schema, str):
            if schema in _PLAIN:
                return schema
            schema = names[schema]
        elif isinstance(schema, dict):
            kind = schema["type"]
            if not isinstance(kind, str) or kind in names:
                schema = kind
            elif kind in _PLAIN and "logicalType" not in schema:
                return kind
            else:
                return schema
        else:
            return schema


def named(schema: Mapping[str, Any]) -> str:
    return str(schema["name"])


def unreadable(reader: Any, reader_names: Names, writer: Any, writer_names: Names) -> list[str]:
    """Why the reader could not read the writer's data, each with its place; empty: it can."""
    return _AvroComparison(reader_names, writer_names).differences(reader, writer, "")


class _AvroComparison:
    def __init__(self, reader_names: Names, writer_names: Names) -> None:
        self._readers = reader_names
        self._writers = writer_names
        self._compared: set[tuple[str, str]] = set()  # Records, which may be recursive.
        self._pairs = 0

    def differences(self, reader: Any, writer: Any, path: str) -> list[str]:
        reader, writer = variant(reader, self._readers), variant(writer, self._writers)
        self._pairs += 1
        if self._pairs > PAIRS_MAX:
            return [f"{path or '/'}: the schemas are too large to compare"]
        if isinstance(writer, list):
            return [problem for each in writer for problem in self.differences(reader, each, path)]
        if isinstance(reader, list):
            return self._in_union(reader, writer, path)
        return self._of_types(reader, writer, path)

    def _of_types(self, reader: Any, writer: Any, path: str) -> list[str]:
        reader_kind, writer_kind = _kind(reader), _kind(writer)
        if reader_kind != writer_kind:
            if reader_kind in _PROMOTED.get(writer_kind, ()):
                return _decimals(reader, writer, path)
            return [f"{path or '/'}: {writer_kind} cannot be read as {reader_kind}"]
        compare = getattr(self, f"_{reader_kind}", None)
        if compare is None:
            return _decimals(reader, writer, path)
        found: list[str] = compare(reader, writer, path)
        return found

    def _in_union(self, reader: list[Any], writer: Any, path: str) -> list[str]:
        for each in reader:
            compared = set(self._compared)
            if not self.differences(each, writer, path):
                return []
            self._compared = compared
        return [f"{path or '/'}: no type of the reader's union can read {_kind(writer)}"]

    def _record(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[str]:
        problems = _names_differ(reader, writer, path)
        pair = named(reader), named(writer)
        if problems or pair in self._compared:
            return problems
        self._compared.add(pair)
        written = {each["name"]: each for each in writer["fields"]}
        for field in reader["fields"]:
            place = f"{path}/{field['name']}"
            name = next(
                (each for each in (field["name"], *field.get("aliases", ())) if each in written), None
            )
            if name is not None:
                problems += self.differences(field["type"], written[name]["type"], place)
            elif "default" not in field:
                problems.append(f"{place}: the field has no default, and the data do not have it")
        return problems

    def _enum(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[str]:
        known = set(reader["symbols"])
        unknown = [each for each in writer["symbols"] if each not in known]
        problems = _names_differ(reader, writer, path)
        if unknown and "default" not in reader:
            problems.append(f"{path or '/'}: the reader does not know the symbols {', '.join(unknown)}")
        return problems

    def _fixed(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[str]:
        problems = _names_differ(reader, writer, path)
        if reader["size"] != writer["size"]:
            problems.append(f"{path or '/'}: {writer['size']} bytes cannot be read as {reader['size']}")
        return problems or _decimals(reader, writer, path)

    def _array(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[str]:
        return self.differences(reader["items"], writer["items"], f"{path}/[]")

    def _map(self, reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[str]:
        return self.differences(reader["values"], writer["values"], f"{path}/{{}}")


def _kind(schema: Any) -> str:
    kind: str = schema if isinstance(schema, str) else "union" if isinstance(schema, list) else schema["type"]
    return "record" if kind == "error" else kind


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _names_differ(reader: dict[str, Any], writer: dict[str, Any], path: str) -> list[str]:
    known = {_short(named(reader)), *(_short(each) for each in reader.get("aliases", ()))}
    if _short(named(writer)) in known:
        return []
    return [f"{path or '/'}: {named(writer)} cannot be read as {named(reader)}: another name"]


def _decimals(reader: Any, writer: Any, path: str) -> list[str]:
    """Two decimals match if they have the same digits; otherwise a reader would misplace the point."""
    decimals = [
        (each.get("precision"), each.get("scale", 0))
        if isinstance(each, dict) and each.get("logicalType") == "decimal"
        else None
        for each in (reader, writer)
    ]
    if None in decimals or decimals[0] == decimals[1]:
        return []
    return [f"{path or '/'}: decimal{decimals[1]} cannot be read as decimal{decimals[0]}"]
