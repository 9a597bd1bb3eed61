"""The consumer of a function, with the topic and the schedule that it needs.

A broker that cannot be reached is tried again, for as long as it takes; a refusal that no waiting mends
(a wrong setting, a group of another kind) is raised.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, TopicNotFound
from penstock.model.info import GroupInfo
from penstock.workers.functions import WorkerFunction
from penstock.workers.schedules import register
from penstock.workers.stalls import LogThrottle

if TYPE_CHECKING:
    from penstock.api.aio import AsyncBroker
    from penstock.api.aio_handles import AsyncConsumer

logger = logging.getLogger("penstock.workers")

PAUSE_FIRST: Final = 0.1  # Seconds between attempts to reach a broker that cannot be reached ...
PAUSE_MAX: Final = 5.0  # ... doubled up to this: a server that restarts is found again soon.
SAY_AGAIN_MS: Final = 10_000  # A broker that stays away is reported after this, then less and less often.


class Pauses:
    """Waits between attempts, each twice as long as the one before."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again with the shortest wait, after a success."""
        self._pause = PAUSE_FIRST

    async def wait(self) -> None:
        pause, self._pause = self._pause, min(self._pause * 2, PAUSE_MAX)
        await asyncio.sleep(pause)


class MessageSource:
    """The consumer of one function, opened again when it is lost."""

    def __init__(self, function: WorkerFunction, broker: "AsyncBroker", consumer_id: str | None) -> None:
        self._function = function
        self._broker = broker
        self._consumer_id = consumer_id
        self._consumer: AsyncConsumer | None = None
        self._unreachable = LogThrottle(SAY_AGAIN_MS)

    async def open(self) -> "AsyncConsumer":
        """Open the consumer, its topic and its schedule."""
        pauses = Pauses()
        while True:
            try:
                self._consumer = await self._open()
            except PenstockError as error:
                if not error.retryable and not isinstance(error, TopicNotFound):
                    raise
                self.report(error)
            else:
                return self._consumer
            await pauses.wait()

    async def close(self) -> None:
        """Close the consumer and release unsettled messages."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            await consumer.close()
        except PenstockError as error:  # Its messages are redelivered after the visibility timeout.
            logger.warning("%s: could not give back what it held: %s", self._function.name, error)

    def works(self) -> None:
        """Messages have arrived: the next failure is reported at once."""
        self._unreachable.reset()

    def report(self, error: PenstockError) -> None:
        """Log that no messages can be received, but not each time."""
        if self._unreachable.allows(round(asyncio.get_running_loop().time() * 1000)):
            logger.warning("%s cannot receive messages; trying again: %s", self._function.name, error)

    async def describe(self) -> GroupInfo:
        """The whole group, as the broker sees it."""
        return await self._broker.describe_group(self._function.topic, self._function.group)

    async def _open(self) -> "AsyncConsumer":
        function = self._function
        if function.recurring is not None:
            await register(self._broker, function, function.recurring)
        missing = await self._is_missing()
        consumer = await self._broker.consumer(
            function.topic, group=function.group, consumer_id=self._consumer_id, **function.options
        )
        if missing:  # A misspelt name is seen in the log.
            logger.warning("%s: there was no topic %r, so it was created", function.name, function.topic)
        return consumer

    async def _is_missing(self) -> bool:
        """Whether the topic is missing: a worker may start before its producer, and creates it then."""
        try:
            await self._broker.describe_topic(self._function.topic)
        except TopicNotFound:
            return True
        return False
