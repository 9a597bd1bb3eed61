"""Draws a result of two columns as a chart (PNG).

    time, number        a line over time, sorted; it breaks where a regular series has missing times
    number, number      a line
    anything, number    a bar per row, in the order of the query

Both lines break at nulls.  A result that cannot be drawn is an error: more or fewer columns than two, a
second column that is not numeric, no rows, or too many bars.  Uses matplotlib without a window and without
its global state.
"""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from importlib.util import find_spec
from itertools import pairwise
from math import nan
from typing import IO, TYPE_CHECKING, Any, Final

from penstock.errors import ExtraMissing, QueryInvalid

if TYPE_CHECKING:
    from penstock.spark.queries.query_result import QueryResult

BARS_MAX: Final = 100  # More are illegible, and drawing them takes minutes.
LABEL_CHARACTERS: Final = 24
INCHES: Final = (8.0, 4.5)
DOTS_PER_INCH: Final = 150
COLOUR: Final = "#2563a8"
POINTS_MARKED: Final = 60  # Up to this many points are drawn as dots, too.


def check(answer: "QueryResult") -> None:
    """Raise if the result cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise ExtraMissing(what="matplotlib", extra="spark")
    if len(answer.columns) != 2:
        raise QueryInvalid(why=f"a chart needs two columns, but the result has {len(answer.columns)}")
    if not answer.is_number(1):
        raise QueryInvalid(why=f"the second column of a chart, {answer.columns[1]!r}, must be numeric")
    if len(answer) == 0:
        raise QueryInvalid(why="the result has no rows to draw")


def draw(answer: "QueryResult", out: IO[bytes], title: str = "") -> None:
    """Write the chart of a result to a file."""
    check(answer)
    from matplotlib.figure import Figure

    rows = answer.rows()
    ys = [float(y) for _, y in rows if y is not None]
    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    if answer.is_number(0) or answer.is_time(0):
        _line(axes, [(x, nan if y is None else float(y)) for x, y in rows if x is not None])
    else:
        _bars(axes, [x for x, y in rows if y is not None], ys)
    axes.set_xlabel(answer.columns[0], parse_math=False)
    axes.set_ylabel(answer.columns[1], parse_math=False)
    axes.set_ylim(bottom=min([0.0, *ys]))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(_label(title, 90), fontsize=9, loc="left", parse_math=False)
    figure.savefig(out, format="png")


def _line(axes: Any, pairs: Sequence[tuple[Any, float]]) -> None:
    points = sorted(pairs, key=lambda pair: pair[0])
    marker = "o" if len(points) <= POINTS_MARKED else ""
    if points and isinstance(points[0][0], date):
        points = broken(points)
    xs = [float(x) if isinstance(x, Decimal) else x for x, _ in points]
    axes.plot(xs, [y for _, y in points], color=COLOUR, marker=marker, markersize=3)
    if xs and isinstance(xs[0], date):  # A datetime is one, too.
        dates = _dates()
        locator = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def broken(points: Sequence[tuple[Any, float]]) -> list[tuple[Any, float]]:
    """Insert a NaN wherever a regular series of times has missing steps, so that the line breaks there.

    Times without a common step, such as those of single messages, are unchanged.
    """
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(points)]
    step = min(gaps, default=None)
    if not step or any(gap % step for gap in gaps) or 2 * gaps.count(step) < len(gaps):
        return list(points)
    found = [points[0]]
    for gap, point in zip(gaps, points[1:], strict=True):
        if gap > step:
            found.append((found[-1][0] + step, nan))
        found.append(point)
    return found


def _dates() -> Any:
    import matplotlib.dates

    return matplotlib.dates


def _bars(axes: Any, xs: Sequence[Any], ys: Sequence[float]) -> None:
    if len(xs) > BARS_MAX:
        raise QueryInvalid(
            why=f"{len(xs):,} bars are too many for a chart; use ORDER BY and LIMIT {BARS_MAX}"
        )
    axes.bar(range(len(xs)), ys, color=COLOUR)
    labels = [_label(x, LABEL_CHARACTERS) for x in xs]
    turned = sum(len(label) for label in labels) > 80  # They would run into each other.
    axes.set_xticks(range(len(xs)), labels, rotation=60 if turned else 0, ha="right" if turned else "center")
    for tick in axes.get_xticklabels():
        tick.set_parse_math(False)  # A dollar in a key is a dollar.


def _label(value: Any, characters: int) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    text = "null" if value is None else text
    line = " ".join(text.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"
