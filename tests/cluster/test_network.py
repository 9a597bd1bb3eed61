"""A node that is cut off: from the store, from its peers, from both, and in one direction."""

import os
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.cluster.load import Load
from tests.cluster.network import Network
from tests.cluster.nodes import PARTITIONS, TOPIC, Nodes
from tests.cluster.proxy import StoreProxy
from tests.server.process import until
from tests.store import stores

UNAVAILABLE_S_MAX = 40.0  # On a machine that does much else ...
STRICT_S_MAX = 12.0  # ... and in a soak.
VICTIM = 3
CUTS = {
    "the store": {"store": True},
    "the others": {"to_peers": True, "from_peers": True},
    "everything": {"store": True, "to_peers": True, "from_peers": True},
    "the others, as a sender": {"to_peers": True},
    "the others, as a receiver": {"from_peers": True},
}
IN_CI = ("the store", "the others, as a sender")


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    with Network() as network:
        yield network


@pytest.fixture(scope="module")
def nodes(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("network")
    with stores.postgresql() as url:
        port = urlsplit(url).port
        assert port is not None
        with StoreProxy(port, network.store) as proxy:
            seen = url.replace(f"127.0.0.1:{port}", f"{network.store}:{proxy.port}")
            with Nodes(folder, f"{seen}?synchronous=off", make=network.server) as nodes:
                with nodes.connect(1) as broker:
                    broker.create_topic(TOPIC, partitions=PARTITIONS)
                yield nodes


def cut_off(nodes: Nodes, network: Network, how: str, limit_s: float) -> None:
    with nodes.connect(1) as broker:
        until(lambda: [each.state for each in broker.cluster_info().nodes] == ["up"] * 3)
        broker.balance_partitions()
        lives = nodes.servers[VICTIM - 1].log().count("it joins again")

        with Load(nodes, [1, 2], writers=6, readers=1) as load:
            load.wait_for(10)
            load.forget_pauses()
            network.cut(VICTIM, **CUTS[how])
            try:
                until(lambda: VICTIM not in {each.node for each in broker.cluster_info().partitions})
                load.wait_for(10)
            finally:
                network.mend(VICTIM, **CUTS[how])
            until(lambda: nodes.servers[VICTIM - 1].log().count("it joins again") > lives)
            load.wait_for(10)

        assert load.failures == []
        assert load.longest_s < limit_s
        load.check(broker)


@pytest.mark.slow
@pytest.mark.parametrize("how", IN_CI)
def test_a_node_that_is_cut_off_is_replaced(nodes: Nodes, network: Network, how: str) -> None:
    cut_off(nodes, network, how, UNAVAILABLE_S_MAX)


@pytest.mark.soak
@pytest.mark.parametrize("how", CUTS)
def test_a_node_that_is_cut_off_is_replaced_soon(nodes: Nodes, network: Network, how: str) -> None:
    cut_off(nodes, network, how, STRICT_S_MAX)
