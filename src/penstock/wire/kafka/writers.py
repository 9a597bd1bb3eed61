"""Generates functions that write parts: ``write(m, out, cuts)`` appends the part to a bytearray.

Records are not copied: ``cuts`` gets the position where they belong, and the records.  As in ``readers``,
neighbours of fixed size and the length of what follows them are one ``pack``.
"""

from collections.abc import Callable
from struct import Struct, pack
from typing import Any, TypeVar

from penstock.wire.kafka.fields import RECORDS, TEXT, Fixed, Part, Sized
from penstock.wire.kafka.lengths import varint_bytes
from penstock.wire.kafka.tables import Field, fields_of
from penstock.wire.kafka.text import Text

P = TypeVar("P", bound=Part)
Cuts = list[tuple[int, bytes | memoryview]]
Writer = Callable[[P, bytearray, Cuts], None]


def writer_source(part: type[Part], version: int, flexible: bool) -> tuple[str, dict[str, Any]]:
    """The text of ``write`` for a part, and the names it knows."""
    return _PartWriter(part, version, flexible).source()


class _PartWriter:
    """Writes the function that writes one part."""

    def __init__(self, part: type[Part], version: int, flexible: bool) -> None:
        self.part = part
        self.version = version
        self.flexible = flexible
        self.text = Text("def write(m, out, cuts):", {"pack": pack, "varint": varint_bytes})
        self.run: list[tuple[str, Fixed]] = []  # Expressions still to be written, one after the other.

    def source(self) -> tuple[str, dict[str, Any]]:
        fields = [field for field in fields_of(self.part, self.version) if field.present]
        for field in fields:
            if field.tag is None:
                self.value(field, f"m.{field.name}")
        self.flush()
        if self.flexible:
            self.tagged([field for field in fields if field.tag is not None])
        self.text.line("return")
        return str(self.text), self.text.known

    def flush(self) -> None:
        if self.run:
            packed = self.text.know(Struct(">" + "".join(kind.code for _, kind in self.run)).pack)
            self.text.line(f"out += {packed}({', '.join(name for name, _ in self.run)})")
            self.run.clear()

    def value(self, field: Field, value: str) -> None:
        """Write what an expression has."""
        if field.is_list:
            self.listed(field, value)
        elif isinstance(field.kind, Fixed):
            self.run.append((value, field.kind))
        elif isinstance(field.kind, Sized):
            self.sized(field, field.kind, value)
        else:
            self.nested(field, field.kind, value)

    def length(self, name: str, nullable: bool, wide: bool) -> None:
        """Write the length of a variable's value.  The run ends with it."""
        if not self.flexible:
            size = f"-1 if {name} is None else len({name})" if nullable else f"len({name})"
            self.run.append((size, Fixed("i", 4) if wide else Fixed("h", 2)))
            self.flush()
            return
        self.flush()
        size = self.text.fresh()
        self.text.line(f"{size} = " + (f"0 if {name} is None else " if nullable else "") + f"len({name}) + 1")
        self.text.line(f"if {size} < 128: out.append({size})")
        self.text.line(f"else: out += varint({size})")

    def sized(self, field: Field, kind: Sized, value: str) -> None:
        name = self.text.fresh()
        self.text.line(f"{name} = {value}")
        if kind is TEXT:
            self.text.line(
                (f"if {name} is not None: " if field.nullable else "") + f"{name} = {name}.encode()"
            )
        self.length(name, field.nullable, kind.wide)
        self.text.line(
            f"if {name}: " + (f"cuts.append((len(out), {name}))" if kind is RECORDS else f"out += {name}")
        )

    def listed(self, field: Field, value: str) -> None:
        name = self.text.fresh()
        self.text.line(f"{name} = {value}")
        self.length(name, field.nullable, wide=True)
        self.text.open(f"if {name}:")
        if isinstance(field.kind, Fixed) and field.kind.size < len(bytes(16)):
            self.text.line(f"out += pack(f'>{{len({name})}}{field.kind.code}', *{name})")
        else:
            item = self.text.fresh()
            self.text.open(f"for {item} in {name}:")
            self.value(field.element, item)
            self.flush()
            self.text.close()
        self.text.close()

    def nested(self, field: Field, kind: type[Part], value: str) -> None:
        self.flush()
        write = self.text.know(part_writer(kind, self.version, self.flexible))
        if not field.nullable:
            self.text.line(f"{write}({value}, out, cuts)")
            return
        self.text.line(f"out.append(255 if {value} is None else 1)")
        self.text.line(f"if {value} is not None: {write}({value}, out, cuts)")

    def tagged(self, fields: list[Field]) -> None:
        """Write those tagged fields that are not as by default."""
        text = self.text
        if not fields:
            text.line("out.append(0)")
            return
        defaults = [
            (field, text.know(field.default)) for field in sorted(fields, key=lambda field: field.tag or 0)
        ]
        text.line("count = " + " + ".join(f"(m.{field.name} != {default})" for field, default in defaults))
        text.open("if not count:")  # Which is nearly always so.
        text.line("out.append(0)")
        text.line("return")
        text.close()
        text.line("out += varint(count)")
        text.line("whole = out")
        for field, default in defaults:
            text.open(f"if m.{field.name} != {default}:")
            text.line("out = bytearray()")
            self.value(field, f"m.{field.name}")
            self.flush()
            text.line(f"whole += varint({field.tag}) + varint(len(out)) + out")
            text.close()


_WRITERS: dict[tuple[type[Part], int, bool], Callable[[Any, bytearray, Cuts], None]] = {}


def part_writer(part: type[P], version: int, flexible: bool) -> Writer[P]:
    """The function that writes a part; made once."""
    key = (part, version, flexible)
    if key not in _WRITERS:
        source, known = writer_source(*key)
        exec(source, known)
        _WRITERS[key] = known["write"]
    return _WRITERS[key]
