"""The owner table over the metadata that a node has applied."""

from penstock.cluster.core.metadata import Fence, Join, PutTopic, State
from penstock.cluster.routing.owners import MetadataOwners, address_of, address_text
from penstock.model.owners import NodeAddress

ADDRESSES = {1: NodeAddress("one", 7170, 7070, 9092), 2: NodeAddress("two", 7170, 7070)}


class Waits:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def table(state: State) -> MetadataOwners:
    return MetadataOwners(1, lambda: state, lambda: None)


def cluster() -> State:
    state = State()
    for node, address in ADDRESSES.items():
        assert state.apply(Join(f"life-{node}", node, address_text(address)))
    assert state.apply(PutTopic("orders", "id", 8, "{}"))
    return state


def test_an_address_survives_as_text() -> None:
    assert [address_of(address_text(each)) for each in ADDRESSES.values()] == list(ADDRESSES.values())


def test_partitions_have_the_owner_and_the_epoch_of_their_assignment() -> None:
    state = cluster()
    owners = table(state)

    found = [owners.owner_of("orders", number) for number in range(8)]

    assert {node for node, _ in found} == {1, 2}
    assert {epoch for _, epoch in found} == {3}  # The third entry has assigned them.
    assert owners.owner_of("orders", 8) == (-1, 0)
    assert owners.owner_of("missing", 0) == (-1, 0)
    assert owners.nodes() == ADDRESSES


def test_a_fenced_node_owns_and_coordinates_nothing() -> None:
    state = cluster()
    owners = table(state)
    names = [f"group-{number}" for number in range(20)]
    assert {owners.coordinator_of(name)[0] for name in names} == {1, 2}

    assert state.apply(Fence("life-2", 5))

    assert {owners.owner_of("orders", number)[0] for number in range(8)} == {1}
    assert {owners.coordinator_of(name)[0] for name in names} == {1}
    assert list(owners.nodes()) == [1]


def test_without_live_nodes_nobody_owns_anything() -> None:
    state = cluster()
    assert state.apply(Fence("life-1", 5))
    assert state.apply(Fence("life-2", 5))

    assert table(state).owner_of("orders", 0)[0] == -1
    assert table(state).coordinator_of("billing")[0] == -1


def test_whoever_waits_for_a_change_is_woken() -> None:
    owners = table(cluster())
    waiter = Waits()
    owners.waiters[waiter] = None

    owners.changed()

    assert waiter.woken == 1
