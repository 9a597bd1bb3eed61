"""The owner table of routing, and its implementation on the cluster's metadata log."""

from collections.abc import Callable
from typing import Protocol

from penstock.broker.steps import Waiter
from penstock.cluster.core.metadata import GROUPS_PARTITIONS, State
from penstock.model.owners import NodeAddress, Owners
from penstock.wire.murmur import partition_of


class OwnerTable(Owners, Protocol):
    """A ``Waitable``: its waiters are woken when the table changes."""

    waiters: dict[Waiter, None]

    def refresh(self) -> None:
        """Read the metadata log soon: a node disagrees with the table."""
        ...


class MetadataOwners:
    """The owner table from the metadata state that this node has applied.

    The address that a node joins with is ``host,peer,native,kafka``.  Call ``changed`` when entries were
    applied.
    """

    def __init__(self, node: int, state: Callable[[], State], refresh: Callable[[], None]) -> None:
        self.node = node
        self.refresh = refresh
        self.waiters: dict[Waiter, None] = {}
        self._state = state

    def owner_of(self, topic: str, partition: int) -> tuple[int, int]:
        return self._state().owner_of((topic, partition))

    def preferred_of(self, topic: str, partition: int) -> int:
        state = self._state()
        favourite = state.favourite((topic, partition))
        return -1 if favourite is None else state.members[favourite].node

    def coordinator_of(self, name: str) -> tuple[int, int]:
        state = self._state()
        if not state.coordinators:
            return -1, 0  # No node has joined yet.
        found = state.coordinators[partition_of(name.encode(), GROUPS_PARTITIONS)]
        return (-1 if found.incarnation is None else state.members[found.incarnation].node), found.epoch

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
