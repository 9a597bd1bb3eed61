"""``penstock repair DIR``: repairs a damaged data directory."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cli import screen
from penstock.cli.arguments import OutputOption
from penstock.cli.commands import example, new_app
from penstock.cli.server.check import Directory, within
from penstock.cli.text import counted, document_of

app = new_app()


@contextmanager
def quiet() -> Iterator[None]:
    """Let the log of the broker say nothing."""
    logger = logging.getLogger("penstock")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@app.command(epilog=example("cp -r data data.copy", "penstock repair data"))
def repair(directory: Directory, output: OutputOption = "table") -> None:
    """Move damaged data aside, so that everything else works again.

    Nothing is deleted: damaged files and bytes are renamed, and the command reports what is lost.  If you
    have a backup of a damaged file, restore that instead.  Copy the directory first.
    """
    # Only now: the broker is not needed by most commands.
    from penstock.broker.checking import repair_directory
    from penstock.log.files import SystemFiles

    done = []
    with quiet():  # It opens a broker, whose log says in other words what is said here.
        for each in repair_directory(SystemFiles(), directory):
            done.append(each)
            if output == "table":
                screen.line(within(directory, each.path))
                screen.line(f"  {each.what}".replace(f"{directory.rstrip('/')}/", ""))
    if output == "json":
        screen.documents(map(document_of, done))
        return
    lost = sum(each.lost for each in done)
    verdict = (
        f"{counted(len(done), 'repair')}, {counted(lost, 'offset')} lost" if done else "nothing to repair"
    )
    screen.line(verdict)
