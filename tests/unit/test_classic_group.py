"""A classic group: rounds of two meetings, sessions, static members, and who is refused with which words."""

import dataclasses
from typing import Any

import pytest

from penstock.groups.classic import MEMBERS_MAX, NEW_MEMBER_MS, ClassicGroup
from penstock.groups.rebalance import (
    Committer,
    JoinRequest,
    JoinResult,
    PendingResult,
    SyncRequest,
    SyncResult,
)
from penstock.wire.kafka.codes import Code

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def joining(member: str = "", **fields: Any) -> JoinRequest:
    told = JoinRequest(
        member=member,
        new_member=member,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocols=(("range", b"topics"),),
        id_first=False,
    )
    return dataclasses.replace(told, **fields)


def first_join(group: ClassicGroup, member: str, now_ms: int = 0, **fields: Any) -> PendingResult[JoinResult]:
    return group.join(joining(new_member=member, **fields), now_ms)


def again(group: ClassicGroup, member: str, now_ms: int = 0, **fields: Any) -> PendingResult[JoinResult]:
    return group.join(joining(member, **fields), now_ms)


def answer(ticket: PendingResult[JoinResult]) -> JoinResult:
    assert ticket.answer is not None
    return ticket.answer


def sync(group: ClassicGroup, member: str, now_ms: int = 0, **assignments: Any) -> PendingResult[SyncResult]:
    told = SyncRequest(member=member, generation=group.generation, assignments=tuple(assignments.items()))
    return group.sync(told, now_ms)


def stable(*members: str, static: bool = False) -> ClassicGroup:
    """A group whose members have met, each assigned the bytes of its own name."""
    group = ClassicGroup()
    for member in members:
        first_join(group, member, instance=f"{member}-host" if static else None)
        for known in members[: members.index(member)]:
            again(group, known)
    for member in members[1:]:
        sync(group, member)
    sync(group, members[0], 0, **{member: member.encode() for member in members})
    assert group.state == "Stable"
    return group


def beat(group: ClassicGroup, member: str, now_ms: int = 0, instance: str | None = None) -> Code:
    return group.heartbeat(member, instance, group.generation, now_ms)


def commit(group: ClassicGroup, member: str, now_ms: int = 0, instance: str | None = None) -> Code:
    by = Committer(member=member, instance=instance, generation=group.generation)
    return group.check_commit(by, now_ms)


# Rounds.


def test_the_first_member_leads_and_hears_of_itself() -> None:
    group = ClassicGroup()

    joined = answer(first_join(group, "a"))

    assert (joined.error, joined.member, joined.generation) == (Code.NONE, "a", 1)
    assert (joined.leader, joined.protocol_type, joined.protocol) == ("a", "consumer", "range")
    assert [(line.member, line.metadata) for line in joined.roster] == [("a", b"topics")]
    assert group.state == "CompletingRebalance"


def test_who_has_no_id_is_told_one_first() -> None:
    group = ClassicGroup()

    told = answer(group.join(joining(new_member="a", id_first=True), 0))

    assert (told.error, told.member) == (Code.MEMBER_ID_REQUIRED, "a")
    assert group.state == "Empty"
    assert answer(again(group, "a")).generation == 1


def test_nobody_is_answered_before_all_have_joined() -> None:
    group = stable("a", "b")

    new = first_join(group, "c")
    assert beat(group, "a") == Code.REBALANCE_IN_PROGRESS
    first = again(group, "a")
    assert (new.answer, first.answer) == (None, None)
    last = again(group, "b")

    assert {answer(ticket).generation for ticket in (new, first, last)} == {3}
    assert [line.member for line in answer(first).roster] == ["a", "b", "c"]
    assert answer(last).roster == ()


def test_each_gets_what_the_leader_brings_for_it() -> None:
    group = ClassicGroup()
    first_join(group, "a")
    first_join(group, "b")
    again(group, "a")

    follower = sync(group, "b")
    assert follower.answer is None
    leader = sync(group, "a", a=b"0", b=b"1")

    assert leader.answer == SyncResult(Code.NONE, "consumer", "range", b"0")
    assert follower.answer == SyncResult(Code.NONE, "consumer", "range", b"1")
    assert group.state == "Stable"


def test_who_asks_late_gets_its_assignment_at_once() -> None:
    group = ClassicGroup()
    first_join(group, "a")
    first_join(group, "b")
    again(group, "a")
    sync(group, "a", b=b"1")

    assert sync(group, "b").answer == SyncResult(Code.NONE, "consumer", "range", b"1")


def test_a_member_that_leaves_makes_the_others_meet_anew() -> None:
    group = stable("a", "b")

    assert group.leave("b", None, 0) == Code.NONE

    assert beat(group, "b") == Code.UNKNOWN_MEMBER_ID
    assert beat(group, "a") == Code.REBALANCE_IN_PROGRESS
    assert [line.member for line in answer(again(group, "a")).roster] == ["a"]


def test_the_last_member_leaves_an_empty_group_with_a_generation_of_its_own() -> None:
    group = stable("a")

    group.leave("a", None, 0)

    assert (group.state, group.generation, group.leader, group.protocol) == ("Empty", 2, None, None)
    assert group.idle


def test_a_member_that_does_not_come_within_the_rebalance_timeout_is_out() -> None:
    group = stable("a", "b")
    new = first_join(group, "c", 1000)
    first = again(group, "a", 1000)
    for now_ms in range(1000, 1000 + REBALANCE_MS, SESSION_MS // 2):
        assert beat(group, "b", now_ms) == Code.REBALANCE_IN_PROGRESS

    group.tick(1000 + REBALANCE_MS - 1)
    assert first.answer is None
    group.tick(1000 + REBALANCE_MS)

    assert [line.member for line in answer(first).roster] == ["a", "c"]
    assert answer(new).error == Code.NONE


def test_who_does_not_sync_within_the_rebalance_timeout_is_out() -> None:
    group = ClassicGroup()
    first_join(group, "a")
    first_join(group, "b")
    again(group, "a")
    waiting = sync(group, "b")
    for now_ms in range(0, REBALANCE_MS, SESSION_MS // 2):
        beat(group, "a", now_ms)  # It leads, is alive, and brings nothing.

    group.tick(REBALANCE_MS)

    assert waiting.answer == SyncResult(Code.REBALANCE_IN_PROGRESS)
    assert beat(group, "a") == Code.UNKNOWN_MEMBER_ID
    assert answer(again(group, "b", REBALANCE_MS)).leader == "b"


def test_a_meeting_waits_for_whoever_was_told_an_id() -> None:
    group = stable("a")
    group.join(joining(new_member="b", id_first=True), 0)

    waiting = again(group, "a")
    assert waiting.answer is None
    group.tick(SESSION_MS)

    assert [line.member for line in answer(waiting).roster] == ["a"]
    assert again(group, "b").answer == JoinResult(Code.UNKNOWN_MEMBER_ID, "b")


def test_an_id_that_nobody_took_does_not_disturb_the_others() -> None:
    group = stable("a")
    group.join(joining(new_member="b", id_first=True), 0)
    group.join(joining(new_member="c", id_first=True), 0)

    beat(group, "a", SESSION_MS - 1)
    assert group.leave("b", None, 0) == Code.NONE
    group.tick(SESSION_MS)

    assert group.state == "Stable"
    assert group.next_deadline_ms() == 2 * SESSION_MS - 1


def test_a_member_that_missed_its_answer_gets_it_again_without_a_new_round() -> None:
    group = stable("a", "b")
    generation = group.generation

    assert answer(again(group, "b")).generation == generation
    assert group.state == "Stable"


def test_a_leader_that_joins_again_begins_a_round() -> None:
    """It does that when it sees that a topic has more partitions."""
    group = stable("a", "b")

    assert again(group, "a").answer is None
    assert group.state == "PreparingRebalance"


def test_a_member_with_other_metadata_begins_a_round() -> None:
    group = stable("a", "b")

    assert again(group, "b", protocols=(("range", b"other topics"),)).answer is None
    assert group.state == "PreparingRebalance"


def test_a_second_call_of_a_member_takes_the_place_of_its_first() -> None:
    group = stable("a", "b")
    first = again(group, "a")

    second = again(group, "a")

    assert answer(first).error == Code.REBALANCE_IN_PROGRESS
    again(group, "b")
    assert answer(second).error == Code.NONE


# Protocols.


def test_the_protocol_is_one_that_all_know_and_most_like() -> None:
    group = ClassicGroup()
    first_join(group, "a", protocols=(("x", b""), ("y", b"a"), ("z", b"")))
    first_join(group, "b", protocols=(("z", b""), ("y", b"b")))
    again(group, "a", protocols=(("x", b""), ("y", b"a"), ("z", b"")))

    third = first_join(group, "c", protocols=(("y", b"c"), ("z", b"")))
    again(group, "a", protocols=(("x", b""), ("y", b"a"), ("z", b"")))
    again(group, "b", protocols=(("z", b""), ("y", b"b")))

    assert answer(third).protocol == "y"
    assert [member.metadata for member in group.describe()] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": (("roundrobin", b""),)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
)
def test_who_shares_no_protocol_is_not_let_in(fields: dict[str, Any]) -> None:
    group = stable("a")

    assert answer(first_join(group, "b", **fields)).error == Code.INCONSISTENT_GROUP_PROTOCOL
    assert group.state == "Stable"


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    group = stable("a")
    twice = (("other", b""), ("other", b""), ("range", b""))

    waiting = first_join(group, "b", protocols=twice)
    again(group, "a")

    assert answer(waiting).protocol == "range"


def test_a_sync_for_another_protocol_is_refused() -> None:
    group = stable("a")
    told = SyncRequest(member="a", generation=group.generation, protocol_type="consumer", protocol="sticky")

    assert group.sync(told, 0).answer == SyncResult(Code.INCONSISTENT_GROUP_PROTOCOL)


# Who is refused.


def test_a_stranger_is_unknown() -> None:
    group = stable("a")

    assert again(group, "x").answer == JoinResult(Code.UNKNOWN_MEMBER_ID, "x")
    assert sync(group, "x").answer == SyncResult(Code.UNKNOWN_MEMBER_ID)
    assert beat(group, "x") == Code.UNKNOWN_MEMBER_ID
    assert group.leave("x", None, 0) == Code.UNKNOWN_MEMBER_ID


def test_a_generation_that_is_over_is_refused() -> None:
    group = stable("a")

    assert group.heartbeat("a", None, 0, 0) == Code.ILLEGAL_GENERATION
    assert group.sync(SyncRequest(member="a", generation=0), 0).answer == SyncResult(Code.ILLEGAL_GENERATION)


@pytest.mark.parametrize("timeout_ms", [999, 0, -1, 1_800_001])
def test_a_session_that_is_too_short_or_too_long_is_refused(timeout_ms: int) -> None:
    ticket = first_join(ClassicGroup(), "a", session_timeout_ms=timeout_ms)

    assert answer(ticket).error == Code.INVALID_SESSION_TIMEOUT


def test_a_member_brings_along_what_is_reasonable() -> None:
    ticket = first_join(
        ClassicGroup(), "a", protocols=(("range", bytes(600_000)), ("sticky", bytes(600_000)))
    )

    assert answer(ticket).error == Code.POLICY_VIOLATION


def test_a_group_has_a_largest_size() -> None:
    group = ClassicGroup()
    for number in range(MEMBERS_MAX):
        group.join(joining(new_member=f"m{number}", id_first=True), 0)

    assert answer(first_join(group, "late")).error == Code.GROUP_MAX_SIZE_REACHED


# Sessions.


def test_a_silent_member_is_put_out_and_the_others_meet() -> None:
    group = stable("a", "b")
    beat(group, "a", 5000)

    group.tick(SESSION_MS - 1)
    assert group.state == "Stable"
    group.tick(SESSION_MS)

    assert beat(group, "b", SESSION_MS) == Code.UNKNOWN_MEMBER_ID
    assert beat(group, "a", SESSION_MS) == Code.REBALANCE_IN_PROGRESS


def test_who_waits_in_a_meeting_is_not_silent() -> None:
    group = stable("a", "b")
    waiting = again(group, "a")
    for now_ms in range(0, REBALANCE_MS, SESSION_MS // 2):
        beat(group, "b", now_ms)
        group.tick(now_ms)

    again(group, "b", REBALANCE_MS - 1)

    assert answer(waiting).error == Code.NONE


def test_a_new_member_is_believed_for_five_minutes() -> None:
    """It has no heartbeat yet; and if its connection is gone, nobody says so."""
    group = stable("a")
    group.heartbeat("a", None, 1, 0)
    waiting = first_join(group, "b", rebalance_timeout_ms=2 * NEW_MEMBER_MS)
    for now_ms in range(0, NEW_MEMBER_MS, SESSION_MS // 2):
        beat(group, "a", now_ms)
        group.tick(now_ms)
    assert waiting.answer is None

    beat(group, "a", NEW_MEMBER_MS)
    group.tick(NEW_MEMBER_MS)

    assert answer(waiting).error == Code.UNKNOWN_MEMBER_ID


def test_time_that_goes_back_stands_still() -> None:
    group = stable("a")
    beat(group, "a", 5000)
    beat(group, "a", 1000)

    assert group.next_deadline_ms() == 5000 + SESSION_MS


# Static members.


def test_a_static_member_that_comes_anew_has_its_assignment_without_a_round() -> None:
    group = stable("a", "b", static=True)
    generation = group.generation

    joined = answer(first_join(group, "b2", instance="b-host"))

    assert (joined.error, joined.member, joined.generation) == (Code.NONE, "b2", generation)
    assert sync(group, "b2").answer == SyncResult(Code.NONE, "consumer", "range", b"b")
    assert beat(group, "a", instance="a-host") == Code.NONE


def test_the_process_before_it_is_fenced() -> None:
    group = stable("a", "b", static=True)
    first_join(group, "b2", instance="b-host")

    assert beat(group, "b", instance="b-host") == Code.FENCED_INSTANCE_ID
    assert answer(again(group, "b", instance="b-host")).error == Code.FENCED_INSTANCE_ID
    assert sync(group, "b").answer == SyncResult(Code.UNKNOWN_MEMBER_ID)
    assert commit(group, "b", instance="b-host") == Code.FENCED_INSTANCE_ID
    assert group.leave("b", "b-host", 0) == Code.FENCED_INSTANCE_ID


def test_a_process_that_waits_is_fenced_at_once() -> None:
    group = stable("a", "b", static=True)
    waiting = again(group, "a", instance="a-host")

    first_join(group, "a2", instance="a-host")

    assert answer(waiting).error == Code.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("can_skip", "leader", "roster"), [(True, "a2", ["b", "a2"]), (False, "a", [])])
def test_a_leader_that_comes_anew_assigns_nothing(can_skip: bool, leader: str, roster: list[str]) -> None:
    group = stable("a", "b", static=True)

    joined = answer(first_join(group, "a2", instance="a-host", can_skip=can_skip))

    assert joined.leader == leader
    assert [line.member for line in joined.roster] == roster
    assert joined.skip_assignment == can_skip
    assert group.leader == "a2"


def test_a_static_member_that_comes_anew_while_the_leader_assigns_begins_a_round() -> None:
    """The leader would assign to the id of the process that is gone."""
    group = stable("a", "b", static=True)
    again(group, "a", instance="a-host")
    again(group, "b", instance="b-host")
    assert group.state == "CompletingRebalance"

    assert first_join(group, "b2", instance="b-host").answer is None
    assert group.state == "PreparingRebalance"


def test_a_static_member_that_does_not_come_to_a_meeting_stays_in() -> None:
    group = stable("a", "b", static=True)
    waiting = again(group, "a", instance="a-host", session_timeout_ms=2 * REBALANCE_MS)
    beat(group, "b", REBALANCE_MS - 1)
    group.tick(REBALANCE_MS)

    assert [line.instance for line in answer(waiting).roster] == ["a-host", "b-host"]


def test_static_members_that_are_all_away_are_waited_for_until_their_sessions_end() -> None:
    group = stable("a", "b", static=True)
    again(group, "a", instance="a-host", session_timeout_ms=3 * REBALANCE_MS)
    group.leave("a", "a-host", 0)
    beat(group, "b", REBALANCE_MS - 1)

    group.tick(REBALANCE_MS)
    assert group.state == "PreparingRebalance"
    group.tick(REBALANCE_MS - 1 + SESSION_MS)

    assert group.state == "Empty"


def test_a_static_member_that_comes_anew_and_never_syncs_is_out() -> None:
    group = stable("a", "b", static=True)
    again(group, "a", instance="a-host")
    again(group, "b", instance="b-host")
    sync(group, "a")
    first_join(group, "b2", instance="b-host")

    for now_ms in range(0, REBALANCE_MS, SESSION_MS // 2):
        beat(group, "a", now_ms)
        beat(group, "b2", now_ms)
    group.tick(REBALANCE_MS)

    assert [member.member for member in group.describe()] == ["a"]


def test_an_operator_removes_a_static_member_by_its_name() -> None:
    group = stable("a", "b", static=True)

    assert group.leave("", "b-host", 0) == Code.NONE
    assert group.leave("", "b-host", 0) == Code.UNKNOWN_MEMBER_ID
    assert [member.member for member in group.describe()] == ["a"]


# Commits.


def test_a_member_of_the_generation_may_commit_and_is_heard() -> None:
    group = stable("a")

    assert commit(group, "a", 7000) == Code.NONE
    assert group.next_deadline_ms() == 7000 + SESSION_MS


def test_a_cooperative_member_may_commit_while_the_others_meet() -> None:
    group = stable("a", "b")
    again(group, "a")

    assert commit(group, "b") == Code.NONE


def test_nobody_commits_while_the_leader_assigns() -> None:
    group = ClassicGroup()
    first_join(group, "a")

    assert commit(group, "a") == Code.REBALANCE_IN_PROGRESS


def test_others_may_commit_only_while_the_group_is_empty() -> None:
    group = ClassicGroup()
    assert group.check_commit(Committer(), 0) == Code.NONE
    first_join(group, "a")

    assert group.check_commit(Committer(), 0) == Code.UNKNOWN_MEMBER_ID
    assert group.check_commit(Committer(transactional=True), 0) == Code.NONE
    assert group.check_commit(Committer(member="a", generation=0), 0) == Code.ILLEGAL_GENERATION


# The first round.


def test_members_that_come_soon_after_the_first_are_in_its_round() -> None:
    group = ClassicGroup()
    first = first_join(group, "a", 0, gather_ms=1000)
    second = first_join(group, "b", 900, gather_ms=1000)
    third = first_join(group, "c", 1800, gather_ms=1000)

    group.tick(2799)
    assert first.answer is second.answer is third.answer is None
    assert group.next_deadline_ms() == 2800
    group.tick(2800)

    assert {answer(ticket).generation for ticket in (first, second, third)} == {1}
    assert [line.member for line in answer(first).roster] == ["a", "b", "c"]


def test_the_wait_for_more_members_ends_with_the_rebalance_timeout() -> None:
    group = ClassicGroup()
    first = first_join(group, "m0", 0, gather_ms=1000, rebalance_timeout_ms=3000)
    for number in range(1, 6):
        first_join(group, f"m{number}", number * 500, gather_ms=1000)

    assert group.next_deadline_ms() == 3000
    group.tick(3000)

    assert len(answer(first).roster) == 6


def test_only_the_first_round_of_an_empty_group_waits() -> None:
    group = ClassicGroup()
    first_join(group, "a", 0, gather_ms=1000)
    group.tick(1000)
    sync(group, "a", 1000, a=b"all")
    assert group.state == "Stable"

    second = first_join(group, "b", 2000, gather_ms=1000)
    again(group, "a", 2000, gather_ms=1000)
    assert answer(second).generation == 2

    group.leave("a", None, 3000)
    group.leave("b", None, 3000)
    assert group.idle
    assert first_join(group, "c", 3000, gather_ms=1000).answer is None


def test_a_group_whose_first_members_leave_while_it_waits_is_empty_at_once() -> None:
    group = ClassicGroup()
    first = first_join(group, "a", 0, gather_ms=1000)

    assert group.leave("a", None, 500) == Code.NONE

    assert answer(first).error == Code.UNKNOWN_MEMBER_ID
    assert group.idle
    assert group.next_deadline_ms() == -1


def test_without_a_delay_the_first_member_begins_at_once() -> None:
    assert answer(first_join(ClassicGroup(), "a")).generation == 1
