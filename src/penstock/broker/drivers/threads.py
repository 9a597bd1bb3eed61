"""Operations in threads: the caller's thread blocks where its operation waits.

For durability it may itself do the sync for everyone (``log/commit.py``), so one publisher pays one fdatasync
and no hand-over.  One more thread, the timekeeper, does what is due.
"""

import threading
from typing import Any, TypeVar

from penstock.broker.core import Core
from penstock.broker.drivers.interpreter import Driver, Operation
from penstock.broker.steps import Arrival, Aside, Durable, GiveWay, Step, Steps, exhaust
from penstock.errors import Closed, PenstockError

T = TypeVar("T")


class Blocking(Operation):
    """An operation whose thread blocks where it waits, without the lock (``ThreadDriver._block``)."""

    __slots__ = ("event", "wanted")

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self.ended = False
        self.wanted: Step = GIVE_WAY
        self.event: threading.Event | None = None  # Set when something happens where it waits.

    def wait(self, wanted: Step) -> None:
        self.wanted = wanted
        if isinstance(wanted, Arrival):  # Registered under the lock: no arrival after this is missed.
            self.event = threading.Event()
            wanted.topic.waiters[self] = None

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()


GIVE_WAY = GiveWay()


class ThreadDriver(Driver):
    """Runs operations in the callers' threads."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)  # Notified when a call ends.
        self._ring = threading.Event()
        self._timekeeper = threading.Thread(target=self._keep_time, name="penstock-timekeeper", daemon=True)

    def open(self) -> None:
        """Recover the broker and start keeping time."""
        exhaust(self._core.open())
        self._state.commit.listeners.append(self._after_sync)
        self._state.alarms.on_earlier = self._ring.set
        self._run_jobs()
        self._timekeeper.start()

    def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end, waiting where it waits."""
        operation = Blocking(steps)
        with self._lock:
            if self._closing or self._state.closed:
                raise Closed(what="broker")
            operation.advance()
            if not operation.ended:
                self._active += 1
        if not operation.ended:
            self._finish(operation)
        elif self._state.jobs:
            self._run_jobs()
        if operation.error is not None:
            operation.raise_error()
        result: T = operation.result
        return result

    def _finish(self, operation: Blocking) -> None:
        """Run an operation that waits to its end."""
        try:
            self._drive(operation)
        except BaseException:
            with self._lock:
                operation.close()  # What it was about to wait for has failed: it gives back what it holds.
            raise
        finally:
            if self._state.jobs:
                self._run_jobs()
            with self._lock:
                operation.close()  # It may have been interrupted.
                self._active -= 1
                if self._closing:
                    self._idle.notify_all()

    def _drive(self, operation: Blocking) -> None:
        while not operation.ended:
            self._block(operation)
            with self._lock:
                operation.advance()

    def _block(self, operation: Blocking) -> None:
        """Block until the wait is over; raise the error if it has failed."""
        wanted = operation.wanted
        if isinstance(wanted, Durable):
            self._state.commit.wait(wanted.log, wanted.written)
        elif isinstance(wanted, Aside):
            wanted.result = wanted.function()
        elif isinstance(wanted, Arrival):
            assert operation.event is not None
            self._until(operation.event, wanted.until_ms)
            with self._lock:
                wanted.topic.waiters.pop(operation, None)

    def _until(self, event: threading.Event, until_ms: int) -> None:
        """Block until the event is set, at most until that time of the steady clock."""
        if not self._closing:
            event.wait(max(until_ms - self._state.clock.steady_ms(), 0) / 1000)

    def _run_jobs(self) -> None:
        while True:
            with self._lock:
                if not self._state.jobs:
                    return
                job = Blocking(self._state.jobs.popleft())
            try:
                self._drive(job)
                job.raise_error()
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
            tick = Blocking(self._core.tick())
            self._drive(tick)
            tick.raise_error()
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
            self._state.closed = True  # Operations that wait for messages end with Closed.
            self._state.wake_all()
            self._idle.wait_for(lambda: self._active == 0, timeout_ms / 1000)
        self._ring.set()
        if self._timekeeper.is_alive() and threading.current_thread() is not self._timekeeper:
            self._timekeeper.join(timeout_ms / 1000)
        self._state.commit.close()  # Without the lock, which its thread may be waiting for (_after_sync).
        with self._lock:
            exhaust(self._core.close())
