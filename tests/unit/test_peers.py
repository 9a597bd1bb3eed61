"""The comparison with other brokers: who is compared with whom, and how it is told."""

import ast
from pathlib import Path

import pytest

from benchmarks.peers import adapters, report, servers
from benchmarks.peers.rows import Measured, Outcome, Row, best, rows
from benchmarks.peers.systems import SYSTEMS, is_there
from benchmarks.peers.workloads import WORKLOADS, Figures

ADAPTER_LINES_MAX = 60
FILES = sorted(Path(adapters.__path__[0]).glob("[a-z]*.py"))
W1, W6, W9, W10 = (
    next(each for each in WORKLOADS if each.name == name) for name in ("W1", "W6", "W9", "W10")
)
MACHINE = {
    "penstock": "Penstock 1", "commit": "abc", "python": "CPython 3", "system": "Linux", "cores": 2,
    "processor": "fast", "date": "2026-01-01", "sizes": "tiny", "minutes": 1.5,
}  # fmt: skip


def measured(
    system: str, value: float, workload: str = "W1", *, lost: int = 0, whole: bool = True
) -> Measured:
    return Measured(
        system=next(each for each in SYSTEMS if each.name == system),
        workload=next(each for each in WORKLOADS if each.name == workload),
        size=100,
        figures=Figures(value, 1000, lost=lost, whole=whole),
        foreign=0.1,
        seconds=2.0,
        server_cpu_s=0.01,
    )


def outcome(*runs: Measured) -> Outcome:
    return Outcome(runs, {"nats-always": "it did not start"}, MACHINE, {"redis": "7"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_adapter_has_at_most_60_lines(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Adapter"):
            assert (node.end_lineno or 0) - node.lineno + 1 <= ADAPTER_LINES_MAX


def test_a_row_is_the_median_of_its_runs() -> None:
    [row] = rows([measured("penstock", value) for value in (30.0, 10.0, 20.0)])

    assert row.value == 20
    assert row.values == [10, 20, 30]


def test_only_equal_promises_are_compared() -> None:
    mine, equal, weaker = rows(
        [measured("penstock", 10), measured("redis-always", 5), measured("redis-everysec", 50)]
    )

    assert mine.rivals([mine, equal, weaker]) == [equal]
    assert mine.times_better(equal) == 2


def test_what_is_no_broker_is_nobodys_rival() -> None:
    runs = [measured("penstock", 10), measured("redis-always", 5), measured("bare-loop", 50)]
    mine, other, limit = rows(runs)

    assert mine.rivals([mine, other, limit]) == [other]
    assert "2.0 x better" in report.summary(outcome(*runs))[-1]


def test_less_is_better_where_it_is() -> None:
    mine, other = rows([measured("penstock", 2, "W6"), measured("redis-always", 6, "W6")])

    assert best([mine, other]) is mine
    assert mine.times_better(other) == 3


def test_who_did_only_a_part_of_the_work_is_not_the_best() -> None:
    whole, part = rows([measured("penstock", 900, "W10"), measured("beanstalkd", 10, "W10", whole=False)])

    assert best([whole, part]) is whole
    assert whole.rivals([whole, part]) == []
    assert "only 1,000 messages" in " ".join(report.cells(part, [whole, part]))


def test_the_page_says_who_cannot_and_why() -> None:
    told = "\n".join(report.section(W9, outcome(measured("penstock", 5, "W9"))))

    assert "redis-always" in told
    assert "has no delayed messages" in told


def test_the_summary_says_where_another_wins() -> None:
    lines = report.summary(outcome(measured("penstock", 10), measured("beanstalkd", 20)))

    assert "**behind: 0.50 x**" in lines[-1]


def test_loss_is_told_beside_the_speed() -> None:
    [row] = rows([measured("penstock", 10, lost=3), measured("penstock", 10, lost=4)])
    head = dict(zip(report.HEAD, report.cells(row, [row]), strict=True))

    assert head["lost"] == "7"


@pytest.mark.slow
def test_what_is_written_can_be_written_again_from_the_json(tmp_path: Path) -> None:
    for name in ("peers.md", "README.md"):
        (tmp_path / name).write_text(f"before\n{report.BEGIN}old\n{report.END}after\n")
    runs = [measured(name, 10, workload) for name in ("penstock", "beanstalkd") for workload in ("W1", "W9")]
    report.write(outcome(*runs), tmp_path, tmp_path / "README.md")
    page, summary = (tmp_path / "peers.md").read_text(), (tmp_path / "README.md").read_text()
    report.write(report.load(tmp_path), tmp_path, tmp_path / "README.md")

    assert (tmp_path / "peers.md").read_text() == page
    assert (tmp_path / "README.md").read_text() == summary
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "old" not in page + summary
    assert (tmp_path / "peers.png").stat().st_size > 1000
    assert (tmp_path / "peers.svg").read_text().startswith("<?xml")


def test_a_server_is_there_by_the_path_that_it_has_in_the_newest_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "NEWEST", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    path = "/usr/lib/a-server/bin/start"
    before = is_there(path)
    (tmp_path / path.lstrip("/")).parent.mkdir(parents=True)
    (tmp_path / path.lstrip("/")).touch()

    assert (before, is_there(path)) == (False, True)


def test_rows_of_one_system_stand_alone_in_their_size() -> None:
    assert [type(row) for row in rows([measured("penstock", 1), measured("penstock", 1, "W6")])] == [Row, Row]
