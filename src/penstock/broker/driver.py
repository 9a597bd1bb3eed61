"""Running the broker's steps: in threads or on an event loop.

Every operation is a generator that runs under one lock and yields what it
waits for (``steps.py``).  The drivers differ only in how they wait:

    ThreadDriver     the caller's thread blocks; for durability it may itself do the sync for
                     everyone (log/commit.py), so one publisher pays one fdatasync and no hand-over.
                     One more thread, the timekeeper, does what is due.
    LoopDriver       futures on an asyncio loop; the disk thread syncs, one round for all who wait.

``penstock.testing`` has a third kind, in which nobody waits: the clock moves
to the next thing that is due.

Work that must be finished whatever its caller does (burying a dead letter,
publishing an outbox) is in ``state.jobs``.  It is run before the call that
caused it returns; in a loop, by a task of the driver, so that cancelling the
caller does not stop it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from penstock.broker.core import Core
from penstock.broker.steps import Arrival, Durable, Step, Steps
from penstock.errors import Closed, PenstockError

T = TypeVar("T")

logger = logging.getLogger("penstock")


class ThreadDriver:
    """Runs steps in the callers' threads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._state = core.state
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)  # Notified when a call ends.
        self._active = 0
        self._closing = False
        self._ring = threading.Event()
        self._timekeeper = threading.Thread(target=self._keep_time, name="penstock-timekeeper", daemon=True)

    def open(self) -> None:
        """Recover the broker and start keeping time."""
        self._core.open()
        self._state.commit.listeners.append(self._after_sync)
        self._state.alarms.on_earlier = self._ring.set
        self._run_jobs()
        self._timekeeper.start()

    def call(self, function: Callable[[], T]) -> T:
        """Run something that does not wait."""
        with self._lock:
            self._check_open()
            return function()

    def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end, waiting where it waits."""
        wanted: Step | None = None
        with self._lock:
            self._check_open()
            try:  # Inside: an exception that leaves a `with` costs as much again.
                wanted = next(steps)
                waiter = self._register(wanted)
                self._active += 1
            except StopIteration as end:  # It had nothing to wait for.
                result: T = end.value
        if wanted is None:
            if self._state.jobs:
                self._run_jobs()
            return result
        try:
            self._wait(wanted, waiter)
            return self._drive(steps)
        finally:
            if self._state.jobs:
                self._run_jobs()
            with self._lock:
                self._active -= 1
                if self._closing:
                    self._idle.notify_all()

    def _check_open(self) -> None:
        if self._closing or self._state.closed:
            raise Closed(what="broker")

    def _drive(self, steps: Steps[T]) -> T:
        while True:
            with self._lock:
                try:
                    wanted = next(steps)
                except StopIteration as end:
                    result: T = end.value
                    return result
                waiter = self._register(wanted)
            self._wait(wanted, waiter)

    def _register(self, wanted: Step) -> "ThreadWaiter | None":
        """Under the lock: make sure that no arrival after this is missed."""
        if not isinstance(wanted, Arrival):
            return None
        waiter = ThreadWaiter()
        wanted.topic.waiters.add(waiter)
        return waiter

    def _wait(self, wanted: Step, waiter: "ThreadWaiter | None") -> None:
        if isinstance(wanted, Durable):
            self._state.commit.wait(wanted.log, wanted.written)
        elif isinstance(wanted, Arrival) and waiter is not None and not self._closing:
            waiter.event.wait(max(wanted.until_ms - self._state.clock.steady_ms(), 0) / 1000)
            with self._lock:
                wanted.topic.waiters.discard(waiter)

    def _run_jobs(self) -> None:
        while True:
            with self._lock:
                if not self._state.jobs:
                    return
                job = self._state.jobs.popleft()
            try:
                self._drive(job)
            except PenstockError as error:
                # The job left itself in the state, to be tried again when its alarm rings.
                logger.warning("will try again: %s", error)

    def _after_sync(self) -> None:
        if self._closing:  # Everybody was woken, and close may hold the lock until this thread has ended.
            return
        with self._lock:
            self._state.hear()

    def _keep_time(self) -> None:
        while not self._closing:
            with self._lock:
                due_ms = self._state.alarms.next_ms()
                now_ms = self._state.clock.steady_ms()
                self._ring.clear()
            if due_ms < 0 or due_ms > now_ms:
                self._ring.wait(None if due_ms < 0 else (due_ms - now_ms) / 1000)
                continue
            self._tick()

    def _tick(self) -> None:
        try:
            self._drive(self._core.tick())
            self._run_jobs()
        except PenstockError as error:
            logger.warning("will try again: %s", error)

    def close(self, timeout_ms: int) -> None:
        """Let running calls finish, up to the deadline; then release, write down, close."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._state.closed = True  # Who waits for messages is told so.
            for topic in self._state.topics.values():
                topic.wake()
            self._idle.wait_for(lambda: self._active == 0, timeout_ms / 1000)
        self._ring.set()
        if self._timekeeper.is_alive() and threading.current_thread() is not self._timekeeper:
            self._timekeeper.join(timeout_ms / 1000)
        self._state.commit.close()  # Without the lock, which its thread may be waiting for (_after_sync).
        with self._lock:
            self._core.close()


class ThreadWaiter:
    """Wakes one waiting thread."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def wake(self) -> None:
        self.event.set()


class LoopDriver:
    """Runs steps on the event loop it was opened on."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._state = core.state
        self._durable: list[tuple[Durable, asyncio.Future[None]]] = []
        self._kick_coming = False
        self._kicking = False  # A kick is due at the end of this turn of the loop.
        self._tasks: set[asyncio.Task[None]] = set()  # The driver's own; awaited by close.
        self._active = 0
        self._closing = False
        self._idle = asyncio.Event()
        self._ring = asyncio.Event()

    async def open(self) -> None:
        """Recover the broker and start keeping time."""
        self._loop = asyncio.get_running_loop()
        self._core.open()
        self._state.commit.listeners.append(self._after_sync)
        self._state.alarms.on_earlier = self._ring.set
        await self._run_jobs()
        self._own(self._keep_time())

    def call(self, function: Callable[[], T]) -> T:
        """Run something that does not wait."""
        self._check_open()
        return function()

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end, waiting where it waits."""
        self._check_open()
        self._active += 1
        try:
            return await self._drive(steps)
        finally:
            self._active -= 1
            if self._state.jobs:
                await asyncio.shield(self._own(self._run_jobs()))
            if self._closing and not self._active:
                self._idle.set()

    def _check_open(self) -> None:
        if self._closing or self._state.closed:
            raise Closed(what="broker")

    def _own(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _drive(self, steps: Steps[T]) -> T:
        while True:
            try:
                wanted = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(wanted, Durable):
                if wanted.log.durable < wanted.written:
                    await self._until_durable(wanted)
            elif isinstance(wanted, Arrival):
                await self._until_arrival(wanted)
            else:
                await asyncio.sleep(0)

    def _until_durable(self, wanted: Durable) -> Awaitable[None]:
        if wanted.log.failed is not None:
            raise wanted.log.failed
        future: asyncio.Future[None] = self._loop.create_future()
        self._durable.append((wanted, future))
        self._state.commit.mark(wanted.log)  # Whoever wrote may have left that to whoever waits.
        if not self._kick_coming:
            self._kick_coming = True
            self._loop.call_soon(self._kick)
        return future

    def _kick(self) -> None:
        """At the end of a turn of the loop, so that all who wrote in it share one sync.

        A kick by the first of them would have the disk thread start before the others have written.
        """
        self._kick_coming = False
        self._state.commit.kick()

    async def _until_arrival(self, wanted: Arrival) -> None:
        waiter = LoopWaiter(self._loop.create_future())
        wanted.topic.waiters.add(waiter)
        wait_ms = max(wanted.until_ms - self._state.clock.steady_ms(), 0)
        timer = self._loop.call_later(wait_ms / 1000, waiter.wake)
        try:
            await waiter.future
        finally:
            timer.cancel()
            wanted.topic.waiters.discard(waiter)

    async def _run_jobs(self) -> None:
        while self._state.jobs:
            job = self._state.jobs.popleft()
            try:
                await self._drive(job)
            except PenstockError as error:
                logger.warning("will try again: %s", error)

    def _after_sync(self) -> None:
        """Called by the disk thread."""
        self._loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._state.hear()
        waiting: list[tuple[Durable, asyncio.Future[None]]] = []
        for wanted, future in self._durable:
            if future.done():
                continue  # The caller gave up; its record stays written.
            if wanted.log.durable >= wanted.written:
                future.set_result(None)
            elif wanted.log.failed is not None:
                future.set_exception(wanted.log.failed)
            else:
                waiting.append((wanted, future))
        self._durable = waiting
        if waiting:
            self._state.commit.kick()

    async def _keep_time(self) -> None:
        while not self._closing:
            due_ms = self._state.alarms.next_ms()
            wait_ms = due_ms - self._state.clock.steady_ms()
            self._ring.clear()
            if due_ms < 0 or wait_ms > 0:
                timer = self._loop.call_later(wait_ms / 1000, self._ring.set) if due_ms >= 0 else None
                await self._ring.wait()
                if timer is not None:
                    timer.cancel()
                continue
            await self._tick()

    async def _tick(self) -> None:
        try:
            await self._drive(self._core.tick())
            await self._run_jobs()
        except PenstockError as error:
            logger.warning("will try again: %s", error)

    async def close(self, timeout_ms: int) -> None:
        """Let running calls finish, up to the deadline; then release, write down, close."""
        if self._closing:
            return
        self._closing = True
        self._state.closed = True
        for topic in self._state.topics.values():
            topic.wake()
        if self._active:
            try:
                await asyncio.wait_for(self._idle.wait(), timeout_ms / 1000)
            except TimeoutError:
                logger.warning("closing with %d calls unfinished", self._active)
        self._ring.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_ms / 1000)
        self._core.close()


class LoopWaiter:
    """Wakes one waiting task of the loop."""

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
