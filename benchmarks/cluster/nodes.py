"""Nodes of a measured cluster, each in a process of its own."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import Process, said_until_ready


class Requests(NamedTuple):
    """What a node has asked of the store so far."""

    number: int
    read_bytes: int


class ClusterNode(Process):
    """``penstock serve`` as a node; ``url`` is its native address."""

    def __init__(self, folder: Path, store: str, number: int) -> None:
        self.number = number
        self.data = folder / f"node-{number}"
        self._counts = folder / f"requests-{number}"
        settings = {
            "PENSTOCK_CLUSTER__NAME": "bench",
            "PENSTOCK_CLUSTER__STORE": store,
            "PENSTOCK_CLUSTER__NODE": str(number),
            "PENSTOCK_CLUSTER__PEER": "127.0.0.1:0",
        }
        off = ("--text", "off", "--status", "off", "--kafka", "off", "--http", "off")
        flags = ("serve", "--data", str(self.data), "--native", "127.0.0.1:0", *off)
        module = "benchmarks.cluster.counted_node"
        super().__init__(["-m", module, str(self._counts), *flags], settings)
        self.url = said_until_ready(self.line)["native"]

    def requests(self) -> Requests:
        lines = self._counts.read_text().splitlines()
        return Requests(len(lines), sum(int(line.split()[1]) for line in lines))

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()

    def stop(self) -> float:
        """Have it hand its partitions over and end; the seconds until it has ended."""
        began = time.perf_counter()
        self._child.send_signal(signal.SIGTERM)
        self._child.wait()
        return time.perf_counter() - began


@contextmanager
def nodes(folder: Path, store: str, count: int) -> Iterator[list[ClusterNode]]:
    """A new cluster of so many nodes."""
    folder.mkdir()
    started: list[ClusterNode] = []
    try:
        for number in range(1, count + 1):
            started += [ClusterNode(folder, store, number)]
        yield started
    finally:
        for node in reversed(started):
            node.__exit__()
