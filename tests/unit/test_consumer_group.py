"""A consumer group (KIP-848): the broker assigns, members follow by their heartbeats, one by one."""

import dataclasses
from typing import Any

import pytest

from penstock.groups.consumers import (
    HEARTBEAT_MS,
    MEMBERS_MAX,
    PATTERNS_MAX,
    SESSION_MS,
    SOON_MS,
    ConsumerGroup,
)
from penstock.groups.heartbeats import JOIN, LEAVE, LEAVE_FOR_NOW, HeartbeatResult, MemberHeartbeat, Topics
from penstock.groups.patterns import Tried
from penstock.groups.rebalance import Committer
from penstock.groups.uniform import TopicIdPartition, ranges, uniform
from penstock.wire.kafka.codes import Code

A, B = b"a" * 16, b"b" * 16
TOPICS: Topics = {"a": (A, 4), "b": (B, 2)}
REBALANCE_MS = 10_000
ALL = frozenset((A, number) for number in range(4))


class Told:
    """A member that does as it is told."""

    def __init__(self, group: ConsumerGroup, name: str, *topics: str, **fields: Any) -> None:
        self.group = group
        self.beat = MemberHeartbeat(
            member=name,
            epoch=JOIN,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=frozenset(topics or ("a",)),
            owned=frozenset(),
            **fields,
        )
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.epoch = JOIN
        self.topics = TOPICS

    def say(self, now_ms: int = 0, **fields: Any) -> HeartbeatResult:
        """One heartbeat; what it is told to work on, it works on."""
        told = dataclasses.replace(self.beat, **{"epoch": self.epoch, "owned": self.owned, **fields})
        answer = self.group.heartbeat(told, self.topics, now_ms)
        if not answer.error:
            self.epoch = answer.epoch
            self.owned = self.owned if answer.assignment is None else answer.assignment
        return answer

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, number in self.owned)


def settled(*members: Told) -> None:
    """Everybody follows, until nothing moves."""
    for _ in range(3):
        for member in members:
            member.say()


def test_the_first_member_gets_everything_at_once() -> None:
    group = ConsumerGroup()

    answer = Told(group, "x").say()

    assert (answer.error, answer.member, answer.epoch) == (Code.NONE, "x", 1)
    assert answer.assignment == ALL
    assert answer.interval_ms == HEARTBEAT_MS
    assert group.state == "Stable"


def test_what_moves_is_given_up_before_it_is_given_and_the_rest_goes_on() -> None:
    group = ConsumerGroup()
    old, new = Told(group, "old"), Told(group, "new")
    old.say()

    waiting = new.say()
    assert (waiting.assignment, waiting.interval_ms, waiting.epoch) == (frozenset(), SOON_MS, 2)
    assert group.state == "Reconciling"
    stopping = old.say()
    assert (stopping.epoch, len(old.owned)) == (1, 2)
    kept = old.owned
    assert new.say().assignment in (None, frozenset())
    given_up = old.say()

    assert (given_up.epoch, given_up.assignment) == (2, old.owned)
    assert new.say().assignment == ALL - kept
    assert old.owned == kept
    assert group.state == "Stable"


def test_a_member_that_has_nothing_new_to_hear_hears_nothing() -> None:
    group = ConsumerGroup()
    member = Told(group, "x")
    member.say()

    assert member.say(owned=None, topics=None).assignment is None


def test_who_leaves_leaves_its_share() -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1"), Told(group, "2")
    settled(one, two)

    assert two.say(epoch=LEAVE).epoch == LEAVE

    assert one.say().assignment == ALL
    assert group.heartbeat(dataclasses.replace(two.beat, epoch=LEAVE), TOPICS, 0).error


def test_a_silent_member_is_put_out() -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1"), Told(group, "2")
    settled(one, two)
    one.say(10_000)

    group.tick(SESSION_MS - 1)
    assert group.next_deadline_ms() == SESSION_MS
    group.tick(SESSION_MS)

    assert two.say(SESSION_MS).error == Code.UNKNOWN_MEMBER_ID
    assert one.say(SESSION_MS).assignment == ALL


def test_who_does_not_give_up_within_its_own_time_is_put_out() -> None:
    group = ConsumerGroup()
    old, new = Told(group, "old"), Told(group, "new")
    old.say()
    new.say()
    everything = old.owned
    old.say(1000, owned=everything)
    old.say(2000, owned=everything)

    group.tick(1000 + REBALANCE_MS - 1)
    assert old.say(5000, owned=everything).error == Code.NONE
    group.tick(1000 + REBALANCE_MS)

    assert old.say().error == Code.UNKNOWN_MEMBER_ID
    assert new.say().assignment == everything


def test_a_topic_that_grows_is_shared_out_again() -> None:
    group = ConsumerGroup()
    member = Told(group, "x")
    member.say()
    assert member.say(owned=None, topics=None).epoch == 1

    member.topics = {"a": (A, 6), "b": (B, 2)}

    answer = member.say(owned=None, topics=None)
    assert (answer.epoch, len(member.owned)) == (2, 6)


def test_a_topic_that_nobody_reads_changes_nothing() -> None:
    group = ConsumerGroup()
    member = Told(group, "x")
    member.say()

    member.topics = {"a": (A, 4), "c": (B, 9)}

    assert member.say().epoch == 1


def test_a_topic_that_was_made_anew_is_another() -> None:
    group = ConsumerGroup()
    member = Told(group, "x")
    member.say()

    member.topics = {"a": (B, 4)}
    settled(member)

    assert member.owned == {(B, number) for number in range(4)}


def test_a_member_reads_other_topics() -> None:
    group = ConsumerGroup()
    member = Told(group, "x")
    member.say()

    member.say(topics=frozenset({"b", "not there yet"}))
    settled_at = member.say(topics=None)

    assert member.owned == {(B, 0), (B, 1)}
    assert settled_at.epoch == 2


def test_topics_by_a_pattern() -> None:
    group = ConsumerGroup()
    member = Told(group, "x", pattern="[bc].*")
    member.say(topics=frozenset())
    assert member.owned == {(B, 0), (B, 1)}

    member.topics = {**TOPICS, "c-new": (b"c" * 16, 1)}
    member.say(topics=None)

    assert (b"c" * 16, 0) in member.owned


def test_members_that_ask_for_ranges_get_neighbours() -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1", assignor="range"), Told(group, "2", assignor="range")
    settled(one, two)

    assert (one.numbers, two.numbers) == ([0, 1], [2, 3])
    assert group.assignor == "range"


# Epochs.


def test_an_answer_that_got_lost_is_given_again() -> None:
    group = ConsumerGroup()
    old, new = Told(group, "old"), Told(group, "new")
    old.say()
    new.say()
    old.say()
    lost = group.heartbeat(dataclasses.replace(old.beat, epoch=1, owned=old.owned), TOPICS, 0)
    assert lost.epoch == 2

    again = old.say(epoch=1)

    assert (again.error, again.epoch, again.assignment) == (Code.NONE, 2, old.owned)


@pytest.mark.parametrize("epoch", [1, 3, 99])
def test_an_epoch_that_is_not_the_members_is_fenced(epoch: int) -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1"), Told(group, "2")
    settled(one, two)

    answer = one.say(epoch=epoch, owned=frozenset({(A, number) for number in range(4)}))

    assert answer.error == Code.FENCED_MEMBER_EPOCH


def test_a_member_that_joins_again_begins_anew() -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1"), Told(group, "2")
    settled(one, two)
    epoch, owned = group.epoch, one.owned

    answer = one.say(epoch=JOIN, owned=frozenset())

    assert (answer.assignment, answer.epoch, group.epoch) == (owned, epoch, epoch)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"assignor": "mine"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"pattern": "("}, Code.INVALID_REGULAR_EXPRESSION),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"topics": None}, Code.INVALID_REQUEST),
        ({"member": ""}, Code.INVALID_REQUEST),
        ({"epoch": 5}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_joins_wrongly_is_not_let_in(fields: dict[str, Any], code: Code) -> None:
    group = ConsumerGroup()

    answer = Told(group, "x").say(**fields)

    assert answer.error == code
    assert answer.why
    assert group.idle


def test_a_group_has_a_largest_size() -> None:
    group = ConsumerGroup()
    first = Told(group, "first")
    first.say()
    group._members |= {str(number): group._members["first"] for number in range(MEMBERS_MAX - 1)}

    assert Told(group, "late").say().error == Code.GROUP_MAX_SIZE_REACHED


# Static members.


def test_a_static_member_that_leaves_for_a_while_keeps_its_share() -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1", instance="host"), Told(group, "2")
    settled(one, two)
    share, epoch = one.owned, group.epoch
    one.say(epoch=LEAVE_FOR_NOW)
    settled(two)
    assert len(two.owned) == 2

    again = Told(group, "1b", instance="host")
    answer = again.say()

    assert (answer.assignment, answer.epoch, group.epoch) == (share, epoch, epoch)
    assert one.say(epoch=epoch).error == Code.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_put_out() -> None:
    group = ConsumerGroup()
    one, two = Told(group, "1", instance="host"), Told(group, "2")
    settled(one, two)
    one.say(epoch=LEAVE_FOR_NOW)
    two.say(SESSION_MS - 1)

    group.tick(SESSION_MS)

    assert len(two.say(SESSION_MS).assignment or ()) == 4


def test_a_name_that_is_in_use_is_not_given_twice() -> None:
    group = ConsumerGroup()
    Told(group, "1", instance="host").say()

    assert Told(group, "2", instance="host").say().error == Code.UNRELEASED_INSTANCE_ID


def test_an_operator_puts_members_out() -> None:
    group = ConsumerGroup()
    Told(group, "1", instance="host").say()
    Told(group, "2").say()

    assert group.leave("", "host", 0) == group.leave("2", None, 0) == Code.NONE
    assert group.leave("2", None, 0) == Code.UNKNOWN_MEMBER_ID
    assert group.idle
    assert group.state == "Empty"


# Commits.


def test_a_member_commits_at_its_epoch() -> None:
    group = ConsumerGroup()
    Told(group, "1").say()

    assert group.check_commit(Committer(member="1", generation=1), 0) == Code.NONE
    assert group.check_commit(Committer(member="1", generation=0), 0) == Code.STALE_MEMBER_EPOCH
    assert group.check_commit(Committer(member="2", generation=1), 0) == Code.UNKNOWN_MEMBER_ID
    assert group.check_commit(Committer(), 0) == Code.UNKNOWN_MEMBER_ID
    assert group.check_commit(Committer(transactional=True), 0) == Code.NONE


def test_members_are_described() -> None:
    group = ConsumerGroup()
    Told(group, "1", client_id="app", pattern="b").say()

    [state] = group.describe()

    assert (state.member, state.client_id, state.epoch, state.pattern) == ("1", "app", 1, "b")
    assert state.assigned == state.target
    assert group.topics_of("1") == {"a", "b"}


# Shares.


def test_no_partition_is_with_a_member_that_has_two_more_than_another_that_reads_it() -> None:
    reads = {"x": {A}, "y": {A, B}, "z": {B}, "late": {A, B}}

    shares = uniform({"x": {(A, 0), (A, 1), (A, 2), (A, 3)}}, reads, {A: 4, B: 6})

    assert sorted(place for share in shares.values() for place in share) == [
        *((A, number) for number in range(4)),
        *((B, number) for number in range(6)),
    ]
    for rich, share in shares.items():
        for topic, _ in share:
            assert topic in reads[rich]
            assert len(share) <= min(len(shares[one]) for one in reads if topic in reads[one]) + 1


def test_a_topic_that_nobody_reads_is_nobodys() -> None:
    assert uniform({}, {"x": {A}}, {A: 1, B: 1}) == ranges({"x": {A}}, {A: 1, B: 1}) == {"x": {(A, 0)}}
    assert uniform({}, {}, {A: 1}) == {}


# Patterns.


def by_pattern(group: ConsumerGroup, name: str, pattern: str) -> Told:
    return Told(group, name, "none", pattern=pattern)


def test_a_pattern_that_is_none_is_refused_with_the_reason() -> None:
    answer = by_pattern(ConsumerGroup(), "x", "(a").say()

    assert answer.error == Code.INVALID_REGULAR_EXPRESSION
    assert "missing )" in answer.why


def test_topics_that_come_and_go_are_matched_by_the_patterns_that_members_have() -> None:
    group = ConsumerGroup()
    member = by_pattern(group, "x", "[ac]")
    member.say()
    assert {topic for topic, _ in member.owned} == {A}

    member.topics = {"b": (B, 2), "c": (b"c" * 16, 1)}
    member.say()
    member.say()

    assert {topic for topic, _ in member.owned} == {b"c" * 16}


def test_what_was_tried_elsewhere_is_not_matched_again() -> None:
    group = ConsumerGroup()
    assert group.unmatched("a|b", TOPICS) == {"a|b": ["a", "b"]}
    assert group.unmatched("(", TOPICS) == {}  # It is refused, and not matched.
    claimed = Tried()
    claimed.note("a|b", "a", False)
    claimed.note("a|b", "b", True)

    told = MemberHeartbeat(member="x", epoch=JOIN, rebalance_timeout_ms=1, pattern="a|b", owned=frozenset())
    answer = group.heartbeat(told, TOPICS, 0, claimed)

    assert answer.assignment == frozenset({(B, 0), (B, 1)})
    assert group.unmatched(None, TOPICS) == {}
    assert group.unmatched(None, {**TOPICS, "aa": (b"c" * 16, 1)}) == {"a|b": ["aa"]}


def test_a_group_has_so_many_patterns_and_no_more() -> None:
    group = ConsumerGroup()
    for number in range(PATTERNS_MAX):
        assert not by_pattern(group, f"m{number}", f"a{number}").say().error

    assert by_pattern(group, "more", "b").say().error == Code.INVALID_REGULAR_EXPRESSION
    assert not by_pattern(group, "same", "a0").say().error
    group.leave("m1", None, 0)
    assert not by_pattern(group, "more", "b").say().error
