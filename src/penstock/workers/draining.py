"""Processes messages of a blocking broker in the caller's thread: for tests and batch jobs.

A worker uses an asyncio broker.  These classes adapt a blocking broker to that:
nothing here waits for another task, so each call is made directly.
Plain functions are called in place, in the thread of the test, so that what a
test has patched, opened or recorded is what they see.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock.workers.executors import finish
from penstock.workers.functions import WorkerFunction
from penstock.workers.message import SettleActions
from penstock.workers.outcome import Outcome, call_plain
from penstock.workers.worker import Worker

if TYPE_CHECKING:
    from penstock.api.aio import AsyncBroker
    from penstock.api.aio_handles import AsyncConsumer
    from penstock.api.broker import Broker

T = TypeVar("T")


class AwaitableAdapter:
    """Wraps an object so that its methods can be awaited."""

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.plain, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            return AwaitableAdapter(answer) if name == "consumer" else answer

        return call


class InlineExecutor:
    """Calls plain functions in the calling thread."""

    def answers(self, consumer: "AsyncConsumer") -> SettleActions:
        return cast("SettleActions", cast("AwaitableAdapter", consumer).plain)

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
        return await finish(call_plain(function, arguments))

    def close(self) -> None: ...


def drain(broker: "Broker", functions: list[WorkerFunction]) -> int:
    """Call the functions on all deliverable messages until there are none; returns the number of calls."""
    return in_a_loop(_drain(cast("AsyncBroker", AwaitableAdapter(broker)), functions))


async def _drain(broker: "AsyncBroker", functions: list[WorkerFunction]) -> int:
    total = 0
    while True:
        # Again and again, because one function may publish what another one works on.
        count = 0
        for function in functions:
            count += await Worker(function, broker, executor=InlineExecutor()).drain()
        total += count
        if not count:
            return total


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in an event loop of its own, also for a caller that is inside another one."""
    if not _inside_a_loop():
        return asyncio.run(work)
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread.
            failures.append(error)

    thread = threading.Thread(target=run, name="penstock-drain")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _inside_a_loop() -> bool:
    """Asked before the work begins: an error of the work must not look like a consequence of the answer."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
