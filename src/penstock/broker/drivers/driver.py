"""Running the broker's steps: in threads or on an event loop.

Every operation is a generator that runs under one lock and yields what it
waits for (``steps.py``).  The drivers differ only in how they wait:

    ThreadDriver     the caller's thread blocks; for durability it may itself do the sync for
                     everyone (log/commit.py), so one publisher pays one fdatasync and no hand-over.
                     One more thread, the timekeeper, does what is due.
    LoopDriver       callbacks on an asyncio loop (``Running``), awaited or not; the disk thread syncs, one
                     round for all who wait.

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
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from penstock.broker.core import Core
from penstock.broker.steps import Arrival, Aside, Durable, Place, Step, Steps, Waiter
from penstock.clock import stopwatch_ns
from penstock.errors import Closed, PenstockError

T = TypeVar("T")

logger = logging.getLogger("penstock")

# A sync on the loop itself: on a quick disk it takes less than two thread switches would; on a slow one
# the loop stands still for one sync a second.
HERE_LOGS_MAX: Final = 2  # A log and a journal.
HERE_BYTES_MAX: Final = 256 * 1024  # More takes longer, and the loop has better to do.
HERE_NS: Final = 1_000_000  # What a sync may take on the average; what quick ones save, a slow one may use.
LATE_NS_MAX: Final = 20_000_000  # If syncs have taken so much more, the disk is slow, and not by chance.
PAUSE_S_MIN: Final = 0.01  # Then the disk thread has the work for this long ...
PAUSE_S_MAX: Final = 1.0  # ... and for twice as long if the next one is slow again, up to this.


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
        except BaseException:
            with self._lock:
                steps.close()  # What it was about to wait for has failed: it gives back what it holds.
            raise
        finally:
            if self._state.jobs:
                self._run_jobs()
            with self._lock:
                steps.close()  # It may have been interrupted.
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
        wanted.topic.waiters[waiter] = None
        return waiter

    def _wait(self, wanted: Step, waiter: "ThreadWaiter | None") -> None:
        if isinstance(wanted, Durable):
            self._state.commit.wait(wanted.log, wanted.written)
        elif isinstance(wanted, Aside):
            wanted.result = wanted.function()
        elif isinstance(wanted, Arrival) and waiter is not None and not self._closing:
            waiter.event.wait(max(wanted.until_ms - self._state.clock.steady_ms(), 0) / 1000)
            with self._lock:
                wanted.topic.waiters.pop(waiter, None)

    def _run_jobs(self) -> None:
        while True:
            with self._lock:
                if not self._state.jobs:
                    return
                job = self._state.jobs.popleft()
            try:
                self._drive(job)
            except PenstockError as error:
                with self._lock:
                    job.close()
                # The job left itself in the state, to be tried again when its alarm rings.
                self._core.storage.retry_later(error)

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
            self._core.storage.retry_later(error)

    def close(self, timeout_ms: int | None) -> None:
        """Let running calls finish, up to the deadline; then release, write down, close."""
        if timeout_ms is None:
            timeout_ms = self._state.config.close_timeout_ms
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._state.closed = True  # Who waits for messages is told so.
            self._state.wake_all()
            self._idle.wait_for(lambda: self._active == 0, timeout_ms / 1000)
        self._ring.set()
        if self._timekeeper.is_alive() and threading.current_thread() is not self._timekeeper:
            self._timekeeper.join(timeout_ms / 1000)
        self._state.commit.close()  # Without the lock, which its thread may be waiting for (_after_sync).
        with self._lock:
            self._core.close()


class ThreadWaiter:
    def __init__(self) -> None:
        self.event = threading.Event()

    def wake(self) -> None:
        self.event.set()


Then = Callable[[Any, BaseException | None], None]


class Running:
    """An operation under way on a loop, without a task: it goes on when what it waits for calls it."""

    __slots__ = ("_driver", "_ended", "_steps", "_then", "_timer", "_topic", "_woken")

    def __init__(self, driver: "LoopDriver", steps: Steps[Any], then: Then) -> None:
        self._driver = driver
        self._steps = steps
        self._then = then
        self._topic: Place | None = None  # Where it waits for something to happen.
        self._timer: Alarm | None = None  # What ends that wait.
        self._woken = False  # It has waited there, and will look soon.
        self._ended = False

    def advance(self) -> None:
        """Run on to the next wait, or to the end."""
        try:
            while True:
                wanted = next(self._steps)
                if isinstance(wanted, Durable):
                    if wanted.log.durable < wanted.written:
                        self._driver.when_durable(wanted, self)
                        return
                elif isinstance(wanted, Arrival):
                    self._topic = wanted.topic
                    wanted.topic.waiters[self] = None
                    self._timer = self._driver.alarm(wanted.until_ms, self)
                    return
                elif isinstance(wanted, Aside):
                    self._driver.work_out(wanted, self)
                    return
                else:
                    self._woken = True
                    self._driver.soon(self.go_on)
                    return
        except StopIteration as end:
            self._end(end.value, None)
        except Exception as error:  # noqa: BLE001 - it is the caller's, who is told.
            self._end(None, error)

    def wake(self) -> None:
        """Something happened where it waits, or the wait is over: go on soon, not in the middle of that."""
        if self._topic is not None:
            self._stop_waiting()
            self._woken = True
            self._driver.woken(self)

    def go_on(self) -> None:
        """Look at what has happened."""
        self._woken = False
        if not self._ended:
            self.advance()

    def durable(self, failed: BaseException | None) -> None:
        """What it waited for is on disk, or worked out; or never will be."""
        if self._ended:
            return  # The caller gave up; its record stays written.
        if failed is None:
            self.advance()
        else:
            self._steps.close()  # So that it gives back what it holds.
            self._end(None, failed)

    def _stop_waiting(self) -> None:
        if self._topic is not None:
            self._topic.waiters.pop(self, None)
            self._topic = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, result: Any, error: BaseException | None) -> None:
        self._ended = True
        self._driver.ended(self._then, result, error)

    def cancel(self) -> None:
        """Give up: ``then`` is not called any more; what was written stays written."""
        if self._ended:
            return
        self._ended = True
        self._stop_waiting()
        self._steps.close()
        self._driver.ended(_nobody, None, None)

    def call_off(self) -> bool:
        """Give up if it only waits for an event or for its turn; False: it is on its way to ``then``.

        Unlike ``cancel`` it never throws away what the operation has taken.
        """
        if self._topic is None and not self._woken:
            return False
        self.cancel()
        return True

    def refuse(self, error: BaseException) -> None:
        self._steps.close()
        self._end(None, error)


def _nobody(result: Any, error: BaseException | None) -> None:
    """Who gave up hears nothing."""


class Alarm(Protocol):
    """The end of a wait, which may be called off."""

    def cancel(self) -> None: ...


class DiskWaiter(Protocol):
    """Somebody who waits for the disk."""

    def durable(self, failed: BaseException | None) -> None: ...


class LoopDriver:
    """Runs steps on the event loop it was opened on."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._state = core.state
        self._durable: list[tuple[Durable, DiskWaiter]] = []
        self._woken: deque[Running] = deque()
        self._kick_coming = False
        self._thread_until = 0.0  # On the loop's clock: until then the disk counts as slow ...
        self._pause_s = PAUSE_S_MIN  # ... and for so long if it is slow again.
        self._late_ns = 0  # What syncs have taken of late beyond what they may.
        self._tasks: set[asyncio.Task[None]] = set()  # The driver's own; awaited by close.
        self._active = 0
        self._closing = False
        self.on_work: Callable[[], None] | None = None  # Called once, by the next operation that begins.
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

    # Operations.

    def start(self, steps: Steps[Any], then: Then) -> Running:
        """Begin an operation; ``then(result, error)`` is called once when it ends, at once if it can."""
        running = Running(self, steps, then)
        if self.on_work is not None:
            self._work_begins()
        self._active += 1
        if self._closing or self._state.closed:
            running.refuse(Closed(what="broker"))
        else:
            running.advance()
        return running

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end, waiting where it waits.

        The steps run in the caller's task: one that is cancelled has taken nothing that it does not return.
        """
        self._check_open()
        if self.on_work is not None:
            self._work_begins()
        self._active += 1
        failed: BaseException | None = None
        try:
            result = await self._drive(steps)
        except BaseException as error:  # noqa: BLE001 - it is raised below: compiled code must not wait here.
            steps.close()  # What it waited for has failed: it gives back what it holds.
            failed = error
            steps.close()  # It may have been cancelled.
        try:
            if self._state.jobs:
                await asyncio.shield(self._own(self._run_jobs()))
        finally:
            self._one_less()
        if failed is not None:
            try:
                raise failed
            finally:
                failed = None  # Else the error would hold this frame, and the frame the error.
        return result

    def _work_begins(self) -> None:
        function, self.on_work = self.on_work, None
        if function is not None:
            function()

    async def _drive(self, steps: Steps[T]) -> T:
        while True:
            try:
                wanted = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(wanted, Durable):
                if wanted.log.durable < wanted.written:
                    waiter = LoopWaiter(self._loop.create_future())
                    self.when_durable(wanted, waiter)
                    await waiter.future
            elif isinstance(wanted, Arrival):
                await self._until_arrival(wanted)
            elif isinstance(wanted, Aside):
                wanted.result = await self._loop.run_in_executor(None, wanted.function)
            else:
                await asyncio.sleep(0)

    async def _until_arrival(self, wanted: Arrival) -> None:
        waiter = LoopWaiter(self._loop.create_future())
        wanted.topic.waiters[waiter] = None
        timer = self.alarm(wanted.until_ms, waiter)
        try:
            await waiter.future
        finally:
            timer.cancel()
            wanted.topic.waiters.pop(waiter, None)

    def ended(self, then: Then, result: Any, error: BaseException | None) -> None:
        """An operation is over; it is answered when the jobs it caused are done, too."""
        if not self._state.jobs:
            self._answer(then, result, error)
            return
        jobs = self._own(self._run_jobs())
        jobs.add_done_callback(lambda _: self._answer(then, result, error))

    def _answer(self, then: Then, result: Any, error: BaseException | None) -> None:
        self._one_less()
        then(result, error)

    def _one_less(self) -> None:
        self._active -= 1
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

    # Waiting.

    def soon(self, function: Callable[[], None]) -> None:
        """Call it in the next turn of the loop."""
        self._loop.call_soon(function)

    def woken(self, running: Running) -> None:
        """Let it go on in the next turn of the loop, or in this one when a sync ends."""
        self._woken.append(running)
        self._loop.call_soon(self._run_woken)

    def _run_woken(self) -> None:
        for _ in range(len(self._woken)):
            self._woken.popleft().go_on()

    def alarm(self, until_ms: int, waiter: Waiter) -> Alarm:
        """Wake ``waiter`` at that time of the steady clock, unless it is called off."""
        wait_ms = max(until_ms - self._state.clock.steady_ms(), 0)
        return self._loop.call_later(wait_ms / 1000, waiter.wake)

    def when_durable(self, wanted: Durable, waiter: DiskWaiter) -> None:
        """Let ``waiter`` go on when the log has put everything written so far on disk."""
        if wanted.log.failed is not None:
            waiter.durable(wanted.log.failed)
            return
        self._durable.append((wanted, waiter))
        self._state.commit.mark(wanted.log)  # Whoever wrote may have left that to whoever waits.
        if not self._kick_coming:
            self._kick_coming = True
            self._loop.call_soon(self._kick)

    def work_out(self, wanted: Aside, running: Running) -> None:
        """Call the function in a thread, and let the operation go on with its result."""

        def ended(future: "asyncio.Future[Any]") -> None:
            if future.cancelled():
                running.durable(Closed(what="broker"))
                return
            failed = future.exception()
            wanted.result = future.result() if failed is None else None
            running.durable(failed)

        self._loop.run_in_executor(None, wanted.function).add_done_callback(ended)

    def _kick(self) -> None:
        """At the end of a turn of the loop, so that all who wrote in it share one sync.

        A kick by the first of them would have the disk thread start before the others have written.
        """
        self._kick_coming = False
        if not self._sync_here():
            self._state.commit.kick()

    def _sync_here(self) -> bool:
        """Sync in place if there is little to do and the disk is quick; after slow syncs, not for a while.

        While it lasts, nothing is read; what arrives meanwhile shares the next sync.
        """
        if self._loop.time() < self._thread_until:
            return False
        began_ns = stopwatch_ns()  # The loop's own clock may know whole milliseconds only.
        if not self._state.commit.sync_here(HERE_LOGS_MAX, HERE_BYTES_MAX):
            return False
        self._late_ns = max(self._late_ns + stopwatch_ns() - began_ns - HERE_NS, 0)
        if not self._late_ns:
            self._pause_s = PAUSE_S_MIN
        elif self._late_ns > LATE_NS_MAX:
            self._late_ns = LATE_NS_MAX  # One quick sync shows that it is over.
            self._thread_until = self._loop.time() + self._pause_s
            self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self._heard()
        return True

    def _after_sync(self) -> None:
        """Called by the disk thread."""
        self._loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._state.hear()
        self._run_woken()  # Before the writers: whoever waits for a message has waited for longer.
        waiting, self._durable = self._durable, []
        still: list[tuple[Durable, DiskWaiter]] = []
        for wanted, waiter in waiting:
            if wanted.log.durable >= wanted.written:
                waiter.durable(None)
            elif wanted.log.failed is not None:
                waiter.durable(wanted.log.failed)
            else:
                still.append((wanted, waiter))
        if len(waiting) > len(still):
            self._state.commit.answered.note(len(waiting) - len(still))
        if still:
            self._durable = still + self._durable
            self._state.commit.kick()

    # Jobs and time.

    async def _run_jobs(self) -> None:
        while self._state.jobs:
            job = self._state.jobs.popleft()
            try:
                await self._drive(job)
            except PenstockError as error:
                job.close()
                self._core.storage.retry_later(error)

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
            self._core.storage.retry_later(error)

    async def close(self, timeout_ms: int | None) -> None:
        """Let running calls finish, up to the deadline; then release, write down, close."""
        if self._closing:
            return
        limit_s = (self._state.config.close_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        self._closing = True
        self._state.closed = True
        self._state.wake_all()
        if self._active:
            try:
                await asyncio.wait_for(self._idle.wait(), limit_s)
            except TimeoutError:
                logger.warning("closing with %d calls unfinished", self._active)
        self._ring.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)
        self._core.close()


class LoopWaiter:
    """Wakes one waiting task of the loop."""

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future

    def wake(self) -> None:
        """Something happened, or the wait is over."""
        if not self.future.done():
            self.future.set_result(None)

    def durable(self, failed: BaseException | None) -> None:
        """What it waited for is on disk, or never will be."""
        if failed is None:
            self.wake()
        elif not self.future.done():  # Else the caller gave up; its record stays written.
            self.future.set_exception(failed)
