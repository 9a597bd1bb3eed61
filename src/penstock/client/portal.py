"""The way from a program's threads to an event loop in a thread of its own.

    run(work)        in any thread: the loop runs it, the thread waits
    post(function)   in any thread: the loop calls it, nobody waits; many posts wake the loop once

The loop's thread is a daemon.  ``close`` ends it; if nobody does, the end of the
interpreter does, with a moment for what was published.

After a fork the child has a copy of everything but the thread: there a portal
refuses all work, and touches neither the loop nor the connection, which are the
parent's.
"""

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from penstock.api.operations import Work
from penstock.client.client import Client
from penstock.client.work import run
from penstock.errors import Closed

T = TypeVar("T")

EXIT_MS: Final = 2000  # For what was published and not answered when the interpreter ends.
JOIN_S: Final = 5.0


class Portal:
    """A loop, its thread, and the client that lives there."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name="penstock-client", daemon=True)
        self._client: Client | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._posts: deque[Callable[[], None]] = deque()
        self._woken = False  # The loop will look at the posts.

    def open(self, connect: Callable[[], Coroutine[Any, Any, Client]]) -> Client:
        """Start the loop and connect on it."""
        self._thread.start()
        try:
            client = self._client = self._wait(connect())
        except BaseException:
            self._stop()
            raise
        atexit.register(self.close, EXIT_MS)
        return client

    def run(self, work: Work[T]) -> T:
        """Run the work on the loop, and wait for it."""
        try:
            self.check_open()
        except BaseException:
            work.close()
            raise
        return self._wait(run_work(work))

    def post(self, function: Callable[[], None]) -> None:
        """Have the loop call a function, after those that were posted before."""
        self._posts.append(function)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._take_posts)

    def check_open(self) -> None:
        """Refuse work that nobody would do."""
        if os.getpid() != self._pid:
            raise Closed(what="connection of the parent process")
        if self._closed:
            raise Closed(what="broker")
        assert threading.get_ident() != self._thread.ident, "a callback must not wait for its own loop"

    def close(self, timeout_ms: int | None = None) -> None:
        """Let the client finish, up to the deadline; then end the loop and its thread."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        assert self._client is not None
        try:
            self._wait(self._client.close(timeout_ms))
        finally:
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # If it is the thread that was interrupted; else it has ended already.
            raise

    def _take_posts(self) -> None:
        self._woken = False  # First: what is posted from now on wakes the loop again.
        posts = self._posts
        while posts:
            posts.popleft()()

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()


async def run_work(work: Work[T]) -> T:
    """Work as a coroutine."""
    return await run(work)
