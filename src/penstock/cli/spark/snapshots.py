"""``penstock lake snapshot NAME`` and ``penstock lake snapshots``: named points in time.

A snapshot is a position in every partition and copies nothing; ``penstock consume
--from-snapshot NAME`` starts there, including records that retention has deleted since.
"""

from typing import Annotated

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server, topic_name
from penstock.cli.commands import CliApp, example
from penstock.cli.text import counted, document_of, time_text
from penstock.errors import PenstockError
from penstock.spark.replay import snapshots
from penstock.types import check_name

TIMES = {"taken_ms": "taken"}
COLUMNS = [
    screen.Column("snapshot"),
    screen.Column("taken (UTC)"),
    screen.Column("topics", cut=True),
    screen.Column("messages", right=True),
]


def snapshot_name(text: str) -> str:
    """The name of a snapshot."""
    try:
        return check_name("snapshot", text)
    except PenstockError as error:
        raise typer.BadParameter(error.sentence.format(**error.facts)) from None


def topic_names(text: str) -> list[str]:
    """Topics with commas between them."""
    return [topic_name(name.strip()) for name in text.split(",")]


def add_to(app: CliApp) -> None:
    """Make them commands of a group."""
    app.command("snapshot", epilog=example("penstock lake snapshot before-upgrade"))(snapshot)
    app.command("snapshots", epilog=example("penstock lake snapshots"))(list_)


def snapshot(
    name: Annotated[str, typer.Argument(metavar="NAME", parser=snapshot_name, help="A new name.")],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", parser=topic_names, metavar="A,B", help="Only these topics; default: all."),
    ] = None,
    server: Server = SERVER,
) -> None:
    """Record the current end of every partition under a name."""
    with connecting.connected(server) as broker:
        chosen = [each for some in topics for each in some] if topics else None
        taken = snapshots.take(broker, name, connecting.clock().wall_ms(), chosen)
    count = sum(len(offsets) for offsets in taken.topics.values())
    screen.note(
        f"{name}: {counted(count, 'partition')} of {counted(len(taken.topics), 'topic')} "
        f"at {time_text(taken.taken_ms)} UTC"
    )


def list_(output: OutputOption = "table", server: Server = SERVER) -> None:
    """List the snapshots, oldest first."""
    with connecting.connected(server) as broker:
        known = list(snapshots.known(broker).values())
    if output == "json":
        screen.documents(document_of(each, TIMES) for each in known)
    elif not known:
        screen.note("there are no snapshots; take one with: penstock lake snapshot NAME")
    else:
        screen.table(COLUMNS, map(_row, known))


def _row(taken: snapshots.TopicSnapshot) -> tuple[object, ...]:
    messages = sum(sum(offsets.values()) for offsets in taken.topics.values())
    return taken.name, time_text(taken.taken_ms), ", ".join(sorted(taken.topics)), f"{messages:,}"
