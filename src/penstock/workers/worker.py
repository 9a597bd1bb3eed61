"""Runs one function: receives messages of its group, calls the function, acks or nacks them.

    receive ──> ready ──> running, up to ``concurrency`` ──> nacked, rejected
                                                        └──> done ──> acked

Tasks beside the calls, all owned by ``run``:

    take     receives while there is room; opens the consumer again if it was lost
    ack      acks what is done (settling.py)
    watch    logs a warning if nothing moves (stalls.py)
    keep     extends the leases of what is held, so that long work is not delivered twice; a connection
             does that by itself, so it is for a broker in this process

A message is taken when a call is free for it.  Only a function that is quick
has some more at hand, so that it need not wait for the next receive: what it
works off in ``AHEAD_S``, and never more than ``AHEAD_MAX`` for each call.  So
nothing waits for long in a busy process that an idle one could do.

A call that takes longer than its timeout has failed: its message is nacked with
a TimeoutError.  An async function is cancelled.  A thread cannot be: it goes on,
what it returns does not count, and its slot stays taken until it has ended.

Stopping: take no more; let running calls finish, up to a deadline; cancel the
rest; close the consumer, which gives back what has no answer, at once and
without counting the attempt.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.workers.executors import Executor, ThreadExecutor
from penstock.workers.functions import WorkerFunction
from penstock.workers.message import AsyncWorkerMessage, WorkerMessage
from penstock.workers.outcome import Failed, Outcome, call_async, error_of
from penstock.workers.settling import CallSettler, FunctionCall
from penstock.workers.source import MessageSource, Pauses
from penstock.workers.stalls import CallProgress, StallDetector

if TYPE_CHECKING:
    from penstock.api.aio import AsyncBroker
    from penstock.api.aio_handles import AsyncConsumer

logger = logging.getLogger("penstock.workers")

RECEIVE_WAIT: Final = 3600  # Seconds; then it asks again.  A stop does not wait for it.
# Where a message is settled as it is taken, a receive that is cut off would lose it: a stop waits for it.
SETTLED_FIRST_WAIT: Final = 1
AHEAD_S: Final = 0.05  # Longer than a receive takes, shorter than anyone minds that a message waits.
AHEAD_MAX: Final = 4  # Messages at hand for each call: what may be held up if they are slow all of a sudden.
WEIGHT: Final = 0.2  # Of the last call in the mean duration: five slow ones in a row are noticed.
KEEPS: Final = 3  # Extensions in a visibility timeout: two may be lost on the way.
LOOKS: Final = 4  # Checks for a stall within ``stall_warning_ms``.


class Worker:
    """All calls of one function in this process."""

    def __init__(
        self,
        function: WorkerFunction,
        broker: "AsyncBroker",
        *,
        consumer_id: str | None = None,
        stop_timeout_ms: int = 30_000,
        stall_warning_ms: int = 60_000,
        keeps_leases: bool = True,
        executor: Executor | None = None,
    ) -> None:
        self._function = function
        self._source = MessageSource(function, broker, consumer_id)
        self._settler = CallSettler(function, self._go_on)
        self._stop_timeout_ms = stop_timeout_ms
        self._stall_warning_ms = stall_warning_ms
        self._keeps_leases = keeps_leases
        self._executor = executor or ThreadExecutor(function.name, function.concurrency)
        self._stopping = asyncio.Event()
        self._opened = asyncio.Event()  # Its topic and its group exist, and it takes messages.
        self._changed = asyncio.Event()  # There may be room for more.
        self._tasks: asyncio.TaskGroup
        self._ready: deque[FunctionCall] = deque()
        self._running: set[FunctionCall] = set()
        self._mean_ms: float | None = None  # How long a call takes, about; None before the first has ended.
        self._taken = 0
        self._finished = 0

    def stop(self) -> None:
        """Receive no more messages; ``run`` returns when running calls have finished or time is up."""
        self._stopping.set()

    async def opened(self) -> None:
        """Wait until its topic and its group exist."""
        await self._opened.wait()

    async def run(self) -> None:
        """Work until stopped; if cancelled, or on an error, release all messages at once."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                take = self._tasks.create_task(self._take())
                beside = [self._tasks.create_task(work) for work in (self._settler.ack_on(), self._watch())]
                if self._keeps_leases:
                    beside.append(self._tasks.create_task(self._keep()))
                await self._stopping.wait()
                await self._stop_taking(take)
                await self._finish()
                for task in beside:
                    task.cancel()
        finally:
            self._executor.close()
            await self._source.close()

    async def drain(self) -> int:
        """Work on everything that can be delivered now, one message after the other; returns how many."""
        count = 0
        consumer = await self._source.open()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                while messages := await consumer.receive(1):
                    for message in messages:
                        call = FunctionCall(consumer, message)
                        self._running.add(call)
                        await self._work_on(call)
                        await self._settler.ack_all()
                        count += 1
        finally:
            await self._source.close()
        return count

    def progress(self) -> CallProgress:
        oldest = min(self._running, key=lambda call: call.started_ms, default=None)
        return CallProgress(
            taken=self._taken,
            finished=self._finished,
            running=len(self._running),
            slots=self._function.concurrency,
            oldest_ms=0 if oldest is None else self._now_ms() - oldest.started_ms,
            oldest_id="" if oldest is None else oldest.message.id,
        )

    @staticmethod
    def _now_ms() -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    # Taking.

    async def _take(self) -> None:
        consumer = await self._source.open()
        self._opened.set()
        pauses = Pauses()
        while not self._stopping.is_set():
            taken = self._taken
            try:
                await self._take_from(consumer)
            except PenstockError as error:
                if self._taken > taken:
                    pauses.reset()
                self._source.report(error)
                await pauses.wait()
                if not error.retryable:  # Closed, or its group is gone; what it held, it holds no longer.
                    self._ready.clear()
                    await self._source.close()
                    consumer = await self._source.open()

    async def _take_from(self, consumer: "AsyncConsumer") -> None:
        at_most_once = self._function.settings.delivery == "at-most-once"
        wait = SETTLED_FIRST_WAIT if at_most_once else RECEIVE_WAIT
        while not self._stopping.is_set():
            room = self._room(0 if at_most_once else self._ahead())
            if room == 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            messages = await consumer.receive(room, wait=wait)
            self._taken += len(messages)
            self._ready.extend(FunctionCall(consumer, message) for message in messages)
            self._source.works()
            self._go_on()

    def _ahead(self) -> int:
        """How many messages to hold in advance, beside those in progress."""
        if self._mean_ms is None:
            return 0
        calls = self._function.concurrency
        return min(AHEAD_MAX * calls, int(calls * AHEAD_S * 1000 / max(self._mean_ms, 1)))

    def _room(self, ahead: int) -> int:
        """How many messages to request; none while more than half of those held in advance are left."""
        held = len(self._ready) + len(self._running) + self._settler.unacked
        room = self._function.concurrency + ahead - held
        return room if room > ahead // 2 else 0

    def _go_on(self) -> None:
        """Start calls while there are slots; request more messages if there is room."""
        while self._ready and len(self._running) < self._function.concurrency:
            if self._stopping.is_set() and not self._ready[0].message.settled:
                break  # It is released; unless it was settled on delivery and would be lost.
            call = self._ready.popleft()
            if call.is_lost:  # It will be redelivered and would be processed twice.
                continue
            self._running.add(call)
            call.task = self._tasks.create_task(self._work_on(call))
        self._changed.set()

    # Working.

    async def _work_on(self, call: FunctionCall) -> None:
        call.started_ms = self._now_ms()
        try:
            if self._function.timeout_ms is None:
                outcome = await self._call(call)
                self._note_duration(call)
                await self._settler.settle(call, outcome)
            else:
                await self._work_in_time(call, self._function.timeout_ms)
        except asyncio.CancelledError:
            self._stopping.set()  # After a cancelled call no further one begins.
            raise
        finally:
            self._running.discard(call)
            self._finished += 1
            self._go_on()

    def _note_duration(self, call: FunctionCall) -> None:
        took_ms = self._now_ms() - call.started_ms
        mean_ms = took_ms if self._mean_ms is None else self._mean_ms
        self._mean_ms = mean_ms + WEIGHT * (took_ms - mean_ms)

    async def _call(self, call: FunctionCall) -> Outcome:
        watch = call.message.delivery.watch
        if watch is None:
            return await self._run(call)
        ended: BaseException | str | None = None
        watch.begin(call.message)
        try:
            outcome = await self._run(call)
            ended = error_of(outcome)
        except asyncio.CancelledError:
            ended = "cancelled"
            raise
        finally:
            watch.end(call.message, ended)
        return outcome

    async def _run(self, call: FunctionCall) -> Outcome:
        function = self._function
        if function.is_async:
            message = AsyncWorkerMessage(call.message, call.consumer)
            return await call_async(function.function, (message,) if function.takes_message else ())
        plain = WorkerMessage(call.message, self._executor.answers(call.consumer))
        return await self._executor.call(function.function, (plain,) if function.takes_message else ())

    async def _work_in_time(self, call: FunctionCall, timeout_ms: int) -> None:
        work = self._tasks.create_task(self._call(call))
        try:
            done, _ = await asyncio.wait({work}, timeout=timeout_ms / 1000)
            self._note_duration(call)
            if done:
                await self._settler.settle(call, work.result())
                return
            error = TimeoutError(f"{self._function.name} did not finish within {timeout_ms / 1000:g} s")
            if self._function.is_async:
                work.cancel()
            await self._settler.settle(call, Failed(error))
            await asyncio.wait({work})  # Its slot is taken until it has really ended.
        finally:
            work.cancel()

    # Beside the work.

    async def _keep(self) -> None:
        """Extend the leases of held messages; one extension is for all messages of a lease."""
        visibility_ms = self._function.settings.visibility_timeout_ms
        while True:
            await asyncio.sleep(visibility_ms / 1000 / KEEPS)
            held = {
                (id(call.consumer), call.message.delivery.partition, call.message.delivery.lease): call
                for call in (*self._ready, *self._running)
                if not call.message.settled
            }
            for call in held.values():
                if call.message.settled:  # While another one was extended.
                    continue
                try:
                    await call.consumer.extend(call.message, visibility_ms / 1000)
                except PenstockError as error:
                    logger.warning("%s: cannot keep %s: %s", self._function.name, call.message.id, error)

    async def _watch(self) -> None:
        watch = StallDetector(self._function.name, self._stall_warning_ms)
        while True:
            await asyncio.sleep(self._stall_warning_ms / 1000 / LOOKS)
            if not watch.is_quiet(self._now_ms(), self.progress()):
                continue
            try:
                info = await self._source.describe()
            except PenstockError as error:
                logger.debug("%s: no word of its group: %s", self._function.name, error)
                continue
            waiting = info.lag - info.in_flight - info.waiting_retry
            line = watch.look(self._now_ms(), self.progress(), waiting, str(info.verdict))
            if line is not None:
                logger.warning("%s", line)

    # Stopping.

    async def _stop_taking(self, take: "asyncio.Task[None]") -> None:
        if self._function.settings.delivery == "at-most-once":
            await asyncio.wait({take}, timeout=2 * SETTLED_FIRST_WAIT)
        take.cancel()
        await asyncio.wait({take})

    async def _finish(self) -> None:
        """Wait for running calls and their acks; release messages that do not finish in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._stop_timeout_ms / 1000
        tasks = {call.task for call in self._running if call.task is not None}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=deadline - loop.time())
            for task in late:
                task.cancel()
            if late:
                self._report_late(len(late))
        ack = self._tasks.create_task(self._last_acks())
        await asyncio.wait({ack}, timeout=max(deadline - loop.time(), SETTLED_FIRST_WAIT))
        ack.cancel()

    async def _last_acks(self) -> None:
        while self._settler.unacked:
            self._changed.clear()
            await self._changed.wait()

    def _report_late(self, count: int) -> None:
        logger.warning(
            "%s: %d calls did not finish within %g s and are given back",
            self._function.name, count, self._stop_timeout_ms / 1000,
        )  # fmt: skip
