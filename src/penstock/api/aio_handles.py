"""Consumers and producers of a broker, for programs on asyncio.

They hold no state that matters; closing one releases what it holds in the
broker.  ``handles.py`` is generated from this module.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from msgspec import UNSET, UnsetType

from penstock.api.operations import AsyncDriver, ConsumerOperations, ProducerOperations
from penstock.clock import stopwatch_ns
from penstock.errors import Closed, InvalidValue, PenstockError
from penstock.model.message import AsyncReceivedMessage, Message, Receipt
from penstock.types import Duration, duration_ms

TURN_MS = 20  # A consumer of several topics waits this long at the first of them, ...
LATE_MS_MAX = 500  # ... at each following one twice as long, up to this long at all the others together.
ITERATION_WAIT_MS = 3_600_000  # A consumer in a for loop waits this long at a time, and then again.


class AsyncConsumer:
    """Takes messages of one group; use it with ``with``, or call ``close``."""

    def __init__(self, operations: ConsumerOperations, driver: AsyncDriver) -> None:
        self._operations = operations
        self._driver = driver
        operations.settler = self

    @property
    def operations(self) -> ConsumerOperations:
        """The operations behind it; for front ends."""
        return self._operations

    @property
    def driver(self) -> AsyncDriver:
        """That of its broker object; for transactions."""
        return self._driver

    @property
    def consumer_id(self) -> str:
        """The consumer's name in traces and group descriptions."""
        return self._operations.identity

    @property
    def in_flight(self) -> int:
        """Messages this consumer holds and has not answered."""
        return self._operations.in_flight

    @property
    def assignment(self) -> list[int]:
        """Stream groups: the partitions this consumer works on."""
        return self._operations.assignment

    async def receive(self, max_messages: int = 1, wait: Duration = 0) -> list[AsyncReceivedMessage]:
        """Up to ``max_messages``, as soon as there is one; an empty list after ``wait``."""
        wait_ms = duration_ms("wait", wait) if wait else 0
        return await self._driver.run(self._operations.receive(max_messages, wait_ms))

    async def __aiter__(self) -> AsyncIterator[AsyncReceivedMessage]:
        """One message after the other, forever; ends when the consumer or the broker is closed."""
        while True:
            try:
                messages = await self._driver.run(self._operations.receive(1, ITERATION_WAIT_MS))
            except Closed:
                return
            for message in messages:
                yield message

    async def ack(
        self,
        messages: AsyncReceivedMessage | list[AsyncReceivedMessage],
        *,
        publish: Iterable[tuple[str, Message]] = (),
    ) -> None:
        """Mark messages as processed; messages to ``publish`` (topic, message) are published atomically.

        For a stream group: commits up to and including these messages.
        """
        some: list[Any] = messages if isinstance(messages, list) else [messages]
        if not some:
            return
        await self._driver.run(self._operations.ack(some, list(publish)))

    async def nack(
        self,
        message: AsyncReceivedMessage,
        *,
        delay: Duration | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Processing failed: deliver again after ``delay``, or after the group's backoff."""
        await self._driver.run(self._operations.nack(message, delay, error))

    async def reject(self, message: AsyncReceivedMessage, reason: str) -> None:
        """Move the message to the dead letters, without further attempts."""
        await self._driver.run(self._operations.reject(message, reason))

    async def extend(self, message: AsyncReceivedMessage, duration: Duration) -> None:
        """Keep the message, and the others of its lease, for this long from now."""
        await self._driver.run(self._operations.extend(message, duration))

    async def commit(self) -> None:
        """Stream groups: commit everything received so far."""
        await self._driver.run(self._operations.commit())

    async def close(self) -> None:
        """Give back at once what was not answered."""
        if not self._operations.closed:
            await self._driver.run(self._operations.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class AsyncTopicsConsumer:
    """Takes messages of one group of several topics, from each in turn; made by ``consumer_of_topics``.

    It has one consumer for each topic.  While all of them are empty, it waits at one after the other, longer
    each time.  A message is received at most ``LATE_MS_MAX`` late (with more than 25 topics, ``TURN_MS`` for
    each), and an idle consumer makes about two requests per second and topic.
    """

    def __init__(self, consumers: dict[str, AsyncConsumer]) -> None:
        self._consumers = consumers
        self._order = list(consumers)
        self._closed = False

    @property
    def topics(self) -> list[str]:
        """The topics it takes messages from."""
        return list(self._consumers)

    @property
    def in_flight(self) -> int:
        """Messages this consumer holds and has not answered."""
        return sum(consumer.in_flight for consumer in self._consumers.values())

    async def receive(self, max_messages: int = 1, wait: Duration = 0) -> list[AsyncReceivedMessage]:
        """Up to ``max_messages`` of one topic, as soon as there is one; an empty list after ``wait``."""
        wait_ms = duration_ms("wait", wait) if wait else 0
        began_ns = stopwatch_ns()
        for _ in self._consumers:
            found = await self._next().receive(max_messages)
            if found:
                return found
        turn_ms, waited_ms = TURN_MS, 0
        turn_max_ms = max(LATE_MS_MAX // max(len(self._order) - 1, 1), TURN_MS)
        # The turns count by the broker's clock, which a test may move, and the requests by this machine's.
        while (left_ms := wait_ms - max(waited_ms, (stopwatch_ns() - began_ns) // 1_000_000)) > 0:
            turn_ms = min(turn_ms, left_ms)
            found = await self._next().receive(max_messages, turn_ms / 1000)
            if found:
                return found
            waited_ms += turn_ms
            turn_ms = min(2 * turn_ms, turn_max_ms)
        return []

    def _next(self) -> AsyncConsumer:
        """The consumer whose turn it is."""
        self._order.append(self._order.pop(0))
        return self._consumers[self._order[-1]]

    async def __aiter__(self) -> AsyncIterator[AsyncReceivedMessage]:
        """One message after the other, forever; ends when the consumer or the broker is closed."""
        while not self._closed:
            try:
                messages = await self.receive(1, ITERATION_WAIT_MS / 1000)
            except Closed:
                return
            for message in messages:
                yield message

    async def ack(self, messages: AsyncReceivedMessage | list[AsyncReceivedMessage]) -> None:
        """Mark messages as processed.  An error of one topic is raised after the others were acked."""
        some = messages if isinstance(messages, list) else [messages]
        topics = dict.fromkeys(message.topic for message in some)
        for topic in topics:
            if topic not in self._consumers:
                raise InvalidValue(name="messages", value=topic, why="this consumer is not of that topic")
        failed: PenstockError | None = None
        for topic in topics:
            try:
                await self._consumers[topic].ack([message for message in some if message.topic == topic])
            except PenstockError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def close(self) -> None:
        """Give back at once what was not answered."""
        self._closed = True
        for consumer in self._consumers.values():
            await consumer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class AsyncProducer:
    """Publishes with sequence numbers, so that a retry after an unknown outcome is written once."""

    def __init__(self, operations: ProducerOperations, driver: AsyncDriver) -> None:
        self._operations = operations
        self._driver = driver

    @property
    def producer_id(self) -> int:
        """The id that no other producer of this data directory has."""
        return self._operations.producer_id

    async def publish(
        self,
        topic: str,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Publish one message; call again with the same arguments if the outcome is unknown."""
        message = Message(value, key, headers, partition=partition, json=json, text=text)
        return await self._driver.run(self._operations.publish(topic, message))
