"""The sticky assignor: balanced first, then as few moves as can be."""

from penstock.groups.assignors import sticky


def test_partitions_are_shared_out_evenly() -> None:
    target = sticky({}, ["a", "b", "c"], 7)

    assert sorted(len(owned) for owned in target.values()) == [2, 2, 3]
    assert sorted(set().union(*target.values())) == list(range(7))


def test_a_balanced_assignment_stays_as_it_is() -> None:
    current = {"a": {5, 1}, "b": {0, 3}, "c": {2, 4}}

    assert sticky(current, ["c", "b", "a"], 6) == current


def test_a_late_member_gets_its_share_and_nothing_else_moves() -> None:
    current = {"a": {0, 1, 2}, "b": {3, 4, 5}}

    target = sticky(current, ["a", "b", "late"], 6)

    assert target == {"a": {0, 1}, "b": {3, 4}, "late": {2, 5}}


def test_what_a_lost_member_had_is_spread_over_the_others() -> None:
    current = {"a": {0, 1}, "b": {2, 3}}

    target = sticky(current, ["a", "b"], 6)

    assert target == {"a": {0, 1, 4}, "b": {2, 3, 5}}


def test_the_larger_share_stays_with_the_member_that_has_it() -> None:
    """Seven for three: whoever has three keeps three, also if it is last by name."""
    current = {"a": {0, 1}, "b": {2, 3}, "z": {4, 5, 6}}

    assert sticky(current, ["a", "b", "z"], 7) == current


def test_more_members_than_partitions_leaves_some_with_nothing() -> None:
    target = sticky({"c": {0}, "d": {1}}, ["a", "b", "c", "d"], 2)

    assert target == {"a": set(), "b": set(), "c": {0}, "d": {1}}


def test_no_members_get_no_partitions() -> None:
    assert sticky({}, [], 4) == {}


def test_the_order_of_the_members_does_not_matter() -> None:
    assert sticky({}, ["b", "a"], 3) == sticky({}, ["a", "b"], 3)


def test_the_current_assignment_is_not_touched() -> None:
    current = {"a": {0, 1}}

    sticky(current, ["a", "b"], 2)

    assert current == {"a": {0, 1}}
