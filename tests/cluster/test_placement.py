"""Which moves even out a cluster."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.placement import balanced

KEYS = st.tuples(st.sampled_from(["orders", "bills", "mails"]), st.integers(0, 20))
OWNERS = st.dictionaries(KEYS, st.integers(-1, 6), max_size=60)


@given(OWNERS, st.sets(st.integers(1, 5), min_size=1))
def test_every_node_has_about_as_many_and_no_more_move_than_need_to(
    owners: dict[tuple[str, int], int], nodes: set[int]
) -> None:
    placed = balanced(owners, nodes)

    counts = Counter(placed.values())
    shares = [counts[node] for node in nodes]
    assert placed.keys() == owners.keys()
    assert set(placed.values()) <= nodes
    assert max(shares) - min(shares) <= 1
    before = Counter(owners.values())
    # A node that has too many gives away only what is above its share, and the others give nothing.
    given_away = Counter(owners[key] for key in owners if placed[key] != owners[key])
    assert all(given_away[node] == max(0, before[node] - counts[node]) for node in nodes)


def test_the_topic_that_two_nodes_share_most_unevenly_is_spread_first() -> None:
    owners = {("orders", number): 1 for number in range(4)} | {("bills", 0): 1, ("bills", 1): 2}

    placed = balanced(owners, [1, 2])

    moved = {key for key in owners if placed[key] != owners[key]}
    assert len(moved) == 2
    assert {topic for topic, _ in moved} == {"orders"}


def test_without_nodes_nothing_moves() -> None:
    assert balanced({("orders", 0): 3}, []) == {("orders", 0): 3}
