"""``penstock config show``: every setting of a server, its value and its origin."""

from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.arguments import OutputOption
from penstock.cli.commands import example, new_app
from penstock.cli.server.serve import ConfigFile, load

app = new_app(group=True)


@app.command(
    epilog=example(
        "penstock config show",
        "penstock config show --config penstock.toml --changed",
        "PENSTOCK_TOPIC__RETENTION=14d penstock config show -o json",
    )
)
def show(
    config: ConfigFile = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that differ from the default.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Show the settings of `penstock serve`, and their origins.

    The values are those that it would use here: from the file, the environment, or the default.
    """
    loaded = load({}, config)
    rows = [row for row in loaded.rows() if not changed or row[2] != "default"] + loaded.unused()
    if output == "json":
        screen.documents({"key": key, "value": value, "origin": origin} for key, value, origin in rows)
        return
    if not rows:
        screen.note("no setting differs from its default")
        return
    columns = [screen.Column("setting"), screen.Column("value", text=True), screen.Column("from", text=True)]
    screen.table(columns, rows)
