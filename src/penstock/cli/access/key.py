"""``penstock key``: API keys for programs.

``create`` prints the key once, and nothing else on stdout, so that a script can capture it; with ``--sqs``
two more lines, as a shell reads them.  ``revoke`` takes the id of a key, the part after ``pk_``.
"""

from typing import Annotated, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.access import grants
from penstock.cli.access.grants import BytesPerSecond, Grants, MessagesPerSecond, MostConnections
from penstock.cli.arguments import SERVER, OutputOption, Server, Yes, agreed
from penstock.cli.commands import example, new_app
from penstock.cli.screen import Column
from penstock.model.access import signing_secret

app = new_app()

COLUMNS: Final = (Column("id"), Column("name"), *grants.COLUMNS)


@app.command(
    epilog=example(
        "penstock key create billing --grant consumer:orders:billing --grant producer:invoices",
        "penstock key create jobs --grant admin:jobs --sqs",
        "penstock key create shop-eu --grant 'producer:eu.*' --messages 1000 --connections 20",
    )
)
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the key, such as the program that uses it.")
    ],
    grant: Grants,
    size: BytesPerSecond = None,
    messages: MessagesPerSecond = None,
    connections: MostConnections = None,
    sqs: Annotated[
        bool, typer.Option("--sqs", help="It can also sign requests of SQS clients: print AWS credentials.")
    ] = False,
    server: Server = SERVER,
) -> None:
    """Create a key and print it.  It cannot be shown again."""
    with connecting.connected(server) as broker:
        made = broker.create_key(name, grant, quota=grants.quota(size, messages, connections), signing=sqs)
    screen.line(made.key)
    if sqs:
        screen.line(f"AWS_ACCESS_KEY_ID={made.id}")
        screen.line(f"AWS_SECRET_ACCESS_KEY={signing_secret(made.key.split('_', 2)[2])}")
    screen.note(f"store it now: it cannot be shown again; its id is {made.id}")


@app.command("list", epilog=example("penstock key list", "penstock key list -o json"))
def list_(output: OutputOption = "table", server: Server = SERVER) -> None:
    """List keys, the oldest first, without their secrets."""
    with connecting.connected(server) as broker:
        found = broker.keys()
    if output == "json":
        screen.documents(grants.documents(found, ("id", "name")))
    elif found:
        screen.table(COLUMNS, [(info.id, info.name, *grants.columns(info)) for info in found])
    else:
        screen.note("there are no keys; create one with: penstock key create")


@app.command(epilog=example("penstock key revoke 5b2c0d9e7f10"))
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a key; see penstock key list.")],
    yes: Yes = False,
    server: Server = SERVER,
) -> int:
    """Revoke a key and close the connections that use it."""
    if not agreed(f"Connections that use key {key_id} will be closed. Revoke it?", yes):
        return 1
    with connecting.connected(server) as broker:
        broker.revoke_key(key_id)
    screen.note(f"revoked {key_id}")
    return 0
