"""Builds the source of one Python function: its lines and the names that they use."""

from typing import Any

from penstock.wire.kafka.tables import Field


class Text:
    """Lines, indented as they nest, and a name for each thing that they use."""

    def __init__(self, head: str, known: dict[str, Any]) -> None:
        self.known = known
        self._lines = [head]
        self._depth = 1
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def open(self, text: str) -> None:
        """Begin a block with this line, up to ``close``."""
        self.line(text)
        self._depth += 1

    def close(self) -> None:
        self._depth -= 1

    def fresh(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def know(self, thing: Any) -> str:
        """The name under which the lines can use a value."""
        name = f"k{len(self.known)}"
        self.known[name] = thing
        return name

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


def constant(field: Field, text: Text) -> str:
    """A field's default as an expression; lists and parts are created each time."""
    if isinstance(field.default, list):
        return "[]"
    if isinstance(field.default, int | float | str | bytes | None):
        return repr(field.default)
    return f"{text.know(type(field.default))}()"
