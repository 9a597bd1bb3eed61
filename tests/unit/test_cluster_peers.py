"""The comparison of clusters: gaps between acknowledgements, and how it is told."""

from pathlib import Path

import pytest

from benchmarks.cluster.peers import report
from benchmarks.cluster.peers.clusters import CANDIDATES
from benchmarks.cluster.peers.report import Outcome, rows
from benchmarks.cluster.peers.work import WORKS, Figures, longest_gap, rate, together

MACHINE = {
    "penstock": "Penstock 1", "commit": "abc", "python": "CPython 3", "system": "Linux", "cores": 2,
    "load": 0.1, "processor": "fast", "date": "2026-01-01", "sizes": "tiny", "minutes": 1.5,
}  # fmt: skip


def figures(name: str, value: float, work: str = "publish", *, lost: int = 0, twice: int = 0) -> Figures:
    return Figures(name=name, work=work, value=value, messages=100, lost=lost, twice=twice)


def table(*runs: Figures) -> list[dict[str, str]]:
    found = rows(runs)
    return [dict(zip(report.HEAD, report.cells(row, found), strict=True)) for row in found]


def test_a_gap_begins_with_the_last_acknowledgement_before_the_kill() -> None:
    assert longest_gap([1.0, 2.0, 5.5, 6.0], killed=2.4) == 3.5


def test_a_pause_before_the_kill_is_not_the_fail_over() -> None:
    assert longest_gap([0.0, 9.0, 9.5, 10.5, 10.75], killed=9.75) == 1.0


def test_a_second_gap_after_the_kill_counts_if_it_is_longer() -> None:
    assert longest_gap([1.0, 2.0, 6.0], killed=1.0) == 4.0


def test_without_acknowledgements_there_is_no_gap() -> None:
    assert longest_gap([], killed=1.0) == 0.0


def test_a_gap_of_all_producers_ends_with_the_first_acknowledgement_of_any() -> None:
    assert longest_gap(together([[1.0, 4.0, 4.5], [1.5, 3.0, 5.0]]), killed=2.0) == 1.5


def test_what_is_acknowledged_after_the_first_producer_has_ended_does_not_count() -> None:
    assert together([[1.0, 2.0], [1.5, 9.0]]) == [1.0, 1.5, 2.0]


def test_a_rate_is_from_the_first_begin_to_the_last_end() -> None:
    told = [{"count": 30, "started": 1.0, "ended": 3.0}, {"count": 10, "started": 2.0, "ended": 5.0}]

    assert rate(told) == 10.0


def test_the_best_is_the_first_in_its_work() -> None:
    runs = [figures(name, value) for name, value in (("kafka", 10), ("nats", 30))]
    runs += [figures(name, value, "failover") for name, value in (("kafka", 9), ("nats", 1))]
    made = rows(runs)

    assert [(row.work, row.candidate.name) for row in made] == [
        ("publish", "nats"), ("publish", "kafka"), ("failover", "nats"), ("failover", "kafka"),
    ]  # fmt: skip


def test_the_table_has_the_median_the_spread_and_what_was_lost() -> None:
    [line] = table(*(figures("nats", value, lost=1, twice=2) for value in (30, 10, 20)))

    assert (line["median"], line["lowest - highest"]) == ("20 msg/s", "10 - 30")
    assert (line["lost"], line["twice"]) == ("3", "6")


def test_the_table_says_where_another_is_better() -> None:
    values = {"penstock-postgresql": 10, "penstock-directory": 90, "nats": 20, "kafka": 5}
    lines = table(*(figures(name, value) for name, value in values.items()))
    verdicts = {line["system"]: line["Penstock on PostgreSQL is"] for line in lines}

    assert verdicts == {
        "**penstock-postgresql**": "", "**penstock-directory**": "", "nats": "**behind: 0.50 x**",
        "kafka": "2.0 x better",
    }  # fmt: skip


@pytest.mark.parametrize(("load", "busy"), [(0.3, False), (35.0, True), (None, False)])
def test_the_page_says_that_the_machine_was_busy(load: float | None, busy: bool) -> None:
    page = report.page(Outcome([figures("nats", 20)], {}, MACHINE | {"load": load}, {}))

    assert (report.BUSY in page) == busy


def test_less_time_is_better() -> None:
    lines = table(figures("penstock-postgresql", 1, "failover"), figures("rabbitmq", 0.5, "failover"))

    assert lines[0]["Penstock on PostgreSQL is"] == "**behind: 0.50 x**"


@pytest.mark.slow
def test_the_page_and_the_plot_can_be_written_again_from_the_json(tmp_path: Path) -> None:
    (tmp_path / "cluster.md").write_text(f"before\n{report.BEGIN}old\n{report.END}after\n")
    runs = [figures(each.name, 10, work) for each in CANDIDATES for work in WORKS]
    report.write(Outcome(runs, {"kafka, round 2": "failed"}, MACHINE, {"nats-server": "2"}), tmp_path)
    page = (tmp_path / "cluster.md").read_text()
    report.write(report.load(tmp_path), tmp_path)

    assert (tmp_path / "cluster.md").read_text() == page
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "old" not in page
    assert "kafka, round 2: failed" in page
    assert (tmp_path / "cluster.png").stat().st_size > 1000
    assert (tmp_path / "cluster.svg").read_text().startswith("<?xml")
