"""The figures as a table, as JSON, and as the page and the plots in docs/benchmarks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.machine import ROOT
from benchmarks.model import number
from benchmarks.peers.systems import System
from benchmarks.peers.workloads import Figures, Workload
from benchmarks.report import text_table

PAGE = ROOT / "docs" / "benchmarks" / "peers.md"
PLOTS = ROOT / "docs" / "benchmarks" / "peers"
RESULTS = ROOT / "benchmarks" / "results" / "peers.json"
BEGIN, END = "<!-- table: make bench-peers -->\n", "<!-- end of table -->\n"
HEAD = (
    "workload",
    "bytes",
    "promise",
    "system",
    "median",
    "spread",
    "to the best other",
    "lost",
    "twice",
    "more",
    "foreign",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run."""

    system: System
    workload: Workload
    size: int
    figures: Figures
    foreign: float  # Cores that others used meanwhile.


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one system in one workload."""

    runs: Sequence[Measured]

    @property
    def one(self) -> Measured:
        """Any of them: for what they have in common."""
        return self.runs[0]

    @property
    def values(self) -> list[float]:
        return sorted(each.figures.value for each in self.runs)

    @property
    def value(self) -> float:
        return median(self.values)

    def ratio(self, others: Iterable["Row"]) -> float | None:
        """How many times better than the best of the others."""
        values = [other.value for other in others]
        if not values:
            return None
        return self.value / max(values) if self.one.workload.more_is_better else min(values) / self.value


def rows(measured: Sequence[Measured]) -> list[Row]:
    """By workload, size and system, in the order in which they stand."""
    keyed: dict[tuple[str, int, str], list[Measured]] = {}
    for each in measured:
        keyed.setdefault((each.workload.name, each.size, each.system.name), []).append(each)
    order = sorted(keyed, key=lambda key: (int(key[0][1:]), key[1]))
    return [Row(keyed[key]) for key in order]


def _ours(system: System) -> bool:
    return system.name.startswith("penstock")


def _rivals(row: Row, among: Sequence[Row]) -> list[Row]:
    """Other systems, in the same workload, that promise the same."""
    return [
        other
        for other in among
        if other.one.workload is row.one.workload
        and other.one.size == row.one.size
        and other.one.system.promise == row.one.system.promise
        and _ours(other.one.system) != _ours(row.one.system)
    ]


def cells(measured: Sequence[Measured]) -> list[list[str]]:
    """The table."""
    found = rows(measured)
    lines = [list(HEAD)]
    for row in found:
        one = row.one
        ratio = row.ratio(_rivals(row, found)) if _ours(one.system) else None
        more = {name: median(each.figures.more[name] for each in row.runs) for name in one.figures.more}
        lines.append(
            [
                one.workload.name,
                str(one.size),
                one.system.promise,
                one.system.name,
                f"{number(row.value)} {one.workload.unit}",
                f"{number(row.values[0])} - {number(row.values[-1])}",
                "" if ratio is None else f"{ratio:.2f} x",
                str(sum(each.figures.lost for each in row.runs)),
                str(sum(each.figures.twice for each in row.runs)),
                ", ".join(f"{name} {number(value)}" for name, value in more.items()),
                f"{max(each.foreign for each in row.runs):.1f}",
            ]
        )
    return lines


def line(each: Measured) -> str:
    """One run, when it has ended."""
    figures = each.figures
    trouble = f", {figures.lost} lost, {figures.twice} twice" if figures.lost or figures.twice else ""
    what = f"{each.workload.name} {each.size:>4} B  {each.system.name:22}"
    return f"{what} {number(figures.value)} {each.workload.unit}{trouble}"


def table(measured: Sequence[Measured]) -> str:
    """For the terminal."""
    return text_table(cells(measured)) if measured else "nothing was measured"


def write(measured: Sequence[Measured], notes: Mapping[str, str], machine: Mapping[str, Any]) -> None:
    """The JSON, the plots, and the table in the page."""
    RESULTS.write_text(
        json.dumps(
            {"machine": machine, "notes": notes, "runs": [_plain(each) for each in measured]}, indent=1
        )
    )
    lines = cells(measured)
    text = ["| " + " | ".join(line) + " |" for line in lines]
    text.insert(1, "|" + "---|" * len(HEAD))
    remarks = [f"- {name}: {value}" for name, value in {**machine, **notes}.items()]
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n".join([*text, "", *remarks]) + "\n" + END + rest.split(END)[1])
    plot(rows(measured))


def _plain(each: Measured) -> dict[str, Any]:
    figures = each.figures
    return {
        "system": each.system.name,
        "promise": each.system.promise,
        "workload": each.workload.name,
        "size": each.size,
        "value": figures.value,
        "unit": each.workload.unit,
        "lost": figures.lost,
        "twice": figures.twice,
        "foreign": each.foreign,
        **figures.more,
    }


def plot(found: Sequence[Row]) -> None:
    """A panel for each workload; Penstock in one colour."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    panels = [
        (key, list(group))
        for key, group in groupby(found, key=lambda row: (row.one.workload.name, row.one.size))
    ]
    figure, axes = pyplot.subplots(
        -(-len(panels) // 3), 3, figsize=(15, 3.2 * -(-len(panels) // 3)), squeeze=False
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, ((name, size), group) in zip(axes.flat, panels, strict=False):
        workload = group[0].one.workload
        names = [f"{row.one.system.name} ({row.one.system.promise})" for row in group]
        colours = ["#0b7285" if _ours(row.one.system) else "#adb5bd" for row in group]
        axis.barh(names, [row.value for row in group], color=colours)
        axis.invert_yaxis()
        better = "more is better" if workload.more_is_better else "less is better"
        axis.set_title(f"{name} {workload.what}, {size} B ({workload.unit}; {better})", fontsize=9)
        axis.tick_params(labelsize=7)
        axis.set_xscale("log")
    figure.tight_layout()
    PLOTS.mkdir(parents=True, exist_ok=True)
    for kind in ("png", "svg"):
        figure.savefig(PLOTS / f"peers.{kind}", dpi=110)
