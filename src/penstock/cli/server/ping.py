"""``penstock ping``: version, uptime and round-trip time of a server."""

from typing import Annotated, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server
from penstock.cli.commands import example, new_app
from penstock.cli.text import document_of, rounded_duration
from penstock.clock import stopwatch_ns

app = new_app()

ROUNDS: Final = 5  # Round trips; the first one finds everything cold.


@app.command(
    epilog=example("penstock ping", "penstock ping --server penstock://queue.example:7070 || echo down")
)
def ping(
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Round trips.")] = ROUNDS,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Show the version and round-trip time of a server; exit code 1 if it cannot be reached."""
    with connecting.connected(server) as broker:
        info = broker.stats()
        trips_ms = []
        for _ in range(count):
            start_ns = stopwatch_ns()
            broker.topics()
            trips_ms.append((stopwatch_ns() - start_ns) / 1e6)
    quickest, slowest = min(trips_ms), max(trips_ms)
    if output == "json":
        fields = document_of(info)
        screen.documents([{"server": server, "round_trip_ms": round(quickest, 3), **fields}])
        return
    build = "compiled" if info.compiled else "interpreted"
    up = rounded_duration(info.uptime_seconds * 1000)
    screen.line(f"penstock {info.version} ({build}) at {server}, up for {up}")
    screen.line(f"round trip {rounded_duration(quickest)}, at most {rounded_duration(slowest)} of {count}")
