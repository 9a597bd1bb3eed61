"""The watchdog of the event loop, and the detector that the tests have of it."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.stalls import check_logged, watched

from penstock.broker.health.loop_lag import STALL_MS, WINDOW_MS, Lag
from penstock.clock import work_ns
from penstock.frontends import watchdog
from penstock.frontends.watchdog import BUSY_MS, Watchdog


def work(milliseconds: float) -> None:
    """Keep the processor busy, and the loop."""
    end = work_ns() + milliseconds * 1e6
    while work_ns() < end:
        pass


async def beats(of: Watchdog) -> None:
    """Until the next beat, which says what was before it."""
    timer = of._timer
    while of._timer is timer:  # noqa: ASYNC110 - it has no event.
        await asyncio.sleep(0.001)


async def test_a_loop_that_works_without_a_break_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lag = Lag()
    watching = Watchdog(lag)
    watching.start()
    caplog.set_level(logging.WARNING)

    for _ in range(3):
        work(BUSY_MS + 50)
        await beats(watching)
    watching.stop()

    assert lag.stalls >= 3
    assert lag.longest_ms > STALL_MS
    # The fixture's own watchdog, which watches the same loop, logs nothing.
    assert len([record for record in caplog.records if "was busy for" in record.message]) == 1
    with pytest.raises(AssertionError, match="was busy"):
        check_logged(caplog.text)
    caplog.clear()


async def test_a_loop_that_waits_is_not_busy() -> None:
    watching = Watchdog(Lag())
    watching.start()

    for _ in range(3):
        await beats(watching)
    watching.stop()

    assert watching.busy_ms < BUSY_MS


async def test_a_test_whose_loop_stands_still_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stalls.IN_PROCESS_MS", 100.0)

    with pytest.raises(AssertionError, match="the event loop was busy for"), watched() as watching:
        work(150)
        await beats(watching)


def test_the_longest_delay_is_forgotten_after_a_minute_or_two() -> None:
    lag = Lag()

    seen = []
    for minute, late_ms in enumerate([0, 70, 5, 5, 80]):
        lag.note(late_ms, (minute + 1) * WINDOW_MS)
        seen.append(lag.longest_ms)
    lag.note(1, 20 * WINDOW_MS)

    assert seen == [0, 70, 70, 5, 80]
    assert (lag.longest_ms, lag.stalls) == (1, 2)


def test_the_threshold_of_the_log_is_above_that_of_the_metric() -> None:
    assert watchdog.BUSY_MS > STALL_MS


async def test_a_loop_without_work_is_not_woken_and_one_that_begins_to_work_is_watched() -> None:
    slept: list[Callable[[], None] | None] = []
    lag = Lag()
    watching = Watchdog(lag, slept.append)
    watching.start()
    while not slept:  # noqa: ASYNC110 - the same.
        await asyncio.sleep(0.01)
    assert watching._timer is None

    wake = slept.pop()
    assert wake is not None
    wake()
    work(BUSY_MS + 50)
    await beats(watching)
    watching.stop()

    assert lag.stalls >= 1
    assert watching.busy_ms > BUSY_MS
    assert slept[-1] is None  # Nobody is called any more.
