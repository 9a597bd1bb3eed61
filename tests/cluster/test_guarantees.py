"""Every guarantee that is made by operation holds while owners of partitions are killed.

All programs of ``guarantees.py`` run at the same time on one cluster, so that a few kills strike all of
them in the middle.  ``test_transactions.py`` does the same for transactions of Kafka clients.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.guarantees import WORKS, Work
from tests.cluster.nodes import PATIENCE_S, Nodes
from tests.server.process import until

import penstock

CALM = 4  # Effective steps of each program between two faults.
SOAK_KILLS = 30


def kill_and_replace(nodes: Nodes, node: int, works: list[Work]) -> None:
    server = nodes.servers[node - 1]
    with nodes.connect(1) as broker:
        until(lambda: [each.state for each in broker.cluster_info().nodes] == ["up"] * 3)
        broker.balance_partitions()
    wait_for_steps(works)
    server.kill()
    wait_for_steps(works)
    shutil.rmtree(server.data)
    server.start()


def wait_for_steps(works: list[Work]) -> None:
    """Until each program has gone on: its operation has been in the middle of what happened before."""
    wanted = {each: each.steps + CALM for each in works}
    deadline_s = time.monotonic() + PATIENCE_S
    while late := [each.name for each in works if each.steps < wanted[each]]:
        assert time.monotonic() < deadline_s, f"no progress of {late}"
        time.sleep(0.05)


def torment(folder: Path, victims: list[int]) -> Iterator[tuple[penstock.Broker, dict[type[Work], Work]]]:
    with Nodes(folder, f"file://{folder}/store") as nodes:
        works = [each() for each in WORKS]
        stop = threading.Event()
        with nodes.connect(1) as broker:
            for each in works:
                each.prepare(broker)
        brokers = [nodes.connect(1) for _ in works]
        threads = [
            threading.Thread(target=each.run, args=(broker, stop))
            for each, broker in zip(works, brokers, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            for victim in victims:
                kill_and_replace(nodes, victim, works)
            wait_for_steps(works)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        with nodes.connect(1) as broker:
            until(lambda: [each.state for each in broker.cluster_info().nodes] == ["up"] * 3)
            yield broker, dict(zip(WORKS, works, strict=True))
        for broker in brokers:
            broker.close()


@pytest.fixture(scope="module")
def tormented(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[penstock.Broker, dict[type[Work], Work]]]:
    yield from torment(tmp_path_factory.mktemp("cluster"), [2, 3])


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKS)
def test_what_was_promised_holds_when_owners_were_killed(
    tormented: tuple[penstock.Broker, dict[type[Work], Work]], kind: type[Work]
) -> None:
    broker, works = tormented

    works[kind].check(broker)


@pytest.mark.soak
def test_what_was_promised_holds_through_many_kills(tmp_path: Path) -> None:
    for broker, works in torment(tmp_path, [2, 3] * (SOAK_KILLS // 2)):
        for work in works.values():
            work.check(broker)
