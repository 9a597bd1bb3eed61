"""Executors for plain functions: in threads beside the event loop, or inline (``draining.py``)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from penstock.workers.message import SettleActions, ThreadSettleActions
from penstock.workers.outcome import Done, Failed, Outcome, Rejected, call_async, call_plain
from penstock.workers.threads import ThreadPool

if TYPE_CHECKING:
    from penstock.api.aio_handles import AsyncConsumer


class Executor(Protocol):
    """Calls plain functions and gives their messages a way to settle."""

    def answers(self, consumer: "AsyncConsumer") -> SettleActions: ...

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome: ...

    def close(self) -> None: ...


class ThreadExecutor:
    """In threads, beside the event loop."""

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
