"""``penstock schedule``: list, add and cancel scheduled messages.

Messages of ``produce --delay`` and ``--deliver-at`` are listed here too; ``add`` creates recurring ones, with
a cron expression and a time zone.  ``cancel`` takes the id of a schedule (``orders:0:s3``).
"""

from typing import Annotated, Any

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, MaybeTopic, OutputOption, Server, Topic, pairs
from penstock.cli.commands import example, new_app
from penstock.cli.data.produce import Header, Into, Key, Priority
from penstock.cli.screen import Column
from penstock.cli.text import bytes_field, document_of, safe_bytes, shortened, time_text
from penstock.model.info import ScheduledMessage

app = new_app()

VALUE_WIDTH = 60
COLUMNS = (Column("id"), Column("due (UTC)"), Column("recurs", text=True), Column("value", cut=True))


@app.command("list", epilog=example("penstock schedule list", "penstock schedule list orders -o json"))
def list_(
    topic: MaybeTopic = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number per topic.")
    ] = 1000,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """List scheduled messages, the next one first."""
    with connecting.connected(server) as broker:
        topics = broker.topics() if topic is None else [topic]
        found = [message for name in topics for message in broker.scheduled(name, limit)]
        more = sum(map(broker.scheduled_count, topics)) - len(found)
    found.sort(key=lambda message: message.due_ms)
    if output == "json":
        screen.documents(map(document, found))
    elif found:
        screen.table(COLUMNS, map(_row, found))
    else:
        screen.note("nothing is scheduled" + ("" if topic is None else f" in {topic}"))
    if more > 0:
        screen.note(f"and {more:,} more; --limit shows them")


def _row(message: ScheduledMessage) -> list[object]:
    again = "" if message.cron is None else f"{message.cron} {message.timezone or 'UTC'}"
    value = "(tombstone)" if message.value is None else shortened(safe_bytes(message.value), VALUE_WIDTH)
    return [message.id, time_text(message.due_ms), again, value]


def document(message: ScheduledMessage) -> dict[str, Any]:
    """A scheduled message as a document."""
    fields = document_of(message, {"due_ms": "due"})
    return fields if message.key is not None else fields | bytes_field("key", None)


@app.command(
    epilog=example(
        'penstock schedule add reports "weekly" --cron "0 9 * * mon-fri" --timezone Europe/Berlin',
    )
)
def add(
    topic: Topic,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The message.")],
    cron: Annotated[
        str, typer.Option(metavar="EXPRESSION", help="Cron expression: minute, hour, day, month, weekday.")
    ],
    timezone: Annotated[str, typer.Option(metavar="NAME", help="Time zone of the cron expression.")] = "UTC",
    key: Key = None,
    header: Header = [],  # noqa: B006 - typer reads it, nobody writes to it
    priority: Priority = None,
    partition: Into = None,
    server: Server = SERVER,
) -> None:
    """Publish a message repeatedly; prints the schedule's id.  For one delay, use produce --delay."""
    with connecting.connected(server) as broker:
        made = broker.schedule(
            topic, value.encode("utf-8", "surrogateescape"), cron=cron, timezone=timezone, key=key,
            headers=pairs("--header", header) or None, priority=priority or 0, partition=partition,
        )  # fmt: skip
    screen.line(made)


@app.command(epilog=example("penstock schedule cancel orders:0:s3"))
def cancel(
    schedule: Annotated[str, typer.Argument(metavar="ID", help="The id of a schedule, such as orders:0:s3.")],
    output: OutputOption = "table",
    server: Server = SERVER,
) -> int:
    """Cancel a scheduled message.  Exit code 1 if it was already delivered, or does not exist."""
    with connecting.connected(server) as broker:
        answer = broker.cancel(schedule)
    if output == "json":
        screen.documents([{"id": schedule, "answer": answer}])
    else:
        words = {
            "cancelled": "cancelled",
            "delivered": "too late: it was already delivered",
            "unknown": "there is no such schedule",
        }
        (screen.line if answer == "cancelled" else screen.note)(words[answer])
    return 0 if answer == "cancelled" else 1
