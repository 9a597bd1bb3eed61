"""Threads for plain functions: as many as a function may run at once, and no more.

They are started when needed, kept, and used again, so that what a function
keeps in its thread (a connection) is there the next time.  They are daemons: a
thread cannot be killed, and one that never returns must not keep the process
from ending.  ``concurrent.futures`` waits for its threads at exit.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

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
        """Let the threads end when they have finished what they do."""
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
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(self._ended, future, result, failure)

    def _ended(self, future: "asyncio.Future[T]", result: T, failure: BaseException | None) -> None:
        self._busy -= 1
        if future.cancelled():
            return
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)
