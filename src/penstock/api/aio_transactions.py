"""Transactions of programs on asyncio: messages to many topics and acks of many groups, all or nothing.

    async with broker.transaction() as transaction:
        await transaction.publish("bills", b"...")
        await transaction.ack(message)

The block commits when it ends and aborts when it raises.  Acks are kept here and sent with the commit, which
fails with ``LeaseLost`` if one of the messages was delivered again meanwhile: then nothing takes effect.
After an abort the messages are held as before, so that they can be nacked, or run out and are redelivered.

A publish that fails leaves the transaction open.  What was published is unknown then, and only an abort is
safe, so ``commit`` refuses.

``transactions.py`` is generated from this module.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from msgspec import UNSET, UnsetType

from penstock.api.operations import AsyncDriver, Operations
from penstock.errors import (
    GroupKindMismatch,
    InvalidValue,
    OutcomeUnknown,
    PenstockError,
    TransactionAborted,
    TransactionNotOpen,
)
from penstock.model.info import OpenTransaction
from penstock.model.message import (
    AsyncReceivedMessage,
    Delivered,
    LeaseRun,
    Message,
    Receipt,
    lease_runs,
    unanswer,
)
from penstock.types import Duration, Priority

IDS_KEPT = 16  # Transactional ids that a broker object uses again; more transactions at a time get new ones.


class AsyncTransaction:
    """One transaction; use it with ``with``.  It belongs to one thread or task at a time."""

    def __init__(
        self,
        operations: Operations,
        driver: AsyncDriver,
        transactional_id: str | None,
        timeout: Duration,
        ids: list[str],
    ) -> None:
        self._operations = operations
        self._driver = driver
        self._id = transactional_id
        self._timeout = timeout
        self._ids = ids  # Ids that the broker chose and that are not in use now.
        self._generated = transactional_id is None
        self._open: OpenTransaction | None = None
        self._state = "not begun"
        self._failed = False
        self._acked: list[tuple[Any, list[LeaseRun]]] = []  # By consumer.
        self._messages: list[Any] = []
        self._acks: dict[tuple[str, str], list[LeaseRun]] = {}

    @property
    def transactional_id(self) -> str | None:
        """At most one transaction of an id is open.  None before ``begin``, if it was not given."""
        return self._id

    async def begin(self) -> None:
        """Begin it; ``with`` does this."""
        if self._open is not None:
            raise TransactionNotOpen(what="another begin", state=self._state)
        if self._generated:
            with suppress(IndexError):  # None is left; other threads take from it, too.
                self._id = self._ids.pop()
        self._open = await self._driver.run(self._operations.begin_transaction(self._id, self._timeout))
        self._id = self._open.transactional_id
        self._state = "open"

    async def publish(
        self,
        topic: str,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        ttl: Duration | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Publish a message that is visible to readers after the commit, and never after an abort."""
        message = Message(value, key, headers, priority, ttl, partition=partition, json=json, text=text)
        [receipt] = await self.publish_batch(topic, [message])
        return receipt

    async def publish_batch(self, topic: str, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Publish many messages in one request; one receipt each, in their order."""
        opened = self._opened("a publish")
        batch = [each if isinstance(each, Message) else Message(each) for each in messages]
        try:
            return await self._driver.run(
                self._operations.publish_in_transaction(
                    topic, batch, opened.transactional_id, opened.producer_id, opened.epoch
                )
            )
        except BaseException:
            self._failed = True
            raise

    async def ack(self, messages: AsyncReceivedMessage | list[AsyncReceivedMessage]) -> None:
        """Ack these messages of queue groups with the commit."""
        self._opened("an ack")
        some: list[Any] = messages if isinstance(messages, list) else [messages]
        _check_messages(some, self._driver)
        by_consumer: dict[int, list[Any]] = {}
        for message in some:
            by_consumer.setdefault(id(message.delivery.settler), []).append(message)
        for of_consumer in by_consumer.values():
            settler = of_consumer[0].delivery.settler
            runs = lease_runs(of_consumer, settler)
            self._messages += of_consumer
            self._acked.append((settler, runs))
            first = of_consumer[0]
            self._acks.setdefault((first.topic, str(first.group)), []).extend(runs)

    async def commit(self) -> None:
        """Commit the transaction; ``with`` does this at the end of its block.

        Returns when every reader can see all of it.
        """
        opened = self._opened("its commit")
        name, producer_id, epoch = opened.transactional_id, opened.producer_id, opened.epoch
        if self._failed:
            await self.abort()
            raise TransactionNotOpen(what="its commit after a publish that failed", state="aborted")
        try:
            await self._send_acks(opened)
            await self._driver.run(self._operations.commit_transaction(name, producer_id, epoch))
        except OutcomeUnknown:
            self._state = "unknown"  # The messages are settled, or the server delivers them again.
            raise
        except PenstockError as error:
            await self._abort_after(error)
            raise
        except BaseException:  # Cancelled: it is perhaps on its way.
            self._state = "unknown"
            raise
        self._end("committed")
        for settler, runs in self._acked:
            await self._driver.run(settler.operations.answered(runs))

    async def _send_acks(self, opened: OpenTransaction) -> None:
        name, producer_id, epoch = opened.transactional_id, opened.producer_id, opened.epoch
        try:
            for (topic, group), runs in self._acks.items():
                sent = [(run.partition, run.lease, run.start, run.end) for run in runs]
                await self._driver.run(
                    self._operations.ack_in_transaction(topic, group, sent, name, producer_id, epoch)
                )
        except OutcomeUnknown as error:  # That of the transaction is known: it was not committed.
            raise TransactionAborted(transactional_id=name) from error

    async def abort(self) -> None:
        """Abort the transaction; ``with`` does this if its block raises."""
        opened = self._opened("its abort")
        unanswer(self._messages)
        self._end("aborted")
        await self._driver.run(
            self._operations.abort_transaction(opened.transactional_id, opened.producer_id, opened.epoch)
        )

    async def _abort_after(self, error: BaseException) -> None:
        """Abort because of an error, which is the one to raise."""
        try:
            await self.abort()
        except PenstockError as refusal:
            error.add_note(f"and the transaction, which times out, could not be aborted: {refusal}")

    def _opened(self, what: str) -> OpenTransaction:
        if self._open is None or self._state != "open":
            raise TransactionNotOpen(what=what, state=self._state)
        return self._open

    def _end(self, state: str) -> None:
        self._state = state
        if self._generated and self._id is not None and len(self._ids) < IDS_KEPT:
            self._ids.append(self._id)

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._state != "open":
            return  # The block has ended it.
        if error is None:
            await self.commit()
        else:
            await self._abort_after(error)


def _check_messages(messages: list[Any], driver: AsyncDriver) -> None:
    for message in messages:
        if not isinstance(message, Delivered):
            raise InvalidValue(name="messages", value=message, why="give what receive returned")
        consumer: Any = message.delivery.settler
        if consumer.driver is not driver:  # Its numbers may be those of another message.
            why = "its consumer and the transaction must be made by the same broker object"
            raise InvalidValue(name="messages", value=message, why=why)
        if message.delivery.lease < 0:
            raise GroupKindMismatch(operation="ack in a transaction", kind="stream", group=message.group)
