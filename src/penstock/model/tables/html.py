"""Tables for notebooks: what a cell shows of messages, topics, groups and results of queries.

Everything is escaped, since values are untrusted, and shortened; a notebook keeps what it shows.

``html`` is imported when there is something to show: its list of entities takes a third of a megabyte, and
every server imports this module.
"""

from collections.abc import Iterable, Sequence
from typing import Final

SHOWN_MAX: Final = 50  # Rows ...
CHARACTERS_MAX: Final = 200  # ... and what is shown of a value.


def table(names: Sequence[str], rows: Iterable[Sequence[str]], more: int = 0) -> str:
    """Rows below their names; ``more``: so many are left out."""
    from html import escape

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(shortened(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def titled(title: str, content: str) -> str:
    from html import escape

    return f"<p><b>{escape(title)}</b></p>{content}"


def shortened(text: str) -> str:
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}…"


def bytes_text(data: bytes | None) -> str:
    """Bytes as text, those that are none as ``\\xNN``; no more of them than are shown."""
    return "" if data is None else data[: CHARACTERS_MAX * 4].decode("utf-8", "backslashreplace")
