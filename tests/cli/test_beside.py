"""A pipeline beside a server: started again when it has failed, left alone when it was meant to end."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.process import until

from penstock.cli.server import pipeline_process as beside
from penstock.cli.server.pipeline_process import PipelineBeside

AGAIN = "it is restarted in"


class Program:
    """What is run in place of Python: it counts its runs, and does in each what it is told."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "program"
        self._runs = folder / "runs"
        self._runs.touch()

    def does(self, *runs: str, at_first: str = ":") -> None:
        """The n-th run does the n-th of these, after ``at_first``; those after them, the last."""
        cases = "".join(f"{number}) {words} ;;\n" for number, words in enumerate(runs[:-1], 1))
        count = f'echo "$@" >> {self._runs}; case $(wc -l < {self._runs}) in\n'
        self.path.write_text(f"#!/bin/sh\n{at_first}\n{count}{cases}*) {runs[-1]} ;;\nesac\n")
        self.path.chmod(0o755)

    @property
    def runs(self) -> list[str]:
        return self._runs.read_text().splitlines()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    made = Program(tmp_path)
    monkeypatch.setattr(sys, "executable", str(made.path))
    monkeypatch.setattr(beside, "PAUSE_S", 0.01)
    return made


@pytest.fixture
def pipeline(program: Program) -> Iterator[PipelineBeside]:
    made = PipelineBeside("archive")
    yield made
    made.stop()


def test_a_pipeline_that_fails_or_is_killed_is_started_again(
    program: Program, pipeline: PipelineBeside, caplog: pytest.LogCaptureFixture
) -> None:
    program.does("exit 1", "kill -KILL $$", "exec sleep 60")

    pipeline.start("penstock://there")

    until(lambda: len(program.runs) == 3)
    assert set(program.runs) == {"-m penstock pipeline run archive --server penstock://there"}
    assert [word in caplog.text for word in (AGAIN, "code 1;", f"code {-signal.SIGKILL};")] == [True] * 3


def test_one_that_cannot_be_started_now_is_started_later(
    program: Program, pipeline: PipelineBeside, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline.start("penstock://there")
    until(lambda: "cannot be started" in caplog.text)

    program.does("exec sleep 60")

    until(lambda: len(program.runs) == 1)


@pytest.mark.parametrize("code", ["exit 0", "exit 2", "exit 130", "kill -TERM $$", "kill -INT $$"])
def test_one_that_was_asked_to_end_or_cannot_begin_is_not(
    program: Program, pipeline: PipelineBeside, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    program.does(code, "exec sleep 60")

    pipeline.start("penstock://there")

    keeper = pipeline._keeper
    assert keeper is not None
    until(lambda: not keeper.is_alive())
    assert len(program.runs) == 1
    assert AGAIN not in caplog.text


def test_a_server_that_ends_waits_for_the_pipeline_and_not_for_the_next_start(
    program: Program,
    pipeline: PipelineBeside,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beside, "PAUSE_S", 3600.0)
    program.does("exit 1")
    pipeline.start("penstock://there")
    until(lambda: AGAIN in caplog.text)

    pipeline.stop()

    assert len(program.runs) == 1


def test_a_pipeline_that_fails_while_it_is_asked_to_end_is_not_started_again(
    program: Program, pipeline: PipelineBeside, caplog: pytest.LogCaptureFixture
) -> None:
    program.does("sleep 60 & wait $!", at_first="trap 'exit 1' TERM")
    pipeline.start("penstock://there")
    until(lambda: len(program.runs) == 1)

    pipeline.stop()

    assert len(program.runs) == 1
    assert AGAIN not in caplog.text


def test_one_that_does_not_end_in_time_is_ended(
    program: Program, pipeline: PipelineBeside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "STOP_S", 0.1)
    program.does("while :; do sleep 0.01; done", at_first="trap '' TERM")
    pipeline.start("penstock://there")
    until(lambda: len(program.runs) == 1)

    pipeline.stop()

    assert pipeline._process is not None
    assert pipeline._process.returncode == -signal.SIGKILL
