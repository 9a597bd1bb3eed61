"""Settles the message of a finished call: logs the outcome and acks, nacks or rejects it.

    failed, rejected ──> nack, reject, at once
    done ──> waits for the ack that is on its way ──> acked together with all that were done meanwhile

So a slow disk costs one sync for many acks, and a call need not wait for the
ack of the one before it.  A broker that cannot take an answer now is asked
again; an answer that comes too late is said in the log, and that is all that
can be done about it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.model.message import AsyncReceivedMessage
from penstock.workers.functions import WorkerFunction
from penstock.workers.outcome import Done, Failed, Outcome, Rejected, Retry
from penstock.workers.source import Pauses

if TYPE_CHECKING:
    from penstock.api.aio_handles import AsyncConsumer

logger = logging.getLogger("penstock.workers")


class FunctionCall:
    __slots__ = ("consumer", "message", "started_ms", "task")

    def __init__(self, consumer: "AsyncConsumer", message: AsyncReceivedMessage) -> None:
        self.consumer = consumer
        self.message = message
        self.started_ms = 0  # On the loop's clock; 0 until it has begun.
        self.task: asyncio.Task[None] | None = None  # None until it has begun.

    @property
    def is_lost(self) -> bool:
        """True if all leases of the consumer have ended, such as by a restart or a seek."""
        return not self.message.settled and self.consumer.in_flight == 0


class CallSettler:
    """Settles the messages of one function's calls."""

    def __init__(self, function: WorkerFunction, heard: Callable[[], None]) -> None:
        self._function = function
        self._heard = heard  # Called when acks have arrived.
        self._done: list[FunctionCall] = []
        self._acking = 0  # Calls whose acks are on their way.
        self._wanted = asyncio.Event()

    @property
    def unacked(self) -> int:
        """Calls that have finished and are not acked yet."""
        return len(self._done) + self._acking

    async def settle(self, call: FunctionCall, outcome: Outcome) -> None:
        """Settle the message of a call; acks are sent together, shortly after."""
        self._log(call.message, outcome)
        if call.message.settled:  # The function has answered itself, or the group settles on delivery.
            return
        match outcome:
            case Done():
                self._done.append(call)
                self._wanted.set()
            case Failed(error=error, delay_ms=delay_ms):
                delay = None if delay_ms is None else delay_ms / 1000
                await self._insist(call, lambda: call.consumer.nack(call.message, delay=delay, error=error))
            case Rejected(reason=reason):
                await self._insist(call, lambda: call.consumer.reject(call.message, reason))

    async def ack_on(self) -> None:
        """Ack finished calls, again and again."""
        while True:
            await self._wanted.wait()
            await self.ack_all()

    async def ack_all(self) -> None:
        self._wanted.clear()
        done, self._done = self._done, []
        self._acking += len(done)
        try:
            for consumer in {call.consumer for call in done}:
                some = [call for call in done if call.consumer is consumer and not call.message.settled]
                if some:
                    await self._insist(some[0], lambda: consumer.ack([call.message for call in some]))  # noqa: B023
        finally:
            self._acking -= len(done)
            self._heard()

    async def _insist(self, call: FunctionCall, answer: Callable[[], Awaitable[None]]) -> None:
        pauses = Pauses()
        while True:
            try:
                return await answer()
            except PenstockError as error:
                if not error.retryable:
                    name, identity = self._function.name, call.message.id
                    return logger.warning("%s: no answer for %s: %s", name, identity, error)
            await pauses.wait()

    def _log(self, message: AsyncReceivedMessage, outcome: Outcome) -> None:
        name, attempts = self._function.name, self._function.settings.max_attempts
        match outcome:
            case Failed(error=Retry() as error):
                logger.info("%s retries %s later: %s", name, message.id, error)
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
