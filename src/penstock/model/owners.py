"""The owners of partitions as front ends and clients see them; the cluster has the table."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from penstock.model.cluster import TopicOwners


class NodeAddress(NamedTuple):
    """Where a node listens, under the name that it advertises."""

    host: str
    peer: int  # The port for other nodes.
    native: int = 0  # The ports for clients; 0: the node does not listen.
    kafka: int = 0


class Owners(Protocol):
    """Owners and epochs as this node knows them."""

    @property
    def node(self) -> int: ...

    def owner_of(self, topic: str, partition: int) -> tuple[int, int]:
        """The node that owns a partition, or -1, and the epoch of its ownership."""
        ...

    def preferred_of(self, topic: str, partition: int) -> int:
        """The node that should own a partition: the one an operator has chosen, or the cluster; -1: none."""
        ...

    def coordinator_of(self, name: str) -> tuple[int, int]:
        """The node that coordinates a Kafka group, or -1."""
        ...

    def nodes(self) -> Mapping[int, NodeAddress]:
        """The live nodes, this one included; none if there is no cluster."""
        ...


class OneNode:
    """A broker that is not in a cluster owns everything."""

    node: Final = 0

    def owner_of(self, _: str, __: int) -> tuple[int, int]:
        return 0, 0

    def preferred_of(self, _: str, __: int) -> int:
        return 0

    def coordinator_of(self, _: str) -> tuple[int, int]:
        return 0, 0

    def nodes(self) -> Mapping[int, NodeAddress]:
        return {}


def topic_owners(table: Owners, topic: str, partitions: int) -> TopicOwners:
    """The part of a table that the clients of a topic need."""
    nodes = table.nodes()
    return TopicOwners(
        owners=[table.owner_of(topic, number) for number in range(partitions)] if nodes else [],
        nodes={node: (each.host, each.native) for node, each in nodes.items() if each.native},
    )
