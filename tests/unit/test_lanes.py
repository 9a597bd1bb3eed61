"""Which offsets are in which lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.lanes import LaneIndex

# The picture at the top of the module.
PICTURE = [(2, 4, 1), (5, 7, 2), (7, 8, 1), (11, 12, -1)]


def index_of(ranges: list[tuple[int, int, int]]) -> LaneIndex:
    index = LaneIndex()
    for start, end, lane in ranges:
        index.add(start, end, lane)
    return index


@pytest.mark.parametrize(
    ("lane", "cursor", "high", "expected"),
    [
        (1, 0, 12, (2, 4)),
        (1, 3, 12, (3, 4)),
        (1, 4, 12, (7, 8)),
        (1, 0, 3, (2, 3)),
        (1, 8, 12, (12, 12)),
        (2, 0, 12, (5, 7)),
        (-1, 0, 12, (11, 12)),
        (-1, 0, 11, (11, 11)),
        (-2, 0, 12, (12, 12)),
        (0, 0, 12, (0, 2)),
        (0, 2, 12, (4, 5)),
        (0, 5, 12, (8, 11)),
        (0, 9, 12, (9, 11)),
        (0, 11, 12, (12, 12)),
        (0, 11, 20, (12, 20)),
        (0, 5, 7, (7, 7)),
        (0, 12, 12, (12, 12)),
        (1, 13, 12, (12, 12)),
    ],
)
def test_the_next_run_of_a_lane(lane: int, cursor: int, high: int, expected: tuple[int, int]) -> None:
    assert index_of(PICTURE).next_range(lane, cursor, high) == expected


def test_an_empty_index_is_all_normal() -> None:
    index = LaneIndex()
    assert index.lanes() == [0]
    assert index.next_range(0, 3, 9) == (3, 9)
    assert index.next_range(1, 3, 9) == (9, 9)


def test_lanes_are_listed_from_the_highest_on() -> None:
    assert index_of(PICTURE).lanes() == [2, 1, 0, -1]


def test_touching_ranges_of_a_lane_are_one_run() -> None:
    index = index_of([(0, 3, 1), (3, 5, 1)])
    assert index.next_range(1, 0, 9) == (0, 5)
    assert index.ranges(0, 9) == [(0, 5, 1)]


def test_ranges_are_added_in_rising_order() -> None:
    index = index_of([(4, 6, 1)])
    with pytest.raises(AssertionError):
        index.add(3, 4, 2)


def test_normal_and_empty_ranges_are_not_kept() -> None:
    index = index_of([(0, 5, 0), (5, 5, 2)])
    assert index.ranges(0, 10) == []


lane_lists = st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 2)), max_size=20)


@given(pieces=lane_lists, data=st.data())
def test_an_index_is_the_lane_of_every_offset(pieces: list[tuple[int, int]], data: st.DataObject) -> None:
    index = LaneIndex()
    lanes: list[int] = []
    for length, lane in pieces:
        index.add(len(lanes), len(lanes) + length, lane)
        lanes += [lane] * length
    start = data.draw(st.integers(0, len(lanes)))
    end = data.draw(st.integers(start, len(lanes)))
    index.drop_before(start)
    index.drop_from(end)

    for lane in range(-2, 3):
        cursor = start
        found: list[int] = []
        while cursor < end:
            first, last = index.next_range(lane, cursor, end)
            assert cursor <= first <= last <= end
            assert first == end or all(lanes[offset] == lane for offset in range(first, last))
            assert first == end or last == end or lanes[last] != lane, "a run is maximal"
            found += range(first, last)
            cursor = last
        assert found == [offset for offset in range(start, end) if lanes[offset] == lane]
    assert index.lanes() == sorted({0, *lanes[start:end]}, reverse=True)
    marked = {offset: lane for first, last, lane in index.ranges(start, end) for offset in range(first, last)}
    assert marked == {offset: lanes[offset] for offset in range(start, end) if lanes[offset]}
