"""Running the broker's steps: in threads, on an event loop, or in virtual time.

Every operation is a generator that runs under one lock and yields what it
waits for (``steps.py``).  The drivers differ only in how they wait:

    ThreadDriver     the caller's thread blocks; for durability it may itself do the sync for
                     everyone (log/commit.py), so one publisher pays one fdatasync and no hand-over.
                     One more thread, the timekeeper, does what is due.
    LoopDriver       futures on an asyncio loop; the disk thread syncs, one round for all who wait.
    VirtualDriver    nobody waits: the clock moves to the next thing that is due (testing).

Work that must be finished whatever its caller does (burying a dead letter,
publishing an outbox) is in ``state.jobs``.  It is run before the call that
caused it returns; in a loop, by a task of the driver, so that cancelling the
caller does not stop it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.broker.core import Core
from penstock.broker.steps import Arrival, Durable, Step, Steps
from penstock.errors import Closed, PenstockError

T = TypeVar("T")

logger = logging.getLogger("penstock")

TICKS_MAX = 10_000  # At one moment of virtual time: what stays due (a full disk) must not stop the clock.
TURNS = 10  # Of the loop, for a woken task and those that await it to come to their next wait.


class MovableClock(Protocol):
    """A clock that stands still until it is moved."""

    def wall_ms(self) -> int: ...

    def steady_ms(self) -> int: ...

    def move_to(self, now_ms: int) -> None: ...


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
        try:
            with self._lock:
                self._check_open()
                wanted = next(steps)
                waiter = self._register(wanted)
                self._active += 1
        except StopIteration as end:  # It had nothing to wait for.
            if self._state.jobs:
                self._run_jobs()
            result: T = end.value
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

    def _register(self, wanted: Step) -> "_Waiter | None":
        """Under the lock: make sure that no arrival after this is missed."""
        if not isinstance(wanted, Arrival):
            return None
        waiter = _Waiter()
        wanted.topic.waiters.add(waiter)
        return waiter

    def _wait(self, wanted: Step, waiter: "_Waiter | None") -> None:
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
        with self._lock:
            self._core.close()


class _Waiter:
    """Wakes one waiting thread."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def wake(self) -> None:
        self.event.set()


class VirtualDriver(ThreadDriver):
    """Runs steps in virtual time: a wait moves the clock to the next thing that is due."""

    def __init__(self, core: Core, clock: MovableClock) -> None:
        super().__init__(core)
        self._clock = clock

    def open(self) -> None:
        """Recover the broker; time is kept by whoever moves the clock."""
        self._core.open()
        self._state.commit.listeners.append(self._after_sync)
        self._run_jobs()

    def _wait(self, wanted: Step, waiter: "_Waiter | None") -> None:
        if not isinstance(wanted, Arrival):
            super()._wait(wanted, waiter)
            return
        assert waiter is not None
        while not waiter.event.is_set() and self._clock.steady_ms() < wanted.until_ms:
            self._step_to(wanted.until_ms)

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward and do, in order, everything that becomes due on the way."""
        until_ms = self._clock.steady_ms() + duration_ms
        while self._clock.steady_ms() < until_ms:
            self._step_to(until_ms)
        self._tick()
        for _ in range(TICKS_MAX):
            if not self._is_due():
                return
            self._tick()

    def _is_due(self) -> bool:
        with self._lock:
            return 0 <= self._state.alarms.next_ms() <= self._clock.steady_ms()

    def _step_to(self, until_ms: int) -> None:
        with self._lock:
            due_ms = self._state.alarms.next_ms()
            now_ms = self._clock.steady_ms()
            self._clock.move_to(until_ms if due_ms < 0 else min(max(due_ms, now_ms), until_ms))
        self._tick()
        with self._lock:
            # What is due at this very moment and stays due (a full disk) must not stop the clock.
            if 0 <= self._state.alarms.next_ms() <= now_ms == self._clock.steady_ms():
                self._clock.move_to(now_ms + 1)


class LoopDriver:
    """Runs steps on the event loop it was opened on."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._state = core.state
        self._durable: list[tuple[Durable, asyncio.Future[None]]] = []
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
                await self._until_durable(wanted)
            elif isinstance(wanted, Arrival):
                await self._until_arrival(wanted)
            else:
                await asyncio.sleep(0)

    async def _until_durable(self, wanted: Durable) -> None:
        if wanted.log.durable >= wanted.written:
            return
        if wanted.log.failed is not None:
            raise wanted.log.failed
        future: asyncio.Future[None] = self._loop.create_future()
        self._durable.append((wanted, future))
        self._state.commit.mark(wanted.log)  # Whoever wrote may have left that to whoever waits.
        self._state.commit.kick()
        await future

    async def _until_arrival(self, wanted: Arrival) -> None:
        waiter = _LoopWaiter(self._loop.create_future())
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


class VirtualLoopDriver(LoopDriver):
    """Runs steps on an event loop in virtual time, which moves only when a test says so."""

    def __init__(self, core: Core, clock: MovableClock) -> None:
        super().__init__(core)
        self._clock = clock
        self._sleepers: list[tuple[int, _LoopWaiter]] = []

    async def open(self) -> None:
        """Recover the broker; time is kept by whoever moves the clock."""
        self._loop = asyncio.get_running_loop()
        self._core.open()
        self._state.commit.listeners.append(self._state.hear)
        await self._run_jobs()

    async def _until_durable(self, wanted: Durable) -> None:
        self._state.commit.wait(
            wanted.log, wanted.written
        )  # In place: a disk thread would have its own time.

    async def _until_arrival(self, wanted: Arrival) -> None:
        waiter = _LoopWaiter(self._loop.create_future())
        wanted.topic.waiters.add(waiter)
        sleeper = (wanted.until_ms, waiter)
        self._sleepers.append(sleeper)
        try:
            await waiter.future
        finally:
            self._sleepers.remove(sleeper)
            wanted.topic.waiters.discard(waiter)

    async def advance(self, duration_ms: int) -> None:
        """Move the clock forward, stopping wherever something is due or somebody has waited long enough."""
        until_ms = self._clock.steady_ms() + duration_ms
        ticks = 0
        while True:
            now_ms = self._clock.steady_ms()
            if ticks >= TICKS_MAX:
                now_ms = min(now_ms + 1, until_ms)
            due = [until_ms, self._state.alarms.next_ms(), *(due_ms for due_ms, _ in self._sleepers)]
            due_ms = min(max(due_ms, now_ms) for due_ms in due if due_ms >= 0)
            ticks = ticks + 1 if due_ms == self._clock.steady_ms() else 0
            self._clock.move_to(due_ms)
            await self._tick()
            await self._wake_sleepers()
            if due_ms >= until_ms and (ticks >= TICKS_MAX or not 0 <= self._state.alarms.next_ms() <= due_ms):
                return

    async def _wake_sleepers(self) -> None:
        for due_ms, waiter in list(self._sleepers):
            if due_ms <= self._clock.steady_ms():
                waiter.wake()
        for _ in range(TURNS):  # Those who were woken run before time goes on.
            await asyncio.sleep(0)


class _LoopWaiter:
    """Wakes one waiting task of the loop."""

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)
