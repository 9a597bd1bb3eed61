"""Tables for notebooks: what a cell shows of messages, topics, groups and results of queries.

Everything is escaped, since values are untrusted, and shortened; a notebook keeps what it shows.  Control
characters, which binary values contain and no font has, are ``\\xNN``.

``html`` is imported when there is something to show: its list of entities takes a third of a megabyte, and
every server imports this module.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

SHOWN_MAX: Final = 50  # Rows ...
CHARACTERS_MAX: Final = 200  # ... and what is shown of a value.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


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
    """The text, or its beginning and an ellipsis, without control characters."""
    found = text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}…"
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", found)


def bytes_text(data: bytes | None) -> str:
    """Bytes as text, those that are none as ``\\xNN``; no more of them than are shown."""
    return "" if data is None else data[: CHARACTERS_MAX * 4].decode("utf-8", "backslashreplace")
