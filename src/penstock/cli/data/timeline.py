"""Prints a trace in colour: the text of ``Trace``, with one colour per kind of event."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from penstock.cli.text import safe
from penstock.model.trace import Trace

# The colours of a terminal that has only the usual sixteen.
BOLD, DIM, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN = 1, 2, 31, 32, 33, 34, 35, 36
COLOURS: Final = {
    "published": CYAN,
    "replicated": CYAN,
    "scheduled": BLUE,
    "leased": YELLOW,
    "delivered": YELLOW,
    "redelivered": YELLOW,
    "acked": GREEN,
    "committed": GREEN,
    "nacked": RED,
    "timed out": RED,
    "connection lost": RED,
    "rejected": RED,
    "cancelled": MAGENTA,
    "expired": MAGENTA,
    "dead-lettered": MAGENTA,
    "redriven": CYAN,
}
_LINE: Final = re.compile(r"(  (?:\d\d-\d\d )?[\d:.]+ +[+-][\d.]+ \w+  )(.*?)(  .*|$)")

Paint = Callable[[str, int], str]


def paint(text: str, colour: int) -> str:
    """The text in a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m"


def lines(trace: Trace, paint: Paint) -> Iterator[str]:
    """The text of a trace in colour, with other control characters escaped."""
    for number, line in enumerate(map(safe, str(trace).splitlines())):
        match = _LINE.fullmatch(line)
        if match:
            times, event, rest = match.groups()
            yield paint(times, DIM) + paint(event, COLOURS.get(event, BOLD)) + rest
        else:
            yield paint(line, BOLD) if number == 0 else line
