"""What benchmarks/scaling.py measured, as lines, as JSON, and as the page with its plots."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import ROOT
from benchmarks.model import number

if TYPE_CHECKING:
    from benchmarks.scaling import Point

FOLDER = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- table: make bench-scaling -->\n", "<!-- end of table -->\n"
OURS, SECOND, INK, FAINT = "#0b7285", "#e8590c", "#343a40", "#868e96"

# What each dimension counts, and what one message is in it.
AXES = {
    "topics": "topics; 200 messages each (20,000 at least), published by 10, received by 200",
    "partitions": "partitions of one topic; 100,000 messages in batches of 1,000",
    "groups": "groups of one topic; 10,000 messages in batches of 10, received by every group",
    "backlog": "messages that wait; batches of 1,000, at most 100,000 of them received",
    "size": "bytes of a message; batches of at most 1,000 or 1 MB",
}
# A column: (head, field of a Point, unit).
COLUMNS = (
    ("publish, server CPU", "publish_us", "µs/msg"),
    ("receive + ack, server CPU", "receive_us", "µs/msg"),
    ("publish", "publish_rate", "msg/s"),
    ("receive + ack", "receive_rate", "msg/s"),
    ("memory", "memory_mb", "MB"),
    ("start", "start_ms", "ms"),
    ("start, CPU", "start_cpu_ms", "ms"),
    ("idle CPU", "idle_percent", "%"),
)

Found = Mapping[str, Mapping[int, "Point"]]


def line(name: str, count: int, point: "Point") -> str:
    """One point, when it is measured."""
    told = ", ".join(f"{head} {number(getattr(point, field))} {unit}" for head, field, unit in COLUMNS)
    return f"{name:10} {count:>10,}  {told}"


def slope(costs: Mapping[int, float]) -> float:
    """On logarithmic axes, between the last two points: 0 is flat, 1 grows with the number."""
    (before, low), (last, high) = list(costs.items())[-2:]
    return log(high / low) / log(last / before) if low > 0 and high > 0 else 0.0


def table(name: str, points: Mapping[int, "Point"]) -> list[str]:
    """One dimension, with the slope of each column at its end."""
    lines = [
        "| " + " | ".join([name, *(head for head, _, _ in COLUMNS)]) + " |",
        "|" + "---|" * (1 + len(COLUMNS)),
    ]
    for count, point in points.items():
        cells = [f"{number(getattr(point, field))} {unit}" for _, field, unit in COLUMNS]
        lines.append("| " + " | ".join([f"{count:,}", *cells]) + " |")
    if len(points) > 1:
        each = [{count: getattr(point, field) for count, point in points.items()} for _, field, _ in COLUMNS]
        lines.append("| " + " | ".join(["*slope*", *(f"{slope(costs):+.2f}" for costs in each)]) + " |")
    return lines


def write(found: Found, machine: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Put the tables into the page, between its two marks, and JSON and plots beside it."""
    results = {
        name: {str(count): asdict(point) for count, point in points.items()} for name, points in found.items()
    }
    (folder / "scaling.json").write_text(
        json.dumps({"machine": dict(machine), "results": results}, indent=1) + "\n"
    )
    facts = (
        f"{machine['penstock']}, commit {machine['commit']}, {machine['python']}, {machine['system']}, "
        f"{machine['cores']} cores of {machine['processor']}, {machine['date']}; {machine['sizes']} sizes; "
        f"load {machine['load']} at the end."
    )
    parts = ["", facts, "", "![Cost for each number of something](scaling.png)", ""]
    for name, points in found.items():
        parts += [f"### {name}", "", f"{AXES[name]}.", "", *table(name, points), ""]
    page = folder / "scaling.md"
    head, _, rest = page.read_text().partition(BEGIN)
    _, mark, tail = rest.partition(END)
    assert mark, "the page has two marks, and the tables go between them"
    page.write_text(f"{head}{BEGIN}{chr(10).join(parts)}{END}{tail}")
    plot(found, folder / "scaling")


# So that the same figures give the same files.
MARKS: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}}

# A line of panels: (title, what is drawn as (field, label, colour)).
DRAWN = (
    (
        "server CPU, µs a message",
        (("publish_us", "publish", OURS), ("receive_us", "receive and ack", SECOND)),
    ),
    ("memory, MB", (("memory_mb", "with everything published", OURS),)),
    ("start, ms", (("start_ms", "until it is ready", OURS), ("start_cpu_ms", "of which CPU", SECOND))),
)


def plot(found: Found, path: Path) -> None:
    """A column for each dimension, a line for each cost; both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"font.family": "DejaVu Sans", "font.size": 8.5, "svg.hashsalt": "scaling"}
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(DRAWN), len(found), figsize=(3.1 * len(found) + 1, 8.2), squeeze=False, layout="constrained",
        sharex="col",
    )  # fmt: skip
    for across, (name, points) in enumerate(found.items()):
        for down, (title, drawn) in enumerate(DRAWN):
            axis = axes[down][across]
            for field, label, colour in drawn:
                costs = {count: getattr(point, field) for count, point in points.items()}
                _curve(axis, costs, label, colour, above=field == drawn[0][0])
            _dress(axis, list(points), logarithmic=not title.startswith("memory"))
            if across == 0:
                axis.set_ylabel(title, color=INK, fontweight="bold")
                axis.legend(frameon=False, fontsize=8, loc="upper left")
            if down == 0:
                axis.set_title(name, fontweight="bold", color=INK, fontsize=11)
        axes[-1][across].set_xlabel(AXES[name].partition(";")[0], color=FAINT)
    for kind in ("png", "svg"):
        figure.savefig(
            path.with_suffix(f".{kind}"), dpi=120, metadata={"Date": None} if kind == "svg" else {}
        )
    pyplot.close(figure)


def _curve(axis: Any, costs: Mapping[int, float], label: str, colour: str, *, above: bool) -> None:
    axis.plot(list(costs), list(costs.values()), marker="o", markersize=4, color=colour, label=label)
    for count in (min(costs), max(costs)):
        axis.annotate(
            number(costs[count]), (count, costs[count]), textcoords="offset points",
            xytext=(0, 7 if above else -14), ha="center", fontsize=7.5, color=colour,
        )  # fmt: skip


def _dress(axis: Any, counts: list[int], *, logarithmic: bool) -> None:
    axis.set_xscale("log")
    axis.margins(x=0.14, y=0.35)
    if logarithmic:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, high / 100), high)  # Two decades at least, so that flat looks flat.
    else:
        axis.set_ylim(0, max(axis.get_ylim()[1], 100))
    axis.yaxis.set_major_formatter(lambda value, _: number(value))
    axis.set_xticks(counts, [f"{count:,}" if count < 1e6 else f"{count / 1e6:g} M" for count in counts])
    axis.minorticks_off()
    axis.grid(axis="y", which="major", color="#e9ecef")
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
