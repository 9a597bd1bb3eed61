"""The pool that plain functions run in."""

import asyncio
import contextvars
import threading

import pytest

from penstock.workers.executors import ThreadPool

colour = contextvars.ContextVar("colour", default="none")


async def test_a_call_gives_its_result_and_its_error() -> None:
    threads = ThreadPool("test", 1)

    assert await threads.run(lambda: 6 * 7) == 42
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    threads.close()


async def test_threads_are_kept_and_used_again() -> None:
    threads = ThreadPool("test", 8)

    names = [await threads.run(lambda: threading.current_thread().name) for _ in range(20)]

    assert set(names) == {"penstock-test-1"}
    threads.close()


async def test_there_are_never_more_than_its_size() -> None:
    threads = ThreadPool("test", 2)
    gate = threading.Event()
    names: set[str] = set()

    def call() -> None:
        names.add(threading.current_thread().name)
        gate.wait(60)

    futures = [threads.run(call) for _ in range(5)]
    gate.set()
    await asyncio.gather(*futures)

    assert names <= {"penstock-test-1", "penstock-test-2"}
    threads.close()


async def test_who_stops_waiting_does_not_stop_the_call() -> None:
    threads = ThreadPool("test", 1)
    gate, ended = threading.Event(), threading.Event()

    def call() -> None:
        gate.wait(60)
        ended.set()

    threads.run(call).cancel()
    gate.set()

    assert await threads.run(ended.is_set), "the next call came after it, in the same thread"
    threads.close()


async def test_a_call_sees_the_context_of_whoever_made_it() -> None:
    threads = ThreadPool("test", 1)
    colour.set("green")

    assert await threads.run(colour.get) == "green"
    threads.close()


async def test_threads_end_when_the_pool_is_closed() -> None:
    threads = ThreadPool("test", 1)
    thread = await threads.run(threading.current_thread)

    threads.close()
    thread.join(60)

    assert not thread.is_alive()


def test_a_call_that_ends_after_its_loop_has_nobody_to_tell() -> None:
    threads = ThreadPool("test", 1)
    gate = threading.Event()

    async def begin() -> threading.Thread:
        thread = await threads.run(threading.current_thread)
        threads.run(lambda: gate.wait(60))
        return thread

    thread = asyncio.run(begin())
    gate.set()
    threads.close()
    thread.join(60)

    assert not thread.is_alive()
