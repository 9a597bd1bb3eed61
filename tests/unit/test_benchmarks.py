"""The benchmarks run and report; how fast they find the machine is nobody's promise."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.__main__ import BENCHMARKS, PAGES, growth, main, measure
from benchmarks.machine import Foreign, describe, resident_bytes
from benchmarks.model import Benchmark, Result, Round, Rounds, Target, number
from benchmarks.report import BEGIN, COLUMNS, END, load, save, table, write_page
from penstock.version import version_line

IN_A_PROCESS_OF_ITS_OWN = {
    "backlog-memory", "in-flight-memory", "scheduled-memory", "reopen",
    *(benchmark.name for benchmark in (*PAGES["server"], *PAGES["http"], *PAGES["kafka"])),
}  # fmt: skip
ON_SPARK = {benchmark.name for benchmark in PAGES["spark"]}  # In tests/spark, on a session that is there.
HERE = [benchmark for benchmark in BENCHMARKS if benchmark.name not in IN_A_PROCESS_OF_ITS_OWN | ON_SPARK]
ELSEWHERE = [benchmark for benchmark in BENCHMARKS if benchmark.name in IN_A_PROCESS_OF_ITS_OWN]


def rising(size: int) -> Rounds:
    for number_ in count(1, 2):
        yield Round(measured=size * number_, limit=10)


def toy(target: Target | None) -> Benchmark:
    return Benchmark(
        name="toy",
        what="a toy",
        unit="msg/s",
        limit="ten",
        run=rising,
        sizes={"tiny": 1, "quick": 2, "full": 3},
        target=target,
        grows="toys",
    )


def judged(target: Target, measured: float, limit: float, cpu: float | None = None) -> str:
    rounds = [Round(measured=measured, limit=limit, cpu=cpu)]
    return Result(benchmark=toy(target), size=1, rounds=rounds).verdict


@pytest.mark.parametrize("benchmark_", HERE, ids=lambda benchmark: benchmark.name)
def test_each_benchmark_measures_itself_and_its_limit(benchmark_: Benchmark) -> None:
    result = measure(benchmark_, benchmark_.sizes["tiny"], rounds=1)
    assert len(result.rounds) == 1
    assert result.measured > 0
    assert result.limit > 0


@pytest.mark.slow
@pytest.mark.parametrize("benchmark_", ELSEWHERE, ids=lambda benchmark: benchmark.name)
def test_each_benchmark_of_a_process_runs_in_one(benchmark_: Benchmark) -> None:
    result = measure(benchmark_, benchmark_.sizes["tiny"], rounds=1)
    assert len(result.rounds) == 1
    assert result.measured >= 0


def test_a_benchmark_leaves_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_DIRECTORY", str(tmp_path))
    for benchmark in BENCHMARKS:
        if benchmark.name.startswith("durable"):
            measure(benchmark, benchmark.sizes["tiny"], rounds=1)
    assert list(tmp_path.iterdir()) == []


def test_names_are_told_apart_and_sizes_rise() -> None:
    assert len({benchmark.name for benchmark in BENCHMARKS}) == len(BENCHMARKS)
    for benchmark in BENCHMARKS:
        assert benchmark.sizes["tiny"] < benchmark.sizes["quick"] < benchmark.sizes["full"]


@pytest.mark.parametrize(
    ("target", "measured", "limit", "verdict"),
    [
        (Target(value=100, direction="at least"), 100, 1, "met"),
        (Target(value=100, direction="at least"), 75, 1, "missed by 25%"),
        (Target(value=100, direction="at most"), 99, 1, "met"),
        (Target(value=100, direction="at most"), 150, 1, "missed by 50%"),
        (Target(value=0.6, direction="at least", of="ratio"), 6, 10, "met"),
        (Target(value=0.6, direction="at least", of="ratio"), 3, 10, "missed by 50%"),
        (Target(value=1.5, direction="at most", of="ratio"), 30, 10, "missed by 100%"),
    ],
)
def test_a_verdict_says_by_how_much(target: Target, measured: float, limit: float, verdict: str) -> None:
    assert judged(target, measured, limit) == verdict


def test_a_verdict_says_when_only_others_were_in_the_way() -> None:
    target = Target(value=100, direction="at least")
    assert judged(target, 50, 1, cpu=120) == "missed by 50%; met per CPU second"


def test_a_result_is_the_median_of_its_rounds_and_of_their_own_ratios() -> None:
    rounds = [Round(measured=value, limit=limit) for value, limit in ((1, 10), (2, 4), (9, 9))]
    result = Result(benchmark=toy(None), size=1, rounds=rounds)
    assert (result.measured, result.limit, result.ratio, result.spread) == (2, 9, 0.5, (1, 9))
    assert result.verdict == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (12.34, "12.3"),
        (999.6, "1,000"),
        (1234, "1,230"),
        (1_234_567, "1,230,000"),
    ],
)
def test_numbers_have_three_figures(value: float, text: str) -> None:
    assert number(value) == text


def test_growth_compares_with_ten_times_the_work() -> None:
    rows = growth([replace(toy(None), sizes={"tiny": 10, "quick": 20, "full": 30})], "tiny")
    assert rows[1] == ["toy", "toys", "1", "3 msg/s", "10", "30 msg/s", "10.00"]


def test_what_does_not_grow_is_left_out_of_growth() -> None:
    assert len(growth([replace(toy(None), grows="")], "tiny")) == 1


def test_the_table_has_a_line_for_each_result() -> None:
    result = measure(toy(Target(value=4, direction="at least")), 1, rounds=1)
    head, rule, line = table([result]).splitlines()
    assert [name for name in COLUMNS if name not in head] == []
    assert set(rule) == {"-", " "}
    assert "missed by 75%" in line
    assert ">= 4 msg/s" in line


def test_results_are_saved_one_file_each(tmp_path: Path) -> None:
    path = save(measure(toy(None), 1, rounds=2), tmp_path / "results")
    saved = json.loads(path.read_text())
    assert path.name == "toy.json"
    assert saved["measured"] == 2
    assert [each["measured"] for each in saved["rounds"]] == [1, 3]
    assert saved["machine"]["penstock"] == version_line()


def test_a_saved_result_is_loaded_if_it_is_of_that_size(tmp_path: Path) -> None:
    result = measure(toy(None), 1, rounds=2)
    save(result, tmp_path)
    assert load(result.benchmark, 1, tmp_path) == result
    assert load(result.benchmark, 2, tmp_path) is None
    assert load(result.benchmark, 1, tmp_path / "nowhere") is None


def test_the_page_keeps_its_words_and_gets_a_new_table(tmp_path: Path) -> None:
    page, summary = tmp_path / "core.md", tmp_path / "core.json"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    write_page("core", [measure(toy(None), 1, rounds=1)], "tiny", tmp_path)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| a toy (`toy`) | 1 msg/s |" in text
    assert [each["name"] for each in json.loads(summary.read_text())["results"]] == ["toy"]


@pytest.mark.parametrize("page", PAGES)
def test_a_committed_page_has_its_marks_and_every_benchmark(page: str) -> None:
    text = (report.PAGES / f"{page}.md").read_text()
    assert BEGIN in text
    assert END in text
    assert [benchmark.name for benchmark in PAGES[page] if f"(`{benchmark.name}`)" not in text] == []


def test_the_command_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "engine"]) == 0
    assert capsys.readouterr().out.startswith("engine ")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])


def test_the_machine_is_described_without_naming_it() -> None:
    facts = describe()
    assert facts["penstock"] == version_line()
    assert not {"host", "path", "user"} & facts.keys()


def test_disturbed_rounds_are_measured_again_and_the_calmest_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stolen = iter([0.5, 0.0, 0.2, 0.1, 0.0, 0.0])
    monkeypatch.setattr(Foreign, "stolen", lambda _: next(stolen))

    result = measure(toy(None), 1, rounds=2, repeats=2)

    assert [(each.measured, each.stolen) for each in result.rounds] == [(3, 0.0), (9, 0.0)]
    assert [each.stolen for each in result.dropped] == [0.1, 0.2, 0.5]


def test_a_machine_that_is_always_disturbed_is_measured_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stolen = iter([0.5, 0.3, 0.2, 0.4])
    monkeypatch.setattr(Foreign, "stolen", lambda _: next(stolen))

    result = measure(toy(None), 1, rounds=2, repeats=1)

    assert [each.stolen for each in result.rounds] == [0.2, 0.3]


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux tells")
def test_foreign_cores_and_own_memory_are_told_where_the_system_tells_them() -> None:
    foreign = Foreign().cores()
    assert foreign is not None
    assert foreign >= 0
    assert resident_bytes() > 1_000_000
