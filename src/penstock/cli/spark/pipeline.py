"""``penstock pipeline``: runs pipelines on Spark, shows their state, stops them.

Only ``run`` loads PySpark, when the pipeline needs it; the other commands use the broker's
topic of pipeline states.
"""

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server, duration, maybe, pairs
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.progress import ProgressBar
from penstock.cli.text import document_of, rounded_duration, time_text
from penstock.errors import InvalidValue, PenstockError
from penstock.spark.pipelines import PIPELINES, check_pipeline, load
from penstock.spark.pipelines.run import states
from penstock.spark.pipelines.run.progress import words
from penstock.spark.pipelines.run.settings import load as load_settings
from penstock.types import check_name, duration_ms

if TYPE_CHECKING:
    from penstock.model.info import PipelineRun

app = new_app(group=True)

LOOK_S: Final = 0.5  # How often `stop` looks whether the run has ended.
TIMES: Final = {"started_ms": "started", "updated_ms": "updated", "progressed_ms": "progressed"}
COLUMNS: Final = [
    screen.Column("name"), screen.Column("state"), screen.Column("records", right=True),
    screen.Column("rows/s", right=True), screen.Column("lag", right=True), screen.Column("details", cut=True),
]  # fmt: skip


def pipeline_name(text: str) -> str:
    try:
        return check_pipeline(text)
    except PenstockError as error:
        raise typer.BadParameter(f"there is no {text!r}; {error.facts['why']}") from None


def run_name(text: str) -> str:
    """The name of a run."""
    try:
        return check_name("pipeline", text)
    except PenstockError as error:
        raise typer.BadParameter(error.sentence.format(**error.facts)) from None


Named = Annotated[str, typer.Argument(metavar="NAME", parser=run_name, help="Name of a run.")]


@app.command(
    epilog=example(
        "penstock pipeline run archive",
        "penstock pipeline run archive --once",
        "penstock pipeline run transform --config totals.toml --master spark://10.0.0.1:7077",
    )
)
def run(
    pipeline: Annotated[
        str, typer.Argument(metavar="NAME", parser=pipeline_name, help=f"{', '.join(PIPELINES)}.")
    ],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings file (TOML).")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One setting; may be repeated.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there now, then exit.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; default: local[*].")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", parser=run_name, help="Name of this run.")
    ] = None,
    ui: Annotated[bool, typer.Option("--ui", help="Start Spark's web UI on port 4040.")] = False,
    server: Server = SERVER,
) -> int:
    """Run a pipeline, until its work is done or it is stopped.

    Ctrl-C, SIGTERM and `penstock pipeline stop` end it after the current batch; a second Ctrl-C at once.
    It may be killed at any time: the next run continues where this one was.
    """
    from penstock.spark.pipelines.run import runner  # Only now: it may load PySpark.

    module = load(pipeline)
    given = pairs("--set", settings or []) | maybe(master=master, name=name, ui="true" if ui else None)
    run_settings, found = load_settings(
        module.Settings,
        text="" if config is None else _text_of(config),
        file=str(config),
        given=given,
        now_ms=connecting.clock().wall_ms(),
    )
    with connecting.connected(server, progress=False, **run_settings.login.options) as broker:
        runner.run(
            pipeline, module, run_settings, found, broker, servers=server, once=once, clock=connecting.clock()
        )
    return 0


def _text_of(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"cannot read {config}: {error}") from None


@app.command("list", epilog=example("penstock pipeline list"))
def list_(output: OutputOption = "table", server: Server = SERVER) -> None:
    """List the pipelines and their last runs."""
    with connecting.connected(server) as broker:
        runs = states.runs(broker)
    now_ms = connecting.clock().wall_ms()
    if output == "json":
        screen.documents(_document(run, now_ms) for run in runs.values())
        return
    rows = [_row(run, now_ms) for run in runs.values()]
    rows += [(name, "-", "", "", "", what) for name, what in PIPELINES.items() if name not in runs]
    screen.table(COLUMNS, rows)


def _row(run: "PipelineRun", now_ms: int) -> tuple[object, ...]:
    return (
        run.name,
        _coloured(states.shown_state(run, now_ms)),
        f"{run.records:,}",
        f"{run.rows_per_second:,.0f}",
        "-" if run.lag_seconds is None else rounded_duration(run.lag_seconds * 1000),
        run.error or run.note or PIPELINES.get(run.pipeline, run.pipeline),
    )


def _coloured(state: str) -> object:
    style = {"running": "green", "failed": "bold red", states.LOST: "bold red"}.get(state, "")
    return screen.styled(state, style)


@app.command(epilog=example("penstock pipeline status", "penstock pipeline status archive -o json"))
def status(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", parser=run_name, help="Name of a run; default: all."),
    ] = None,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Show the progress, host and result of runs."""
    with connecting.connected(server) as broker:
        runs = states.runs(broker)
    now_ms = connecting.clock().wall_ms()
    found = list(runs.values()) if name is None else [_known(runs, name)]
    if output == "json":
        screen.documents(_document(run, now_ms) for run in found)
    elif not found:
        screen.note("no pipeline has run yet; start one with: penstock pipeline run archive")
    for number, run in enumerate(found if output == "table" else []):
        if number:
            screen.line("")
        screen.facts(_facts(run, now_ms))


def _known(runs: "dict[str, PipelineRun]", name: str) -> "PipelineRun":
    if name not in runs:
        known = f"there are {', '.join(runs)}" if runs else "none has run yet"
        raise InvalidValue(name="pipeline", value=name, why=f"no run of that name is known; {known}")
    return runs[name]


def _facts(run: "PipelineRun", now_ms: int) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        (run.name, _coloured(states.shown_state(run, now_ms))),
        ("pipeline", f"{run.pipeline}: {PIPELINES.get(run.pipeline, '')}"),
        ("runs on", f"{run.host}, process {run.pid}, Spark on {run.master}"),
        ("started", f"{time_text(run.started_ms)} UTC"),
        ("heard of", f"{rounded_duration(max(now_ms - run.updated_ms, 0))} ago"),
        ("done", ", ".join(words(run))),
    ]
    if run.progressed_ms:
        facts.append(("last progress", f"{time_text(run.progressed_ms)} UTC"))
    return [*facts, ("error", screen.styled(run.error, "red"))] if run.error else facts


def _document(run: "PipelineRun", now_ms: int) -> dict[str, object]:
    return document_of(run, TIMES) | {"state": states.shown_state(run, now_ms)}


@app.command(epilog=example("penstock pipeline stop archive"))
def stop(
    name: Named,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", parser=duration, help="How long to wait for it to stop.")
    ] = "60s",
    server: Server = SERVER,
) -> int:
    """Stop a run on any machine, and wait until it has ended."""
    clock = connecting.clock()
    until_ms = clock.steady_ms() + duration_ms("timeout", timeout)
    with connecting.connected(server, progress=False) as broker:
        run = _known(states.runs(broker), name)
        if not states.is_live(run, clock.wall_ms()):
            screen.note(f"{name} is not running: it is {states.shown_state(run, clock.wall_ms())}")
            return 0
        states.ask_to_stop(broker, run, by=socket.gethostname(), now_ms=clock.wall_ms())
        with ProgressBar("waiting until it has stopped", unit=""):
            while states.is_live(run, clock.wall_ms()) and clock.steady_ms() < until_ms:
                connecting.pause(LOOK_S)
                run = states.runs(broker)[name]
    if states.is_live(run, clock.wall_ms()):
        screen.note(f"{name} was asked to stop but is still running; see: penstock pipeline status {name}")
        return 1
    screen.note(f"{name} is {states.shown_state(run, clock.wall_ms())}")
    return 0
