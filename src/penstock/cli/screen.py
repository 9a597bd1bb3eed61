"""Output of commands: tables and facts for people, JSON lines for programs, raw bytes.

    stdout    results only
    stderr    notes: what was created, counts, what the command waits for

A table is as wide as the terminal or ``COLUMNS``; without a terminal it is as wide as needed and nothing is
cut. Ids, names and numbers are never cut; long text is wrapped or ends in an ellipsis.  Colours are used on
terminals, unless ``NO_COLOR`` is set.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.cli.text import json_lines, safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Output = Literal["table", "json"]
Row = Sequence[object]

WIDTH_WITHOUT_TERMINAL: Final = 10_000  # Wide enough for any row, so that a pipe gets whole lines.
GAP: Final = 2  # Between columns.
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s"  # Of commands that log to stderr.
TEXT_WIDTH_MIN: Final = 24  # Narrower than this, wrapped text is a tower.


class Column:
    """A column of a table: its title, and what may be done to its text."""

    def __init__(self, title: str, *, right: bool = False, text: bool = False, cut: bool = False) -> None:
        self.title = title
        self.right = right  # Numbers.
        self.text = text or cut  # Free text: it is wrapped where there is no room; others are never touched.
        self.cut = cut  # Free text of which the beginning is enough: one line, with an ellipsis.


def wants_colour() -> bool:
    """True on a terminal that has colours, unless NO_COLOR is set (https://no-color.org)."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def console() -> "Console":
    """Stdout by way of rich."""
    from rich.console import Console

    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    colour = wants_colour()
    return Console(
        file=sys.stdout,
        width=None if known else WIDTH_WITHOUT_TERMINAL,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
    )


def note(text: str) -> None:
    """Print a note on stderr."""
    print(text, file=sys.stderr)


def line(text: str) -> None:
    """One line of a result."""
    write(text.encode("utf-8", "backslashreplace") + b"\n")


def write(data: bytes) -> None:
    """A piece of a result, byte by byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def flush() -> None:
    sys.stdout.flush()
    sys.stdout.buffer.flush()


def documents(lines: Iterable[object]) -> None:
    """JSON, one document a line."""
    write(json_lines(lines).encode())


def table(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Print a table.  Free text gets the remaining width; if that is too little, lines become longer."""
    from rich.table import Table

    screen = console()
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [
        max(cell.cell_len for cell in (_cell(column.title), *(row[number] for row in cells)))
        for number, column in enumerate(columns)
    ]
    least = [
        min(width, TEXT_WIDTH_MIN) if column.text else width
        for column, width in zip(columns, widths, strict=True)
    ]
    spare = max(0, screen.width - sum(least) - GAP * (len(columns) - 1))
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        drawn.add_column(
            column.title, justify="right" if column.right else "left", min_width=least[number],
            no_wrap=not column.text, overflow="fold",
        )  # fmt: skip
        if column.cut:
            for row in cells:
                row[number].truncate(least[number] + spare, overflow="ellipsis")
    for row in cells:
        drawn.add_row(*row)
    screen.width = max(screen.width, sum(least) + GAP * (len(columns) - 1))
    _print(drawn, screen)


def _cell(cell: object) -> "Text":
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text(safe(str(cell)))


def facts(rows: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair per line."""
    from rich.table import Table

    drawn = Table.grid(padding=(0, GAP, 0, 0))
    drawn.add_column(no_wrap=True, style="bold")
    drawn.add_column(overflow="fold")
    for name, fact in rows:
        drawn.add_row(name, _cell(fact))
    _print(drawn, console())


def styled(text: str, style: str) -> "Text":
    """Text in a style, for a cell."""
    from rich.text import Text

    return Text(safe(text), style=style)


def _print(drawn: Any, screen: "Console") -> None:
    """Without the spaces that fill up the last column."""
    with screen.capture() as captured:
        screen.print(drawn)
    for printed in captured.get().splitlines():
        line(printed.rstrip())
