"""Real nodes in real processes, a load on them, and what it was answered."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.server.process import Server

import penstock

TOPIC = "orders"
PARTITIONS = 6
WRITERS = 8
PAGE = 1000
PATIENCE_S = 60.0

Position = tuple[int, int]  # Partition and offset.


def settings(store: str, node: int, name: str = "shop") -> dict[str, str]:
    """The environment of a node."""
    return {
        "PENSTOCK_CLUSTER__NAME": name,
        "PENSTOCK_CLUSTER__STORE": store,
        "PENSTOCK_CLUSTER__NODE": str(node),
        "PENSTOCK_LISTEN__TEXT": "off",
        "PENSTOCK_LISTEN__STATUS": "off",
    }


class Nodes:
    """A cluster; each node is a ``penstock serve``."""

    def __init__(self, folder: Path, store: str, count: int = 3) -> None:
        self.servers: list[Server] = []
        for number in range(1, count + 1):
            home = folder / f"node-{number}"
            home.mkdir()
            self.servers.append(
                Server(home, settings=settings(store, number), listeners=("native", "kafka", "peer"))
            )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for server in self.servers:
            self._stack.enter_context(server)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connect(self, number: int) -> penstock.Broker:
        return penstock.connect(self.servers[number - 1].url)


class Load:
    """Writers with a connection to one node each; every answer is kept."""

    def __init__(self, nodes: Nodes, entries: list[int]) -> None:
        self.stored: dict[Position, bytes] = {}
        self.failures: list[str] = []
        self.counts = [0] * WRITERS
        self.longest_s = 0.0  # Between two answers of a writer.
        self._nodes = nodes
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(number, entries[number % len(entries)]))
            for number in range(WRITERS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int, entry: int) -> None:
        with self._nodes.connect(entry) as broker:
            count, before_s = 0, time.monotonic()
            while not self._stop.is_set():
                value = b"%d-%d" % (number, count)
                try:
                    receipt = broker.publish(TOPIC, value, key=str(number))
                except penstock.PenstockError as error:
                    self.failures.append(str(error))
                else:
                    assert receipt.offset is not None
                    self.stored[receipt.partition, receipt.offset] = value
                    self.counts[number] += 1
                now_s = time.monotonic()
                self.longest_s = max(self.longest_s, now_s - before_s)
                count, before_s = count + 1, now_s

    def wait_for(self, more: int) -> None:
        """Until each writer has been answered so many more times: no partition is without an owner."""
        before = list(self.counts)
        wait_until(lambda: min(now - then for now, then in zip(self.counts, before, strict=True)) >= more)

    def check(self, broker: penstock.Broker) -> None:
        """Every answer is true: each message is where it was said to be, once, in the order of its writer."""
        found = everything(broker)
        lost = {where: value for where, value in self.stored.items() if found.get(where) != value}
        assert lost == {}
        assert [value for value, count in Counter(found.values()).items() if count > 1] == []
        for number in range(WRITERS):
            mine = [value for _, value in sorted(found.items()) if value.startswith(b"%d-" % number)]
            assert mine == sorted(mine, key=lambda value: int(value.split(b"-")[1]))


def everything(broker: penstock.Broker) -> dict[Position, bytes]:
    found: dict[Position, bytes] = {}
    for partition in range(PARTITIONS):
        offset = 0
        while messages := broker.read(TOPIC, partition=partition, offset=offset, limit=PAGE):
            found |= {(message.partition, message.offset): message.value for message in messages}
            offset = messages[-1].offset + 1
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
