"""The client for asyncio: the facade of ``api/aio.py``, over a connection.

Beyond it: ``publish_nowait`` and ``flush``, how far a publish must be (``acks``),
and how a consumer is supplied (``prefetch``) and kept (``heartbeat``).
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar, Unpack

from msgspec import UNSET, UnsetType

from penstock.api.aio import AsyncBroker
from penstock.api.aio_handles import AsyncConsumer
from penstock.api.spans import begin_publish, traced
from penstock.api.work import Work
from penstock.client.client import Client, ClientSettings
from penstock.client.publish.publisher import Acks, acks_number
from penstock.client.work import run
from penstock.config.broker import GroupOptions
from penstock.model.message import Message, Receipt, received_async
from penstock.types import Duration, Instant, Priority

T = TypeVar("T")


class AwaitDriver:
    """Runs the client's work where it is awaited."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def run(self, begun: Work[T]) -> Awaitable[T]:
        return run(begun)

    async def close(self, timeout_ms: int | None) -> None:
        await self._client.close(timeout_ms)


class RemoteAsyncBroker(AsyncBroker):
    """A broker at the end of a connection; belongs to the event loop it was connected on."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.operations, AwaitDriver(client))
        self._client = client
        self._remote = traced(client.operations)

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
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
        acks: Acks = "durable",
    ) -> Receipt:
        """Publish one message; ``acks`` says what has to happen before this returns.

        "durable" (as durable as the topic promises), "written" (in the log, perhaps not on disk yet), or
        "none" (sent, without a response: the receipt has no offset).  The message is ``value``, bytes; or an
        object as JSON (``json``); or text as UTF-8 (``text``).
        """
        message = Message(
            value, key, headers, priority, ttl, delay, deliver_at, dedup_id, partition, json, text
        )
        return await self._driver.run(self._remote.publish(topic, message, acks_number(acks)))

    async def publish_batch(
        self, topic: str, messages: Iterable[Message | bytes], *, acks: Acks = "durable"
    ) -> list[Receipt]:
        """Publish many messages at once; one receipt each, in their order."""
        begun = self._remote.publish_batch(topic, messages, acks_number(acks))
        return await self._driver.run(begun)

    def publish_nowait(
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
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
        acks: Acks = "durable",
    ) -> asyncio.Future[Receipt]:
        """Publish one message without waiting; the future gets its receipt or an error.

        Messages to one topic are sent in this order.  Raises ``QueueFull`` at once if too many bytes wait.
        """
        message = Message(
            value, key, headers, priority, ttl, delay, deliver_at, dedup_id, partition, json, text
        )
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        sending = begin_publish(topic, [message])
        sent = [message] if sending is None else sending.messages

        def then(receipts: list[Receipt], error: BaseException | None) -> None:
            if sending is not None:
                sending.end(receipts, error)
            if future.done():
                return  # Cancelled; what was written stays written.
            if error is None:
                future.set_result(receipts[0])
            else:
                future.set_exception(error)

        publisher = self._client.publisher
        with sending or nullcontext():
            publisher.publish(topic, sent, publisher.reserve(sent), acks_number(acks), then)
        return future

    async def flush(self) -> None:
        """Wait until all publishes so far have a result, which their futures have."""
        await self._client.publisher.flush()

    async def consumer(
        self,
        topic: str,
        *,
        group: str = "default",
        consumer_id: str | None = None,
        max_in_flight: int | None = None,
        prefetch: int = 0,
        heartbeat: bool = True,
        **options: Unpack[GroupOptions],
    ) -> AsyncConsumer:
        """A consumer of a group; the group is made at first use, and changed by options that are given.

        ``prefetch``: how many messages the server sends ahead.  ``heartbeat``: extend the leases of messages
        that the program still works on beyond the visibility timeout, until it settles or drops them.
        """
        begun = self._remote.consumer(
            topic, group, consumer_id, max_in_flight, options, received_async, prefetch, heartbeat
        )
        return AsyncConsumer(await self._driver.run(begun), self._driver)


async def connect(settings: ClientSettings) -> RemoteAsyncBroker:
    return RemoteAsyncBroker(await Client.open(settings))
