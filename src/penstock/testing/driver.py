"""Drivers in virtual time: a wait moves the clock to the next thing that is due.

The broker, its steps, their interpreter and its locks are the real ones (``broker/drivers``);
only waiting for a time is replaced, and there is no thread that keeps time.
"""

import asyncio
import threading

from penstock.broker.core import Core
from penstock.broker.drivers.loop import Alarm, LoopDriver, LoopOperation
from penstock.broker.drivers.threads import ThreadDriver
from penstock.broker.steps import Durable, Waiter, exhaust
from penstock.errors import PenstockError
from penstock.testing.clock import ManualClock

TURNS = 10  # Of the loop, for a woken task and those that await it to come to their next wait.


class VirtualDriver(ThreadDriver):
    """Runs steps in virtual time: a wait moves the clock to the next thing that is due."""

    def __init__(self, core: Core, clock: ManualClock) -> None:
        super().__init__(core)
        self._clock = clock

    def open(self) -> None:
        """Recover the broker; the test moves the clock."""
        exhaust(self._core.open())
        self._state.commit.listeners.append(self._after_sync)
        self._run_jobs()

    def _until(self, event: threading.Event, until_ms: int) -> None:
        while not event.is_set() and self._clock.steady_ms() < until_ms:
            self._step_to(until_ms)

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward and do, in order, everything that becomes due on the way."""
        until_ms = self._clock.steady_ms() + duration_ms
        self._step_to(until_ms)
        while self._clock.steady_ms() < until_ms:
            self._step_to(until_ms)

    def _step_to(self, until_ms: int) -> None:
        """Move to the next thing that is due, and do all that is due then."""
        with self._lock:
            due_ms = self._state.alarms.next_ms()
            now_ms = self._clock.steady_ms()
            now_ms = until_ms if due_ms < 0 else min(max(due_ms, now_ms), until_ms)
            self._clock.move_to(now_ms)
        self._tick()
        while 0 <= self._state.alarms.next_ms() <= now_ms:
            self._tick()


class Sleeper:
    """An operation that waits for a time, in the list of those who do."""

    def __init__(self, due_ms: int, waiter: Waiter, sleepers: "list[Sleeper]") -> None:
        self.due_ms = due_ms
        self.waiter = waiter
        self._sleepers = sleepers

    def cancel(self) -> None:
        """Stop waiting: it need not be woken any more."""
        if self in self._sleepers:
            self._sleepers.remove(self)


class VirtualLoopDriver(LoopDriver):
    """Runs steps on an event loop in virtual time, which moves only when a test says so."""

    def __init__(self, core: Core, clock: ManualClock) -> None:
        super().__init__(core)
        self._clock = clock
        self._sleepers: list[Sleeper] = []

    async def open(self) -> None:
        """Recover the broker; the test moves the clock."""
        self._loop = asyncio.get_running_loop()
        exhaust(self._core.open())
        self._state.commit.listeners.append(self._state.hear)
        await self._run_jobs()

    def when_durable(self, wanted: Durable, operation: LoopOperation) -> None:
        """Sync in place: a disk thread would not follow virtual time."""
        failed: BaseException | None = None
        try:
            self._state.commit.wait(wanted.log, wanted.written)
        except PenstockError as error:
            failed = error
        operation.resume(failed)

    def alarm(self, until_ms: int, waiter: Waiter) -> Alarm:
        """Wake ``waiter`` when the test has moved the clock that far."""
        sleeper = Sleeper(until_ms, waiter, self._sleepers)
        self._sleepers.append(sleeper)
        return sleeper

    async def advance(self, duration_ms: int) -> None:
        """Advance the clock, stopping whenever something is due or a wait times out."""
        until_ms = self._clock.steady_ms() + duration_ms
        await self._let_others_run()
        while True:
            now_ms = self._clock.steady_ms()
            due = [until_ms, self._state.alarms.next_ms(), *(sleeper.due_ms for sleeper in self._sleepers)]
            self._clock.move_to(min(max(due_ms, now_ms) for due_ms in due if due_ms >= 0))
            await self._tick()
            while 0 <= self._state.alarms.next_ms() <= self._clock.steady_ms():
                await self._tick()
            await self._wake_sleepers()
            if self._clock.steady_ms() >= until_ms:
                return

    async def _wake_sleepers(self) -> None:
        for sleeper in list(self._sleepers):
            if sleeper.due_ms <= self._clock.steady_ms():
                sleeper.waiter.wake()
        await self._let_others_run()

    async def _let_others_run(self) -> None:
        """Let new and woken operations reach their next wait before time advances."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
