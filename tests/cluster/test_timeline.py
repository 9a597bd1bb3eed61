"""How long takeovers took."""

from penstock.cluster.core.metadata import Fence, Join, PutTopic, State
from penstock.cluster.timeline import KEPT_MAX, Timeline
from penstock.model.cluster import Takeover
from penstock.testing import ManualClock


def lost(partitions: int) -> State:
    """Node 2 has taken over all partitions of node 1."""
    state = State()
    state.apply(Join("a", 1))
    state.apply(PutTopic("orders", "id", partitions, "{}"))
    state.apply(Join("b", 2))
    state.apply(Fence("a", 3))
    return state


def test_partitions_of_one_entry_are_one_takeover() -> None:
    state, clock = lost(2), ManualClock()
    timeline, epoch = Timeline(2, clock), state.owner_of(("orders", 0))[1]
    began_ms = clock.wall_ms()

    for number in range(2):
        timeline.begin(("orders", number), epoch, state)
    clock.move_to(clock.steady_ms() + 100)
    timeline.end(("orders", 0), opened=True)
    assert timeline.takeovers() == []
    clock.move_to(clock.steady_ms() + 200)
    timeline.end(("orders", 1), opened=True)

    assert timeline.takeovers() == [
        Takeover(at_ms=began_ms, node=2, previous=1, clean=False, partitions=2, duration_ms=300)
    ]
    assert timeline.counts == {True: 0, False: 1}


def test_new_partitions_and_those_that_were_taken_away_do_not_count() -> None:
    state, clock = lost(1), ManualClock()
    timeline = Timeline(2, clock)
    state.apply(PutTopic("new", "id2", 1, "{}"))

    timeline.begin(("new", 0), state.owner_of(("new", 0))[1], state)
    timeline.end(("new", 0), opened=True)
    timeline.begin(("orders", 0), state.owner_of(("orders", 0))[1], state)
    timeline.end(("orders", 0), opened=False)

    assert timeline.takeovers() == []


def test_only_the_last_takeovers_are_kept() -> None:
    state, clock = lost(1), ManualClock()
    timeline, epoch = Timeline(2, clock), state.owner_of(("orders", 0))[1]

    for _ in range(KEPT_MAX + 5):
        timeline.begin(("orders", 0), epoch, state)
        timeline.end(("orders", 0), opened=True)

    assert len(timeline.takeovers()) == KEPT_MAX
    assert timeline.counts[False] == KEPT_MAX + 5
