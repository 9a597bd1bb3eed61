"""Real nodes in real processes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.server.process import Server

import penstock

TOPIC = "orders"
PARTITIONS = 6
PATIENCE_S = 60.0
LISTENERS = ("native", "kafka", "peer")

Make = Callable[[Path, str, int], Server]  # From a directory, the URL of the store, and a number.


def settings(store: str, node: int, name: str = "shop") -> dict[str, str]:
    """The environment of a node."""
    return {
        "PENSTOCK_CLUSTER__NAME": name,
        "PENSTOCK_CLUSTER__STORE": store,
        "PENSTOCK_CLUSTER__NODE": str(node),
        "PENSTOCK_LISTEN__TEXT": "off",
        "PENSTOCK_LISTEN__STATUS": "off",
    }


def node_server(home: Path, store: str, number: int) -> Server:
    return Server(home, settings=settings(store, number), listeners=LISTENERS)


class Nodes:
    """A cluster; each node is a ``penstock serve``."""

    def __init__(self, folder: Path, store: str, count: int = 3, make: Make = node_server) -> None:
        self.servers: list[Server] = []
        for number in range(1, count + 1):
            home = folder / f"node-{number}"
            home.mkdir()
            self.servers.append(make(home, store, number))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for server in self.servers:
            self._stack.push(server)
        with ThreadPoolExecutor(len(self.servers)) as pool:
            list(pool.map(Server.start, self.servers))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self, number: int) -> penstock.Broker:
        return penstock.connect(self.servers[number - 1].url)
