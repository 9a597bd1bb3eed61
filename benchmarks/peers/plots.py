"""One page of plots: a panel for each workload, Penstock in one colour.

W2  durable publish, pipelined or batched
msg/s, more is better
synced
  penstock        ████████████████  612,000      dark: 100 B
                  ████████  320,000              light: 1 KiB
  redis-always    ██  61,000
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.model import number
from benchmarks.peers.rows import Row

OURS, OTHERS, LIMIT, INK = "#0b7285", "#868e96", "#f1c27d", "#343a40"
LIGHT = 0.5  # Of the larger message.
BAR = 0.38  # Of a line.
LINE_INCHES = 0.3
HEAD_INCHES = 1.0  # Of a panel: its title, and room.
WIDTH_INCHES = 14.0
COLUMNS = 2
# So that the same figures give the same files.
MARKS: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}}
PROMISES = {"synced": "synced to disk", "written": "written, synced later", "memory": "in memory"}


def plot(found: Sequence[Row], path: Path) -> None:
    """As PNG and as SVG."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"font.family": "DejaVu Sans", "font.size": 8.5, "svg.hashsalt": "peers"}
    from matplotlib import pyplot

    panels = [list(group) for _, group in groupby(found, key=lambda row: row.workload.name)]
    if not panels:
        return
    lines = [_lines(panel) for panel in panels]
    # Each pair has the height of the higher one.
    pairs = [range(at, min(at + COLUMNS, len(panels))) for at in range(0, len(panels), COLUMNS)]
    heights = [HEAD_INCHES + LINE_INCHES * max(len(lines[each]) for each in pair) for pair in pairs]
    figure, axes = pyplot.subplots(
        len(pairs), COLUMNS, figsize=(WIDTH_INCHES, sum(heights) + 0.8), squeeze=False,
        gridspec_kw={"height_ratios": heights}, layout="constrained",
    )  # fmt: skip
    highest = {pair.start // COLUMNS: max(len(lines[each]) for each in pair) for pair in pairs}
    for number_, axis in enumerate(axes.flat):
        if number_ < len(panels):
            _panel(axis, panels[number_], lines[number_], highest[number_ // COLUMNS])
        else:
            axis.set_visible(False)
    _legend(figure)
    for kind in ("png", "svg"):
        figure.savefig(
            path.with_suffix(f".{kind}"), dpi=120, metadata={"Date": None} if kind == "svg" else {}
        )
    pyplot.close(figure)


def _lines(panel: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """A name and its rows, one for each size; a promise's own line has no rows."""
    made: list[tuple[str, list[Row]]] = []
    for promise, words in PROMISES.items():
        names: dict[str, list[Row]] = {}
        for row in panel:
            if row.system.promise == promise:
                names.setdefault(row.system.name, []).append(row)
        best_first = sorted(names.items(), key=lambda item: item[1][0].value)
        if panel[0].workload.more_is_better:
            best_first.reverse()
        made += [(words, []), *best_first] if names else []
    return made


def _panel(axis: Any, panel: Sequence[Row], lines: Sequence[tuple[str, list[Row]]], height: int) -> None:
    workload = panel[0].workload
    # Who could not do all of the work may be off by orders: its bar ends with the panel, with an arrow.
    longest = max([row.value for row in panel if row.whole] or [row.value for row in panel])
    for at, (name, its) in enumerate(lines):
        ours = bool(its) and its[0].system.ours
        colour = OURS if ours else INK
        style: dict[str, Any] = {"fontweight": "bold" if ours else "normal", "color": colour}
        if not its:
            style = {"fontstyle": "italic", "color": OTHERS, "fontsize": 8}
        axis.text(-0.01 * longest, at, name, ha="right", va="center", **style)
        for row in its:
            _bar(axis, row, at, len(its), longest)
    axis.set_xlim(0, longest * 1.28)
    axis.set_ylim(max(height, 3) - 0.4, -0.6)
    axis.axvline(0, color="#ced4da", linewidth=1)
    axis.set_axis_off()
    better = "more is better" if workload.more_is_better else "less is better"
    if len(workload.sizes) == 1:
        better += f"; messages of {workload.sizes[0]:,} B"
    axis.set_title(
        f"{workload.name}  {workload.what}\n", loc="left", fontsize=11, fontweight="bold", color=INK
    )
    axis.text(0, 1.0, f"{workload.unit}, {better}", transform=axis.transAxes, color=OTHERS, va="bottom")


def _bar(axis: Any, row: Row, at: int, among: int, longest: float) -> None:
    small = row.size <= 100 or among == 1
    where = at if among == 1 else at + (-BAR if small else BAR) / 2
    colour = OURS if row.system.ours else LIMIT if row.system.limit else OTHERS
    end = min(row.value, longest)
    axis.barh(where, end, height=BAR, color=colour, alpha=1.0 if small else LIGHT, linewidth=0)
    if len(row.runs) > 1:
        low, high = (min(value, longest * 1.2) for value in (row.values[0], row.values[-1]))
        end = max(end, high)
        axis.plot([low, high], [where, where], color=INK, linewidth=0.8, alpha=0.6)
    beyond = "→ " if row.value > longest else ""
    told = beyond + number(row.value) + ("" if row.whole else f" (with {row.messages:,} only)")
    axis.text(end + 0.01 * longest, where, told, va="center", fontsize=7.5, color=INK)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks = [
        Patch(color=OURS, label="Penstock, 100 B"), Patch(color=OURS, alpha=LIGHT, label="1 KiB"),
        Patch(color=OTHERS, label="others, 100 B"), Patch(color=OTHERS, alpha=LIGHT, label="1 KiB"),
        Patch(color=LIMIT, label="no broker: a bare loop"),
        Line2D([], [], color=INK, linewidth=0.8, label="lowest to highest of all runs"),
    ]  # fmt: skip
    figure.legend(handles=marks, loc="outside upper left", ncols=len(marks), frameon=False, fontsize=9)
