"""Any order of joins, heartbeats, leaves, silences and resizes, against a model that keeps one dict.

The model knows who owns each partition, what each member works on, and, by
trying every possible assignment, the fewest moves that balance the group.
"""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.groups.assignors import sticky
from penstock.groups.coordinator import Coordinator

SESSION_MS = 1_000
NAMES = ("a", "b", "c")
PARTITIONS_MAX = 6  # 3 ** 6 assignments to try: still quick.


def fewest_moves(owners: dict[int, str | None], members: list[str]) -> int:
    """By trying them all."""
    best = len(owners)
    for choice in product(members, repeat=len(owners)):
        counts = [choice.count(member) for member in members]
        if max(counts) - min(counts) <= 1:
            moves = sum(owners[p] not in (None, choice[p]) for p in owners)
            best = min(best, moves)
    return best


@given(st.data(), st.integers(1, PARTITIONS_MAX), st.sets(st.sampled_from(NAMES), min_size=1))
def test_sticky_is_balanced_and_makes_the_fewest_moves(
    data: st.DataObject, partitions: int, members: set[str]
) -> None:
    """Current owners may be members, members that are gone, or nobody."""
    owners = {p: data.draw(st.sampled_from((*NAMES, None))) for p in range(partitions)}
    current: dict[str, set[int]] = {}
    for partition, owner in owners.items():
        if owner is not None:
            current.setdefault(owner, set()).add(partition)

    target = sticky(current, members, partitions)

    assert sorted(p for owned in target.values() for p in owned) == list(range(partitions))
    counts = [len(target[member]) for member in members]
    assert max(counts) - min(counts) <= 1
    owners_left = {p: owner if owner in members else None for p, owner in owners.items()}
    moves = sum(owner is not None and p not in target[owner] for p, owner in owners_left.items())
    assert moves == fewest_moves(owners_left, sorted(members))


class AnyOrderOfCalls(RuleBasedStateMachine):
    """Members stop what they are told to stop at once, later, or never; the coordinator only hears of it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.coordinator = Coordinator(2, SESSION_MS)
        self.generation = 0
        self.deadlines: dict[str, int] = {}
        self.owners: dict[int, str | None] = {0: None, 1: None}
        self.target: dict[int, str] = {}
        self.working: dict[str, set[int]] = {}  # What members really do, from their own point of view.
        self.given: dict[str, set[int]] = {}  # What they were given in their present session.

    def retarget(self) -> None:
        """Accept the coordinator's target if it is as good as the best; from now on hold it to it."""
        self.generation += 1
        infos = self.coordinator.members()
        self.target = {p: info.member for info in infos for p in info.assigned}
        if not infos:
            return
        assert sorted(self.target) == sorted(self.owners)
        counts = [len(info.assigned) for info in infos]
        assert max(counts) - min(counts) <= 1
        moves = sum(self.owners[p] not in (None, self.target[p]) for p in self.owners)
        assert moves == fewest_moves(self.owners, sorted(self.deadlines))

    def forget(self, member: str) -> None:
        del self.deadlines[member]
        for partition, owner in self.owners.items():
            if owner == member:
                self.owners[partition] = None

    @rule(member=st.sampled_from(NAMES))
    def join(self, member: str) -> None:
        new = member not in self.deadlines
        self.deadlines[member] = self.now_ms + SESSION_MS
        self.coordinator.join(member, self.now_ms)
        self.working.setdefault(member, set())
        if new:
            self.given[member] = set()
            self.retarget()

    @rule(member=st.sampled_from(NAMES), stops=st.booleans(), data=st.data())
    def heartbeat(self, member: str, stops: bool, data: st.DataObject) -> None:
        working = self.working.setdefault(member, set())
        if stops and working:
            to_stop = sorted(p for p in working if self.target.get(p) != member)
            working -= set(data.draw(st.lists(st.sampled_from(to_stop)))) if to_stop else set()
        self.beat(member)

    def beat(self, member: str) -> None:
        working = self.working[member]
        assignment = self.coordinator.heartbeat(member, frozenset(working), self.now_ms)
        if member not in self.deadlines:
            assert assignment is None
            working.clear()
            return
        assert assignment is not None
        self.deadlines[member] = self.now_ms + SESSION_MS
        for partition, owner in self.owners.items():
            if owner == member and self.target[partition] != member and partition not in working:
                self.owners[partition] = None
            if self.owners[partition] is None and self.target[partition] == member:
                self.owners[partition] = member
        held = {p for p, owner in self.owners.items() if owner == member}
        assert assignment.generation == self.generation
        assert assignment.partitions == {p for p in held if self.target[p] == member}
        assert assignment.revoke == (held | working) - assignment.partitions
        working |= assignment.partitions
        self.given[member] |= assignment.partitions

    @rule(member=st.sampled_from(NAMES))
    def leave(self, member: str) -> None:
        self.coordinator.leave(member, self.now_ms)
        self.working.pop(member, None)
        if member in self.deadlines:
            self.forget(member)
            self.retarget()

    @rule(step_ms=st.integers(0, SESSION_MS))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        gone = self.coordinator.tick(self.now_ms)
        expected = [member for member, deadline in self.deadlines.items() if deadline <= self.now_ms]
        assert sorted(gone) == sorted(expected)
        for member in gone:
            self.forget(member)
        if gone:
            self.retarget()

    @rule(more=st.integers(0, 2))
    def resize(self, more: int) -> None:
        more = min(more, PARTITIONS_MAX - len(self.owners))
        size = len(self.owners)
        self.owners.update(dict.fromkeys(range(size, size + more)))
        self.coordinator.resize(size + more)
        if more:
            self.retarget()

    @rule()
    def everybody_obeys_for_two_rounds(self) -> None:
        """Then all moves are done, the group is balanced, and further heartbeats change nothing."""
        kept = {p: owner for p, owner in self.owners.items() if owner == self.target.get(p)}
        for _ in range(2):
            for member in sorted(self.deadlines):
                self.working[member] -= {p for p in self.owners if self.target[p] != member}
                self.beat(member)
        if self.deadlines:
            assert self.owners == self.target
            assert not any(self.coordinator.has_news(member) for member in self.deadlines)
        assert {p: self.owners[p] for p in kept} == kept

    @invariant()
    def every_partition_has_the_owner_of_the_model(self) -> None:
        assert {p: self.coordinator.owner(p) for p in self.owners} == self.owners
        infos = self.coordinator.members()
        held = {p: info.member for info in infos for p in info.owned}
        assert held == {p: owner for p, owner in self.owners.items() if owner is not None}
        assert sum(len(info.owned) for info in infos) == len(held)

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        infos = self.coordinator.members()
        assert {info.member: info.deadline_ms for info in infos} == self.deadlines
        assert self.coordinator.next_deadline_ms() == min(self.deadlines.values(), default=-1)
        assert self.coordinator.generation == self.generation

    @invariant()
    def no_partition_is_worked_on_by_two_members(self) -> None:
        """Work that a member brought along from a session it lost is not counted: it cannot commit it."""
        busy = [p for member in self.deadlines for p in self.working[member] & self.given[member]]
        assert sorted(busy) == sorted(set(busy))


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase
