"""Which node owns which partition, as front ends and clients see it; the cluster has the table."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol


class NodeAddress(NamedTuple):
    """Where a node listens, under the name that it advertises."""

    host: str
    peer: int  # The port for other nodes.
    native: int = 0  # The ports for clients; 0: the node does not listen.
    kafka: int = 0


class Owners(Protocol):
    """Owners and epochs as this node knows them."""

    @property
    def node(self) -> int:
        """This node."""
        ...

    def owner_of(self, topic: str, partition: int) -> tuple[int, int]:
        """The node that owns a partition, or -1, and the epoch of its ownership."""
        ...

    def coordinator_of(self, name: str) -> tuple[int, int]:
        """The same for a Kafka group or a transactional id."""
        ...

    def nodes(self) -> Mapping[int, NodeAddress]:
        """The live nodes, this one included; none if there is no cluster."""
        ...


class OneNode:
    """A broker that is not in a cluster owns everything."""

    node: Final = 0

    def owner_of(self, _: str, __: int) -> tuple[int, int]:
        return 0, 0

    def coordinator_of(self, _: str) -> tuple[int, int]:
        return 0, 0

    def nodes(self) -> Mapping[int, NodeAddress]:
        return {}
