"""Sessions: joined, renewed, left, expired."""

from penstock.groups.membership import Membership


def test_a_member_is_new_once() -> None:
    membership = Membership(session_timeout_ms=100)

    assert membership.join("a", 0)
    assert not membership.join("a", 10)
    assert membership.names() == ["a"]
    assert membership.deadline_ms("a") == 110


def test_a_member_that_is_not_heard_from_expires_at_its_deadline() -> None:
    membership = Membership(session_timeout_ms=100)
    membership.join("a", 0)

    assert membership.expire(99) == []
    assert membership.expire(100) == ["a"]
    assert membership.names() == []
    assert not membership.refresh("a", 101)


def test_a_heartbeat_moves_the_deadline() -> None:
    membership = Membership(session_timeout_ms=100)
    membership.join("a", 0)
    membership.join("b", 1)

    assert membership.refresh("a", 50)

    assert membership.next_deadline_ms() == 101
    assert membership.expire(149) == ["b"]
    assert membership.next_deadline_ms() == 150


def test_a_late_heartbeat_is_good_while_nobody_has_ended_the_session() -> None:
    membership = Membership(session_timeout_ms=100)
    membership.join("a", 0)

    assert membership.refresh("a", 500)
    assert membership.expire(599) == []


def test_members_expire_in_the_order_they_were_last_heard() -> None:
    membership = Membership(session_timeout_ms=100)
    for now_ms, member in enumerate(["a", "b", "c"]):
        membership.join(member, now_ms)
    membership.refresh("a", 3)

    assert membership.expire(1_000) == ["b", "c", "a"]
    assert membership.next_deadline_ms() == -1


def test_leaving_twice_is_leaving_once() -> None:
    membership = Membership(session_timeout_ms=100)
    membership.join("a", 0)

    assert membership.leave("a", 1)
    assert not membership.leave("a", 2)


def test_time_that_goes_back_stands_still() -> None:
    membership = Membership(session_timeout_ms=100)
    membership.join("a", 50)
    membership.join("b", 20)

    assert membership.deadline_ms("b") == 150
