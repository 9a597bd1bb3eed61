"""Faults at random under load from native and Kafka clients, on every kind of store; nothing is lost.

The faults: a node is killed and its disk wiped; a node stands still; the store is slow; the store is away.
Order and nodes follow from a seed, which a failure prints; ``PENSTOCK_SEED`` repeats it.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cluster.load import Load
from tests.cluster.nodes import PARTITIONS, TOPIC, Nodes
from tests.cluster.proxy import StoreProxy
from tests.server.process import Server, until
from tests.store import stores
from tests.store.seaweedfs import seaweedfs

from penstock import Broker

# The longest time without an answer for a program; the machines of CI are shared.
UNAVAILABLE_S_MAX = {"kill": 25.0, "pause": 30.0, "slow": 25.0, "away": 30.0}
STRICT_S_MAX = {"kill": 6.0, "pause": 12.0, "slow": 6.0, "away": 30.0}
SLOW_S = 0.1
AWAY_S = 3.0
SOAK_AWAY_S = 20.0
SOAK_ROUNDS = 12
CALM = 10  # Answers for each writer between two faults.


@contextmanager
def opened_store(kind: str, folder: Path) -> Iterator[tuple[str, StoreProxy | None]]:
    """The URL of a store, and the proxy that nodes reach it through."""
    with ExitStack() as stack:
        match kind:
            case "directory":
                yield f"file://{folder}/store", None
                return
            case "postgresql":
                url = stack.enter_context(stores.postgresql(standby=True))
                port = urlsplit(url).port
            case "etcd":
                url = stack.enter_context(stores.etcd(folder))
                port = urlsplit(url).port
            case _:
                url = stack.enter_context(seaweedfs(folder)).url
                port = int(url.partition("http://127.0.0.1:")[2].partition("&")[0])
        assert port is not None
        proxy = stack.enter_context(StoreProxy(port))
        yield url.replace(f"127.0.0.1:{port}", f"127.0.0.1:{proxy.port}"), proxy


class Faults:
    """Each returns when the fault is over; the load goes on meanwhile."""

    def __init__(self, nodes: Nodes, proxy: StoreProxy | None, chance: random.Random, away_s: float) -> None:
        self._nodes = nodes
        self._proxy = proxy
        self._random = chance
        self._away_s = away_s

    def kinds(self) -> list[str]:
        return ["kill", "pause", *(["slow", "away"] if self._proxy is not None else [])]

    def cause(self, kind: str, load: Load) -> None:
        getattr(self, f"_{kind}")(load)

    def _victim(self) -> Server:
        """Any node but that of the native clients; it owns a third of the partitions."""
        with self._nodes.connect(1) as broker:
            until(lambda: [node.state for node in broker.cluster_info().nodes] == ["up"] * 3)
            broker.balance_partitions()
        return self._nodes.servers[self._random.randrange(1, 3)]

    def _kill(self, load: Load) -> None:
        server = self._victim()
        server.kill()
        load.wait_for(CALM)
        shutil.rmtree(server.data)
        server.start()

    def _pause(self, load: Load) -> None:
        server = self._victim()
        server.signal(signal.SIGSTOP)
        try:
            load.wait_for(CALM)
        finally:
            server.signal(signal.SIGCONT)

    def _slow(self, load: Load) -> None:
        assert self._proxy is not None
        self._proxy.delay_s = SLOW_S
        load.wait_for(CALM // 4)
        self._proxy.delay_s = 0.0

    def _away(self, _: Load) -> None:
        assert self._proxy is not None
        self._proxy.set_away(True)
        time.sleep(self._away_s)  # The fault itself: nothing is waited for.
        self._proxy.set_away(False)


def prove(folder: Path, kind: str, rounds: int, limits: dict[str, float], away_s: float) -> dict[str, float]:
    """Cause faults under load, and check what the clients have seen; the longest pause by fault."""
    seed = int(os.environ.get("PENSTOCK_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")  # noqa: T201 - for whoever repeats a failure
    chance = random.Random(seed)
    pauses: dict[str, float] = {}
    with opened_store(kind, folder) as (url, proxy), Nodes(folder, url) as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
        faults = Faults(nodes, proxy, chance, away_s)
        with Load(nodes, [1], writers=PARTITIONS, kafka=2, readers=2) as load:
            load.wait_for(CALM)
            for _ in range(rounds):
                order = faults.kinds()
                chance.shuffle(order)
                for fault in order:
                    load.forget_pauses()
                    faults.cause(fault, load)
                    load.wait_for(CALM)
                    pauses[fault] = max(pauses.get(fault, 0.0), load.longest_s)
        assert load.failures == []
        with nodes.connect(1) as broker:
            until(lambda: [node.state for node in broker.cluster_info().nodes] == ["up"] * 3)
            load.check(broker)
    assert {fault: pause for fault, pause in pauses.items() if pause > limits[fault]} == {}
    return pauses


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["directory", "postgresql"])
def test_faults_under_load_lose_nothing(tmp_path: Path, kind: str) -> None:
    prove(tmp_path, kind, 1, UNAVAILABLE_S_MAX, AWAY_S)


def states_of(broker: Broker, number: int) -> list[str]:
    """The state of a node as another one sees it; nothing before that has heard of it."""
    return [node.state for node in broker.cluster_info().nodes if node.node == number]


@pytest.mark.slow
def test_a_node_that_joins_again_waits_for_a_store_that_is_away(tmp_path: Path) -> None:
    with opened_store("etcd", tmp_path) as (url, proxy), Nodes(tmp_path, url, count=2) as nodes:
        assert proxy is not None
        with nodes.connect(1) as broker:
            nodes.servers[1].signal(signal.SIGSTOP)
            until(lambda: "stopped" in states_of(broker, 2))
            nodes.servers[1].signal(signal.SIGCONT)
            until(lambda: "it joins again" in nodes.servers[1].log())
            proxy.set_away(True)  # Before it has imported anything.
            until(lambda: "waiting for the store" in nodes.servers[1].log())
            proxy.set_away(False)
            until(lambda: "up" in states_of(broker, 2))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["directory", "postgresql", "etcd", "seaweedfs"])
def test_a_soak_of_faults_loses_nothing(tmp_path: Path, kind: str) -> None:
    pauses = prove(tmp_path, kind, SOAK_ROUNDS, STRICT_S_MAX, SOAK_AWAY_S)
    shown = ", ".join(f"{fault} {pause:.1f} s" for fault, pause in sorted(pauses.items()))
    print(f"{kind}: longest pause after {shown}")  # noqa: T201 - what a soak is run for
