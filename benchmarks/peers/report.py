"""The outcome as text, as JSON, and as the page and the summary in docs/benchmarks."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from benchmarks.model import number
from benchmarks.peers.plots import plot
from benchmarks.peers.rows import Measured, Outcome, Row, best, rows
from benchmarks.peers.systems import SYSTEMS, System
from benchmarks.peers.workloads import WORKLOADS, Figures, Workload
from benchmarks.report import text_table, write_between

FOLDER = ROOT / "docs" / "benchmarks"
SUMMARY = FOLDER / "README.md"
BEGIN, END = "<!-- table: make bench-peers -->\n", "<!-- end of table -->\n"
HEAD = (
    "system", "promise", "bytes", "median", "spread", "to the best other", "server CPU", "lost", "twice",
    "foreign", "more",
)  # fmt: skip
MICROSECONDS = "µs/msg"


def line(each: Measured) -> str:
    """One run, when it has ended."""
    figures = each.figures
    trouble = f", {figures.lost} lost, {figures.twice} twice" if figures.lost or figures.twice else ""
    what = f"{each.workload.name:>3} {each.size:>4} B  {each.system.name:22}"
    told = f"{number(figures.value)} {each.workload.unit}, {figures.messages:,} messages"
    return f"{what} {told}, {each.seconds:.1f} s, foreign {each.foreign:.1f}{trouble}"


def cells(row: Row, among: Sequence[Row]) -> list[str]:
    """One line of a table."""
    rival = best(row.rivals(among)) if row.system.ours else None
    low, high = row.values[0], row.values[-1]
    more = {name: number(value) for name, value in row.more.items()}
    if not row.whole:
        more = {"only": f"{row.messages:,} messages"} | more
    return [
        row.system.name,
        row.system.promise,
        f"{row.size:,}",
        f"{number(row.value)} {row.workload.unit}",
        f"{number(low)} - {number(high)}" if len(row.runs) > 1 else "once",
        f"{row.times_better(rival):.2f} x" if rival and row.whole else "",
        f"{number(row.server_us)} {MICROSECONDS}" if row.server_us else "not known",
        str(row.lost),
        str(row.twice),
        f"{row.foreign:.1f}",
        ", ".join(f"{name} {value}" for name, value in more.items()),
    ]


def text(outcome: Outcome) -> str:
    """For the terminal."""
    found = rows(outcome.measured)
    lines = [["", *HEAD], *([row.workload.name, *cells(row, found)] for row in found)]
    notes = [f"{name}: {note}" for name, note in outcome.notes.items()]
    return "\n".join([text_table(lines) if found else "nothing was measured", "", *notes])


def absent(workload: Workload, outcome: Outcome) -> dict[str, list[str]]:
    """Why some systems have no row in it: by reason, the systems."""
    there = {each.system.name for each in outcome.measured if each.workload is workload}
    reasons: dict[str, list[str]] = {}
    for system in SYSTEMS:
        if system.name not in there and (reason := workload.refusal(system)) not in ("", "not asked"):
            reasons.setdefault(reason, []).append(system.name)
    return reasons


def section(workload: Workload, outcome: Outcome) -> list[str]:
    """One workload of the page."""
    found = [row for row in rows(outcome.measured) if row.workload is workload]
    better = "more is better" if workload.more_is_better else "less is better"
    said = [f"### {workload.name}: {workload.what}", "", f"{workload.unit}; {better}.", ""]
    said += _markdown([list(HEAD), *(cells(row, found) for row in found)])
    cannot = [
        f"Cannot: {', '.join(names)} ({reason})." for reason, names in absent(workload, outcome).items()
    ]
    return [*said, "", *cannot, *([""] if cannot else [])]


def _markdown(lines: Sequence[Sequence[str]]) -> list[str]:
    made = ["| " + " | ".join(each) + " |" for each in lines]
    return [made[0], "|" + "---|" * len(lines[0]), *made[1:]]


def facts(outcome: Outcome) -> str:
    """The machine and the versions, in one paragraph."""
    machine = outcome.machine
    numbers = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
    return (
        f"{machine['penstock']}, commit {machine['commit']}, {machine['python']}, {machine['system']}, "
        f"{machine['cores']} cores of {machine['processor']}, {machine['date']}; {machine['sizes']} sizes, "
        f"{machine['minutes']:g} minutes. {numbers}."
    )


def page(outcome: Outcome) -> str:
    """What stands between the two marks of the page."""
    took_part = {each.system.name for each in outcome.measured}
    settings = [["system", "promise", "settings"]]
    settings += [[each.name, each.promise, each.note] for each in SYSTEMS if each.name in took_part]
    notes = [f"- {name}: {note}" for name, note in outcome.notes.items()]
    parts = [
        "", facts(outcome), "", "![Each workload, Penstock beside the others](peers.png)", "",
        "## In short", "", *summary(outcome), "", "## Systems", "", *_markdown(settings), "",
        *(["Left out:", "", *notes, ""] if notes else []), "## Workloads", "",
    ]  # fmt: skip
    for workload in WORKLOADS:
        if any(each.workload is workload for each in outcome.measured):
            parts += section(workload, outcome)
    return "\n".join(parts)


def summary(outcome: Outcome) -> list[str]:
    """Penstock's best row beside the best other of the same promise: on disk, or in memory for W3."""
    found = rows(outcome.measured)
    lines = [["workload", "message", "Penstock", "best other, equal promise", "Penstock is"]]
    for workload in WORKLOADS:
        promise = "memory" if workload.promises == ("memory",) else "synced"
        for size in workload.sizes:
            mine, other = (
                best([
                    row
                    for row in found
                    if row.workload is workload and row.size == size and row.system.promise == promise
                    and row.system.ours == ours and not row.system.limit
                ])
                for ours in (True, False)
            )  # fmt: skip
            if mine is not None:
                lines.append([f"{workload.name} {workload.what}", f"{size:,} B", *_beside(mine, other)])
    return _markdown(lines)


def _beside(mine: Row, other: Row | None) -> list[str]:
    told = f"{number(mine.value)} {mine.workload.unit} ({mine.system.name})"
    if other is None:
        return [told, "none", ""]
    times = mine.times_better(other)
    verdict = f"{times:.1f} x better" if times >= 1 else f"**behind: {times:.2f} x**"
    return [told, f"{number(other.value)} {other.workload.unit} ({other.system.name})", verdict]


def write(outcome: Outcome, folder: Path = FOLDER, summary_page: Path = SUMMARY) -> None:
    """The JSON, the plots, the page, and the summary."""
    (folder / "peers.json").write_text(json.dumps(_plain(outcome), indent=1) + "\n")
    write_between(folder / "peers.md", BEGIN, page(outcome), END)
    short = "\n".join(["", *summary(outcome), "", facts(outcome), ""])
    write_between(summary_page, BEGIN, short, END)
    plot(rows(outcome.measured), folder / "peers")


def _plain(outcome: Outcome) -> dict[str, Any]:
    runs = [
        asdict(each.figures) | {
            "system": each.system.name, "workload": each.workload.name, "size": each.size,
            "promise": each.system.promise, "unit": each.workload.unit, "foreign": each.foreign,
            "seconds": each.seconds, "server_cpu_s": each.server_cpu_s,
        }
        for each in outcome.measured
    ]  # fmt: skip
    return {
        "machine": dict(outcome.machine), "versions": dict(outcome.versions), "notes": dict(outcome.notes),
        "settings": {each.name: each.note for each in SYSTEMS}, "runs": runs,
    }  # fmt: skip


def load(folder: Path = FOLDER) -> Outcome:
    """What was written."""
    saved = json.loads((folder / "peers.json").read_text())
    systems: dict[str, System] = {each.name: each for each in SYSTEMS}
    workloads = {each.name: each for each in WORKLOADS}
    names = ("value", "messages", "lost", "twice", "whole", "more")
    measured = [
        Measured(
            system=systems[each["system"]], workload=workloads[each["workload"]], size=each["size"],
            figures=Figures(**{name: each[name] for name in names}), foreign=each["foreign"],
            seconds=each["seconds"], server_cpu_s=each["server_cpu_s"],
        )
        for each in saved["runs"] if each["system"] in systems
    ]  # fmt: skip
    return Outcome(measured, saved["notes"], saved["machine"], saved["versions"])
