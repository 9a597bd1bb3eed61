"""``penstock trace ID``: everything that happened to one message, per group, as a timeline.

The journal records every delivery and settlement, so a trace is available for every message: when it was
published, which consumers received it, how often and why it failed, and when it was settled.  Times are UTC,
with the time since the publish.
"""

import re
from typing import Annotated, Any, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server
from penstock.cli.commands import example, new_app
from penstock.cli.data import timeline
from penstock.cli.text import bytes_field, document_of
from penstock.model.trace import Trace

app = new_app()


_ID: Final = re.compile(
    r"[^:]+:\d+:s?\d+|[^:@]+-\d+@\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE
)


def _id(text: str) -> str:
    """Check the syntax of the id of a message or schedule."""
    if not _ID.fullmatch(text):
        why = (
            "is not an id such as orders:0:7, orders:0:s3 of a schedule, orders-0@7 of a Kafka client, "
            "or the UUID of a client of SQS or KQueue"
        )
        raise typer.BadParameter(f"{text!r} {why}")
    return text


@app.command(epilog=example("penstock trace orders:0:7", "penstock trace orders:0:7 -o json | jq .events"))
def trace(
    message: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC:PARTITION:OFFSET", parser=_id, help="Id or UUID of a message, or of a schedule."
        ),
    ],
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Show everything that happened to a message: published, delivered, failed, settled."""
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
        "offset": trace.offset if trace.offset >= 0 else None,
        **bytes_field("key", trace.key),
        "events": [document_of(event, {"time_ms": "time"}) for event in trace.events],
        "latency_ms": {group: trace.latency_ms(group) for group in groups},
    }
