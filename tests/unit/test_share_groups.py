"""Membership of share groups, in virtual time."""

import pytest

from penstock.errors import Forbidden, Overloaded
from penstock.groups import shares
from penstock.groups.shares import CLOSE, EPOCH_MAX, OPEN, ShareGroups, ShareMember, following
from penstock.wire.kafka.codes import Code

OWNER, OTHER = object(), object()
WIRE, SECOND_WIRE = object(), object()


class Member(ShareMember):
    def __init__(self, owner: object, group: str, identity: str) -> None:
        super().__init__(owner, group, identity)
        self.released: list[bool] = []
        self.closed: list[bool] = []

    def release(self, disconnected: bool) -> None:
        self.released.append(disconnected)

    def close(self, disconnected: bool) -> None:
        self.closed.append(disconnected)


@pytest.fixture
def groups() -> ShareGroups[Member]:
    return ShareGroups(Member)


def joined(groups: ShareGroups[Member], identity: str, deadline_ms: int = 1000) -> Member:
    member = groups.find_or_add(OWNER, "workers", identity)
    member.deadline_ms = deadline_ms
    member.advance()
    return member


def test_a_member_that_misses_its_deadline_is_removed_and_its_attempts_count(
    groups: ShareGroups[Member],
) -> None:
    silent, alive = joined(groups, "a", 1000), joined(groups, "b", 2000)
    assert groups.next_deadline_ms() == 1000

    groups.tick(999)
    assert groups.members("workers") == [silent, alive]

    groups.tick(1000)
    assert groups.members("workers") == [alive]
    assert (silent.closed, alive.closed) == ([True], [])
    assert groups.next_deadline_ms() == 2000


def test_there_is_no_deadline_without_a_heartbeat(groups: ShareGroups[Member]) -> None:
    groups.find_or_add(OWNER, "workers", "a")

    groups.tick(10**9)

    assert groups.next_deadline_ms() is None
    assert groups.find(OWNER, "workers", "a") is not None


def test_a_member_is_served_only_to_its_owner(groups: ShareGroups[Member]) -> None:
    joined(groups, "a")

    with pytest.raises(Forbidden):
        groups.find(OTHER, "workers", "a")


def test_members_have_a_limit(groups: ShareGroups[Member], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MEMBERS_MAX", 1)
    joined(groups, "a")

    with pytest.raises(Overloaded):
        joined(groups, "b")


def test_a_member_that_leaves_keeps_its_session_until_that_ends(groups: ShareGroups[Member]) -> None:
    member = joined(groups, "a")
    groups.open_session(OWNER, "workers", "a", WIRE)

    groups.leave(member)
    assert groups.members("workers") == []
    assert member.closed == []

    groups.end_session(member)
    assert (member.released, member.closed) == ([False], [False])
    assert groups.find(OWNER, "workers", "a") is None


def test_a_lost_connection_ends_its_sessions_and_no_others(groups: ShareGroups[Member]) -> None:
    here, there = joined(groups, "a"), joined(groups, "b")
    groups.open_session(OWNER, "workers", "a", WIRE)
    groups.open_session(OWNER, "workers", "b", SECOND_WIRE)

    groups.connection_lost(WIRE)

    assert (here.released, there.released) == ([True], [])
    assert here.session is None
    assert groups.members("workers") == [here, there]


def test_a_new_session_ends_the_old_one_without_an_attempt(groups: ShareGroups[Member]) -> None:
    member = joined(groups, "a")
    _, old = groups.open_session(OWNER, "workers", "a", WIRE)

    _, new = groups.open_session(OWNER, "workers", "a", SECOND_WIRE)

    assert member.released == [False]
    assert member.session is new is not old


def test_a_session_is_continued_on_its_connection_and_epoch_by_epoch(groups: ShareGroups[Member]) -> None:
    member = joined(groups, "a")
    _, session = groups.open_session(OWNER, "workers", "a", WIRE)

    assert groups.session_of(OWNER, "workers", "a", SECOND_WIRE, 1) == Code.SHARE_SESSION_NOT_FOUND
    assert groups.session_of(OWNER, "workers", "b", WIRE, 1) == Code.SHARE_SESSION_NOT_FOUND
    assert groups.session_of(OWNER, "workers", "a", WIRE, 2) == Code.INVALID_SHARE_SESSION_EPOCH
    assert groups.session_of(OWNER, "workers", "a", WIRE, 1) == (member, session)
    assert groups.session_of(OWNER, "workers", "a", WIRE, CLOSE) == (member, session)
    assert session.epoch == 1


def test_a_member_removed_late_does_not_take_its_successor_with_it(groups: ShareGroups[Member]) -> None:
    first = joined(groups, "a")
    groups.remove(first)
    second = joined(groups, "a")

    groups.remove(first)

    assert groups.members("workers") == [second]


def test_epochs_begin_again_at_one() -> None:
    assert [following(0), following(7), following(EPOCH_MAX)] == [1, 8, 1]


def test_a_heartbeat_is_that_of_a_member_at_its_epoch(groups: ShareGroups[Member]) -> None:
    assert groups.heartbeat(OWNER, "g", "one", 1) is Code.UNKNOWN_MEMBER_ID

    member = groups.heartbeat(OWNER, "g", "one", OPEN)
    assert isinstance(member, Member)
    assert groups.heartbeat(OWNER, "g", "one", 1) is Code.UNKNOWN_MEMBER_ID, "it has no epoch yet"
    member.advance()
    member.advance()
    assert groups.heartbeat(OWNER, "g", "one", 2) is member
    assert groups.heartbeat(OWNER, "g", "one", 1) is member, "it may have missed the last answer"
    assert groups.heartbeat(OWNER, "g", "one", 3) is Code.FENCED_MEMBER_EPOCH

    assert groups.heartbeat(OWNER, "g", "one", CLOSE) is member
    assert groups.members("g") == []
