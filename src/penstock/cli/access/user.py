"""``penstock user``: users, who log in with a password.

The password is typed twice, without echo; without a terminal it is the first line of stdin.  It is never an
argument, because every process on the machine could read it.
"""

import sys
from typing import Annotated, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.access import grants
from penstock.cli.access.grants import BytesPerSecond, Grants, MessagesPerSecond, MostConnections
from penstock.cli.arguments import SERVER, OutputOption, Server, Yes, agreed
from penstock.cli.commands import example, new_app
from penstock.cli.screen import Column

app = new_app()

COLUMNS: Final = (Column("name"), *grants.COLUMNS)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@app.command(
    "set",
    epilog=example(
        "penstock user set anna --grant admin",
        "penstock user set ben --grant reader --grant 'consumer:orders*' < password.txt",
    ),
)
def set_(
    name: Name,
    grant: Grants,
    size: BytesPerSecond = None,
    messages: MessagesPerSecond = None,
    connections: MostConnections = None,
    server: Server = SERVER,
) -> None:
    """Create a user, or replace its password, grants and quota."""
    password = _password()
    with connecting.connected(server) as broker:
        broker.set_user(name, password, grant, quota=grants.quota(size, messages, connections))
    screen.note(f"set user {name}")


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


@app.command("list", epilog=example("penstock user list", "penstock user list -o json"))
def list_(output: OutputOption = "table", server: Server = SERVER) -> None:
    """List users."""
    with connecting.connected(server) as broker:
        found = broker.users()
    if output == "json":
        screen.documents(grants.documents(found, ("name",)))
    elif found:
        screen.table(COLUMNS, [(info.name, *grants.columns(info)) for info in found])
    else:
        screen.note("there are no users; create one with: penstock user set")


@app.command(epilog=example("penstock user delete anna"))
def delete(name: Name, yes: Yes = False, server: Server = SERVER) -> int:
    """Delete a user and close its connections."""
    if not agreed(f"Connections of {name} will be closed. Delete the user?", yes):
        return 1
    with connecting.connected(server) as broker:
        broker.delete_user(name)
    screen.note(f"deleted user {name}")
    return 0
