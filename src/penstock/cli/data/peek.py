"""``penstock peek TOPIC``: print the last messages of a topic.

It only reads: no group is affected.
"""

from typing import Annotated

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, Partition, Server, Topic
from penstock.cli.commands import example, new_app
from penstock.cli.data.messages import FormatOption, printer

app = new_app()


@app.command(epilog=example("penstock peek orders", "penstock peek orders --count 1 -o json | jq ."))
def peek(
    topic: Topic,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Number of messages.")] = 10,
    partition: Partition = None,
    output: FormatOption = "table",
    server: Server = SERVER,
) -> None:
    """Print the last messages of a topic, oldest first, without consuming them."""
    with connecting.connected(server) as broker:
        found = broker.peek(topic, count, partition=partition)
        if not found:
            screen.note(f"{topic} has no messages")
        printer(output, broker)(found)
