"""The owner table as routing needs it, and its form over the cluster's metadata log."""

from collections.abc import Callable
from typing import Final, Protocol

from penstock.broker.steps import Waiter
from penstock.cluster.core.metadata import State
from penstock.model.owners import NodeAddress, Owners
from penstock.wire.murmur import partition_of

GROUPS_TOPIC: Final = "__groups"  # The name under which the coordinators of Kafka's groups are found.
GROUPS_PARTITIONS: Final = 50


class OwnerTable(Owners, Protocol):
    """It is a ``Place``: whoever waits there is woken when the table changes."""

    waiters: dict[Waiter, None]

    def refresh(self) -> None:
        """Another node has disagreed with the table: look for newer entries in the metadata log soon."""
        ...


class MetadataOwners:
    """The owner table of the metadata state that this node has applied.

    The address that a node joins with is ``host,peer,native,kafka``.  Kafka's groups are coordinated by the
    node that rendezvous hashing prefers for them.  Call ``changed`` when entries were applied.
    """

    def __init__(self, node: int, state: Callable[[], State], refresh: Callable[[], None]) -> None:
        self.node = node
        self.refresh = refresh
        self.waiters: dict[Waiter, None] = {}
        self._state = state

    def owner_of(self, topic: str, partition: int) -> tuple[int, int]:
        return self._state().owner_of((topic, partition))

    def coordinator_of(self, name: str) -> tuple[int, int]:
        key = (GROUPS_TOPIC, partition_of(name.encode(), GROUPS_PARTITIONS))
        state = self._state()
        chosen = state.favourite(key)
        return (-1 if chosen is None else state.members[chosen].node), state.membership

    def nodes(self) -> dict[int, NodeAddress]:
        members = [self._state().members[name] for name in self._state().alive()]
        return {each.node: address_of(each.address) for each in members}

    def changed(self) -> None:
        for waiter in list(self.waiters):
            waiter.wake()


def address_text(address: NodeAddress) -> str:
    return ",".join(map(str, address))


def address_of(text: str) -> NodeAddress:
    host, *ports = text.split(",")
    return NodeAddress(host, *map(int, ports))
