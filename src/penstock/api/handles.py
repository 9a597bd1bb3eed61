# Generated from its asyncio version by `make generate`; change it there.
"""Consumers and producers of a broker, for programs with threads."""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.api.operations import ConsumerOperations, Driver, ProducerOperations
from penstock.errors import Closed
from penstock.model.message import Message, Receipt, ReceivedMessage
from penstock.types import Duration, duration_ms

ITERATION_WAIT_MS = 3_600_000  # A consumer in a for loop waits this long at a time, and then again.


class Consumer:
    """Takes messages of one group; use it with ``with``, or call ``close``."""

    def __init__(self, operations: ConsumerOperations, driver: Driver) -> None:
        self._operations = operations
        self._driver = driver
        operations.settler = self

    @property
    def operations(self) -> ConsumerOperations:
        """The operations behind it; for front ends."""
        return self._operations

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

    def receive(self, max_messages: int = 1, wait: Duration = 0) -> list[ReceivedMessage]:
        """Up to ``max_messages``, as soon as there is one; an empty list after ``wait``."""
        wait_ms = duration_ms("wait", wait) if wait else 0
        return self._driver.run(self._operations.receive(max_messages, wait_ms))

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """One message after the other, for ever; ends when the consumer or the broker is closed."""
        while True:
            try:
                messages = self._driver.run(self._operations.receive(1, ITERATION_WAIT_MS))
            except Closed:
                return
            yield from messages

    def ack(
        self,
        messages: ReceivedMessage | list[ReceivedMessage],
        *,
        publish: Iterable[tuple[str, Message]] = (),
    ) -> None:
        """The work is done.  Messages to ``publish`` (topic, message) go out if and only if this ack holds.

        For a stream group: commits up to and including these messages.
        """
        some: list[Any] = messages if isinstance(messages, list) else [messages]
        if not some:
            return
        self._driver.run(self._operations.ack(some, list(publish)))

    def nack(
        self,
        message: ReceivedMessage,
        *,
        delay: Duration | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """The work failed; deliver again after ``delay``, or after the group's backoff."""
        self._driver.run(self._operations.nack(message, delay, error))

    def reject(self, message: ReceivedMessage, reason: str) -> None:
        """The message is no good; straight to the dead letters."""
        self._driver.run(self._operations.reject(message, reason))

    def extend(self, message: ReceivedMessage, duration: Duration) -> None:
        """Keep the message, and the others of its lease, for this long from now."""
        self._driver.run(self._operations.extend(message, duration))

    def commit(self) -> None:
        """Stream groups: everything received so far is done."""
        self._driver.run(self._operations.commit())

    def close(self) -> None:
        """Give back at once what was not answered."""
        if not self._operations.closed:
            self._driver.run(self._operations.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Producer:
    """Publishes under numbers, so that a repeat after an unknown outcome is written once."""

    def __init__(self, operations: ProducerOperations, driver: Driver) -> None:
        self._operations = operations
        self._driver = driver

    @property
    def producer_id(self) -> int:
        """The id that no other producer of this data directory has."""
        return self._operations.producer_id

    def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Publish one message; call again with the same arguments if the outcome is unknown."""
        message = Message(value, key, headers, partition=partition)
        return self._driver.run(self._operations.publish(topic, message))
