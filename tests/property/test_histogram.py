"""Quantiles read from a histogram, compared with the exact ones."""

from bisect import bisect_left
from itertools import pairwise
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.state import WAITED_MS
from penstock.frontends.http.monitoring.history import SHORTEST_MS, latency
from penstock.model.histogram import Histogram, quantile

VALUES = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2 * WAITED_MS[-1])), min_size=1, max_size=60)
PARTS = st.one_of(st.sampled_from([0.5, 0.95, 0.99, 1.0]), st.floats(0.001, 1.0))


def exact(values: list[int], part: float) -> int:
    return sorted(values)[max(ceil(len(values) * part) - 1, 0)]


def noted(values: list[int]) -> Histogram:
    histogram = Histogram(WAITED_MS)
    for value in values:
        histogram.note(value)
    return histogram


@given(VALUES, PARTS)
def test_a_quantile_lies_among_the_values_and_in_the_range_of_the_exact_one(
    values: list[int], part: float
) -> None:
    histogram = noted(values)

    told = quantile(WAITED_MS, histogram.counts, histogram.sums, part)

    assert min(values) <= told <= max(values) == histogram.largest
    assert bisect_left(WAITED_MS, told) == bisect_left(WAITED_MS, exact(values, part))


@given(VALUES, VALUES)
def test_latency_between_two_looks_lies_among_the_values_that_came_between(
    before: list[int], since: list[int]
) -> None:
    then, now = noted(before), noted(before + since)

    half, most = latency((then.counts, then.sums), (now.counts, now.sums), list(WAITED_MS))

    assert min(since) / 1000 <= half <= most <= max(*since, SHORTEST_MS) / 1000


def test_ranges_are_fine_enough_to_tell_minutes_from_an_hour() -> None:
    assert all(high <= 3 * low for low, high in pairwise(WAITED_MS))
