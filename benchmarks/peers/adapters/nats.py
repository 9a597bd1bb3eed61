"""NATS JetStream by nats-py: many publishes under way, and messages that are pushed."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import nats
import nats.errors
import uvloop
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

from benchmarks.peers.adapter import Adapter, Received, Token

UNDER_WAY = 4000
REPLICAS = 3
FAILED_S = 1.0  # A publish without an answer for so long is repeated;
RETRY_S = 0.05  # and one that was refused, after so long.
PATIENCE_S = 60.0
EVERY = ConsumerConfig(
    deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=UNDER_WAY
)

logging.getLogger("nats").setLevel(
    logging.CRITICAL
)  # It reports every attempt to reconnect, with a traceback.


class NatsAdapter(Adapter):
    """Modes: file (synced as the server is told), memory."""

    def __init__(self, address: str, mode: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._run, self._next = self._loop.run_until_complete, self._loop.create_future()
        self._storage = StorageType(mode)
        servers = address.split(",")
        self._connection = self._run(
            nats.connect(servers, max_reconnect_attempts=-1, reconnect_time_wait=RETRY_S)
        )
        self._stream = self._connection.jetstream(publish_async_max_pending=UNDER_WAY)
        self._sent: deque[asyncio.Future[Any]] = deque()
        self._arrived: deque[tuple[bytes, Any]] = deque()

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        self._run(self._stream.add_stream(name=queue, subjects=[queue], storage=self._storage))

    def publish(self, queue: str, body: bytes) -> None:
        self._run(self._stream.publish(queue, body))

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        self._run(self._send(queue, bodies))

    async def _send(self, queue: str, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._sent.append(await self._stream.publish_async(queue, body))
        await asyncio.sleep(0)  # So that the client's own task writes.
        await asyncio.sleep(0)
        while self._sent and self._sent[0].done():
            self._sent.popleft().result()

    def flush(self) -> None:
        while self._sent:
            self._run(self._sent.popleft())
        self._run(self._connection.flush())

    def subscribe(self, queue: str, group: str) -> None:
        self._run(self._stream.subscribe(queue, durable=group, cb=self._take, manual_ack=True, config=EVERY))

    async def _take(self, message: Any) -> None:
        self._arrived.append((message.data, message))
        if not self._next.done():
            self._next.set_result(None)

    def receive(self, count: int, wait_s: float) -> Received:
        if not self._arrived:
            self._next = self._loop.create_future()
            self._run(asyncio.wait([self._next], timeout=wait_s))
        return [self._arrived.popleft() for _ in range(min(count, len(self._arrived)))]

    def ack(self, tokens: Sequence[Token]) -> None:
        self._run(_each([token.ack for token in tokens]))

    def nack(self, tokens: Sequence[Token]) -> None:
        self._run(_each([token.nak for token in tokens]))

    def close(self) -> None:
        self._run(self._connection.close())


class NatsClusterAdapter(NatsAdapter):
    """Three replicas; a publish is repeated until it is confirmed, so a message may be there twice."""

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        stream = {"name": queue, "subjects": [queue], "storage": self._storage, "num_replicas": REPLICAS}
        self._until_done(self._stream.add_stream, **stream)

    def publish(self, queue: str, body: bytes) -> None:
        self._until_done(self._stream.publish, queue, body, timeout=FAILED_S)

    def subscribe(self, queue: str, group: str) -> None:
        self._until_done(super().subscribe, queue, group)

    def _until_done(self, work: Callable[..., Any], *given: Any, **more: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(nats.errors.Error, TimeoutError):
                return self._run(made) if (made := work(*given, **more)) is not None else None
            self._run(asyncio.sleep(RETRY_S))
        raise TimeoutError


async def _each(answers: Sequence[Any]) -> None:
    for answer in answers:
        await answer()
