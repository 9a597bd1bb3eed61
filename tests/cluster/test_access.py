"""Keys of a cluster: made, used and revoked through any node."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.nodes import LISTENERS, PARTITIONS, TOPIC, Nodes, settings
from tests.server.process import Server, until

import penstock
from penstock.errors import Forbidden, Unauthenticated

PRODUCER = penstock.Grant(role="producer", topics=[TOPIC])


def guarded(home: Path, store: str, number: int) -> Server:
    required = {"PENSTOCK_SECURITY__AUTHENTICATION": "true"}
    return Server(home, settings=settings(store, number) | required, listeners=LISTENERS)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("access")
    with Nodes(folder, f"file://{folder}/store", make=guarded) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def admin(nodes: Nodes) -> str:
    """The first key, which one of the nodes has made and shown; two, if they did at the same moment."""
    key = next(server.facts["key"] for server in nodes.servers if "key" in server.facts)
    with penstock.connect(nodes.servers[0].url, key=key) as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS)
    return key


def test_the_first_key_is_good_for_every_node(nodes: Nodes, admin: str) -> None:
    for server in nodes.servers:
        with penstock.connect(server.url, key=admin) as broker:
            assert broker.topics() == [TOPIC]


def test_a_key_holds_at_all_owners_and_for_its_grants_only(nodes: Nodes, admin: str) -> None:
    with penstock.connect(nodes.servers[0].url, key=admin) as broker:
        made = broker.create_key("shop", [PRODUCER])

    until(lambda: is_known(nodes, made.key))
    with penstock.connect(nodes.servers[1].url, key=made.key) as shop:
        for partition in range(PARTITIONS):
            shop.publish(TOPIC, b"x", partition=partition)
            with pytest.raises(Forbidden):
                shop.read(TOPIC, partition=partition)
        with pytest.raises(Forbidden):
            shop.delete_topic(TOPIC)


def test_a_key_that_was_revoked_at_one_node_is_refused_by_all(nodes: Nodes, admin: str) -> None:
    with penstock.connect(nodes.servers[0].url, key=admin) as broker:
        made = broker.create_key("shop", [PRODUCER])
        until(lambda: is_known(nodes, made.key))
        with penstock.connect(nodes.servers[2].url, key=made.key) as shop:
            broker.revoke_key(made.id)

            for partition in range(PARTITIONS):
                until(lambda partition=partition: refused(shop, partition))  # type: ignore[misc]


def is_known(nodes: Nodes, key: str) -> bool:
    """The other nodes know a new key a moment later."""
    try:
        for server in nodes.servers:
            with penstock.connect(server.url, key=key) as shop:
                shop.publish_batch(
                    TOPIC, [penstock.Message(b"x", partition=each) for each in range(PARTITIONS)]
                )
    except Unauthenticated:
        return False
    return True


def refused(shop: penstock.Broker, partition: int) -> bool:
    try:
        shop.publish(TOPIC, b"x", partition=partition)
    except Unauthenticated:
        return True
    return False
