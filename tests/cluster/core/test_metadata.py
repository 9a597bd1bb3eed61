"""The metadata state: entries that are valid, entries that are not, owners, epochs and floors."""

import msgspec

from penstock.cluster.core.metadata import (
    Checkpoint,
    Covered,
    Drain,
    DropTopic,
    Fence,
    Forget,
    Join,
    Move,
    Piece,
    Prefer,
    Preference,
    PutDocument,
    PutTopic,
    State,
    TakeProducerIds,
    Transfer,
)

KEY = ("orders", 0)


def cluster(*names: str, partitions: int = 1) -> State:
    state = State()
    for number, name in enumerate(names):
        state.apply(Join(name, number))
    state.apply(PutTopic("orders", "id", partitions, "{}"))
    return state


def owner(state: State) -> str:
    found = state.partition(KEY)
    assert found is not None
    assert found.owner is not None
    return found.owner


def test_a_fence_gives_partitions_to_others_with_a_new_epoch() -> None:
    state = cluster("a", "b")
    before, assigned = owner(state), state.partition(KEY)
    assert assigned is not None
    epoch = assigned.epoch

    assert state.apply(Fence(before, 5))

    assert owner(state) != before
    assert assigned.epoch == state.next - 1 > epoch
    assert [(each.incarnation, each.end) for each in assigned.history] == [(before, 5), (owner(state), None)]


def test_an_incarnation_joins_once_and_is_sealed_once() -> None:
    state = cluster("a", "b")

    assert not state.apply(Join("a", 0))
    assert state.apply(Fence("a", 3))
    assert not state.apply(Fence("a", 4))
    assert not state.apply(Join("a", 0))
    assert state.members["a"].tombstone == 3


def test_a_tombstone_below_the_floor_is_no_end() -> None:
    state = cluster("a")
    assigned = state.partition(KEY)
    assert assigned is not None
    state.apply(Checkpoint("a", 7, [Covered(*KEY, assigned.epoch, 7, [])]))

    assert state.members["a"].floor == 7
    assert not state.apply(Fence("a", 6))
    assert owner(state) == "a"


def test_a_checkpoint_of_an_old_epoch_changes_nothing() -> None:
    state = cluster("a", "b")
    before, assigned = owner(state), state.partition(KEY)
    assert assigned is not None
    late = Checkpoint(before, 4, [Covered(*KEY, assigned.epoch, 4, [Piece("data", "x", "base/a/0")])])
    state.apply(Fence(before, 5))
    expected = msgspec.json.encode(assigned)

    assert not state.apply(late)
    assert msgspec.json.encode(assigned) == expected


def test_a_floor_waits_for_every_range_that_refers_to_the_wal() -> None:
    state = cluster("a", partitions=2)
    epoch = state.topics["orders"].version

    state.apply(Checkpoint("a", 9, [Covered("orders", 0, epoch, 9, [])]))
    assert state.members["a"].floor == 0
    state.apply(Checkpoint("a", 9, [Covered("orders", 1, epoch, 8, [])]))
    assert state.members["a"].floor == 8


def test_a_move_needs_the_owner_the_epoch_and_a_living_target() -> None:
    state = cluster("a", "b")
    before, assigned = owner(state), state.partition(KEY)
    assert assigned is not None
    epoch, to = assigned.epoch, "b" if before == "a" else "a"

    assert not state.apply(Move(to, 3, [Transfer(*KEY, epoch, before)]))
    assert not state.apply(Move(before, 3, [Transfer(*KEY, epoch + 1, to)]))
    assert not state.apply(Move(before, 3, [Transfer(*KEY, epoch, "gone")]))
    assert state.apply(Move(before, 3, [Transfer(*KEY, epoch, to)]))
    assert owner(state) == to
    assert assigned.history[0].clean


def test_topics_and_documents_change_only_from_the_version_that_was_read() -> None:
    state = cluster("a")
    version = state.topics["orders"].version

    assert not state.apply(PutTopic("orders", "other", 1, "{}"))
    assert not state.apply(PutTopic("orders", "id", 0, "{}", version))
    assert state.apply(PutTopic("orders", "id", 3, '{"compact":true}', version))
    assert len(state.topics["orders"].partitions) == 3
    assert not state.apply(DropTopic("orders", version))
    assert state.apply(DropTopic("orders", state.topics["orders"].version))
    assert state.apply(PutDocument("keys/ci", "secret"))
    assert not state.apply(PutDocument("keys/ci", "other"))
    assert state.apply(PutDocument("keys/ci", None, state.documents["keys/ci"].version))
    assert not state.documents


def test_blocks_of_producer_ids_do_not_overlap() -> None:
    state = cluster("a")

    state.apply(TakeProducerIds("a", 1000))
    state.apply(TakeProducerIds("a", 1000))

    assert state.producers == 2000


def test_partitions_that_nobody_owns_go_to_whoever_joins() -> None:
    state = cluster("a")
    state.apply(Fence("a", 2))
    assigned = state.partition(KEY)
    assert assigned is not None
    assert assigned.owner is None

    state.apply(Join("b", 1))

    assert owner(state) == "b"


def test_a_snapshot_holds_the_whole_state() -> None:
    state = cluster("a", "b", partitions=5)
    state.apply(Fence("a", 2))

    copy = msgspec.json.decode(msgspec.json.encode(state), type=State)

    assert copy == state


def placed(state: State) -> set[int]:
    """The nodes that should own partitions."""
    favourites = [state.favourite(key) for key, _ in state.partitions()]
    return {state.members[name].node for name in favourites if name is not None}


def test_a_node_that_is_drained_gets_no_partitions_until_that_ends() -> None:
    state = cluster("a", "b", partitions=50)
    coordinators = state.coordinators[:]

    assert state.apply(Drain(1))
    assert not state.apply(Drain(1))
    assert not state.apply(Drain(7))
    assert placed(state) == {0}
    assert state.coordinators != coordinators  # Kafka's groups have other coordinators, too.
    state.apply(PutTopic("new", "id2", 20, "{}"))
    assert {state.owner_of(("new", number))[0] for number in range(20)} == {0}

    assert state.apply(Drain(1, on=False))
    assert placed(state) == {0, 1}


def test_nodes_that_are_drained_own_partitions_if_there_is_no_other() -> None:
    state = cluster("a", "b", partitions=10)
    state.apply(Drain(1))

    state.apply(Fence("a", 0))

    assert {state.owner_of(key)[0] for key, _ in state.partitions()} == {1}


def test_a_chosen_node_gets_the_partition_while_it_is_alive() -> None:
    state = cluster("a", "b", "c")
    other = next(name for name in state.alive() if name != owner(state))
    node, epoch = state.members[other].node, state.owner_of(KEY)[1]

    assert not state.apply(Prefer([Preference("orders", 0, epoch - 1, node)]))
    assert not state.apply(Prefer([Preference("orders", 1, epoch, node)]))
    assert state.apply(Prefer([Preference("orders", 0, epoch, node)]))
    assert state.favourite(KEY) == other
    state.apply(Fence(other, 0))
    assert state.favourite(KEY) != other
    state.apply(Join("again", node))
    assert state.favourite(KEY) == "again"


def test_a_node_is_forgotten_once_it_is_sealed_and_may_come_back() -> None:
    state = cluster("a", "b")
    epoch = state.owner_of(KEY)[1]
    state.apply(Prefer([Preference("orders", 0, epoch, 1)]))
    state.apply(Drain(1))

    assert not state.apply(Forget(1))
    state.apply(Fence("b", 0))
    assert state.nodes() == {0: True, 1: False}
    assert state.apply(Forget(1))
    assert not state.apply(Forget(1))
    assert state.nodes() == {0: True}
    assert state.draining == []
    found = state.partition(KEY)
    assert found is not None
    assert found.preferred is None

    state.apply(Join("b2", 1))
    assert state.nodes() == {0: True, 1: True}


def test_a_coordinator_keeps_its_epoch_until_there_is_another_one() -> None:
    state = cluster("a", "b", partitions=1)
    before = state.coordinators[:]

    state.apply(Join("c", 2))
    for was, now in zip(before, state.coordinators, strict=True):
        assert now == was or (now.incarnation == "c" and now.epoch == state.next - 1)
    moved = [number for number, each in enumerate(state.coordinators) if each.incarnation == "c"]
    assert 0 < len(moved) < len(before)
    state.apply(Fence("c", 0))

    for number, (was, now) in enumerate(zip(before, state.coordinators, strict=True)):
        assert now.incarnation == was.incarnation
        assert now.epoch == (state.next - 1 if number in moved else was.epoch)  # It was away meanwhile.
