"""Executors for plain functions: in threads beside the event loop, or inline (``draining.py``).

A function has as many threads as it may run at once.  They are started when needed, kept, and used again, so
that what a function keeps in its thread (a connection) is there the next time.  They are daemons: a thread
cannot be killed, and one that never returns must not keep the process from ending.  ``concurrent.futures``
waits for its threads at exit.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.workers.message import SettleActions, ThreadSettleActions
from penstock.workers.outcome import Done, Failed, Outcome, Rejected, call_async, call_plain

if TYPE_CHECKING:
    from penstock.api.aio_handles import AsyncConsumer


T = TypeVar("T")


class ThreadPool:
    """A pool that belongs to the event loop it is used on."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._started = 0
        self._busy = 0  # Calls that were handed in and have not ended.

    def run(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Call something in a thread; cancelling the future stops the waiting, not the call."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        self._busy += 1
        self._calls.put(lambda: self._call(loop, future, context, call))
        if self._busy > self._started and self._started < self._size:
            self._started += 1
            name = f"penstock-{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """End the threads when they have finished their calls."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _call(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[T]",
        context: contextvars.Context,
        call: Callable[[], T],
    ) -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(call)
        except BaseException as error:  # noqa: BLE001 - it is raised where the future is awaited.
            failure = error
        with contextlib.suppress(RuntimeError):  # The loop is closed: no task waits any more.
            loop.call_soon_threadsafe(self._ended, future, result, failure)

    def _ended(self, future: "asyncio.Future[T]", result: T, failure: BaseException | None) -> None:
        self._busy -= 1
        if future.cancelled():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)


class Executor(Protocol):
    """Calls plain functions and gives their messages a way to settle."""

    def answers(self, consumer: "AsyncConsumer") -> SettleActions: ...

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome: ...

    def close(self) -> None: ...


class ThreadExecutor:
    """Runs plain functions in threads, beside the event loop."""

    def __init__(self, name: str, size: int) -> None:
        self._threads = ThreadPool(name, size)

    def answers(self, consumer: "AsyncConsumer") -> SettleActions:
        return ThreadSettleActions(consumer, asyncio.get_running_loop())

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
        return await finish(await self._threads.run(lambda: call_plain(function, arguments)))

    def close(self) -> None:
        self._threads.close()


async def finish(returned: Outcome | Awaitable[Any]) -> Outcome:
    """A plain function may return something to await: an async one inside a plain decorator."""
    if isinstance(returned, Done | Failed | Rejected):
        return returned
    return await call_async(lambda: returned, ())
