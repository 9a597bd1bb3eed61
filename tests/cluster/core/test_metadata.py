"""The metadata state: entries that are valid, entries that are not, owners, epochs and floors."""

import msgspec

from penstock.cluster.core.metadata import (
    Checkpoint,
    Covered,
    DropTopic,
    Fence,
    Join,
    Move,
    Piece,
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
