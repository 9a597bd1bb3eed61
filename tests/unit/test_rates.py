from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.health.rates import SAMPLE_MS, SAMPLES_MAX, WINDOW_MS, Meter


class Counted:
    """One count and its meter, used as the broker uses them."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.count = 0
        self.due_ms = 0
        self.samples = 0

    def add(self, now_ms: int, amount: int = 1) -> None:
        if now_ms >= self.due_ms:
            self.due_ms = self.meter.sample(now_ms, (self.count,))
            self.samples += 1
        self.count += amount

    def rate(self, now_ms: int, since_ms: int = 0) -> float:
        [rate] = self.meter.per_second(now_ms, (self.count,), since_ms)
        return rate

    def changed_ms(self, now_ms: int) -> int:
        return self.meter.changed_ms(now_ms, (self.count,), 0)


def counted(times_ms: Iterable[int]) -> Counted:
    made = Counted()
    for time_ms in times_ms:
        made.add(time_ms)
    return made


def test_a_count_that_never_changed_does_not_grow() -> None:
    assert Counted().rate(50_000) == 0
    assert Counted().changed_ms(50_000) == -1


def test_a_steady_stream_has_its_rate() -> None:
    steady = counted(range(100_000, 130_000, 20))

    assert steady.rate(130_000) == pytest.approx(50)


def test_what_is_older_than_the_window_does_not_count() -> None:
    burst = counted([100_000] * 500)

    assert burst.rate(100_000 + WINDOW_MS) == 50
    assert burst.rate(100_000 + WINDOW_MS + SAMPLE_MS) == 0


def test_the_first_sample_after_a_silence_does_not_hide_what_came_before_it() -> None:
    both = counted([100_000] * 300 + [105_000] * 200)

    assert both.rate(105_000) == 50
    assert both.rate(100_000 + WINDOW_MS + SAMPLE_MS) == 20


def test_a_rate_is_counted_from_when_counting_began() -> None:
    young = counted(range(100_000, 102_000, 10))

    assert young.rate(102_000, since_ms=100_000) == 100
    assert young.rate(102_000, since_ms=0) == 20


def test_the_first_second_is_not_made_shorter() -> None:
    assert counted([100_000] * 7).rate(100_001, since_ms=100_000) == 7


def test_several_counts_have_a_rate_each() -> None:
    meter = Meter()
    meter.sample(100_000, (5, 7))

    assert meter.per_second(110_000, (15, 7), 0) == [1, 0]


def test_where_samples_were_missed_it_is_the_average_since_the_last() -> None:
    missed = counted([100_000])
    missed.count += 79

    assert missed.rate(140_000) == 0
    assert missed.meter.average(140_000, (missed.count,)) == [2]
    assert Meter().average(140_000, (5,)) == [0]


def test_it_is_known_to_a_second_when_a_count_last_changed() -> None:
    quiet = counted([100_000, 100_300, 104_000])

    assert quiet.changed_ms(104_000) == 104_000
    assert quiet.changed_ms(104_200) == 104_200
    assert quiet.changed_ms(190_000) == 105_000


def test_that_another_count_changed_says_nothing_of_this_one() -> None:
    meter = Meter()
    meter.sample(100_000, (0, 0))
    meter.sample(101_000, (9, 0))
    meter.sample(150_000, (9, 40))

    assert [meter.changed_ms(190_000, (9, 41), index) for index in range(2)] == [101_000, 151_000]


def test_nobody_samples_more_often_than_once_a_second() -> None:
    assert counted(range(100_000, 105_000)).samples == 5


def test_a_meter_keeps_a_bounded_number_of_samples() -> None:
    busy = counted(range(0, 1_000_000, 100))

    assert len(busy.meter._samples) == SAMPLES_MAX


@given(st.lists(st.integers(1, 3000), max_size=60), st.integers(0, 30_000), st.integers(0, 20_000))
def test_a_rate_is_right_to_a_second_of_its_window(gaps: list[int], after: int, since_ms: int) -> None:
    """Against counting: what came in the window, and at most what came in the second before it."""
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    now_ms = (times[-1] if times else 0) + after
    since_ms = min(since_ms, times[0] if times else 0)

    rate = counted(times).rate(now_ms, since_ms)

    from_ms = max(now_ms - WINDOW_MS, since_ms)
    least = sum(time > from_ms for time in times)
    most = sum(time > from_ms - SAMPLE_MS for time in times)
    longest = max(now_ms - from_ms + SAMPLE_MS, SAMPLE_MS)
    shortest = max(now_ms - from_ms, SAMPLE_MS)
    assert least * 1000 / longest <= rate + 1e-9
    assert rate <= most * 1000 / shortest + 1e-9


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60), st.integers(0, 30_000))
def test_the_last_change_is_never_told_too_early(gaps: list[int], after: int) -> None:
    times = [sum(gaps[: index + 1]) for index in range(len(gaps))]
    now_ms = times[-1] + after

    told_ms = counted(times).changed_ms(now_ms)

    assert times[-1] <= told_ms <= min(times[-1] + SAMPLE_MS, now_ms)
