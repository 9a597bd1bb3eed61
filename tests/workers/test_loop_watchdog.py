"""An event loop that an async function blocks."""

import asyncio
import logging

import pytest

from penstock.workers.loop_watchdog import STILL, LoopWatchdog


def block(guard: LoopWatchdog, looks: int) -> list[str | None]:
    """The loop stands still for so many looks, because this function does not return."""
    return [guard.look() for _ in range(looks)]


async def turns() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_a_loop_that_stands_still_is_said_with_its_place() -> None:
    guard = LoopWatchdog()
    await turns()

    *before, line = block(guard, STILL + 1)

    assert before == [None] * STILL
    assert line is not None
    assert f"the event loop stands still for {STILL} s" in line
    assert "test_loop_watchdog.py" in line
    assert "in block" in line


async def test_a_loop_that_gives_signs_is_fine() -> None:
    guard = LoopWatchdog()

    for _ in range(20):
        assert block(guard, STILL // 2) == [None] * (STILL // 2)
        await turns()


async def test_it_is_said_less_and_less_often_until_the_loop_moves_again() -> None:
    guard = LoopWatchdog()

    said = [number for number, line in enumerate(block(guard, 100)) if line]
    await turns()
    again = [number for number, line in enumerate(block(guard, 12)) if line]

    assert said == [STILL, 2 * STILL, 4 * STILL, 8 * STILL]
    assert again == [STILL]


async def test_its_thread_ends_with_the_block(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    with LoopWatchdog() as guard:
        assert guard._thread.is_alive()

    assert not guard._thread.is_alive()
    assert caplog.text == ""
