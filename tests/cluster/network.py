"""Nodes in network namespaces of one machine, and routes between them that can be cut; for root only.

    the test and the store    addresses .1 and .2 on a bridge
    node n                    address .1n, in a namespace of its own

A cut is a blackhole route: packets to that address are dropped where they are sent, so one direction can be
cut alone.  A node that is cut off from its peers does not answer clients either: they connect to owners
directly, and an owner that still commits for them is not replaced (rule 13).  Everything has the process
id in its name, and is removed at the end.
"""

import ctypes
import os
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from tests.cluster.nodes import LISTENERS, settings
from tests.server.process import Server

CLONE_NEWNET = 0x40000000


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def enter(namespace: str) -> None:
    """Have this process in a network namespace; Python has it since 3.12."""
    with Path(f"/var/run/netns/{namespace}").open() as opened:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(opened.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


class Network:
    def __init__(self, nodes: int = 3) -> None:
        self._nodes = range(1, nodes + 1)
        self._name = f"ps{os.getpid() % 100_000}"
        self._prefix = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self._clients = f"{self._prefix}.1"
        self.store = f"{self._prefix}.2"
        self._stack = ExitStack()

    def address(self, node: int) -> str:
        return f"{self._prefix}.{10 + node}"

    def _namespace(self, node: int) -> str:
        return f"{self._name}n{node}"

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make(self) -> None:
        bridge = self._name
        ip("link", "add", bridge, "type", "bridge")
        self._stack.callback(ip, "link", "del", bridge)
        for last in (1, 2):
            ip("addr", "add", f"{self._prefix}.{last}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for node in self._nodes:
            namespace, outside = self._namespace(node), f"{self._name}v{node}"
            ip("netns", "add", namespace)
            self._stack.callback(ip, "netns", "del", namespace)
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            ip("link", "set", outside, "master", bridge, "up")
            ip("-n", namespace, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", namespace, "link", "set", device, "up")

    def server(self, home: Path, store: str, node: int) -> Server:
        """A node in its namespace."""
        host = self.address(node)
        mine = settings(store, node) | {
            "PENSTOCK_CLUSTER__ADVERTISE": host,
            "PENSTOCK_SECURITY__INSECURE": "true",
        }
        before = partial(enter, self._namespace(node))
        return Server(home, settings=mine, listeners=(*LISTENERS, "http"), host=host, before=before)

    def cut(
        self, node: int, *, store: bool = False, to_peers: bool = False, from_peers: bool = False
    ) -> None:
        self._routes("add", node, store, to_peers, from_peers)

    def mend(
        self, node: int, *, store: bool = False, to_peers: bool = False, from_peers: bool = False
    ) -> None:
        self._routes("del", node, store, to_peers, from_peers)

    def _routes(self, verb: str, node: int, store: bool, to_peers: bool, from_peers: bool) -> None:
        peers = [peer for peer in self._nodes if peer != node]
        here = [self.store] * store + [self.address(peer) for peer in peers if to_peers]
        here += [self._clients] * (to_peers or from_peers)
        for address in here:
            ip("-n", self._namespace(node), "route", verb, "blackhole", f"{address}/32")
        for peer in peers if from_peers else ():
            ip("-n", self._namespace(peer), "route", verb, "blackhole", f"{self.address(node)}/32")
