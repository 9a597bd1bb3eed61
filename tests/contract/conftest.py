"""One broker, four ways: sync and async, in memory and on disk; the tests do not know which.

The async broker is driven through a loop runner by a facade with the names of
the sync one.  It adds nothing: every call is passed on, awaited, and its
answer wrapped if it has calls of its own.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import pytest

from penstock import aio
from penstock.testing import AsyncTestBroker, ManualClock, TestBroker
from penstock.types import duration_ms

HANDLES = (
    aio.AsyncBroker,
    aio.AsyncConsumer,
    aio.AsyncProducer,
    aio.AsyncQueue,
    aio.AsyncReceivedMessage,
    aio.AsyncTopicHandle,
)


class Awaited:
    """Something of the async API, with its calls awaited."""

    def __init__(self, target: Any, runner: asyncio.Runner, broker: AsyncTestBroker) -> None:
        self._target = target
        self._runner = runner
        self._broker = broker

    def _wrap(self, answer: Any) -> Any:
        if isinstance(answer, list):
            return [self._wrap(item) for item in answer]
        return Awaited(answer, self._runner, self._broker) if isinstance(answer, HANDLES) else answer

    def _run(self, work: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await work

        return self._wrap(self._runner.run(awaited()))

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if not callable(member):
            return member

        def call(*args: Any, **options: Any) -> Any:
            answer = member(*map(unwrap, args), **options)
            if name == "receive":
                answer = self._waiting(answer, options.get("wait", 0))
            return self._run(answer) if inspect.isawaitable(answer) else self._wrap(answer)

        return call

    async def _waiting(self, work: Coroutine[Any, Any, Any], wait: Any) -> Any:
        """Let time pass up to the end of the wait, from one thing that is due to the next."""
        task = asyncio.ensure_future(work)
        until_ms = self._broker.clock.steady_ms() + duration_ms("wait", wait)
        await asyncio.wait([task], timeout=0)
        while not task.done() and (left_ms := until_ms - self._broker.clock.steady_ms()) >= 0:
            due_ms = self._broker._core.state.alarms.next_ms() - self._broker.clock.steady_ms()
            await self._broker.advance(min(max(due_ms, 0), left_ms) / 1000)
        return await task

    def __iter__(self) -> Iterator[Any]:
        messages = aiter(self._target)
        while True:
            try:
                yield self._run(anext(messages))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Any:
        self._run(self._target.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._target.__aexit__(kind, error, traceback))


def unwrap(argument: Any) -> Any:
    """What the async API expects in the place of a wrapped thing."""
    if isinstance(argument, list):
        return [unwrap(item) for item in argument]
    return argument._target if isinstance(argument, Awaited) else argument


class World:
    """Where brokers are opened, one after the other, on the same directory and by the same clock."""

    def __init__(self, directory: str | None, runner: asyncio.Runner | None) -> None:
        self._directory = directory
        self._runner = runner
        self._clock = ManualClock()

    def open(self) -> TestBroker:
        """A broker; the facade of an async one has all the names of a sync one, which is the point."""
        if self._runner is None:
            return TestBroker.open(self._directory, clock=self._clock)
        broker = self._runner.run(AsyncTestBroker.open(self._directory, clock=self._clock))
        return cast("TestBroker", Awaited(broker, self._runner, broker))


@pytest.fixture(params=["sync in memory", "sync on disk", "async in memory", "async on disk"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestBroker]:
    """An open broker of each kind."""
    directory = str(tmp_path) if "disk" in request.param else None
    with asyncio.Runner() as runner:
        with World(directory, runner if "async" in request.param else None).open() as opened:
            yield opened


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A disk on which brokers of a kind can be opened again and again."""
    with asyncio.Runner() as runner:
        yield World(str(tmp_path), runner if request.param == "async" else None)
