"""Hands work from a program's threads to an event loop in a background thread.

    run(work)        in any thread: the loop runs it, the thread waits
    wait(begin)      in any thread: the loop calls it, the thread waits for the result
    post(function)   in any thread: the loop calls it, without waiting; many posts wake the loop once

The loop's thread is a daemon.  ``close`` ends it; otherwise the end of the interpreter
does, with a short time for published messages.  Calls that still wait when the loop
ends raise ``Closed``.

After a fork the child has a copy of everything but the thread: there a portal
refuses all work, and touches neither the loop nor the connection, which are the
parent's.

The loop is uvloop's where that is installed (``pip install penstock[fast]``), which
makes a round trip a quarter quicker.

Cost: a run is one task and 60 us of CPU for the two threads to hand it over; a
wait needs no task, and is a third cheaper.
"""

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar, cast

from penstock.api.work import Work
from penstock.client.client import CLOSE_MS, Client
from penstock.client.work import run
from penstock.errors import Closed

T = TypeVar("T")

EXIT_MS: Final = 2000  # For what was published and not answered when the interpreter ends.
JOIN_S: Final = 5.0


class Portal:
    """A loop, its thread, and the client that lives there."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._turn, name="penstock-client", daemon=True)
        self._client: Client | None = None
        self._lock = threading.RLock()  # Of the next two; a signal's handler may run in the middle, and post.
        self._closed = False
        self._ended = False  # The loop takes no more posts.
        self._posts: deque[Callable[[], None]] = deque()
        self._woken = False  # The loop will look at the posts.
        # Waits for publishes that bypass the loop (``direct.py``), and says how many ms are left.
        self.drain: Callable[[int], int] = lambda timeout_ms: timeout_ms

    def open(self, connect: Callable[[], Coroutine[Any, Any, Client]]) -> Client:
        """Start the loop and connect on it."""
        self._thread.start()
        try:
            client = self._client = self._run(connect())
        except BaseException:
            self._closed = True
            self._stop()
            raise
        atexit.register(self.close, EXIT_MS)
        return client

    def check_open(self) -> None:
        """Raise if the loop has ended."""
        if os.getpid() != self._pid:
            raise Closed(what="connection of the parent process")
        if self._closed:
            raise Closed(what="broker")
        assert threading.get_ident() != self._thread.ident, "a callback must not wait for its own loop"

    def run(self, work: Work[T]) -> T:
        """Run the work on the loop, and wait for it."""
        try:
            self.check_open()
        except BaseException:
            work.close()
            raise
        return self._run(_awaited(work))

    def wait(self, begin: Callable[["Waiting[T]"], None]) -> T:
        """Have the loop call ``begin`` with a ``Waiting``, and wait for its outcome."""
        waiting: Waiting[T] = Waiting()
        self.post(lambda: begin(waiting))
        return waiting.outcome()

    def post(self, function: Callable[[], None]) -> None:
        """Have the loop call a function, after those that were posted before."""
        with self._lock:
            if self._ended:
                raise Closed(what="broker")
            self._posts.append(function)
            if not self._woken:
                self._woken = True
                try:
                    self._loop.call_soon_threadsafe(self._take_posts)
                except BaseException:  # Ctrl-C, which asyncio's debug mode lets in here.
                    self._woken = False
                    raise

    def close(self, timeout_ms: int | None = None) -> None:
        """Let the client finish, up to the deadline; then end the loop and its thread."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        assert self._client is not None, "it was opened"
        try:
            self._run(self._client.close(self.drain(CLOSE_MS if timeout_ms is None else timeout_ms)))
        finally:
            self._stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        tasks: list[asyncio.Task[None]] = []

        def begin(waiting: "Waiting[T]") -> None:
            tasks.append(self._loop.create_task(waiting.take(work)))

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        try:
            return self.wait(begin)
        except (KeyboardInterrupt, SystemExit):  # The thread was interrupted, and the task was not.
            self.post(cancel)
            raise

    # The loop's thread.

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _take_posts(self) -> None:
        self._woken = False  # First: what is posted from now on wakes the loop again.
        posts = self._posts
        while posts:
            posts.popleft()()

    def _stop(self) -> None:
        with self._lock:
            self._ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)  # After what was posted.
        self._thread.join(JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop of the quickest kind that is installed: nobody else sees it."""
    try:
        import uvloop  # Only now: a program that does not connect does without.
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Waiting(Generic[T]):
    """A thread that waits for something on the loop: cheaper than a future for each of the two."""

    def __init__(self) -> None:
        self._latch = threading.Lock()
        self._latch.acquire()
        self._result: T | None = None
        self._error: BaseException | None = None

    def end(self, result: T, error: BaseException | None) -> None:
        """On the loop: this is how it ended."""
        self._result = result
        self._error = error
        self._latch.release()

    async def take(self, work: Coroutine[Any, Any, T]) -> None:
        """The same, for what is awaited; the thread need not wait until the task itself has ended."""
        try:
            self._result = await work
        except asyncio.CancelledError:  # The loop is about to end, or the caller has given up.
            self._error = Closed(what="broker")
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits.
            self._error = error
        self._latch.release()

    def outcome(self) -> T:
        """In the thread: wait, and return or raise."""
        self._latch.acquire()
        if self._error is not None:
            raise self._error
        return cast("T", self._result)


async def _awaited(work: Work[T]) -> T:
    return await run(work)
