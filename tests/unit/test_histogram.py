"""Values by range."""

from penstock.model.histogram import Histogram


def test_a_value_is_in_the_first_range_that_it_does_not_exceed() -> None:
    histogram = Histogram((1, 5, 25))

    for value in (0, 1, 2, 5, 6, 26):
        histogram.note(value)

    assert histogram.counts == [2, 2, 1, 1]
    assert histogram.sums == [1, 7, 6, 26]
    assert histogram.largest == 26


def test_values_that_are_alike_are_noted_at_once() -> None:
    histogram = Histogram((1, 5))

    histogram.note(4, 100)

    assert (histogram.counts, histogram.sums) == ([0, 100, 0], [0, 400, 0])
