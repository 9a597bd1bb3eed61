"""Results as a table on the terminal, as JSON, and as the committed pages of docs/benchmarks."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, describe
from benchmarks.model import Benchmark, Result, Round, SizeName, number

RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- table: python -m benchmarks --page -->\n", "<!-- end of table -->\n"

COLUMNS = ("name", "measured", "spread", "per CPU s", "limit", "ratio", "target", "verdict", "foreign")


def row(result: Result) -> list[str]:
    """One line of the table."""
    benchmark = result.benchmark
    low, high = result.spread
    return [
        benchmark.name,
        f"{number(result.measured)} {benchmark.unit}",
        f"{number(low)} - {number(high)}",
        "-" if result.cpu is None else number(result.cpu),
        f"{number(result.limit)} ({benchmark.limit})",
        f"{result.ratio:.3g}",
        benchmark.target.text(benchmark.unit) if benchmark.target else "-",
        result.verdict,
        "?" if result.foreign is None else f"{result.foreign:.1f}",
    ]


def table(results: Sequence[Result]) -> str:
    """For the terminal."""
    return text_table([list(COLUMNS), *(row(result) for result in results)])


def text_table(rows: list[list[str]]) -> str:
    """Columns as wide as they must be; the first row is the head."""
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def as_json(result: Result) -> dict[str, Any]:
    """Everything that was measured of one benchmark."""
    target = result.benchmark.target
    return {
        "name": result.benchmark.name,
        "what": result.benchmark.what,
        "unit": result.benchmark.unit,
        "size": result.size,
        "measured": result.measured,
        "spread": result.spread,
        "per_cpu_second": result.cpu,
        "limit": result.limit,
        "limit_is": result.benchmark.limit,
        "ratio": result.ratio,
        "target": target.text(result.benchmark.unit) if target else None,
        "missed_by": result.missed_by,
        "verdict": result.verdict,
        "foreign_cores": result.foreign,
        "rounds": [asdict(each) for each in result.rounds],
        "dropped": [asdict(each) for each in result.dropped],
    }


def save(result: Result, folder: Path = RESULTS) -> Path:
    """One file a benchmark; git ignores them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.benchmark.name}.json"
    path.write_text(json.dumps({"machine": describe(), **as_json(result)}, indent=2) + "\n")
    return path


def load(benchmark: Benchmark, size: int, folder: Path = RESULTS) -> Result | None:
    """What was saved of an earlier run at that size, if it was."""
    path = folder / f"{benchmark.name}.json"
    if not path.exists():
        return None
    saved = json.loads(path.read_text())
    if saved["size"] != size:
        return None
    rounds = [Round(**each) for each in saved["rounds"]]
    dropped = [Round(**each) for each in saved.get("dropped", [])]
    return Result(benchmark=benchmark, size=size, rounds=rounds, dropped=dropped)


def write_page(name: str, results: Sequence[Result], sizes: SizeName, folder: Path = PAGES) -> None:
    """Put the table into a page, between its two marks, and the summary beside it."""
    machine = describe()
    page, summary = folder / f"{name}.md", folder / f"{name}.json"
    facts = (
        f"{machine['penstock']}, commit {machine['commit']}, {machine['python']}, {machine['system']}, "
        f"{machine['cores']} cores of {machine['processor']}, {machine['date']}; "
        f"{sizes} sizes."
    )
    write_between(page, BEGIN, f"\n{facts}\n\n{markdown(results)}\n", END)
    summary.write_text(
        json.dumps({"machine": machine, "results": [as_json(result) for result in results]}, indent=2) + "\n"
    )


def write_between(page: Path, begin: str, inner: str, end: str) -> None:
    """Put the text between the two marks of a page, instead of what is there."""
    head, _, rest = page.read_text().partition(begin)
    _, found, tail = rest.partition(end)
    assert found, f"{page.name} has two marks, and the table goes between them"
    page.write_text(f"{head}{begin}{inner}{end}{tail}")


def markdown(results: Sequence[Result]) -> str:
    """The table for the page; one line a benchmark, said in words."""
    lines = [
        "| what | measured | spread | per CPU second | limit | ratio | target | verdict | foreign cores |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        cells = row(result)
        lines.append("| " + " | ".join([f"{result.benchmark.what} (`{cells[0]}`)", *cells[1:]]) + " |")
    return "\n".join(lines) + "\n"
