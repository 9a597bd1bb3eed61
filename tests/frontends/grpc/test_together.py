"""Publishes that go on together."""

import asyncio
from asyncio import Task

import pytest

from penstock.frontends.grpc.together import Together


class Publishing:
    """Publishes through a gate; each is on disk when the test says so."""

    def __init__(self) -> None:
        self.gate = Together()
        self.written = 0
        self._on_disk = asyncio.Event()

    async def begin(self, count: int) -> list[Task[None]]:
        """So many at once, as far as they come without time passing."""
        tasks = [asyncio.ensure_future(self._publish()) for _ in range(count)]
        for _ in range(3):
            await asyncio.sleep(0)
        return tasks

    async def end(self, tasks: list[Task[None]]) -> None:
        self._on_disk.set()
        await asyncio.wait(tasks)
        self._on_disk.clear()

    async def _publish(self) -> None:
        others = self.gate.enter()
        try:
            if others is not None:
                await others
            self.written += 1
            await self._on_disk.wait()
        finally:
            self.gate.leave()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that does not open because a busy machine has taken its time."""
    monkeypatch.setattr("penstock.frontends.grpc.together.WAIT_S", 60)


async def test_one_that_is_alone_does_not_wait() -> None:
    publishing = Publishing()

    for count in (1, 2, 3):
        tasks = await publishing.begin(1)
        assert publishing.written == count
        await publishing.end(tasks)


@pytest.mark.usefixtures("patient")
async def test_those_who_came_together_before_are_waited_for_and_go_on_when_the_last_has_come() -> None:
    publishing = Publishing()
    four = await publishing.begin(4)
    await publishing.end(four[:1])
    four += await publishing.begin(1)
    await publishing.end(four)

    three = await publishing.begin(3)
    assert publishing.written == 5
    last = await publishing.begin(1)
    assert publishing.written == 9
    await publishing.end([*three, *last])


@pytest.mark.usefixtures("patient")
async def test_who_is_expected_and_does_not_come_is_waited_for_once() -> None:
    publishing = Publishing()
    first = await publishing.begin(1)
    other = await publishing.begin(1)
    await publishing.end(first)
    await publishing.end([*other, *await publishing.begin(1)])

    alone = await publishing.begin(1)
    assert publishing.written == 3
    publishing.gate._open_late()  # As after ``WAIT_S``.
    await publishing.end(alone)
    assert publishing.written == 4
    alone = await publishing.begin(1)
    assert publishing.written == 5
    await publishing.end(alone)


async def test_nobody_waits_for_ever() -> None:
    publishing = Publishing()
    first = await publishing.begin(1)
    other = await publishing.begin(1)

    await publishing.end([*first, *other])

    assert publishing.written == 2


@pytest.mark.usefixtures("patient")
async def test_one_that_comes_while_another_is_written_goes_on_with_the_next_of_that_client() -> None:
    publishing = Publishing()
    first = await publishing.begin(1)
    other = await publishing.begin(1)
    assert publishing.written == 1

    await publishing.end(first)
    next_one = await publishing.begin(1)

    assert publishing.written == 3
    await publishing.end([*other, *next_one])


async def test_one_that_is_cancelled_does_not_end_the_wait_of_others() -> None:
    publishing = Publishing()
    writing = await publishing.begin(1)
    first, second = await publishing.begin(2)

    first.cancel()
    await publishing.end([*writing, first, second])

    assert (first.cancelled(), second.cancelled()) == (True, False)
    assert publishing.written == 2
