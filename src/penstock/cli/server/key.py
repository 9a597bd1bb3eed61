"""``penstock key``: API keys, for programs that come to a server which asks for them.

The text of a key is printed once, by ``create``, and nothing else goes to stdout,
so a script can take it from there.  A key is revoked by its id, the part behind ``pk_``.
"""

from typing import Annotated, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server, Yes, agreed
from penstock.cli.commands import example, new_app
from penstock.cli.screen import Column
from penstock.cli.server import grants
from penstock.cli.server.grants import BytesPerSecond, Grants, MessagesPerSecond, MostConnections

app = new_app()

COLUMNS: Final = (Column("id"), Column("name"), *grants.COLUMNS)


@app.command(
    epilog=example(
        "penstock key create billing --grant consumer:orders:billing --grant producer:invoices",
        "penstock key create shop-eu --grant 'producer:eu.*' --messages 1000 --connections 20",
    )
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    grant: Grants,
    size: BytesPerSecond = None,
    messages: MessagesPerSecond = None,
    connections: MostConnections = None,
    server: Server = SERVER,
) -> None:
    """Make a key and print it.  This is the only time that it is shown."""
    with connecting.connected(server) as broker:
        made = broker.create_key(name, grant, quota=grants.quota(size, messages, connections))
    screen.line(made.key)
    screen.note(f"keep it: nobody can show it again; its id is {made.id}")


@app.command("list", epilog=example("penstock key list", "penstock key list -o json"))
def list_(output: OutputOption = "table", server: Server = SERVER) -> None:
    """The keys there are, the oldest first, without their secrets."""
    with connecting.connected(server) as broker:
        found = broker.keys()
    if output == "json":
        screen.documents(grants.documents(found, ("id", "name")))
    elif found:
        screen.table(COLUMNS, [(info.id, info.name, *grants.columns(info)) for info in found])
    else:
        screen.note("there are no keys; penstock key create makes one")


@app.command(epilog=example("penstock key revoke 5b2c0d9e7f10"))
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a key; see penstock key list.")],
    yes: Yes = False,
    server: Server = SERVER,
) -> int:
    """End a key; whoever is connected with it is cut off."""
    if not agreed(f"Whoever uses key {key_id} is cut off. Revoke it?", yes):
        return 1
    with connecting.connected(server) as broker:
        broker.revoke_key(key_id)
    screen.note(f"revoked {key_id}")
    return 0
