"""The text of functions that read parts: ``read(data, at)`` returns the part and the position behind it.

Neighbours of fixed size, with the length of what follows them, are a *run*: one ``unpack_from`` for all.

    partition, offset, n = k3(data, at); at += 16
    if n > len(data) - at: refuse()
    records = data[at : at + n]; at += n
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar

from penstock.wire.kafka.fields import RECORDS, TEXT, Fixed, Part, Sized
from penstock.wire.kafka.lengths import passed_over, refuse, varint
from penstock.wire.kafka.tables import Field, fields_of
from penstock.wire.kafka.text import Text, constant

P = TypeVar("P", bound=Part)
Reader = Callable[[memoryview, int], tuple[P, int]]


def reader_source(part: type[Part], version: int, flexible: bool) -> tuple[str, dict[str, Any]]:
    """The text of ``read`` for a part, and the names it knows."""
    return _PartReader(part, version, flexible).source()


class _PartReader:
    """Writes the function that reads one part; parts of the part are functions of their own."""

    def __init__(self, part: type[Part], version: int, flexible: bool) -> None:
        self.part = part
        self.version = version
        self.flexible = flexible
        known = {"unpack": _unpack, "varint": varint, "refuse": refuse, "passed_over": passed_over}
        self.text = Text("def read(data, at):", known)
        self.run: list[tuple[str, Fixed]] = []  # Variables still to be read, one after the other.
        self.values: dict[str, str] = {}

    def source(self) -> tuple[str, dict[str, Any]]:
        fields = fields_of(self.part, self.version)
        for field in fields:
            if not field.present or field.tag is not None:
                self.values[field.name] = constant(field, self.text)
            else:
                self.values[field.name] = self.value(field)
        self.flush()
        if self.flexible:
            self.tagged([field for field in fields if field.present and field.tag is not None])
        part = self.text.know(self.part)
        self.text.line(f"return {part}({', '.join(self.values[field.name] for field in fields)}), at")
        return str(self.text), self.text.known

    def flush(self) -> None:
        if self.run:
            unpack = self.text.know(Struct(">" + "".join(kind.code for _, kind in self.run)).unpack_from)
            names = ", ".join(name for name, _ in self.run)
            self.text.line(f"{names}, = {unpack}(data, at)")
            self.text.line(f"at += {sum(kind.size for _, kind in self.run)}")
            self.run.clear()

    def value(self, field: Field) -> str:
        """Read a field; returns the variable that has it."""
        if field.is_list:
            return self.listed(field)
        if isinstance(field.kind, Fixed):
            name = self.text.fresh()
            self.run.append((name, field.kind))
            return name
        if isinstance(field.kind, Sized):
            return self.sized(field, field.kind)
        return self.nested(field, field.kind)

    def length(self, wide: bool) -> str:
        """Read a length or count: -1 for null.  The run ends with it."""
        name = self.text.fresh()
        if not self.flexible:
            self.run.append((name, Fixed("i", 4) if wide else Fixed("h", 2)))
            self.flush()
            return name
        self.flush()
        self.text.line(f"{name} = data[at] - 1")
        self.text.line("at += 1")
        self.text.line(f"if {name} > 126: {name}, at = varint(data, at - 1); {name} -= 1")
        return name

    def checked(self, size: str, field: Field, name: str) -> None:
        """Refuse what is longer than the rest, or null where it may not be; begins the case of a value."""
        self.text.line(f"if {size} > len(data) - at: refuse()")
        if field.nullable:
            self.text.line(f"{name} = None")
            self.text.open(f"if {size} >= 0:")
        else:
            self.text.line(f"if {size} < 0: refuse()")
            self.text.open("if True:")

    def sized(self, field: Field, kind: Sized) -> str:
        name = self.text.fresh()
        size = self.length(kind.wide)
        self.checked(size, field, name)
        piece = f"data[at : at + {size}]"
        taken = {TEXT: f"str({piece}, 'utf-8')", RECORDS: piece}.get(kind, f"{piece}.tobytes()")
        self.text.line(f"{name} = {taken}")
        self.text.line(f"at += {size}")
        self.text.close()
        return name

    def listed(self, field: Field) -> str:
        name = self.text.fresh()
        count = self.length(wide=True)
        self.checked(count, field, name)
        if isinstance(field.kind, Fixed) and field.kind.size < len(bytes(16)):
            self.text.line(f"{name} = list(unpack(f'>{{{count}}}{field.kind.code}', data, at))")
            self.text.line(f"at += {count} * {field.kind.size}")
        else:
            self.text.line(f"{name} = []")
            self.text.open(f"for _ in range({count}):")
            item = self.value(field.element)
            self.flush()
            self.text.line(f"{name}.append({item})")
            self.text.close()
        self.text.close()
        return name

    def nested(self, field: Field, kind: type[Part]) -> str:
        self.flush()
        name = self.text.fresh()
        read = self.text.know(part_reader(kind, self.version, self.flexible))
        if field.nullable:
            self.text.line(f"{name} = None")
            self.text.line("at += 1")
            self.text.line(f"if data[at - 1] < 128: {name}, at = {read}(data, at)")
        else:
            self.text.line(f"{name}, at = {read}(data, at)")
        return name

    def tagged(self, fields: list[Field]) -> None:
        """Read the tagged fields that are known, and pass over the others."""
        text = self.text
        if not fields:
            text.line("at += 1")
            text.line("if data[at - 1]: at = passed_over(data, at - 1)")
            return
        for field in fields:
            default, self.values[field.name] = self.values[field.name], text.fresh()
            text.line(f"{self.values[field.name]} = {default}")
        text.line("count = data[at]")
        text.line("at += 1")
        text.line("if count > 127: count, at = varint(data, at - 1)")
        text.open("for _ in range(count):")
        text.line("tag, at = varint(data, at)")
        text.line("size, at = varint(data, at)")
        text.line("if size > len(data) - at: refuse()")
        text.line("end = at + size")
        for field in fields:
            text.open(f"if tag == {field.tag}:")
            value = self.value(field)
            self.flush()
            text.line(f"{self.values[field.name]} = {value}")
            text.line("if at != end: refuse()")
            text.close()
        text.line("at = end")
        text.close()


_READERS: dict[tuple[type[Part], int, bool], Callable[[memoryview, int], tuple[Any, int]]] = {}


def part_reader(part: type[P], version: int, flexible: bool) -> Reader[P]:
    """The function that reads a part; made once."""
    key = (part, version, flexible)
    if key not in _READERS:
        source, known = reader_source(*key)
        exec(source, known)
        _READERS[key] = known["read"]
    return _READERS[key]


def _unpack(code: str, data: memoryview, at: int) -> tuple[Any, ...]:
    """Numbers of one kind; not ``struct.unpack_from``, whose cache counts from a network would fill."""
    return Struct(code).unpack_from(data, at)
