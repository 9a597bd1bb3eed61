"""When a worker is said not to be getting on, and when not."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.workers.virtual import VirtualTime

import penstock
from penstock.workers.stalls import REPEAT_MS_MAX, CallProgress, LogThrottle, StallDetector

IDLE = CallProgress(taken=0, finished=0, running=0, slots=4, oldest_ms=0, oldest_id="")
BUSY = CallProgress(taken=4, finished=0, running=4, slots=4, oldest_ms=65_000, oldest_id="orders:0:17")
MINUTE = 60_000


def test_a_busy_worker_behind_which_messages_wait_is_reported_with_the_facts() -> None:
    watch = StallDetector("handle", MINUTE)

    assert watch.look(0, BUSY, 1234) is None
    assert watch.look(MINUTE - 1, BUSY, 1234) is None
    assert watch.look(MINUTE, BUSY, 1234) == (
        "handle is not making progress: 1,234 messages are waiting, 4 calls are running (concurrency=4), "
        "none has finished for 60 s, and the longest has run for 65 s, on orders:0:17; check for a hanging "
        "call, set timeout=, or raise concurrency="
    )


def test_a_busy_worker_behind_which_nothing_waits_is_fine() -> None:
    watch = StallDetector("handle", MINUTE)

    assert [watch.look(minute * MINUTE, BUSY, 0) for minute in range(100)] == [None] * 100


def test_a_worker_that_finishes_something_now_and_then_is_fine() -> None:
    watch = StallDetector("handle", MINUTE)

    looks = [watch.look(half * 30_000, replace(BUSY, finished=half // 2), 9) for half in range(100)]

    assert looks == [None] * 100


def test_a_worker_that_gets_nothing_though_messages_wait_is_reported() -> None:
    watch = StallDetector("handle", MINUTE)

    assert watch.look(0, IDLE, 1) is None
    assert watch.look(MINUTE, IDLE, 1) is None, "it was quiet for a minute, but the message may be new"
    line = watch.look(2 * MINUTE, IDLE, 1, "stalled: nothing moves")

    assert line is not None
    assert (
        "1 message is waiting, 4 of 4 slots are free, and nothing was delivered for 60 s; the group is"
        in line
    )
    assert "the group is stalled: nothing moves; check" in line


def test_a_message_that_comes_after_an_idle_night_is_no_alarm() -> None:
    watch = StallDetector("handle", MINUTE)
    for minute in range(600):
        assert watch.look(minute * MINUTE, IDLE, 0) is None

    assert watch.look(600 * MINUTE, IDLE, 1) is None
    assert watch.look(600 * MINUTE + 30_000, replace(IDLE, taken=1, finished=1), 0) is None
    assert watch.look(700 * MINUTE, replace(IDLE, taken=1, finished=1), 1) is None


def test_the_line_is_repeated_less_and_less_often() -> None:
    watch = StallDetector("handle", MINUTE)

    said = [minute for minute in range(1000) if watch.look(minute * MINUTE, BUSY, 9)]

    assert said[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert [later - earlier for earlier, later in pairwise(said[6:])] == [60] * 15


def test_a_worker_that_got_on_for_a_while_is_reported_as_soon_as_the_first_time() -> None:
    watch = StallDetector("handle", MINUTE)
    said = [minute for minute in range(60) if watch.look(minute * MINUTE, BUSY, 9)]
    assert said == [1, 2, 4, 8, 16, 32]

    on = replace(BUSY, taken=5, finished=1)
    said = [minute for minute in range(60, 70) if watch.look(minute * MINUTE, on, 9)]

    assert said == [61, 62, 64, 68]


def test_it_is_said_at_once_again_after_it_was_mended() -> None:
    throttle = LogThrottle(10)
    assert [now for now in range(100) if throttle.allows(now)] == [0, 10, 30, 70]

    throttle.reset()

    assert throttle.allows(100)
    assert not throttle.allows(105)
    assert REPEAT_MS_MAX == 3_600_000


async def test_a_worker_whose_calls_hang_says_so_in_its_log(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App(stall_warning="20s", stop_timeout=0)

    @app.worker("orders", concurrency=2)
    async def handle(message: penstock.Message) -> None:
        await asyncio.Event().wait()

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"x"] * 5)
        await time.passes("15s", "1s")
        assert "not making progress" not in caplog.text
        await time.passes("15s", "1s")

    assert (
        "handle is not making progress: 3 messages are waiting, 2 calls are running (concurrency=2)"
        in caplog.text
    )


async def test_a_worker_with_nothing_to_do_says_nothing(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App(stall_warning="20s")
    app.worker("orders")(print)

    async with app.running(time.broker):
        await time.passes("10m", "5s")

    assert "not making progress" not in caplog.text
