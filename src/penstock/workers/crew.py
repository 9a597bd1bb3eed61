"""One function at work: takes messages of its group, calls the function, gives the answers.

    receive ──> a slot ──> the function ──> ack, nack or reject ──> the slot is free
       └── as many as slots are free, never more: what waits in a busy process
           would be missing in an idle one

Three tasks beside the calls, all owned by ``run``:

    take     receives while a slot is free; opens the consumer again if it was lost
    keep     extends the leases of running calls, so that long work is not delivered twice; a connection
             does that by itself, so it is for a broker in this process
    watch    says so, loudly, if nothing moves (watch.py)

A call that takes longer than its timeout has failed: its message is nacked with
a TimeoutError.  An async function is cancelled.  A thread cannot be: it goes on,
what it returns does not count, and its slot stays taken until it has ended.

Stopping: take no more; let running calls finish, up to a deadline; cancel the
rest; close the consumer, which gives back what has no answer, at once and
without counting the attempt.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, TopicExists, TopicNotFound
from penstock.message import AsyncReceivedMessage
from penstock.workers.functions import WorkerFunction
from penstock.workers.hands import Hands, ThreadHands
from penstock.workers.message import AsyncWorkerMessage, WorkerMessage
from penstock.workers.outcome import Done, Failed, Outcome, Rejected, Retry, call_async
from penstock.workers.schedules import register
from penstock.workers.watch import Progress, Sparingly, Watch

if TYPE_CHECKING:
    from penstock.api.aio import AsyncBroker
    from penstock.api.aio_handles import AsyncConsumer

logger = logging.getLogger("penstock.workers")

RECEIVE_WAIT: Final = 3600  # Seconds; then it asks again.  A stop does not wait for it.
SETTLED_FIRST_WAIT: Final = (
    1  # At most once, a receive that is cut off would lose what it took: a stop waits.
)
KEEPS: Final = 3  # Extensions in a visibility timeout: two may be lost on the way.
LOOKS: Final = 4  # Looks of the watch in the time it is patient for.
PAUSE_FIRST: Final = 0.1  # Seconds between attempts to reach a broker that cannot be reached ...
PAUSE_MAX: Final = 5.0  # ... doubled up to this: a server that restarts is found again soon.
SAY_AGAIN_MS: Final = 10_000  # A broker that stays away is reported after this, then less and less often.


class Call:
    """One message at work."""

    __slots__ = ("consumer", "message", "started_ms", "task")

    def __init__(self, consumer: "AsyncConsumer", message: AsyncReceivedMessage, started_ms: int) -> None:
        self.consumer = consumer
        self.message = message
        self.started_ms = started_ms
        self.task: asyncio.Task[None] | None = None


class Crew:
    """All calls of one function in this process."""

    def __init__(
        self,
        function: WorkerFunction,
        broker: "AsyncBroker",
        *,
        consumer_id: str | None = None,
        stop_timeout_ms: int = 30_000,
        patience_ms: int = 60_000,
        keeps_leases: bool = True,
        hands: Hands | None = None,
    ) -> None:
        self._function = function
        self._broker = broker
        self._consumer_id = consumer_id
        self._stop_timeout_ms = stop_timeout_ms
        self._patience_ms = patience_ms
        self._keeps_leases = keeps_leases
        self._hands = hands or ThreadHands(function.name, function.concurrency)
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()  # A slot has become free.
        self._calls: asyncio.TaskGroup
        self._consumer: AsyncConsumer | None = None
        self._unreachable = Sparingly(SAY_AGAIN_MS)
        self.running: set[Call] = set()
        self.taken = 0
        self.finished = 0

    def stop(self) -> None:
        """Take no more messages; ``run`` returns when the running calls are finished or out of time."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until told to stop; cancelled, or with an error, it gives everything back at once."""
        try:
            async with asyncio.TaskGroup() as self._calls:
                take = self._calls.create_task(self._take())
                beside = [self._calls.create_task(self._watch())]
                if self._keeps_leases:
                    beside.append(self._calls.create_task(self._keep()))
                await self._stopping.wait()
                await self._stop_taking(take)
                await self._finish_calls()
                for task in beside:
                    task.cancel()
        finally:
            self._hands.close()
            await self._close_consumer()

    async def drain(self) -> int:
        """Work on everything that can be delivered now, one message after the other; returns how many."""
        count = 0
        consumer = await self._open()
        try:
            async with asyncio.TaskGroup() as self._calls:
                while messages := await consumer.receive(1):
                    for message in messages:
                        await self._work_on(self._new_call(consumer, message))
                        count += 1
        finally:
            await self._close_consumer()
        return count

    def progress(self) -> Progress:
        """Where this worker is."""
        now_ms = self._now_ms()
        oldest = min(self.running, key=lambda call: call.started_ms, default=None)
        return Progress(
            taken=self.taken,
            finished=self.finished,
            running=len(self.running),
            slots=self._function.concurrency,
            oldest_ms=0 if oldest is None else now_ms - oldest.started_ms,
            oldest_id="" if oldest is None else oldest.message.id,
        )

    @staticmethod
    def _now_ms() -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    # Taking.

    async def _take(self) -> None:
        consumer = await self._open()
        pause = PAUSE_FIRST
        while not self._stopping.is_set():
            taken = self.taken
            try:
                await self._take_from(consumer)
            except PenstockError as error:
                pause = PAUSE_FIRST if self.taken > taken else min(pause * 2, PAUSE_MAX)
                self._say_unreachable(error)
                await asyncio.sleep(pause)
                if not error.retryable:  # Closed, or its group is gone; what it held, it holds no longer.
                    await self._close_consumer()
                    consumer = await self._open()

    async def _take_from(self, consumer: "AsyncConsumer") -> None:
        at_most_once = self._function.settings.delivery == "at-most-once"
        wait = SETTLED_FIRST_WAIT if at_most_once else RECEIVE_WAIT
        while not self._stopping.is_set():
            free = self._function.concurrency - len(self.running)
            if free <= 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            for message in await consumer.receive(free, wait=wait):
                call = self._new_call(consumer, message)
                call.task = self._calls.create_task(self._work_on(call))
            self._unreachable.reset()

    def _new_call(self, consumer: "AsyncConsumer", message: AsyncReceivedMessage) -> Call:
        call = Call(consumer, message, self._now_ms())
        self.running.add(call)
        self.taken += 1
        return call

    async def _open(self) -> "AsyncConsumer":
        """The consumer, its topic and its schedule; tries until the broker can be reached."""
        pause = PAUSE_FIRST
        while True:
            try:
                self._consumer = await self._open_once()
            except PenstockError as error:
                if not error.retryable and not isinstance(error, TopicNotFound):
                    raise
                self._say_unreachable(error)
            else:
                return self._consumer
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)

    async def _open_once(self) -> "AsyncConsumer":
        function = self._function
        if function.recurring is not None:
            await register(self._broker, function, function.recurring)
        try:
            return await self._consumer_of()
        except TopicNotFound:
            await self._create_topic()
            return await self._consumer_of()

    async def _consumer_of(self) -> "AsyncConsumer":
        function = self._function
        return await self._broker.consumer(
            function.topic,
            group=function.group,
            consumer_id=self._consumer_id,
            max_in_flight=function.concurrency,
            **function.options,
        )

    async def _create_topic(self) -> None:
        """A worker may be there before its producer; a misspelt name is seen in the log."""
        topic = self._function.topic
        try:
            await self._broker.create_topic(topic)
        except TopicExists:
            return
        logger.warning("%s: there was no topic %r, so it was created", self._function.name, topic)

    async def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            await consumer.close()
        except PenstockError as error:  # What it holds comes back by its visibility timeout.
            logger.warning("%s: could not give back what it held: %s", self._function.name, error)

    def _say_unreachable(self, error: PenstockError) -> None:
        if self._unreachable.may_say(self._now_ms()):
            logger.warning("%s cannot take messages, and tries again: %s", self._function.name, error)

    # Working.

    async def _work_on(self, call: Call) -> None:
        try:
            if self._function.timeout_ms is None:
                await self._settle(call, await self._call(call))
            else:
                await self._work_in_time(call, self._function.timeout_ms)
        finally:
            self.running.discard(call)
            self.finished += 1
            self._changed.set()

    async def _call(self, call: Call) -> Outcome:
        function = self._function
        if function.is_async:
            message = AsyncWorkerMessage(call.message, call.consumer)
            return await call_async(function.function, (message,) if function.takes_message else ())
        plain = WorkerMessage(call.message, self._hands.answers(call.consumer))
        return await self._hands.call(function.function, (plain,) if function.takes_message else ())

    async def _work_in_time(self, call: Call, timeout_ms: int) -> None:
        work = self._calls.create_task(self._call(call))
        try:
            done, _ = await asyncio.wait({work}, timeout=timeout_ms / 1000)
            if done:
                await self._settle(call, work.result())
                return
            error = TimeoutError(f"{self._function.name} did not finish within {timeout_ms / 1000:g} s")
            if self._function.is_async:
                work.cancel()
            await self._settle(call, Failed(error))
            await asyncio.wait({work})  # Its slot is taken until it has really ended.
        finally:
            work.cancel()

    async def _settle(self, call: Call, outcome: Outcome) -> None:
        """Give the answer; a broker that cannot take it now is asked again."""
        self._log(call.message, outcome)
        if call.message.settled:  # The function has answered itself, or the group settles on delivery.
            return
        pause = PAUSE_FIRST
        while True:
            try:
                await _answer(call, outcome)
            except PenstockError as error:
                if not error.retryable:
                    logger.warning("%s: no answer for %s: %s", self._function.name, call.message.id, error)
                    return
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)

    def _log(self, message: AsyncReceivedMessage, outcome: Outcome) -> None:
        name, attempts = self._function.name, self._function.settings.max_attempts
        match outcome:
            case Failed(error=Retry() as error):
                logger.info("%s puts %s off: %s", name, message.id, error)
            case Failed(error=error):
                trace = error.__traceback__ and error.__traceback__.tb_next  # Without our own line.
                logger.error(
                    "%s failed on %s, attempt %d of %d: %s: %s",
                    name, message.id, message.attempt, attempts, type(error).__name__, error,
                    exc_info=error.with_traceback(trace) if trace else None,
                )  # fmt: skip
            case Rejected(reason=reason):
                logger.warning("%s rejects %s: %s", name, message.id, reason)
            case Done():
                logger.debug("%s did %s", name, message.id)

    # Beside the work.

    async def _keep(self) -> None:
        """Extend the leases of what runs; one extension is for all messages of a lease."""
        visibility_ms = self._function.settings.visibility_timeout_ms
        while True:
            await asyncio.sleep(visibility_ms / 1000 / KEEPS)
            held = {
                (id(call.consumer), call.message.delivery.partition, call.message.delivery.lease): call
                for call in self.running
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
        function, watch = self._function, Watch(self._function.name, self._patience_ms)
        while True:
            await asyncio.sleep(self._patience_ms / 1000 / LOOKS)
            if not watch.is_quiet(self._now_ms(), self.progress()):
                continue
            try:
                info = await self._broker.describe_group(function.topic, function.group)
            except PenstockError as error:
                logger.debug("%s: no word of its group: %s", function.name, error)
                continue
            waiting = info.lag - info.in_flight - info.waiting_retry
            line = watch.look(self._now_ms(), self.progress(), waiting)
            if line is not None:
                logger.warning("%s", line)

    # Stopping.

    async def _stop_taking(self, take: "asyncio.Task[None]") -> None:
        if self._function.settings.delivery == "at-most-once":
            await asyncio.wait({take}, timeout=2 * SETTLED_FIRST_WAIT)
        take.cancel()
        await asyncio.wait({take})

    async def _finish_calls(self) -> None:
        tasks = {call.task for call in self.running if call.task is not None}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._stop_timeout_ms / 1000)
        for task in late:
            task.cancel()
        if late:
            seconds = self._stop_timeout_ms / 1000
            logger.warning(
                "%s: %d calls did not finish within %g s and are given back",
                self._function.name,
                len(late),
                seconds,
            )


async def _answer(call: Call, outcome: Outcome) -> None:
    consumer, message = call.consumer, call.message
    match outcome:
        case Done():
            await consumer.ack(message)
        case Failed(error=error, delay_ms=delay_ms):
            delay = None if delay_ms is None else delay_ms / 1000
            await consumer.nack(message, delay=delay, error=error)
        case Rejected(reason=reason):
            await consumer.reject(message, reason)
