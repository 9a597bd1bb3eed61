"""Builds a self-contained HTML report of text, tables and plots.

    page = Page("Dead letters", "orders, 1 to 7 November")
    page.facts({"dead letters": "12,345"})
    page.plot(stacked(...), "when they came")
    page.write("report.html")

Plots are inline SVG drawn by matplotlib; there are no scripts and no external files.  Data
from the broker is escaped: tags and control characters have no effect.
"""

import io
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import LakeUnusable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette for colour blindness; the last colour is for the rest.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#999999")
SERIES_MAX: Final = len(COLOURS)
LABEL_CHARACTERS: Final = 48

STYLE: Final = """
:root { color-scheme: light; --ink: #1c2430; --faint: #667085; --line: #e4e7ec; --paper: #fff; }
body { margin: 0; background: #f5f6f8; color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
.lead, .note { color: var(--faint); margin: .25rem 0 1.5rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1.1rem 1.25rem; margin: 1rem 0; overflow-x: auto; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; margin: 0; }
.facts dt { color: var(--faint); font-size: .8rem; }
.facts dd { margin: 0; font-size: 1.25rem; font-weight: 600; }
.small dd { font-size: .95rem; font-weight: 500; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin-top: .75rem; font-size: .88rem; }
th { text-align: left; color: var(--faint); font-weight: 500; }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: .85em ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
td:not(:last-child) code { overflow-wrap: normal; white-space: nowrap; }
td:last-child { min-width: 16rem; }
svg { width: 100%; height: auto; }
a { color: inherit; }
"""


class Page:
    """A report that grows from top to bottom."""

    def __init__(self, title: str, lead: str) -> None:
        self._title = title
        self._parts = [f"<h1>{_text(title)}</h1>", f'<p class="lead">{_text(lead)}</p>']

    def facts(self, facts: Mapping[str, object]) -> None:
        """What is to be seen first."""
        self._parts.append(f"<section>{_facts(facts, 'facts')}</section>")

    def plot(self, figure: "Figure", title: str) -> None:
        """A plot, with the sentence that it shows."""
        self._parts.append(f"<section><h2>{_text(title)}</h2>{_svg(figure)}</section>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], title: str) -> None:
        """A table; numbers stand to the right."""
        self._parts.append(f"<section><h2>{_text(title)}</h2>{_table(columns, rows)}</section>")

    def section(
        self,
        title: str,
        facts: Mapping[str, object],
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        """One finding: what is known of it, and examples."""
        inside = f"<h2>{_text(title)}</h2>{_facts(facts, 'facts small')}{_table(columns, rows)}"
        self._parts.append(f"<section>{inside}</section>")

    def note(self, text: str) -> None:
        self._parts.append(f'<p class="note">{_text(text)}</p>')

    def html(self) -> str:
        head = f'<meta charset="utf-8"><title>{_text(self._title)}</title><style>{STYLE}</style>'
        view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
        body = "\n".join(["<body><main>", *self._parts, "</main></body></html>", ""])
        return f'<!doctype html>\n<html lang="en"><head>{head}{view}</head>\n{body}'

    def write(self, path: str) -> None:
        """Put it into a file; its folders are made."""
        try:
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise LakeUnusable(lake=path, why=f"the report cannot be written: {error.strerror}") from None


# Text.


def shown(value: bytes | str | None, characters: int) -> str:
    """Bytes or text from a broker, as one line that is not too long."""
    if value is None:
        return ""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    safe = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text[: characters + 1])
    return safe if len(safe) <= characters else safe[: characters - 1] + "…"


def _text(value: object) -> str:
    return escape(str(value))


def _facts(facts: Mapping[str, object], kind: str) -> str:
    pairs = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(fact)}</dd></div>" for name, fact in facts.items()
    )
    return f'<dl class="{kind}">{pairs}</dl>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    numbers = [all(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
    head = _line("th", columns, numbers)
    body = "".join(_line("td", row, numbers) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _line(tag: str, row: Sequence[object], numbers: Sequence[bool]) -> str:
    cells = (_cell(tag, value, number) for value, number in zip(row, numbers, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(tag: str, value: object, number: bool) -> str:
    if number:
        text = f"{value:,}" if isinstance(value, int | float) else _text(value)
        return f'<{tag} class="number">{text}</{tag}>'
    return f"<{tag}><code>{_text(value)}</code></{tag}>" if tag == "td" else f"<{tag}>{_text(value)}</{tag}>"


# Plots.


def stacked(times: Sequence[datetime], width_days: float, series: Mapping[str, Sequence[int]]) -> "Figure":
    """Bars over time, one part for each series; the first stands at the bottom."""
    figure, axes = _axes(9.6, 3.4)
    bottom = [0] * len(times)
    for number, (name, counts) in enumerate(series.items()):
        colour = COLOURS[min(number, SERIES_MAX - 1)]
        axes.bar(times, counts, width_days * 0.9, bottom, color=colour, label=_label(name), align="edge")
        bottom = [below + count for below, count in zip(bottom, counts, strict=True)]
    _date_axis(axes)
    axes.set_ylim(bottom=0)
    legend = axes.legend(loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False, fontsize=8, ncols=2)
    for text in legend.get_texts():
        text.set_parse_math(False)  # A dollar in an error is a dollar.
    return figure


def bars(counts: Mapping[str, int]) -> "Figure":
    """A bar for each name, the first at the top, each in the colour that ``stacked`` gives it."""
    figure, axes = _axes(9.6, 0.7 + 0.34 * len(counts))
    names = [_label(name) for name in counts]
    colours = [COLOURS[min(number, SERIES_MAX - 1)] for number in range(len(counts))]
    rows = range(len(names))
    drawn = axes.barh(rows, list(counts.values()), color=colours)
    axes.bar_label(drawn, labels=[f"{count:,}" for count in counts.values()], padding=4, fontsize=8)
    axes.set_yticks(rows, names, fontsize=8)
    for tick in axes.get_yticklabels():
        tick.set_parse_math(False)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.grid(visible=False)
    axes.xaxis.set_visible(False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.tick_params(length=0)
    return figure


def _axes(width: float, height: float) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure  # Slow to import, and needed only for plots.

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    return figure, axes


def _date_axis(axes: Any) -> None:
    from matplotlib import dates, ticker

    locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.xaxis.get_offset_text().set_fontsize(8)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))


def _label(text: str) -> str:
    return shown(text, LABEL_CHARACTERS)


def _svg(figure: "Figure") -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
