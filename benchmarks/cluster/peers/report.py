"""The outcome as text, as JSON, and as a table and a plot of docs/benchmarks/cluster.md."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cluster.peers.clusters import CANDIDATES, Candidate
from benchmarks.cluster.peers.work import SIZE, UNITS, WORKS, Figures
from benchmarks.machine import ROOT
from benchmarks.model import number
from benchmarks.peers.plots import INK, LIGHT, OTHERS, OURS
from benchmarks.peers.versions import versions as versions_of_peers
from benchmarks.report import text_table, write_between

FOLDER = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- table: make bench-cluster-peers -->\n", "<!-- end of table -->\n"
HEAD = ("what", "system", "median", "lowest - highest", "Penstock on PostgreSQL is", "lost", "twice", "")
OURS_EQUAL = "penstock-postgresql"
USED = (
    "nats-server",
    "rabbitmq-server",
    "erlang",
    "kafka",
    "postgresql",
    "pika",
    "nats-py",
    "confluent-kafka",
)
LOAD_MAX = 4.0  # What was compiled just before is in it.
BUSY = (
    "**Preliminary: the machine was busy with other work.** All systems waited for the processor most of "
    "the time. The counts of lost and repeated messages hold; the speeds say little, and the order of the "
    "systems may be another on an idle machine."
)
BAR = 0.7
LINE_INCHES = 0.32
WIDTH_INCHES = 13.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that was measured in one go."""

    figures: Sequence[Figures]
    notes: Mapping[str, str]  # What was left out or failed, and why.
    machine: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """All runs of one piece of work by one system."""

    runs: Sequence[Figures]

    @property
    def work(self) -> str:
        return self.runs[0].work

    @property
    def candidate(self) -> Candidate:
        return next(each for each in CANDIDATES if each.name == self.runs[0].name)

    @property
    def values(self) -> list[float]:
        return sorted(each.value for each in self.runs)

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def unit(self) -> str:
        return UNITS.get(self.work, "msg/s")

    @property
    def more_is_better(self) -> bool:
        return self.work not in UNITS

    def times_better(self, other: "Row") -> float:
        """More than one: better than the other."""
        return self.value / other.value if self.more_is_better else other.value / self.value


def rows(figures: Sequence[Figures]) -> list[Row]:
    """By work, the best first."""
    found: list[Row] = []
    for work in WORKS:
        names = dict.fromkeys(each.name for each in figures if each.work == work)
        its = [Row([each for each in figures if (each.work, each.name) == (work, name)]) for name in names]
        found += sorted(its, key=lambda row: row.value, reverse=work not in UNITS)
    return found


def cells(row: Row, among: Sequence[Row]) -> list[str]:
    """One line of the table."""
    mine = next((each for each in among if each.work == row.work and each.candidate.name == OURS_EQUAL), None)
    more = {name: max(each.more[name] for each in row.runs) for name in row.runs[0].more}
    return [
        WORKS[row.work],
        f"**{row.candidate.name}**" if row.candidate.ours else row.candidate.name,
        f"{number(row.value)} {row.unit}",
        f"{number(row.values[0])} - {number(row.values[-1])}" if len(row.runs) > 1 else "once",
        verdict(mine.times_better(row)) if mine and not row.candidate.ours else "",
        str(sum(each.lost for each in row.runs)),
        str(sum(each.twice for each in row.runs)),
        ", ".join(f"{name}: at most {number(value)} {row.unit}" for name, value in more.items()),
    ]


def verdict(times: float) -> str:
    return f"{times:.1f} x better" if times >= 1 else f"**behind: {times:.2f} x**"


def line(each: Figures) -> str:
    """One run, when it has ended."""
    told = f"{number(each.value)} {UNITS.get(each.work, 'msg/s')}, {each.messages:,} messages"
    return f"{each.name:20} {each.work:9} {told}, {each.lost} lost, {each.twice} twice"


def text(outcome: Outcome) -> str:
    """For the terminal."""
    found = rows(outcome.figures)
    notes = [f"{name}: {note}" for name, note in outcome.notes.items()]
    return "\n".join([text_table([list(HEAD), *(cells(row, found) for row in found)]), "", *notes])


def page(outcome: Outcome) -> str:
    """What stands between the two marks of the page."""
    found, machine = rows(outcome.figures), outcome.machine
    rounds = max((len(row.runs) for row in found), default=0)
    numbers = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
    lines = [list(HEAD), *(cells(row, found) for row in found)]
    table = ["| " + " | ".join(each) + " |" for each in lines]
    notes = [f"- {name}: {note}" for name, note in outcome.notes.items()]
    took_part = {each.name for each in outcome.figures}
    settings = [f"- {each.name}: {each.settings}" for each in CANDIDATES if each.name in took_part]
    return "\n".join([
        "",
        f"{machine['penstock']}, commit {machine['commit']}, {machine['python']}, {machine['system']}, "
        f"{machine['cores']} cores of {machine['processor']}, load {machine['load']} before the run, "
        f"{machine['date']}; {machine['sizes']} sizes, rounds: {rounds}, {machine['minutes']:g} minutes, "
        f"messages of {SIZE:,} B. {numbers}.",
        "",
        *([BUSY, ""] if (machine["load"] or 0) > LOAD_MAX else []),
        *settings,
        "",
        "![The table as bars](cluster.png)",
        "",
        table[0], "|" + "---|" * len(HEAD), *table[1:],
        "",
        *(["Left out or failed:", "", *notes, ""] if notes else []),
    ])  # fmt: skip


def write(outcome: Outcome, folder: Path = FOLDER) -> None:
    """The JSON, the table and the plot."""
    saved = {
        "machine": dict(outcome.machine), "versions": dict(outcome.versions), "notes": dict(outcome.notes),
        "runs": [asdict(each) for each in outcome.figures],
    }  # fmt: skip
    (folder / "cluster.json").write_text(json.dumps(saved, indent=1) + "\n")
    write_between(folder / "cluster.md", BEGIN, page(outcome), END)
    plot(rows(outcome.figures), folder / "cluster")


def load(folder: Path = FOLDER) -> Outcome:
    """What was written."""
    saved = json.loads((folder / "cluster.json").read_text())
    figures = [Figures(**each) for each in saved["runs"]]
    return Outcome(figures, saved["notes"], saved["machine"], saved["versions"])


def versions() -> dict[str, str]:
    """Of what takes part; what is not there is left out."""
    found = versions_of_peers()
    for program in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))[-1:]:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if match := re.search(r"\d+(\.\d+)+", told.stdout):
            found["postgresql"] = match.group()
    return {name: found[name] for name in USED if name in found}


def plot(found: Sequence[Row], path: Path) -> None:
    """As PNG and as SVG: a panel for each piece of work, the best first."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"font.family": "DejaVu Sans", "font.size": 8.5, "svg.hashsalt": "cluster"}
    from matplotlib import pyplot

    panels = [panel for work in WORKS if (panel := [row for row in found if row.work == work])]
    if not panels:
        return
    height = (1.0 + LINE_INCHES * max(map(len, panels))) * ((len(panels) + 1) // 2)
    figure, axes = pyplot.subplots(
        (len(panels) + 1) // 2, 2, figsize=(WIDTH_INCHES, height), squeeze=False, layout="constrained"
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, panel in zip(axes.flat, panels, strict=False):
        _panel(axis, panel)
    # Without a date, so that the same figures give the same files.
    figure.savefig(path.with_suffix(".png"), dpi=120)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)


def _panel(axis: Any, panel: Sequence[Row]) -> None:
    longest = max(row.values[-1] for row in panel)
    for at, row in enumerate(panel):
        candidate = row.candidate
        style = {"fontweight": "bold", "color": OURS} if candidate.ours else {"color": INK}
        axis.text(-0.01 * longest, at, candidate.name, ha="right", va="center", **style)
        colour = OURS if candidate.ours else OTHERS
        axis.barh(at, row.value, height=BAR, color=colour, alpha=1.0 if candidate.equal else LIGHT)
        axis.plot([row.values[0], row.values[-1]], [at, at], color=INK, linewidth=0.8, alpha=0.6)
        axis.text(
            row.values[-1] + 0.01 * longest, at, number(row.value), va="center", fontsize=7.5, color=INK
        )
    axis.set_xlim(0, longest * 1.15)
    axis.set_ylim(len(panel) - 0.4, -0.6)
    axis.axvline(0, color="#ced4da", linewidth=1)
    better = "more is better" if panel[0].more_is_better else "less is better"
    axis.set_title(f"{WORKS[panel[0].work]}\n", loc="left", fontsize=10, fontweight="bold", color=INK)
    axis.text(
        0, 1.0, f"{panel[0].unit}, {better}; line: all rounds; light: one disk has the only copy",
        transform=axis.transAxes, color=OTHERS, va="bottom",
    )  # fmt: skip
