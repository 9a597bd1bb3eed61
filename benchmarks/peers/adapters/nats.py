"""NATS JetStream by nats-py: many publishes under way, and messages that are pushed."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import nats
import uvloop
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

from benchmarks.peers.adapter import Adapter, Received, Token

UNDER_WAY = 4000
EVERY = ConsumerConfig(
    deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=UNDER_WAY
)


class NatsAdapter(Adapter):
    """Modes: file (synced as the server is told), memory."""

    def __init__(self, address: str, mode: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._run, self._next = self._loop.run_until_complete, self._loop.create_future()
        self._storage = StorageType(mode)
        self._connection = self._run(nats.connect(address))
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


async def _each(answers: Sequence[Any]) -> None:
    for answer in answers:
        await answer()
