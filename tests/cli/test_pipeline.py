"""``penstock pipeline``, without Spark: the runs are states in a topic."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.conftest import Cli

from penstock.cli import connecting
from penstock.model.info import PipelineRun
from penstock.spark import pipelines
from penstock.spark.pipelines.run import states
from penstock.spark.pipelines.run.context import Context
from penstock.testing import TestBroker


@pytest.fixture
def archive(penstock: TestBroker) -> PipelineRun:
    """An archive that runs somewhere else."""
    now_ms = penstock.clock.wall_ms()
    run = PipelineRun(
        name="archive", pipeline="archive", run="run-1", state="running", host="there", pid=7,
        master="local[*]", started_ms=now_ms, updated_ms=now_ms, progressed_ms=now_ms, records=12_000,
        rows_per_second=400.0, lag_seconds=1.5, batches=3, files=4,
    )  # fmt: skip
    states.report(penstock, run)
    return run


class Toy:
    """A pipeline of this test."""

    class Settings(msgspec.Struct, frozen=True, kw_only=True):
        topic: str
        limit: int = 3

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def run(self, settings: Any, context: Context) -> None:
        self.seen.append(
            (settings.topic, settings.limit, context.name, context.once, context.address.servers)
        )
        context.progress.advance(records=settings.limit, batches=1)
        context.tell("all is well")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    """In the place of transform."""
    made = Toy()
    monkeypatch.setitem(sys.modules, f"{pipelines.__name__}.transform", made)
    return made


def test_list_has_what_runs_and_what_there_is(cli: Cli, archive: PipelineRun) -> None:
    done = cli("pipeline", "list")

    assert done.lines[:3] == [
        "name state records rows/s lag details",
        "archive running 12,000 400 1.5 s Archive topics to the lake, and …",
        "replay - Replay messages from lake and lo…",
    ]
    assert len(done.lines) == 1 + len(pipelines.PIPELINES)


def test_a_run_that_is_silent_is_shown_as_lost(cli: Cli, archive: PipelineRun, penstock: TestBroker) -> None:
    penstock.advance("5m")

    [document] = cli("pipeline", "list", "-o", "json").documents

    assert (document["name"], document["state"], document["started"]) == (
        "archive",
        "lost",
        "2026-01-01T00:00:00.000Z",
    )


def test_status_has_the_facts_of_a_run(cli: Cli, archive: PipelineRun, penstock: TestBroker) -> None:
    states.report(penstock, msgspec.structs.replace(archive, state="failed", error="the disk is full"))
    penstock.advance("2s")

    assert cli("pipeline", "status", "archive").lines == [
        "archive failed",
        "pipeline archive: Archive topics to the lake, and maintain its tables.",
        "runs on there, process 7, Spark on local[*]",
        "started 2026-01-01 00:00:00 UTC",
        "heard of 2 s ago",
        "done 12,000 records, 400/s, lag 1.5 s, 3 batches, 4 files",
        "last progress 2026-01-01 00:00:00 UTC",
        "error the disk is full",
    ]


def test_status_of_nothing_and_of_an_unknown_run(cli: Cli, penstock: TestBroker) -> None:
    assert "no pipeline has run yet" in cli("pipeline", "status").err

    done = cli("pipeline", "status", "archive")

    assert (done.code, done.out) == (1, "")
    assert "no run of that name is known; none has run yet" in done.err


def test_stop_asks_the_run_and_waits_for_its_end(
    cli: Cli, archive: PipelineRun, penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(seconds: float) -> None:
        asked, _ = states.stop_asked(penstock, archive, 0)
        assert asked
        states.report(penstock, msgspec.structs.replace(archive, state="stopped"))

    monkeypatch.setattr(connecting, "pause", pause)

    done = cli("pipeline", "stop", "archive")

    assert (done.code, done.err) == (0, "archive is stopped\n")
    assert cli("pipeline", "stop", "archive").err == "archive is not running: it is stopped\n"


def test_stop_gives_up_waiting_after_its_timeout(cli: Cli, archive: PipelineRun) -> None:
    done = cli("pipeline", "stop", "archive", "--timeout", "3s")

    assert done.code == 1
    assert (
        done.err == "archive was asked to stop but is still running; see: penstock pipeline status archive\n"
    )


def test_run_reads_its_settings_and_tells_what_it_did(
    cli: Cli, toy: Toy, penstock: TestBroker, tmp_path: Path
) -> None:
    file = tmp_path / "toy.toml"
    file.write_text('name = "mine"\ntopic = "orders"\nlimit = 5\n')

    done = cli("pipeline", "run", "transform", "--config", str(file), "--set", "limit=4", "--once")

    assert done.code == 0
    assert toy.seen == [("orders", 4, "mine", True, connecting.DEFAULT_SERVER)]
    assert states.runs(penstock)["mine"].records == 4
    assert done.err.startswith("mine  4 records  ")
    assert done.out == "all is well\n"


def test_run_refuses_what_is_wrong_before_it_connects(
    cli: Cli, toy: Toy, servers: list[str], tmp_path: Path
) -> None:
    unknown = cli("pipeline", "run", "transfrom")
    missing = cli("pipeline", "run", "transform")
    no_file = cli("pipeline", "run", "transform", "-c", str(tmp_path / "none.toml"))

    assert [done.code for done in (unknown, missing, no_file)] == [2, 1, 2]
    assert "there is no 'transfrom'; the pipelines are archive, replay, rollup, dead_letters, " in unknown.err
    assert "topic is missing; set it in the file or with --set topic=..." in missing.err
    assert "none.toml" in no_file.err
    assert servers == []


def test_a_name_that_runs_already_is_refused(cli: Cli, toy: Toy, archive: PipelineRun) -> None:
    done = cli("pipeline", "run", "transform", "--set", "topic=x", "--name", "archive")

    assert done.code == 1
    assert "pipeline 'archive' is already running on there (process 7)" in done.err
    assert toy.seen == []
