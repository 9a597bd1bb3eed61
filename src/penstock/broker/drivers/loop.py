"""Operations on an asyncio event loop: callbacks continue them, or the tasks that await them do.

A front end starts an operation without a task (``Running``); a program awaits it (``Awaited``).  The disk
thread syncs, one round for all operations that wait; on a quick disk the loop does it itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, Final, Protocol, TypeVar

from penstock.broker.core import Core
from penstock.broker.drivers.interpreter import Driver, Operation
from penstock.broker.steps import Arrival, Aside, Durable, Step, Steps, Waitable, Waiter, Written, exhaust
from penstock.clock import stopwatch_ns
from penstock.errors import Closed, PenstockError

T = TypeVar("T")
Then = Callable[[Any, BaseException | None], None]

logger = logging.getLogger("penstock")

# A sync on the loop itself: on a quick disk it takes less than two thread switches would; on a slow one
# the loop stands still for one sync a second.
HERE_LOGS_MAX: Final = 2  # A log and a journal.
HERE_BYTES_MAX: Final = 256 * 1024  # More takes longer, and the loop has other work.
HERE_NS: Final = 1_000_000  # What a sync may take on the average; what quick ones save, a slow one may use.
HERE_ALONE_NS: Final = 4_000_000  # The same if one operation waits: the loop has little else to do, it seems.
LATE_NS_MAX: Final = 20_000_000  # If syncs have taken so much more, the disk is slow, and not by chance.
# An answer waits so long for the jobs that were queued before it.  In a cluster they may need other nodes,
# and what a consumer has leased must reach it before the lease ends.
JOBS_S_MAX: Final = 1.0
PAUSE_S_MIN = 0.01  # Then the disk thread has the work for this long (tests set it) ...
PAUSE_S_MAX: Final = 1.0  # ... and for twice as long if the next one is slow again, up to this.


class Alarm(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class LoopOperation(Operation):
    """An operation on an event loop: what it waits for calls ``resume`` or ``wake``."""

    __slots__ = ("_driver", "_timer", "_topic", "_woken")

    _driver: "LoopDriver"
    _topic: Waitable | None  # Where it waits for something to happen.
    _timer: Alarm | None  # What ends that wait.
    _woken: bool  # It goes on in a later turn of the loop.

    def wait(self, wanted: Step) -> None:
        if isinstance(wanted, Durable):
            self._driver.when_durable(wanted, self)
        elif isinstance(wanted, Arrival):
            self._topic = wanted.topic
            wanted.topic.waiters[self] = None
            self._timer = self._driver.alarm(wanted.until_ms, self)
        elif isinstance(wanted, Aside):
            self._driver.work_out(wanted, self)
        else:
            self._woken = True
            self.give_way()

    def give_way(self) -> None:
        """Go on in the next turn of the loop."""
        raise NotImplementedError

    def resume(self, failed: BaseException | None) -> None:
        """Continue: what it waited for is on disk, or was computed, or has failed."""
        raise NotImplementedError

    def wake(self) -> None:
        """Continue: something has happened to what it waits for, or the wait has timed out."""
        raise NotImplementedError

    def close(self) -> None:
        self._stop_waiting()
        super().close()

    def _stop_waiting(self) -> None:
        if self._topic is not None:
            self._topic.waiters.pop(self, None)
            self._topic = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Running(LoopOperation):
    """An operation without a task: callbacks continue it, and it ends by calling ``then``."""

    __slots__ = ("_then",)

    def __init__(self, driver: "LoopDriver", steps: Steps[Any], then: Then) -> None:
        self._steps = steps
        self.ended = False
        self._driver = driver
        self._topic = None
        self._timer = None
        self._woken = False
        self._then = then

    def give_way(self) -> None:
        self._driver.soon(self.go_on)

    def wake(self) -> None:
        """Continue in the next turn of the loop, not inside of what woke it."""
        if self._topic is not None:
            self._stop_waiting()
            self._woken = True
            self._driver.woken(self)

    def go_on(self) -> None:
        """Continue with what has happened."""
        self._woken = False
        if not self.ended:
            self.advance()

    def resume(self, failed: BaseException | None) -> None:
        if self.ended:
            return  # The caller gave up; its record stays written.
        if failed is None:
            self.advance()
        else:
            self.refuse(failed)

    def refuse(self, error: BaseException) -> None:
        """End the operation with an error; it releases what it holds."""
        self._steps.close()
        self.end(None, error)

    def end(self, result: Any, error: BaseException | None) -> None:
        self.ended = True
        self._driver.answer(self._then, result, error)

    def cancel(self) -> None:
        """Cancel: ``then`` is not called any more; what was written stays written."""
        if not self.ended:
            self.close()
            self._driver.answer(ignore_result, None, None)

    def call_off(self) -> bool:
        """Cancel if it only waits for an event or its turn; False: it is about to call ``then``.

        Unlike ``cancel`` it never throws away what the operation has taken.
        """
        if self._topic is None and not self._woken:
            return False
        self.cancel()
        return True


class Finishing(LoopOperation):
    """An operation that has written all it writes, and ends by calling ``then`` when that is durable."""

    __slots__ = ("_then", "_written")

    def __init__(self, driver: "LoopDriver", written: Written, then: Then) -> None:
        self._driver = driver
        self._written = written
        self._then = then

    def resume(self, failed: BaseException | None) -> None:
        wanted = self._written.unfinished() if failed is None else None
        if wanted is not None:
            self._driver.when_durable(wanted, self)
        elif failed is None:
            self._driver.answer(self._then, self._written.result, None)
        else:
            self._driver.answer(self._then, None, failed)


def ignore_result(result: Any, error: BaseException | None) -> None:
    """For an operation whose result nothing waits for."""


class Awaited(LoopOperation):
    """An operation whose task runs each step: one that is cancelled takes nothing it does not return."""

    __slots__ = ("_failed", "_future", "_resumed")

    def __init__(self, driver: "LoopDriver", steps: Steps[Any]) -> None:
        self._steps = steps
        self.ended = False
        self._driver = driver
        self._topic = None
        self._timer = None
        self._woken = False
        self._resumed = False  # The wait is over ...
        self._failed: BaseException | None = None  # ... because of this error.
        self._future: asyncio.Future[None] | None = None  # What the task awaits.

    async def run(self) -> Any:
        """Run the operation to its end in the calling task."""
        self.advance()
        while not self.ended:
            try:
                if self._woken:
                    self._woken = False
                    await asyncio.sleep(0)
                elif not self._resumed:
                    self._future = self._driver.new_future()
                    await self._future
            except BaseException:
                self.close()  # The task was cancelled.
                raise
            self._resumed = False
            if self._failed is None:
                self.advance()
            else:
                self._steps.close()  # It gives back what it holds.
                self.end(None, self._failed)
                self._failed = None
        if self.error is not None:
            self.raise_error()
        return self.result

    def give_way(self) -> None:
        """Wake the task of the operation."""

    def wake(self) -> None:
        if self._topic is not None:
            self._stop_waiting()
            self.resume(None)

    def resume(self, failed: BaseException | None) -> None:
        self._failed = failed
        self._resumed = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class LoopDriver(Driver):
    """Runs steps on the event loop it was opened on."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._durable: list[tuple[Durable, LoopOperation]] = []
        self._woken: deque[Running] = deque()
        self._kick_coming = False
        self._thread_until = 0.0  # On the loop's clock: until then the disk counts as slow ...
        self._pause_s = PAUSE_S_MIN  # ... and for so long if it is slow again.
        self._late_ns = 0  # What syncs have taken of late beyond what they may.
        self._tasks: set[asyncio.Task[None]] = set()  # The driver's own; awaited by close.
        self.on_work: Callable[[], None] | None = None  # Called once, by the next operation that begins.
        self._idle = asyncio.Event()
        self._ring = asyncio.Event()

    async def open(self) -> None:
        """Recover the broker and start keeping time."""
        self._loop = asyncio.get_running_loop()
        with closing(self._core.open()) as steps:  # One that is cancelled lets go of the directory.
            for _ in steps:
                await asyncio.sleep(0)
        self._state.commit.listeners.append(self._after_sync)
        self._state.sync_soon = self._sync_soon
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

    def begin(self, steps: Steps[Any], then: Then) -> None:
        """``start`` for an operation that is never cancelled: fewer calls if it only waits to be durable."""
        if not isinstance(steps, Written):
            self.start(steps, then)
            return
        if self.on_work is not None:
            self._work_begins()
        self._active += 1
        Finishing(self, steps, then).resume(None)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call an operation that never waits; the jobs it causes follow."""
        self._check_open()
        result = function(*arguments)
        if self._state.jobs:
            self._own(self._run_jobs())
        return result

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
            result: T = await Awaited(self, steps).run()
        except BaseException as error:  # noqa: BLE001 - it is raised below: compiled code must not wait here.
            failed = error
        try:
            if self._state.jobs:
                await asyncio.wait([self._own(self._run_jobs())], timeout=JOBS_S_MAX)
        finally:
            self._active -= 1
            if self._closing and not self._active:
                self._idle.set()
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

    def answer(self, then: Then, result: Any, error: BaseException | None, jobs_done: bool = False) -> None:
        """Answer an operation that has ended, once the jobs it caused are done or take too long."""
        if self._state.jobs and not jobs_done:

            def once(_: object = None) -> None:
                if not timer.cancelled():
                    timer.cancel()
                    self.answer(then, result, error, True)

            timer = self._loop.call_later(JOBS_S_MAX, once)
            self._own(self._run_jobs()).add_done_callback(once)
            return
        self._active -= 1
        if self._closing and not self._active:
            self._idle.set()
        then(result, error)

    def _own(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Waiting.

    def new_future(self) -> "asyncio.Future[None]":
        return self._loop.create_future()

    def soon(self, function: Callable[[], None]) -> None:
        """Call it in the next turn of the loop."""
        self._loop.call_soon(function)

    def woken(self, running: Running) -> None:
        """Continue it in the next turn of the loop, or in this one when a sync ends."""
        self._woken.append(running)
        self._loop.call_soon(self._run_woken)

    def _run_woken(self) -> None:
        for _ in range(len(self._woken)):
            self._woken.popleft().go_on()

    def alarm(self, until_ms: int, waiter: Waiter) -> Alarm:
        """Wake ``waiter`` at that time of the steady clock, unless cancelled."""
        wait_ms = max(until_ms - self._state.clock.steady_ms(), 0)
        return self._loop.call_later(wait_ms / 1000, waiter.wake)

    def when_durable(self, wanted: Durable, operation: LoopOperation) -> None:
        """Continue the operation when everything written to the log so far is on disk."""
        if wanted.log.failed is not None:
            operation.resume(wanted.log.failed)
            return
        self._durable.append((wanted, operation))
        self._state.commit.mark(wanted.log)  # The writer may have left that to the waiter.
        self._sync_soon()

    def _sync_soon(self) -> None:
        if not self._kick_coming:
            self._kick_coming = True
            self._loop.call_soon(self._kick)

    def work_out(self, wanted: Aside, operation: LoopOperation) -> None:
        """Call a function in a thread, and continue the operation with its result."""

        def ended(future: "asyncio.Future[Any]") -> None:
            if future.cancelled():
                operation.resume(Closed(what="broker"))
                return
            failed = future.exception()
            wanted.result = future.result() if failed is None else None
            operation.resume(failed)

        self._loop.run_in_executor(None, wanted.function).add_done_callback(ended)

    def _kick(self) -> None:
        """At the end of a turn of the loop, so that all operations that wrote in it share one sync.

        A kick by the first of them would have the disk thread start before the others have written.
        """
        self._kick_coming = False
        commit = self._state.commit
        if self._thread_until and self._loop.time() < self._thread_until:
            commit.kick()
            return
        began_ns = stopwatch_ns()  # The loop's own clock may know whole milliseconds only.
        # While it syncs, nothing is read; what arrives meanwhile shares the next sync.
        if not commit.sync_here(HERE_LOGS_MAX, HERE_BYTES_MAX):
            commit.kick()
            return
        self._note_sync(stopwatch_ns() - began_ns, HERE_NS if len(self._durable) > 1 else HERE_ALONE_NS)
        self._heard()

    def _note_sync(self, took_ns: int, allowed_ns: int) -> None:
        """After slow syncs the disk thread has the work, for a while."""
        self._late_ns = max(self._late_ns + took_ns - allowed_ns, 0)
        if not self._late_ns:
            self._pause_s = PAUSE_S_MIN
            self._thread_until = 0.0
        elif self._late_ns > LATE_NS_MAX:
            # Half of it: on a machine whose cores are busy, one late wake-up must not be a slow disk again.
            self._late_ns = LATE_NS_MAX // 2
            self._thread_until = self._loop.time() + self._pause_s
            self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _after_sync(self) -> None:
        """Called by the disk thread."""
        self._loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._state.hear()
        if self._woken:  # Before the writers: consumers have waited for longer.
            self._run_woken()
        waiting, self._durable = self._durable, []
        still: list[tuple[Durable, LoopOperation]] = []
        for wanted, operation in waiting:
            if wanted.log.durable >= wanted.written:
                operation.resume(None)
            elif wanted.log.failed is not None:
                operation.resume(wanted.log.failed)
            else:
                still.append((wanted, operation))
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
                await Awaited(self, job).run()
            except PenstockError as error:
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
            await Awaited(self, self._core.tick()).run()
            await self._run_jobs()
        except PenstockError as error:
            self._core.storage.retry_later(error)

    async def close(self, timeout_ms: int | None, *, bounded: bool = False) -> None:
        """Let running calls finish, up to the deadline; then release, write down, close.

        ``bounded``: the deadline is for all of it.  Half of the time is for running calls, and what is not on
        the disk at the end is left to the recovery of the next start.
        """
        if self._closing:
            return
        loop = asyncio.get_running_loop()
        limit_s = (self._state.config.close_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = loop.time() + limit_s
        wait_s = limit_s / 4 if bounded else limit_s  # There are two waits.
        self._closing = True
        self._state.closed = True
        self._state.wake_all()
        if self._active:
            try:
                await asyncio.wait_for(self._idle.wait(), wait_s)
            except TimeoutError:
                logger.warning("closing with %d calls unfinished", self._active)
        self._ring.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=wait_s)
        steps = self._core.close(max(round(1000 * (deadline - loop.time())), 0) if bounded else None)
        try:
            for _ in steps:
                await asyncio.sleep(0)
        finally:
            exhaust(steps)  # The rest, if it was cancelled.
