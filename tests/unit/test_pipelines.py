"""The frame of the pipelines: settings, states, progress, and the life of a run.  Without Spark."""

import io
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from penstock.errors import InvalidConfiguration, InvalidValue, PipelineFailed, PipelineRunning, QueueFull
from penstock.model.info import PipelineRun
from penstock.spark import pipelines
from penstock.spark.pipelines.run import runner, states
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.run.progress import PLAIN_MS, Counts, ProgressLine, RunProgress, words
from penstock.spark.pipelines.run.settings import RunSettings, load
from penstock.spark.runtime import compacted_topic
from penstock.testing import ManualClock, TestBroker

NOW_MS = 1_767_225_600_000  # 2026-01-01, where the tests' clock begins.


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Of every kind there is."""

    source: str
    topics: list[str] = []
    from_time: datetime | None = None
    wait_ms: int = 5000
    file_bytes: int = 1
    limit: int | None = None
    tables: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.limit == 0:
            raise InvalidValue(name="limit", value=0, why="that would be nothing")


class Toy:
    """A pipeline that does what a test tells it."""

    Settings = Settings

    def __init__(self, work: Callable[[Context], None]) -> None:
        self._work = work

    def run(self, _settings: Any, context: Context) -> None:
        self._work(context)


def settings_of(text: str = "", **given: str) -> tuple[RunSettings, Settings]:
    return load(Settings, text=text, file="toy.toml", given=given, now_ms=NOW_MS)


def run_toy(broker: TestBroker, work: Callable[[Context], None], name: str = "toy") -> PipelineRun:
    return runner.run(
        "transform", Toy(work), RunSettings(name=name), Settings(source="x"), broker,
        servers="nowhere", clock=broker.clock,
    )  # fmt: skip


def state_of(broker: TestBroker, **facts: Any) -> PipelineRun:
    now_ms = broker.clock.wall_ms()
    state = PipelineRun(
        name="toy", pipeline="transform", run="run-1", state="running", host="here", pid=1, master="local[*]",
        started_ms=now_ms, updated_ms=now_ms,
    )  # fmt: skip
    return msgspec.structs.replace(state, **facts)


# Settings.


def test_settings_are_read_from_toml_each_in_the_way_of_its_name() -> None:
    run, settings = settings_of(
        """
        name = "mine"
        source = "orders"
        topics = ["a", "b"]
        from_time = 2026-11-15T10:30:00Z
        wait = "2m"
        file_bytes = "1MiB"
        [spark]
        "spark.executor.memory" = "2g"
        """
    )

    assert (run.name, run.spark) == ("mine", {"spark.executor.memory": "2g"})
    assert settings == Settings(
        source="orders",
        topics=["a", "b"],
        from_time=datetime(2026, 11, 15, 10, 30, tzinfo=UTC),
        wait_ms=120_000,
        file_bytes=1 << 20,
    )


def test_flags_come_after_the_file_and_text_is_enough_for_all_kinds() -> None:
    run, settings = settings_of(
        'source = "orders"', source="7", topics="a, b", from_time="1h", limit="3", ui="true", name="n",
        tables='{a="b"}',
    )  # fmt: skip

    assert (run.ui, run.name) == (True, "n")
    assert (settings.source, settings.topics, settings.limit) == ("7", ["a", "b"], 3)
    assert settings.tables == {"a": "b"}
    assert settings.from_time == datetime.fromtimestamp(NOW_MS / 1000 - 3600, UTC)


def test_every_problem_of_the_settings_is_named_with_its_place() -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        settings_of('sources = "x"\nwait = "soon"\nlimit = "many"\nname = "../x"', from_time="yesterday")

    assert str(refusal.value).splitlines()[1:] == [
        "  pipeline name '../x' is not allowed: it has a character or a beginning that names may not have; "
        "use 1 to 200 letters, digits, '.', '_' or '-', not starting with '.' or '__'",
        "  toy.toml: unknown setting sources; did you mean source?",
        "  toy.toml: wait cannot be 'soon': write it like '250ms', '30s', '5m', '2h', '7d' or '1h30m'",
        "  toy.toml: limit cannot be 'many': expected int | null, got str",
        "  --set: from_time cannot be 'yesterday': write a time as 2026-11-15T10:30:00Z, "
        "or an age such as 1h",
        "  source is missing; set it in the file or with --set source=... [CONFIGURATION_INVALID]",
    ]


def test_what_is_wrong_only_together_and_what_is_no_toml() -> None:
    with pytest.raises(InvalidConfiguration, match="limit cannot be 0: that would be nothing"):
        settings_of('source = "x"\nlimit = 0')
    with pytest.raises(InvalidConfiguration) as refusal:
        settings_of("source = \n")
    assert refusal.value.facts["problems"] == "  toy.toml: Invalid value (at line 1, column 10)"


def test_an_unknown_pipeline_is_refused_with_those_there_are() -> None:
    assert pipelines.check_pipeline("dead-letters") == "dead_letters"
    with pytest.raises(InvalidValue, match="the pipelines are archive, replay, "):
        pipelines.check_pipeline("arcive")


# States.


def test_the_last_state_of_each_pipeline_is_found_over_many_reads(
    penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_topic, "READ_MESSAGES", 2)
    assert states.runs(penstock) == {}

    for records in range(5):
        states.report(penstock, state_of(penstock, records=records))
        states.report(penstock, state_of(penstock, name="other", records=-records))

    assert {name: run.records for name, run in states.runs(penstock).items()} == {"other": -4, "toy": 4}
    settings = penstock.describe_topic(states.TOPIC).settings
    assert (settings.compact, settings.retention_ms) == (True, None)


def test_a_run_that_says_nothing_is_lost_after_a_while_and_its_name_is_free(penstock: TestBroker) -> None:
    first, second = state_of(penstock), state_of(penstock, run="run-2", state="starting")
    states.claim(penstock, first, penstock.clock.wall_ms())
    with pytest.raises(PipelineRunning, match=r"on here \(process 1\).*--name"):
        states.claim(penstock, second, penstock.clock.wall_ms())

    penstock.advance(states.SILENT_MS / 1000)

    now_ms = penstock.clock.wall_ms()
    assert states.shown_state(first, now_ms) == "lost"
    states.claim(penstock, second, now_ms)
    assert states.runs(penstock)["toy"].run == "run-2"


def test_a_run_whose_process_is_gone_is_lost_at_once_on_its_own_machine(penstock: TestBroker) -> None:
    ended = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", ""])
    os.waitpid(ended, 0)
    here = {"host": socket.gethostname(), "state": "running"}
    now_ms = penstock.clock.wall_ms()

    assert states.is_live(state_of(penstock, pid=os.getpid(), **here), now_ms)
    assert not states.is_live(state_of(penstock, pid=ended, **here), now_ms)
    assert states.is_live(state_of(penstock, pid=ended), now_ms)


def test_what_is_no_state_is_passed_over(penstock: TestBroker) -> None:
    states.report(penstock, state_of(penstock))
    penstock.publish(states.TOPIC, b"{}", key="other")
    penstock.publish(states.TOPIC, b"no json", key="neither")

    assert list(states.runs(penstock)) == ["toy"]


def test_of_two_that_claim_a_name_at_once_the_first_in_the_log_has_it(
    penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "runs", lambda broker: {})  # As it was when both looked.
    now_ms = penstock.clock.wall_ms()

    states.claim(penstock, state_of(penstock), now_ms)

    with pytest.raises(PipelineRunning):
        states.claim(penstock, state_of(penstock, run="run-2"), now_ms)


def test_a_request_to_stop_is_for_one_run_of_one_name(penstock: TestBroker) -> None:
    mine = state_of(penstock)
    offset = states.claim(penstock, mine, penstock.clock.wall_ms())
    for other in (state_of(penstock, run="run-0"), state_of(penstock, name="other")):
        states.ask_to_stop(penstock, other, by="there", now_ms=NOW_MS)
    asked, offset = states.stop_asked(penstock, mine, offset)
    assert not asked

    states.ask_to_stop(penstock, mine, by="there", now_ms=NOW_MS)

    assert states.stop_asked(penstock, mine, offset) == (True, offset + 1)
    assert list(states.runs(penstock)) == ["toy"]


# Progress.


def test_rates_are_of_the_last_seconds() -> None:
    clock = ManualClock()
    progress = RunProgress(clock)
    for _ in range(20):
        clock.move_to(clock.steady_ms() + 1000)
        progress.advance(records=100, batches=1)
        assert progress.counts().rows_per_second == 100
    clock.move_to(clock.steady_ms() + 30_000)

    assert progress.counts().rows_per_second < 20
    assert progress.counts().records == 2000


def test_the_words_say_what_is_known_and_how_long_it_will_take() -> None:
    assert words(Counts()) == ["0 records", "0/s"]
    assert words(
        Counts(records=1500, total=2000, rows_per_second=100, lag_seconds=2.5, batches=1, files=2, note="n")
    ) == ["1,500 of 2,000 records", "100/s", "5 s left", "lag 2.5 s", "1 batch", "2 files", "n"]


def test_without_a_terminal_the_line_is_printed_now_and_then_and_at_the_end() -> None:
    clock, out = ManualClock(), io.StringIO()

    with ProgressLine("toy", clock, out) as line:
        for records in range(5):
            clock.move_to(clock.steady_ms() + PLAIN_MS // 2)
            line.show(Counts(records=records))
        line.show(Counts(records=5), last=True)

    assert out.getvalue() == "toy  1 records  0/s\ntoy  3 records  0/s\ntoy  5 records  0/s\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar_for_bounded_work_and_the_last_line_stays() -> None:
    out = Terminal()

    with ProgressLine("toy", ManualClock(), out) as line:
        line.show(Counts(records=1))
        line.show(Counts(records=1, total=4))
        line.show(Counts(records=4, total=4), last=True)

    assert "25 %" in out.getvalue()
    assert "━" in out.getvalue()
    assert out.getvalue().endswith("toy  4 of 4 records  0/s\n")


# Runs.


def test_a_run_tells_what_it_did(penstock: TestBroker) -> None:
    seen = []

    def work(context: Context) -> None:
        seen.append(states.runs(penstock)["toy"].state)
        context.progress.advance(records=3, batches=1, files=2, lag_seconds=0.5)

    last = run_toy(penstock, work)

    assert seen == ["starting"]
    assert states.runs(penstock) == {"toy": last}
    assert (last.state, last.records, last.batches, last.files, last.lag_seconds) == ("done", 3, 1, 2, 0.5)
    assert (last.pid, last.started_ms, last.progressed_ms) == (os.getpid(), NOW_MS, NOW_MS)


def test_a_run_has_the_name_of_its_pipeline_if_it_is_given_none(penstock: TestBroker) -> None:
    names = []

    last = run_toy(penstock, lambda context: names.append(context.name), name="")

    assert (names, last.name) == (["transform"], "transform")


@pytest.mark.parametrize(
    ("error", "raised", "sentence"),
    [
        (ValueError("bad\nand more"), PipelineFailed, "ValueError: bad"),
        (QueueFull(what="x", limit=3), QueueFull, str(QueueFull(what="x", limit=3))),
        (
            RuntimeError("aborted\npenstock.errors.TopicNotFound: no topic [TOPIC_NOT_FOUND]\n at x"),
            PipelineFailed,
            "no topic [TOPIC_NOT_FOUND]",
        ),
        (KeyboardInterrupt(), KeyboardInterrupt, "interrupted"),
    ],
)  # fmt: skip
def test_a_run_that_fails_says_why_in_one_line(
    penstock: TestBroker, error: BaseException, raised: type[BaseException], sentence: str
) -> None:
    def work(context: Context) -> None:
        raise error

    with pytest.raises(raised):
        run_toy(penstock, work)

    last = states.runs(penstock)["toy"]
    assert (last.state, last.error) == ("failed", sentence)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_run_finish_its_batch(penstock: TestBroker, number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def work(context: Context) -> None:
        os.kill(os.getpid(), number)
        assert context.stopping.wait(60)
        context.progress.advance(records=1)

    last = run_toy(penstock, work)

    assert (last.state, last.records) == ("stopped", 1)
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_does_not_wait(penstock: TestBroker) -> None:
    def work(context: Context) -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    with pytest.raises(KeyboardInterrupt):
        run_toy(penstock, work)


def test_a_run_is_stopped_through_the_topic(penstock: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "TICK_S", 0.001)
    seen = threading.Event()

    def work(context: Context) -> None:
        states.ask_to_stop(penstock, states.runs(penstock)["toy"], by="there", now_ms=NOW_MS)
        assert context.stopping.wait(60)
        while states.runs(penstock)["toy"].state != "stopping":
            seen.wait(0.001)

    assert run_toy(penstock, work).state == "stopped"


def test_looking_at_pipelines_loads_no_pyspark() -> None:
    code = (
        "import sys, penstock.cli.spark.pipeline; "
        "sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )

    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
