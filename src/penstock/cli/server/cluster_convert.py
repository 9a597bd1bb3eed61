"""``penstock cluster convert`` and ``leave``: from a plain data directory to a cluster, and back.

Both work on a directory and a store, while no server runs, and are configured as ``penstock serve`` is.
"""

from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.progress import ProgressBar
from penstock.cli.server.serve import ConfigFile, load
from penstock.cli.text import counted, rounded_size
from penstock.clock import SystemClock
from penstock.config.server import ServerConfig
from penstock.errors import InvalidConfiguration
from penstock.store.opening import open_store
from penstock.store.probe import require_safe

Data = Annotated[str | None, typer.Option("--data", metavar="DIR", help="Data directory. [data]")]
Name = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Name of the cluster.")]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Its store: file://, s3://, postgresql://, ...")
]
Number = Annotated[str | None, typer.Option("--node", metavar="N", help="Number of this node, from 1.")]


def convert(
    data: Data = None,
    cluster: Name = None,
    store: StoreUrl = None,
    node: Number = None,
    config: ConfigFile = None,
) -> None:
    """Convert a stopped server to the first node of a cluster.

    Its data directory is uploaded to the store. Nothing is lost if it is interrupted: run it again.
    """
    from penstock.cluster.conversion.converting import convert as convert_directory
    from penstock.cluster.conversion.converting import total_bytes

    settings = _settings(data, cluster, store, node, config)
    name, url, directory = settings.cluster.name, settings.cluster.store, settings.server.data
    clock = SystemClock()
    require_safe(lambda: open_store(url, clock))
    with ProgressBar(f"converting {directory}", total=total_bytes(directory), unit="bytes") as progress:
        opened = open_store(url, clock)
        try:
            done = convert_directory(directory, opened, name, settings.cluster.node, clock, progress.advance)
        finally:
            opened.close()
    screen.note(
        f"converted {counted(done.topics, 'topic')} with {counted(done.partitions, 'partition')}, "
        f"{rounded_size(done.bytes)}, to the cluster {name!r}"
    )
    screen.note(f"start it with: penstock serve --data {directory} --cluster {name} --store {url} ...")
    screen.note(f"the old files are in {done.kept}; delete them when you do not need them any more")


def leave(
    data: Data = None,
    cluster: Name = None,
    store: StoreUrl = None,
    node: Number = None,
    config: ConfigFile = None,
) -> None:
    """Turn a stopped cluster back into one data directory.

    This ends the cluster. Nothing is lost if it is interrupted: run it again.
    """
    from penstock.cluster.conversion.leaving import leave as leave_cluster

    settings = _settings(data, cluster, store, node, config)
    name, directory = settings.cluster.name, settings.server.data
    clock = SystemClock()
    with ProgressBar(f"loading {name}", unit=""):
        opened = open_store(settings.cluster.store, clock)
        try:
            done = leave_cluster(directory, opened, name, settings.cluster.node, clock)
        finally:
            opened.close()
    screen.note(
        f"{directory} has {counted(done.topics, 'topic')} with {counted(done.partitions, 'partition')}; "
        f"the cluster {name!r} has ended"
    )
    screen.note(f"start it with: penstock serve --data {directory}")
    screen.note(f"its objects are still in {opened.url}; delete them when you do not need them any more")


def _settings(
    data: str | None, cluster: str | None, store: str | None, node: str | None, file: str | None
) -> ServerConfig:
    flags = {"server.data": data, "cluster.name": cluster, "cluster.store": store, "cluster.node": node}
    config = load({key: value for key, value in flags.items() if value is not None}, file).config
    if not config.cluster.name:
        raise InvalidConfiguration(problems="  which cluster? give --cluster, --store and --node")
    return config
