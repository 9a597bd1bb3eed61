"""Any order of members that come, go, stall, and lose answers: no partition is ever with two of them.

The members are clients as Kafka's are.  They obey at once, later, or not at all, until
their time is up; some answers never reach them.  When nobody stalls any longer, all that is
read is shared out, evenly, and nothing moves that need not.
"""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.groups.consumers import SESSION_MS, ConsumerGroup
from penstock.groups.heartbeats import JOIN, LEAVE, LEAVE_FOR_NOW, MemberHeartbeat, Topics
from penstock.groups.uniform import TopicIdPartition
from penstock.wire.kafka.codes import Code

NAMES = ("x", "y", "z")
JOIN_AGAIN = (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH)


class Member:
    """One client."""

    def __init__(self, identity: str, reads: frozenset[str], instance: str | None) -> None:
        self.told = MemberHeartbeat(
            member=identity,
            epoch=JOIN,
            instance=instance,
            rebalance_timeout_ms=SESSION_MS // 2,
            topics=reads,
            owned=frozenset(),
        )
        self.epoch = JOIN
        self.working: frozenset[TopicIdPartition] = frozenset()  # What it really does.
        self.wanted: frozenset[TopicIdPartition] = frozenset()  # What it was told to do.

    def beat(self, group: ConsumerGroup, topics: Topics, now_ms: int, *, lost: bool) -> None:
        told = replace(self.told, epoch=self.epoch, owned=self.working)
        answer = group.heartbeat(told, topics, now_ms)
        if lost:
            return
        if answer.error in JOIN_AGAIN:
            self.epoch, self.working, self.wanted = JOIN, frozenset(), frozenset()
            return
        assert answer.error in (Code.NONE, Code.UNRELEASED_INSTANCE_ID)
        if not answer.error:
            self.epoch = answer.epoch
            self.wanted = self.wanted if answer.assignment is None else answer.assignment


class AnyOrderOfCalls(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.number = 0
        self.group = ConsumerGroup()
        self.members: dict[str, Member] = {}
        self.topics: Topics = {"a": (b"a", 3), "b": (b"b", 2)}

    @rule(name=st.sampled_from(NAMES), reads=st.sampled_from(["a", "b", "ab"]), static=st.booleans())
    def start(self, name: str, reads: str, static: bool) -> None:
        """Without a word from the one of that name before it."""
        self.number += 1
        self.members[name] = Member(f"{name}-{self.number}", frozenset(reads), name if static else None)

    @rule(name=st.sampled_from(NAMES), obeys=st.booleans(), lost=st.booleans())
    def beat(self, name: str, obeys: bool, lost: bool) -> None:
        member = self.members.get(name)
        if member is not None:
            if obeys:
                member.working = member.wanted
            member.beat(self.group, self.topics, self.now_ms, lost=lost)

    @rule(name=st.sampled_from(NAMES))
    def all_but_one_obey(self, name: str) -> None:
        """That one is alive, and does what it did."""
        for _ in range(5):
            for each in self.members:
                self.beat(each, each != name, lost=False)
                self.no_partition_is_with_two_members()

    @rule(name=st.sampled_from(NAMES), epoch=st.sampled_from([LEAVE, LEAVE_FOR_NOW]))
    def leave(self, name: str, epoch: int) -> None:
        member = self.members.pop(name, None)
        if member is not None:
            self.group.heartbeat(replace(member.told, epoch=epoch), self.topics, self.now_ms)

    @rule(step_ms=st.integers(0, SESSION_MS))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.group.tick(self.now_ms)

    @rule(more=st.integers(1, 2), name=st.sampled_from("ab"))
    def grow(self, more: int, name: str) -> None:
        identity, size = self.topics[name]
        self.topics = {**self.topics, name: (identity, min(size + more, 6))}

    @rule()
    def everybody_obeys(self) -> None:
        for _ in range(12):
            self.now_ms += SESSION_MS // 5
            self.group.tick(self.now_ms)
            for member in self.members.values():
                member.working = member.wanted
                member.beat(self.group, self.topics, self.now_ms, lost=False)
        held = [place for member in self.members.values() for place in member.working]
        read = {name for member in self.members.values() for name in member.told.topics or ()}
        whole = [(self.topics[name][0], n) for name in read for n in range(self.topics[name][1])]
        assert sorted(held) == sorted(whole)
        assert self.group.state == ("Stable" if self.members else "Empty")
        if len({member.told.topics for member in self.members.values()}) == 1:
            sizes = [len(member.working) for member in self.members.values()]
            assert max(sizes) - min(sizes) <= 1

    @invariant()
    def no_partition_is_with_two_members(self) -> None:
        """Of a member that was put out and does not know it yet, nothing it does can be committed."""
        states = self.group.describe()
        assert sum(len(state.assigned) for state in states) == len(
            {place for state in states for place in state.assigned}
        )
        known = {state.member: state for state in states}
        busy = [
            place
            for member in self.members.values()
            if member.told.member in known and known[member.told.member].epoch == member.epoch
            for place in member.working
        ]
        assert len(busy) == len(set(busy))

    @invariant()
    def whoever_is_in_has_a_deadline(self) -> None:
        assert (self.group.next_deadline_ms() >= 0) == (not self.group.idle)


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase
