"""Everything at once: faults of every kind, while clients of every kind use every operation.

    clients     native, confluent-kafka, aiokafka and HTTP (``load.py``); the programs of ``guarantees.py``
    faults      a node is killed, killed with its disk, or stands still; it is cut off from the store, from
                the others, from both, or in one direction; the store is slow, away, or crashes and starts
                again; all nodes restart one after the other

The nodes are in network namespaces, so this is for root; the store is PostgreSQL with a synchronous standby.
Order and victims follow from ``PENSTOCK_SEED``, and ``PENSTOCK_TORTURE_MINUTES`` says how long.
"""

import os
import random
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import pytest
from tests.cluster.guarantees import WORKS, Work
from tests.cluster.load import Load
from tests.cluster.network import Network
from tests.cluster.nodes import PARTITIONS, TOPIC, Nodes
from tests.cluster.proxy import StoreProxy
from tests.cluster.test_network import CUTS
from tests.server.process import Server, until
from tests.store import stores

import penstock

MINUTES = float(os.environ.get("PENSTOCK_TORTURE_MINUTES", "60"))
VICTIMS = (2, 3)  # Programs that know one node only are connected to node 1, which restarts in order.
SLOW_S = 0.1
AWAY_S = 10.0
CALM = 5  # Answers for each writer between two faults ...
CALM_STEPS = 2  # ... and effective steps of each program.
UNAVAILABLE_S_MAX = 45.0  # For any client and fault, on a machine that does much else.
PATIENCE_S = 180.0

Pauses = dict[str, dict[str, list[float]]]  # By fault and kind of client, in seconds.


class Faults:
    """Each returns when the fault is over; the clients go on meanwhile."""

    def __init__(
        self,
        nodes: Nodes,
        network: Network,
        proxy: StoreProxy,
        restart_store: Callable[[], None],
        go_on: Callable[[], None],
        chance: random.Random,
    ) -> None:
        self._nodes = nodes
        self._network = network
        self._proxy = proxy
        self._go_on = go_on
        self._random = chance
        self.by_name: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill, disk wiped": self._wipe,
            "stands still": self._pause,
            **{f"cut off from {how}": self._cut_of(cut) for how, cut in CUTS.items()},
            "store slow": self._slow,
            "store away": self._away,
            "store restarts": restart_store,
            "rolling restart": self._restart_all,
        }

    def _victim(self) -> Server:
        return self._nodes.servers[self._random.choice(VICTIMS) - 1]

    def _kill(self) -> None:
        server = self._victim()
        server.kill()
        self._go_on()
        server.start()

    def _wipe(self) -> None:
        server = self._victim()
        server.kill()
        self._go_on()
        shutil.rmtree(server.data)
        server.start()

    def _pause(self) -> None:
        server = self._victim()
        server.signal(signal.SIGSTOP)
        try:
            self._go_on()
        finally:
            server.signal(signal.SIGCONT)

    def _cut_of(self, cut: dict[str, bool]) -> Callable[[], None]:
        def cut_off() -> None:
            victim = self._random.choice(VICTIMS)
            lives = self._lives(victim)
            self._network.cut(victim, **cut)
            try:
                with self._nodes.connect(1) as broker:
                    until(lambda: victim not in {each.node for each in broker.cluster_info().partitions})
                self._go_on()
            finally:
                self._network.mend(victim, **cut)
            until(lambda: self._lives(victim) > lives)

        return cut_off

    def _lives(self, node: int) -> int:
        return self._nodes.servers[node - 1].log().count("it joins again")

    def _slow(self) -> None:
        self._proxy.delay_s = SLOW_S
        try:
            self._go_on()
        finally:
            self._proxy.delay_s = 0.0

    def _away(self) -> None:
        self._proxy.set_away(True)
        time.sleep(AWAY_S)  # The fault itself: nothing is waited for.
        self._proxy.set_away(False)

    def _restart_all(self) -> None:
        for server in self._nodes.servers:
            assert server.stop() == 0
            server.start()
            self._go_on()


@contextmanager
def working(nodes: Nodes) -> Iterator[list[Work]]:
    """The programs of ``guarantees.py``, until the block ends; what they were promised is compared then."""
    works = [each() for each in WORKS]
    stop = threading.Event()
    broken: list[str] = []

    def run(work: Work, broker: penstock.Broker) -> None:
        try:
            work.run(broker, stop)
        except Exception as error:  # The test fails with it.
            broken.append(f"{work.name}: {error!r}")
            raise

    with ExitStack() as stack:
        with nodes.connect(1) as broker:
            for each in works:
                each.prepare(broker)
        brokers = [stack.enter_context(nodes.connect(1)) for _ in works]
        threads = [
            threading.Thread(target=run, args=(each, broker))
            for each, broker in zip(works, brokers, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            yield works
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert broken == []
        with nodes.connect(1) as broker:
            for each in works:
                each.check(broker)


def wait_for(condition: Callable[[], bool], late: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"no progress: {late()}"
        time.sleep(0.1)


def goes_on(load: Load, works: list[Work]) -> None:
    """Each client has been answered, and each program has come further."""
    counts, steps = list(load.counts), [work.steps for work in works]

    def late() -> list[str]:
        writers = [
            f"writer {number}" for number, count in enumerate(counts) if load.counts[number] < count + CALM
        ]
        return writers + [
            work.name for work, before in zip(works, steps, strict=True) if work.steps < before + CALM_STEPS
        ]

    wait_for(lambda: not late(), late)


def all_up(nodes: Nodes) -> bool:
    with suppress(penstock.PenstockError), nodes.connect(1) as broker:
        if [node.state for node in broker.cluster_info().nodes] == ["up"] * 3:
            broker.balance_partitions()
            return True
    return False


def torture(folder: Path, minutes: float) -> Pauses:
    """The pauses that clients have seen; raises if anything was lost, repeated, reordered or torn."""
    seed = int(os.environ.get("PENSTOCK_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")  # noqa: T201 - for whoever repeats a failure
    chance = random.Random(seed)
    pauses: Pauses = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        url, restart_store = stack.enter_context(stores.restartable_postgresql(standby=True))
        port = urlsplit(url).port
        assert port is not None
        proxy = stack.enter_context(StoreProxy(port, network.store))
        seen = url.replace(f"127.0.0.1:{port}", f"{network.store}:{proxy.port}")
        nodes = stack.enter_context(Nodes(folder, seen, make=network.server))
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
        deadline_s = time.monotonic() + 60 * minutes
        with (
            working(nodes) as works,
            Load(nodes, [1], writers=2, kafka=1, aiokafka=1, http=1, readers=1) as load,
        ):
            faults = Faults(nodes, network, proxy, restart_store, lambda: goes_on(load, works), chance)
            goes_on(load, works)
            order: list[str] = []
            while time.monotonic() < deadline_s:
                order = order or chance.sample(list(faults.by_name), len(faults.by_name))
                fault = order.pop()
                wait_for(lambda: all_up(nodes), lambda: "not all nodes are up")
                load.forget_pauses()
                faults.by_name[fault]()
                goes_on(load, works)
                for kind, longest_s in load.longest_s_by.items():
                    pauses[fault][kind].append(longest_s)
                print(f"{fault}: {load.longest_s:.1f} s", flush=True)  # noqa: T201 - progress of an hour
        assert load.failures == []
        wait_for(lambda: all_up(nodes), lambda: "not all nodes are up")
        with nodes.connect(1) as broker:
            load.check(broker)
        print(f"{sum(load.counts)} messages, {sum(work.steps for work in works)} steps")  # noqa: T201
    return pauses


def table(pauses: Pauses) -> str:
    """As in docs/cluster.md: the longest and the median time without an answer."""
    kinds = sorted({kind for by_kind in pauses.values() for kind in by_kind})
    rows = [["fault", "times", *kinds], ["---"] * (len(kinds) + 2)]
    for fault, by_kind in pauses.items():
        times = max(map(len, by_kind.values()))
        cells = [f"{max(by_kind[kind]):.1f} s ({median(by_kind[kind]):.1f} s)" for kind in kinds]
        rows.append([fault, str(times), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@pytest.mark.soak
def test_an_hour_of_every_fault_breaks_no_promise(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")

    pauses = torture(tmp_path, MINUTES)

    print(table(pauses))  # noqa: T201 - what a soak is run for
    longest_s = {fault: max(map(max, by_kind.values())) for fault, by_kind in pauses.items()}
    assert {fault: pause for fault, pause in longest_s.items() if pause > UNAVAILABLE_S_MAX} == {}
