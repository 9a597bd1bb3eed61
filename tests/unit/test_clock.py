"""The system clock: wall time is the machine's, steady time only moves forward."""

import time

from penstock.clock import Clock, SystemClock


def test_wall_time_is_the_time_of_day() -> None:
    clock: Clock = SystemClock()

    before_ms = time.time_ns() // 1_000_000
    reading_ms = clock.wall_ms()
    after_ms = time.time_ns() // 1_000_000

    assert before_ms <= reading_ms <= after_ms


def test_steady_time_starts_as_wall_time() -> None:
    """So that the two can stand side by side in a log line; 2 ms is the rounding of both."""
    before_ms = time.time_ns() // 1_000_000
    clock = SystemClock()
    reading_ms = clock.steady_ms()
    after_ms = time.time_ns() // 1_000_000

    assert before_ms - 2 <= reading_ms <= after_ms + 2


def test_steady_time_never_goes_back() -> None:
    clock = SystemClock()

    readings_ms = [clock.steady_ms() for _ in range(10_000)]

    assert readings_ms == sorted(readings_ms)


def test_both_readings_are_whole_milliseconds() -> None:
    clock = SystemClock()

    assert (type(clock.wall_ms()), type(clock.steady_ms())) == (int, int)
