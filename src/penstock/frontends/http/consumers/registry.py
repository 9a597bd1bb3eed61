"""Consumers of the broker that are shared by the requests of a client.

A lease belongs to a consumer and outlives the request that created it.  So all requests of one client with
the same topic, group and visibility timeout share a consumer, created by the first request and closed after
it has been idle without leases for a while.  Their number is limited (`frontends/consumer_quota.py`).

    receive ──> find ──> Consumer ── wait ──> leased batches
    ack     ──> by the number in its receipts ──> the same Consumer

A waiting request costs an entry in the broker's list of waiters, and no task.  It is cancelled when its
connection is lost, so that no messages are leased for a client that has left, and when the server shuts down.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.broker.frontend import BatchConsumer, EmbeddedAsyncBroker, ignore_result
from penstock.config.broker import GroupOptions
from penstock.errors import GroupKindMismatch
from penstock.frontends.consumer_quota import IDLE_S, ConsumerQuota
from penstock.frontends.http.consumers.long_polls import Disconnection
from penstock.frontends.security.guarded import BrokerOperations
from penstock.operations.consumers import ConsumerOptions
from penstock.wire.native import LeasedBatch

Key = tuple[BrokerOperations, str, str, int | None]  # Who, topic, group, visibility in milliseconds.


class HttpConsumer:
    """One consumer, for all requests that have the same key."""

    def __init__(self, inner: BatchConsumer, number: int, key: Key) -> None:
        self.inner = inner
        self.number = number
        self.key = key
        self.waiting = 0  # Requests.
        self.used = True  # Since the last check.

    @property
    def needed(self) -> bool:
        """Whether it holds leases or has waiting receives."""
        return self.waiting > 0 or self.inner.in_flight > 0


class HttpConsumers:
    kind = "http"  # The beginning of their names.
    what = "consumers over HTTP"

    def __init__(self, broker: EmbeddedAsyncBroker) -> None:
        self._broker = broker
        self._by_key: dict[Key, HttpConsumer] = {}
        self._by_number: dict[int, HttpConsumer] = {}
        self.quota = ConsumerQuota(self.what)
        self._made = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waits: set[Callable[[], None]] = set()

    async def find(
        self, operations: BrokerOperations, topic: str, group: str, visibility_ms: int | None
    ) -> HttpConsumer:
        """The consumer of this client for the group, created if there is none."""
        key = operations, topic, group, visibility_ms
        known = self._by_key.get(key)
        if known is None or known.inner.closed:
            made = await self._make(key)
            known = self._by_key.get(key)
            if known is None or known.inner.closed:
                known = self._add(made)
            else:  # Another request was quicker.
                self.quota.give_back(operations)
                await self._broker.run(made.inner.close())
        known.used = True
        return known

    async def open(
        self,
        operations: BrokerOperations,
        topic: str,
        group: str,
        visibility_ms: int | None,
        in_flight_max: int,
    ) -> HttpConsumer:
        """A consumer for one connection alone, which closes it."""
        made = await self._make((operations, topic, group, visibility_ms), in_flight_max)
        made.waiting += 1  # As long as the connection is there.
        self._by_number[made.number] = made
        return made

    def end(self, consumer: HttpConsumer, disconnected: bool = False) -> None:
        """Close a consumer and forget it; the attempt counts if its connection was lost."""
        self._close(consumer, disconnected)

    def get(self, number: int) -> HttpConsumer | None:
        """The consumer of a receipt; None if it has been closed."""
        known = self._by_number.get(number)
        return None if known is None or known.inner.closed else known

    async def receive(
        self, consumer: HttpConsumer, max_messages: int, wait_ms: int, lost: Disconnection
    ) -> list[LeasedBatch]:
        """Receive messages, or wait for the first; nothing if the client is ``lost`` by then."""
        if lost.gone:
            return []
        future: asyncio.Future[list[LeasedBatch]] = asyncio.get_running_loop().create_future()

        def then(batches: Any, error: BaseException | None) -> None:
            if future.done():
                return  # The request was cancelled; its lease runs out.
            if error is None:
                future.set_result(batches)
            else:
                future.set_exception(error)

        def call_off() -> None:
            if running.call_off() and not future.done():
                future.set_result([])

        running = self._broker.start(consumer.inner.receive(max_messages, wait_ms), then)
        if future.done():
            return future.result()
        consumer.waiting += 1
        self._waits.add(call_off)
        lost.add(call_off)
        try:
            return await future
        finally:
            consumer.waiting -= 1
            self._waits.discard(call_off)
            lost.discard(call_off)

    def forget(self, operations: BrokerOperations) -> None:
        """The key or user was revoked: release what its consumers hold."""
        for consumer in list(self._by_number.values()):
            if consumer.key[0] is operations:
                self._close(consumer)

    def end_waits(self) -> None:
        """The server is about to stop: answer waiting requests with nothing."""
        for call_off in list(self._waits):
            call_off()

    def close(self) -> None:
        """Release everything that consumers hold."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for consumer in list(self._by_number.values()):
            self._close(consumer)

    async def _make(self, key: Key, in_flight_max: int | None = None) -> HttpConsumer:
        operations, topic, group, visibility_ms = key
        settings: GroupOptions = {} if visibility_ms is None else {"visibility_timeout": f"{visibility_ms}ms"}
        self._made += 1
        number = self._made
        options = ConsumerOptions(
            consumer_id=f"{self.kind}-{number}", max_in_flight=in_flight_max, group=settings
        )
        with self.quota.taken(operations):
            inner = await self._broker.run(operations.batch_consumer(topic, group, options))
            if inner.kind == "stream":
                await self._broker.run(inner.close())
                raise GroupKindMismatch(operation="receive", kind="stream", group=group)
            inner.want_records()
            return HttpConsumer(inner, number, key)

    def _add(self, consumer: HttpConsumer) -> HttpConsumer:
        self._by_key[consumer.key] = self._by_number[consumer.number] = consumer
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.sweep)
        return consumer

    def sweep(self) -> None:
        """Close consumers that were not used since the last call."""
        for consumer in list(self._by_number.values()):
            if consumer.inner.closed or not (consumer.used or consumer.needed):
                self._close(consumer)
            consumer.used = False
        again = bool(self._by_number)
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.sweep) if again else None

    def _close(self, consumer: HttpConsumer, disconnected: bool = False) -> None:
        if self._by_number.pop(consumer.number, None) is not None:
            self.quota.give_back(consumer.key[0])
        if self._by_key.get(consumer.key) is consumer:
            del self._by_key[consumer.key]
        inner = consumer.inner
        if not inner.closed:
            self._broker.start(inner.disconnect() if disconnected else inner.close(), ignore_result)
