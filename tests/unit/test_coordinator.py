"""The coordinator: partitions move one at a time, from hand to hand, and the rest goes on."""

from penstock.groups.coordinator import Assignment, Coordinator, MemberInfo

SESSION_MS = 30_000


def beat(coordinator: Coordinator, member: str, *owned: int, now_ms: int = 0) -> Assignment:
    assignment = coordinator.heartbeat(member, frozenset(owned), now_ms)
    assert assignment is not None
    return assignment


def coordinator_with(partitions: int, *members: str) -> Coordinator:
    coordinator = Coordinator(partitions, SESSION_MS)
    for member in members:
        coordinator.join(member, 0)
    return coordinator


def test_the_first_member_gets_everything() -> None:
    coordinator = coordinator_with(3, "a")

    assert beat(coordinator, "a") == Assignment(1, frozenset({0, 1, 2}), frozenset())
    assert [coordinator.owner(partition) for partition in range(3)] == ["a", "a", "a"]


def test_a_partition_is_nobodys_until_a_heartbeat_takes_it() -> None:
    coordinator = coordinator_with(1, "a")

    assert coordinator.owner(0) is None


def test_a_partition_that_moves_is_given_up_before_it_is_given() -> None:
    """The old owner works and commits until it says that it has stopped; the rest is never paused."""
    coordinator = coordinator_with(4, "old")
    beat(coordinator, "old")
    coordinator.join("new", 0)

    assert beat(coordinator, "new").partitions == frozenset()
    told = beat(coordinator, "old", 0, 1, 2, 3)
    assert (told.partitions, told.revoke) == (frozenset({0, 1}), frozenset({2, 3}))
    assert coordinator.owner(3) == "old"

    still_busy_with_3 = beat(coordinator, "old", 0, 1, 3)
    assert still_busy_with_3.revoke == frozenset({3})
    assert beat(coordinator, "new").partitions == frozenset({2})

    assert beat(coordinator, "old", 0, 1).revoke == frozenset()
    assert beat(coordinator, "new", 2).partitions == frozenset({2, 3})


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    coordinator = coordinator_with(2, "a", "b")
    beat(coordinator, "a")
    beat(coordinator, "b")

    coordinator.leave("a", 1)
    coordinator.leave("a", 2)

    assert coordinator.owner(0) is None
    assert beat(coordinator, "b", 1).partitions == frozenset({0, 1})
    assert coordinator.heartbeat("a", frozenset({0}), 3) is None


def test_a_member_whose_session_expired_is_unknown_and_its_partitions_are_free() -> None:
    coordinator = coordinator_with(2, "a", "b")
    beat(coordinator, "a")
    beat(coordinator, "b", now_ms=10)

    assert coordinator.next_deadline_ms() == SESSION_MS
    assert coordinator.tick(SESSION_MS - 1) == []
    assert coordinator.tick(SESSION_MS) == ["a"]

    assert coordinator.heartbeat("a", frozenset({0}), SESSION_MS) is None
    assert beat(coordinator, "b", 1, now_ms=SESSION_MS).partitions == frozenset({0, 1})


def test_a_member_that_comes_back_is_told_to_stop_what_it_still_works_on() -> None:
    coordinator = coordinator_with(2, "a", "b")
    beat(coordinator, "a")
    beat(coordinator, "b", now_ms=10)
    coordinator.tick(SESSION_MS)
    beat(coordinator, "b", 1, now_ms=SESSION_MS)

    coordinator.join("a", SESSION_MS)
    answer = beat(coordinator, "a", 0, now_ms=SESSION_MS)

    assert coordinator.owner(0) == "b"
    assert (answer.partitions, answer.revoke) == (frozenset(), frozenset({0}))


def test_a_move_that_was_not_made_yet_is_forgotten_when_it_is_not_needed_any_more() -> None:
    coordinator = coordinator_with(4, "old")
    beat(coordinator, "old")
    coordinator.join("new", 0)
    assert beat(coordinator, "old", 0, 1, 2, 3).revoke == frozenset({2, 3})

    coordinator.leave("new", 1)

    assert beat(coordinator, "old", 0, 1, 2, 3) == Assignment(3, frozenset({0, 1, 2, 3}), frozenset())


def test_an_answer_that_got_lost_is_given_again() -> None:
    """The member does not own what it never heard of, and hears of it again."""
    coordinator = coordinator_with(2, "a")
    beat(coordinator, "a")

    assert beat(coordinator, "a").partitions == frozenset({0, 1})


def test_joining_twice_changes_nothing_and_refreshes_the_session() -> None:
    coordinator = coordinator_with(2, "a")
    beat(coordinator, "a")

    coordinator.join("a", 5_000)

    assert coordinator.generation == 1
    assert coordinator.next_deadline_ms() == 5_000 + SESSION_MS
    assert coordinator.owner(1) == "a"


def test_new_partitions_are_shared_out_and_old_ones_stay() -> None:
    coordinator = coordinator_with(2, "a", "b")
    beat(coordinator, "a")
    beat(coordinator, "b")

    coordinator.resize(5)
    coordinator.resize(5)

    assert coordinator.generation == 3
    assert beat(coordinator, "a", 0).partitions == frozenset({0, 2, 3})
    assert beat(coordinator, "b", 1).partitions == frozenset({1, 4})


def test_members_are_listed_with_what_they_have_and_what_they_will_have() -> None:
    coordinator = coordinator_with(2, "a")
    beat(coordinator, "a")
    coordinator.join("b", 7)

    assert coordinator.members() == [
        MemberInfo("a", frozenset({0, 1}), frozenset({0}), SESSION_MS),
        MemberInfo("b", frozenset(), frozenset({1}), SESSION_MS + 7),
    ]


def test_only_members_with_news_need_to_be_woken() -> None:
    coordinator = coordinator_with(3, "a", "b", "c")
    for member in ("a", "b", "c"):
        assert coordinator.has_news(member)
        beat(coordinator, member)
    assert not any(coordinator.has_news(member) for member in ("a", "b", "c"))

    coordinator.leave("c", 1)
    assert coordinator.has_news("a")
    assert coordinator.has_news("c"), "it must join again"
    assert beat(coordinator, "a", 0).partitions == frozenset({0, 2})
    beat(coordinator, "b", 1)
    coordinator.join("c", 2)
    beat(coordinator, "b", 1)
    beat(coordinator, "c")
    assert not coordinator.has_news("c"), "what it will get is not free yet"
    beat(coordinator, "a", 0, 2)
    beat(coordinator, "a", 0)
    assert coordinator.has_news("c")


def test_an_empty_group_owns_nothing() -> None:
    coordinator = coordinator_with(2, "a")
    beat(coordinator, "a")

    coordinator.leave("a", 1)

    assert [coordinator.owner(0), coordinator.owner(1)] == [None, None]
    assert coordinator.next_deadline_ms() == -1
    assert coordinator.members() == []
