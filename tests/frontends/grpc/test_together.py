"""Calls that go on together."""

import asyncio

from penstock.frontends.grpc.together import TURNS, Together


async def test_who_comes_within_some_turns_goes_on_in_the_same_turn() -> None:
    gate = Together()
    turn = 0
    ended: list[int] = []

    async def come() -> None:
        await gate.wait()
        ended.append(turn)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3 * TURNS):
            if turn < TURNS - 1:
                tasks.create_task(come())
            await asyncio.sleep(0)
            turn += 1

    assert len(ended) == TURNS - 1
    assert len(set(ended)) == 1


async def come(gate: Together) -> None:
    await gate.wait()


async def test_one_that_is_cancelled_does_not_end_the_wait_of_others() -> None:
    gate = Together()
    first, second = asyncio.ensure_future(come(gate)), asyncio.ensure_future(come(gate))
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.wait([first, second])

    assert (first.cancelled(), second.cancelled()) == (True, False)
