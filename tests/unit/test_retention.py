"""What retention decides, by time, by size, and for whoever still needs it."""

import pytest

from penstock.log.maintenance.retention import retention_cut
from penstock.log.segment import SegmentInfo

FOREVER = 1 << 40


def segments(*newest_ms: int, size: int = 100) -> list[SegmentInfo]:
    """Segments of a hundred offsets each; the last one is active."""
    return [
        SegmentInfo(
            base_offset=100 * place,
            next_offset=100 * place + 100,
            bytes=size,
            max_timestamp=timestamp,
            sealed=place < len(newest_ms) - 1,
        )
        for place, timestamp in enumerate(newest_ms)
    ]


@pytest.mark.parametrize(
    ("now_ms", "expected"),
    [
        (1000, 0),
        (1500, 0),
        (1501, 100),
        (2501, 200),
        (3500, 200),
        (9999, 300),  # The active one too: the caller seals it first.
    ],
)
def test_a_segment_goes_when_its_newest_record_is_too_old(now_ms: int, expected: int) -> None:
    assert retention_cut(segments(1000, 2000, 3000), now_ms, 500, None, FOREVER) == expected


@pytest.mark.parametrize(
    ("limit_bytes", "expected"), [(1000, 0), (300, 0), (299, 0), (200, 100), (199, 100), (100, 200), (0, 200)]
)
def test_the_newest_segments_that_reach_the_size_stay(limit_bytes: int, expected: int) -> None:
    assert retention_cut(segments(1, 2, 3), 10, None, limit_bytes, FOREVER) == expected


def test_an_empty_active_segment_does_not_count_as_one_that_is_kept() -> None:
    sealed = segments(1, 2, 3)[:2]
    empty = SegmentInfo(base_offset=200, next_offset=200, bytes=0, max_timestamp=0, sealed=False)
    assert retention_cut([*sealed, empty], 10, None, 100, FOREVER) == 100
    assert retention_cut([*sealed, empty], 10, 1, None, FOREVER) == 200


def test_the_stricter_of_time_and_size_decides() -> None:
    assert retention_cut(segments(1000, 2000, 3000), 1501, 500, 100, FOREVER) == 200
    assert retention_cut(segments(1000, 2000, 3000), 2501, 500, 300, FOREVER) == 200


def test_nothing_is_deleted_that_somebody_still_needs() -> None:
    assert retention_cut(segments(1000, 2000, 3000), 9999, 500, None, 150) == 150


def test_without_limits_everything_stays() -> None:
    assert retention_cut(segments(1000, 2000, 3000), FOREVER, None, None, FOREVER) == 0


def test_the_answer_is_never_below_the_log() -> None:
    assert retention_cut(segments(1000, 2000)[1:], 9999, None, None, 0) == 100
