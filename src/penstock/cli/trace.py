"""``penstock trace ID``: everything that happened to one message, for each group, as a timeline.

The journal keeps every decision, so every message can be asked about: when it
was published, to whom it went, how often and why it failed, and when it was
settled.  Times are UTC, and counted from when it was published.
"""

from typing import Annotated, Any

import typer

from penstock.cli import connecting, screen, timeline
from penstock.cli.arguments import SERVER, OutputOption, Server
from penstock.cli.commands import example, new_app
from penstock.cli.text import bytes_field, document_of
from penstock.trace import Trace

app = new_app()


def _id(text: str) -> str:
    """An id of a message, by its looks."""
    topic, _, place = text.partition(":")
    partition, _, offset = place.partition(":")
    if not topic or not partition.isdigit() or not offset.isdigit():
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION:OFFSET, such as orders:0:7")
    return text


@app.command(epilog=example("penstock trace orders:0:7", "penstock trace orders:0:7 -o json | jq .events"))
def trace(
    message: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION:OFFSET", parser=_id, help="The id of a message.")
    ],
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Everything that happened to a message: published, delivered, failed, settled."""
    with connecting.connected(server) as broker:
        found = broker.trace(message)
    if output == "json":
        screen.documents([document(found)])
        return
    colour = screen.wants_colour()
    for line in timeline.lines(found, timeline.paint if colour else (lambda text, _: text)):
        screen.line(line)


def document(trace: Trace) -> dict[str, Any]:
    """A trace as a document."""
    groups = dict.fromkeys(event.group for event in trace.events if event.group)
    return {
        "id": trace.id,
        "topic": trace.topic,
        "partition": trace.partition,
        "offset": trace.offset,
        **bytes_field("key", trace.key),
        "events": [document_of(event, {"time_ms": "time"}) for event in trace.events],
        "latency_ms": {group: trace.latency_ms(group) for group in groups},
    }
