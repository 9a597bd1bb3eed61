"""Poll and ack with single calls, for queue groups.

A lease belongs to a consumer and outlives the call that created it.  So the polls
of one client with the same topic, group and visibility timeout share a consumer.  Its name in
``LeaseRange.consumer`` is random, and works for the client that polled only; the
consumer is closed when it holds nothing and was not used for a while.  Their number
is limited (`frontends/consumer_quota.py`).

A poll that is cancelled while it waits leases nothing.  If the call ends before
its answer could be sent, the messages are given back at once, and the attempt counts.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from grpc.aio import BaseError

from penstock.broker.frontend import BatchConsumer, EmbeddedAsyncBroker, ignore_result
from penstock.config.broker import GroupOptions
from penstock.errors import (
    GroupKindMismatch,
    InvalidValue,
    LeaseLost,
    PenstockError,
    ReceiptUnknown,
    ShuttingDown,
)
from penstock.frontends.consumer_quota import IDLE_S, ConsumerQuota
from penstock.frontends.grpc import consuming
from penstock.frontends.grpc.call import GrpcCall
from penstock.frontends.grpc.errors import in_stream
from penstock.frontends.grpc.messages import add_leases
from penstock.frontends.security.guarded import BrokerOperations
from penstock.grpc import penstock_pb2 as pb
from penstock.model.failure import describe_error
from penstock.operations.consumers import ConsumerOptions
from penstock.types import duration_ms
from penstock.wire.native import LeasedBatch

WAIT_MS_MAX: Final = 60_000
MESSAGES_MAX: Final = 1000  # Of one poll.
RANGES_MAX: Final = 10_000  # Of one call.
TOKEN_BYTES: Final = 12  # Too many to guess.
CANCELLED: Final = "the call was cancelled before its answer was sent"
SHOWN_LENGTH_MAX: Final = 100  # Stands for a missing consumer in the error.

Key = tuple[BrokerOperations, str, str, int | None]  # Who, topic, group, visibility in milliseconds.


class PolledConsumer:
    """One consumer, for all polls that have the same key."""

    def __init__(self, inner: BatchConsumer, key: Key) -> None:
        self.inner = inner
        self.key = key
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.waiting = 0  # Polls.
        self.used = True  # Since the last check.

    @property
    def needed(self) -> bool:
        return self.used or self.waiting > 0 or self.inner.in_flight > 0


class PolledConsumers:
    """The consumers behind polls, one for each client, topic and group."""

    def __init__(self, broker: EmbeddedAsyncBroker) -> None:
        self._broker = broker
        self._by_key: dict[Key, PolledConsumer] = {}
        self._by_token: dict[str, PolledConsumer] = {}
        self.quota = ConsumerQuota("consumers of gRPC polls")
        self._timer: asyncio.TimerHandle | None = None

    async def find(self, key: Key) -> PolledConsumer:
        """The consumer for these; opened if there is none."""
        known = self._by_key.get(key)
        if known is None or known.inner.closed:
            made = PolledConsumer(await self._open(key), key)
            known = self._by_key.get(key)
            if known is None or known.inner.closed:
                self._by_key[key] = self._by_token[made.token] = known = made
                self._watch()
            else:  # Another poll was first.
                self.quota.give_back(key[0])
                self._broker.start(made.inner.close(), ignore_result)
        known.used = True
        return known

    async def _open(self, key: Key) -> BatchConsumer:
        operations, topic, group, visibility_ms = key
        settings: GroupOptions = {} if visibility_ms is None else {"visibility_timeout": f"{visibility_ms}ms"}
        with self.quota.taken(operations):
            work = operations.batch_consumer(topic, group, ConsumerOptions(group=settings))
            inner = await self._broker.run(work)
            if inner.kind == "stream":
                self._broker.start(inner.close(), ignore_result)
                raise GroupKindMismatch(operation="poll", kind="stream", group=group)
            inner.want_records()
            return inner

    def get(self, token: str) -> PolledConsumer | None:
        """The consumer of this name; None if it does not exist or was closed."""
        known = self._by_token.get(token)
        return None if known is None or known.inner.closed else known

    def forget(self, operations: BrokerOperations) -> None:
        """The key or user was revoked: release what its consumers hold."""
        self._close([each for each in self._by_token.values() if each.key[0] is operations])

    def close(self) -> None:
        """Release everything that consumers hold."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._close(list(self._by_token.values()))

    def sweep(self) -> None:
        """Close consumers that were not used since the last call."""
        self._timer = None
        self._close([each for each in self._by_token.values() if each.inner.closed or not each.needed])
        for consumer in self._by_token.values():
            consumer.used = False
        if self._by_token:
            self._watch()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.sweep)

    def _close(self, consumers: list[PolledConsumer]) -> None:
        for consumer in consumers:
            del self._by_token[consumer.token]
            self.quota.give_back(consumer.key[0])
            if self._by_key.get(consumer.key) is consumer:
                del self._by_key[consumer.key]
            if not consumer.inner.closed:
                self._broker.start(consumer.inner.close(), ignore_result)


class Polling:
    """The methods of the service that receive and settle by polling."""

    def __init__(self, consumers: PolledConsumers) -> None:
        self._consumers = consumers

    async def poll(self, call: GrpcCall, request: pb.PollRequest) -> None:
        """Receive leased messages; waits for the first if there is none."""
        visibility_ms = request.visibility_ms if request.HasField("visibility_ms") else None
        if not 0 <= request.wait_ms <= WAIT_MS_MAX:
            raise InvalidValue(name="wait_ms", value=request.wait_ms, why="it is at most 60 seconds")
        if not 0 <= request.max_messages <= MESSAGES_MAX:
            raise InvalidValue(name="max_messages", value=request.max_messages, why="it is at most 1,000")
        if visibility_ms is not None:
            duration_ms("visibility_ms", visibility_ms / 1000)
        consumer = await self._consumers.find((call.operations, request.topic, request.group, visibility_ms))
        consumer.waiting += 1
        try:
            batches = await _receive(call, consumer.inner, request.max_messages or 1, request.wait_ms)
        finally:
            consumer.waiting -= 1
        received = pb.Received()
        add_leases(received, batches, consumer.token)
        try:
            await call.context.write(received)
        except (BaseError, asyncio.CancelledError):
            runs = [(each.partition, each.lease, each.start, each.end) for each in batches if each.lease >= 0]
            if runs and not consumer.inner.closed:
                call.shared.broker.start(
                    consumer.inner.nack(runs, 0, describe_error(CANCELLED)), ignore_result
                )
            raise

    async def ack(self, call: GrpcCall, request: pb.AckRequest) -> pb.SettleResponse:
        """Ack messages.  With outputs that is one decision, which fails as a whole."""
        if request.ack.outputs:
            inner = self._holder(call, request, _only(request.ack.ranges))
            await call.run(consuming.ack(inner, request.topic, request.ack))
            return pb.SettleResponse()
        return await self._settle(
            call, request, request.ack, lambda each: pb.Settle(ranges=[each]), consuming.ack
        )

    async def nack(self, call: GrpcCall, request: pb.NackRequest) -> pb.SettleResponse:

        def one(each: pb.LeaseRange) -> pb.Failed:
            delay_ms = request.nack.delay_ms if request.nack.HasField("delay_ms") else None
            return pb.Failed(ranges=[each], delay_ms=delay_ms, error=request.nack.error)

        return await self._settle(call, request, request.nack, one, consuming.nack)

    async def reject(self, call: GrpcCall, request: pb.RejectRequest) -> pb.SettleResponse:
        """Reject messages, which become dead letters."""

        def one(each: pb.LeaseRange) -> pb.Refused:
            return pb.Refused(ranges=[each], reason=request.reject.reason)

        return await self._settle(call, request, request.reject, one, consuming.reject)

    async def extend(self, call: GrpcCall, request: pb.ExtendRequest) -> pb.SettleResponse:
        """Extend the leases of messages."""

        def one(each: pb.LeaseRange) -> pb.Longer:
            return pb.Longer(ranges=[each], duration_ms=request.extend.duration_ms)

        return await self._settle(call, request, request.extend, one, consuming.extend)

    async def _settle(
        self,
        call: GrpcCall,
        request: Any,
        wanted: Any,
        one: Callable[[pb.LeaseRange], Any],
        act: Callable[[BatchConsumer, str, Any], Any],
    ) -> pb.SettleResponse:
        """Settle the ranges independently and concurrently, so that one sync serves them."""
        if len(wanted.ranges) > RANGES_MAX:
            raise InvalidValue(name="ranges", value=len(wanted.ranges), why="it is at most 10,000")
        _permit(call, request)
        begun: list[tuple[pb.LeaseRange, PenstockError | Awaitable[None]]] = []
        for each in wanted.ranges:
            try:
                work = act(self._holder(call, request, each), request.topic, one(each))
                begun.append((each, call.start(work)))
            except PenstockError as error:
                begun.append((each, error))
        response = pb.SettleResponse()
        for each, outcome in begun:
            try:
                if isinstance(outcome, PenstockError):
                    raise outcome
                await outcome
            except PenstockError as error:
                response.errors.add(range=each, error=in_stream(error))
        return response

    def _holder(self, call: GrpcCall, request: Any, given: pb.LeaseRange) -> BatchConsumer:
        """The consumer of these ranges, which may have lost them since."""
        consumer = self._consumers.get(given.consumer)
        if consumer is None:
            if len(given.consumer) == len(secrets.token_urlsafe(TOKEN_BYTES)):
                raise LeaseLost(topic=request.topic, partition=given.partition, offset=given.start)
            raise ReceiptUnknown(receipt=given.consumer[:SHOWN_LENGTH_MAX])
        if consumer.key[:3] != (call.operations, request.topic, request.group):
            raise ReceiptUnknown(receipt=given.consumer[:SHOWN_LENGTH_MAX])
        return consumer.inner


def _only(ranges: Any) -> pb.LeaseRange:
    """Outputs belong to messages of one consumer."""
    if len({each.consumer for each in ranges}) != 1:
        raise InvalidValue(name="ranges", value=len(ranges), why="with outputs they are of one consumer")
    first: pb.LeaseRange = ranges[0]
    return first


def _permit(call: GrpcCall, request: Any) -> None:
    """Refuse clients that may not consume here, before a range is looked at."""
    call.operations.batch_consumer(request.topic, request.group, ConsumerOptions()).close()


async def _receive(call: GrpcCall, inner: BatchConsumer, limit: int, wait_ms: int) -> list[LeasedBatch]:
    """Receive, waiting for the first message; nothing if the server stops."""
    if not wait_ms:
        return await call.run(inner.receive(limit, 0))
    try:
        async with call.until_ended():
            return await call.run(inner.receive(limit, wait_ms))
    except ShuttingDown:
        return []
