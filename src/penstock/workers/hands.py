"""How plain functions are called: in threads beside the event loop, or (``draining.py``) in place."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from penstock.workers.message import Answers, FromThread
from penstock.workers.outcome import Done, Failed, Outcome, Rejected, call_async, call_plain
from penstock.workers.threads import Threads

if TYPE_CHECKING:
    from penstock.api.aio_handles import AsyncConsumer


class Hands(Protocol):
    """How plain functions are called, and how their messages answer."""

    def answers(self, consumer: "AsyncConsumer") -> Answers: ...

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome: ...

    def close(self) -> None: ...


class ThreadHands:
    """In threads, beside the event loop."""

    def __init__(self, name: str, size: int) -> None:
        self._threads = Threads(name, size)

    def answers(self, consumer: "AsyncConsumer") -> Answers:
        return FromThread(consumer, asyncio.get_running_loop())

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
        return await finish(await self._threads.run(lambda: call_plain(function, arguments)))

    def close(self) -> None:
        self._threads.close()


async def finish(returned: Outcome | Awaitable[Any]) -> Outcome:
    """A plain function may return something to await: an async one inside a plain decorator."""
    if isinstance(returned, Done | Failed | Rejected):
        return returned
    return await call_async(lambda: returned, ())
