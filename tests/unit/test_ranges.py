"""Ranges of offsets."""

import pytest

from penstock.model.ranges import OffsetRange


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 100, (3, 7)),
        (4, 6, (4, 6)),
        (0, 5, (3, 5)),
        (5, 100, (5, 7)),
        (7, 100, (7, 7)),
        (0, 3, (3, 3)),
        (6, 5, (6, 6)),
    ],
)
def test_an_intersection_stays_within_the_range(start: int, end: int, expected: tuple[int, int]) -> None:
    whole = OffsetRange("orders", 0, 3, 7)

    part = whole.intersection(start, end)

    assert part == OffsetRange("orders", 0, *expected)
    assert len(part) == expected[1] - expected[0]
    assert bool(part) == (expected[0] < expected[1])
