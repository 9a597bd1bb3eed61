"""The pieces of a checkpoint: their names, and how a growing segment is split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.pieces import SegmentPiece, Span, parse, spans


@pytest.mark.parametrize(
    ("file", "piece"),
    [
        ("data/40", SegmentPiece("data", 40)),
        ("data/40.index", SegmentPiece("data", 40, ".index")),
        ("data/40/4096", SegmentPiece("data", 40, ".log", 4096)),
        ("journal/0", SegmentPiece("journal", 0)),
        ("journal/snapshot", None),
        ("start", None),
    ],
)
def test_a_name_says_what_a_piece_is(file: str, piece: SegmentPiece | None) -> None:
    assert parse(file) == piece


def test_the_path_of_a_piece_is_that_of_a_segment() -> None:
    assert SegmentPiece("journal", 7).path("t/o/0") == "t/o/0/journal/00000000000000000007.log"
    assert SegmentPiece("intents", 7).path("t/o/0") == "t/o/intents/00000000000000000007.log"


def test_an_empty_segment_is_one_empty_part() -> None:
    assert spans([], 0) == [(0, 0)]


def test_what_has_not_grown_is_not_uploaded_again() -> None:
    assert spans([(0, 100), (100, 130)], 130) == [(0, 100), (100, 130)]


def test_a_little_more_is_a_part_of_its_own_and_joins_those_that_are_not_larger() -> None:
    assert spans([(0, 100), (100, 130)], 150) == [(0, 100), (100, 130), (130, 150)]
    assert spans([(0, 100), (100, 130)], 170) == [(0, 100), (100, 170)]
    assert spans([(0, 100), (100, 130)], 300) == [(0, 300)]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60))
def test_parts_cover_the_segment_and_are_few(grown: list[int]) -> None:
    known: list[Span] = []
    end = uploaded = 0
    for more in grown:
        end += more
        parts = spans(known, end)
        uploaded += sum(upto - start for start, upto in parts if (start, upto) not in known)
        known = parts

        assert [start for start, _ in parts] == [0, *[upto for _, upto in parts[:-1]]]
        assert parts[-1][1] == end
        assert len(parts) <= end.bit_length()
    assert uploaded <= end * (end.bit_length() + 1)
