"""``penstock worker MODULE:APP``: run the functions of an app until Ctrl-C or SIGTERM.

Everything goes to stderr: the start-up output, which lists functions and server, and the log.
"""

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli import screen
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.text import counted, rounded_duration
from penstock.version import version_line
from penstock.workers.loading import NoSuchApp, load_app
from penstock.workers.reloading import Reloader

if TYPE_CHECKING:
    from penstock.workers.app import App
    from penstock.workers.functions import WorkerFunction

app = new_app()

TITLES: Final = ("function", "topic or schedule", "group", "at once", "timeout", "tries")


@app.command(epilog=example("penstock worker shop.tasks:app", "penstock worker shop.tasks:app --reload"))
def worker(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Module and name of the app.")],
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of the server. [the app's, or $PENSTOCK_SERVER, or localhost]"
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a source file in the current directory changes.")
    ] = False,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Log level: debug, info, warning or error.")
    ] = "info",
) -> int:
    """Run the functions of an app, until Ctrl-C or SIGTERM.

    Running functions finish first; messages of functions that do not finish in time are released. A second
    Ctrl-C stops at once.
    """
    level = logging.getLevelNamesMapping().get(log_level.upper())
    if level is None:
        raise WrongUse(f"there is no log level {log_level!r}; use debug, info, warning or error")
    if reload:
        return _run_again_and_again(target, server, level)
    found = _load(target)
    _begin_log(level)
    if server is not None:
        found.use_server(server)
    for line in start_screen(target, found):
        screen.note(line)
    found.run()
    return 0


def _load(target: str) -> "App":
    try:
        return load_app(target)
    except NoSuchApp as error:
        raise WrongUse(str(error)) from None


def _begin_log(level: int) -> None:
    """Unless the app's module has set its own."""
    logging.basicConfig(stream=sys.stderr, format=screen.LOG_FORMAT, level=level)


def _run_again_and_again(target: str, server: str | None, level: int) -> int:
    _begin_log(level)
    command = [sys.executable, "-m", "penstock", "worker", target, "--log-level", logging.getLevelName(level)]
    if server is not None:
        command += ["--server", server]
    here = os.getcwd()
    screen.note(f"watching the source files in {here}; press Ctrl-C to stop")
    return Reloader(command, here).run()


def start_screen(target: str, found: "App") -> list[str]:
    rows = [TITLES, *(_row(function) for function in found.functions)]
    widths = [max(len(row[number]) for row in rows) for number in range(len(TITLES))]
    lines = [f"{version_line()}: {target} with {counted(len(rows) - 1, 'function')} at {found.server}", ""]
    for row in rows:
        cells = [
            cell.rjust(width) if number >= 3 else cell.ljust(width)  # Numbers at the right.
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    seconds = rounded_duration(found.stop_timeout_ms)
    return [*lines, "", f"Press Ctrl-C to stop; running functions have {seconds} to finish."]


def _row(function: "WorkerFunction") -> tuple[str, ...]:
    recurring = function.recurring
    return (
        function.name,
        function.topic if recurring is None else f"{recurring.cron} ({recurring.timezone})",
        function.group,
        str(function.concurrency),
        "none" if function.timeout_ms is None else rounded_duration(function.timeout_ms),
        str(function.settings.max_attempts),
    )
