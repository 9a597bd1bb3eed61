"""The argument of a worker's function: a message with its position and the methods that settle it.

    Message
    └── HeldMessage               value, key, headers ...; topic, offset, id, attempt, settled
        ├── WorkerMessage         for plain functions: ack(), nack(), reject(), extend() block
        └── AsyncWorkerMessage    for async functions: the same, to be awaited

A function may be annotated with ``penstock.Message``, which is enough for the
value, the key and the headers, or with the class it really gets.  Most never
answer themselves: returning acks, raising nacks (``outcome.py``).
"""

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from penstock.model.message import Delivered, Message, RawHeaders
from penstock.types import Duration

Outputs = Iterable[tuple[str, Message]]


class SettleActions(Protocol):
    """The part of the consumer that a message needs to be settled."""

    def ack(self, messages: Any, *, publish: Outputs = ()) -> Any: ...

    def nack(
        self, message: Any, *, delay: Duration | None = None, error: BaseException | str | None = None
    ) -> Any: ...

    def reject(self, message: Any, reason: str) -> Any: ...

    def extend(self, message: Any, duration: Duration) -> Any: ...


class HeldMessage(Message):
    """A message that is being processed, without the methods that settle it."""

    # As they are in a message that came from a broker; one to publish may have others.
    value: bytes
    key: bytes | None
    headers: dict[str, str]
    priority: str
    partition: int

    def __init__(self, delivered: Delivered, answers: SettleActions) -> None:
        super().__init__(
            delivered.value,
            delivered.key,
            delivered.headers,
            delivered.priority,
            partition=delivered.partition,
        )
        self._delivered = delivered
        self._answers = answers

    @property
    def topic(self) -> str:
        """The topic it came from."""
        return self._delivered.topic

    @property
    def group(self) -> str:
        """The group that it was delivered to."""
        return self._delivered.group

    @property
    def offset(self) -> int:
        """The message's position in its partition."""
        return self._delivered.offset

    @property
    def id(self) -> str:
        """``topic:partition:offset``, which is what ``trace`` takes."""
        return self._delivered.id

    @property
    def attempt(self) -> int:
        """1 for the first delivery; rises with every redelivery."""
        return self._delivered.attempt

    @property
    def timestamp(self) -> int:
        """When it was appended to the log, in milliseconds since 1970."""
        return self._delivered.timestamp

    @property
    def published_at(self) -> datetime:
        """The timestamp as a datetime in UTC."""
        return datetime.fromtimestamp(self._delivered.timestamp / 1000, UTC)

    @property
    def is_tombstone(self) -> bool:
        """True for a message that deletes its key in a compacted topic."""
        return self._delivered.is_tombstone

    @property
    def raw_headers(self) -> RawHeaders:
        """The headers as stored, in order, with repeats."""
        return self._delivered.raw_headers

    @property
    def settled(self) -> bool:
        """True once this delivery was acked, nacked or rejected; its function may still be running."""
        return self._delivered.settled

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.id} attempt={self.attempt} key={self.key!r} "
            f"{len(self.value)} bytes>"
        )


class WorkerMessage(HeldMessage):
    """A message passed to a plain function; its methods return when the broker has confirmed them."""

    def ack(self, *, publish: Outputs = ()) -> None:
        """Mark the message as processed; those to ``publish`` (topic, message) are published atomically."""
        self._answers.ack(self._delivered, publish=publish)

    def nack(self, *, delay: Duration | None = None, error: BaseException | str | None = None) -> None:
        """Processing failed: deliver again after ``delay``, or after the group's backoff."""
        self._answers.nack(self._delivered, delay=delay, error=error)

    def reject(self, reason: str) -> None:
        """Move the message to the dead letters, without further attempts."""
        self._answers.reject(self._delivered, reason)

    def extend(self, duration: Duration) -> None:
        """Keep the message for this long from now; the app does so automatically while a function runs."""
        self._answers.extend(self._delivered, duration)


class AsyncWorkerMessage(HeldMessage):
    """A message passed to an async function; its methods are awaited."""

    async def ack(self, *, publish: Outputs = ()) -> None:
        """Mark the message as processed; those to ``publish`` (topic, message) are published atomically."""
        await self._answers.ack(self._delivered, publish=publish)

    async def nack(self, *, delay: Duration | None = None, error: BaseException | str | None = None) -> None:
        """Processing failed: deliver again after ``delay``, or after the group's backoff."""
        await self._answers.nack(self._delivered, delay=delay, error=error)

    async def reject(self, reason: str) -> None:
        """Move the message to the dead letters, without further attempts."""
        await self._answers.reject(self._delivered, reason)

    async def extend(self, duration: Duration) -> None:
        """Keep the message for this long from now; the app does so automatically while a function runs."""
        await self._answers.extend(self._delivered, duration)


class ThreadSettleActions:
    """Calls a consumer of the event loop from a thread, and blocks until the broker has answered."""

    def __init__(self, consumer: SettleActions, loop: asyncio.AbstractEventLoop) -> None:
        self._consumer = consumer
        self._loop = loop

    def ack(self, messages: Any, *, publish: Outputs = ()) -> None:
        self._wait(self._consumer.ack(messages, publish=publish))

    def nack(
        self, message: Any, *, delay: Duration | None = None, error: BaseException | str | None = None
    ) -> None:
        self._wait(self._consumer.nack(message, delay=delay, error=error))

    def reject(self, message: Any, reason: str) -> None:
        self._wait(self._consumer.reject(message, reason))

    def extend(self, message: Any, duration: Duration) -> None:
        self._wait(self._consumer.extend(message, duration))

    def _wait(self, answer: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(answer, self._loop).result()
