"""Penstock by its own client, as a program on an event loop uses it."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import uvloop

import penstock.aio
from benchmarks.peers.adapter import Adapter, Received, Token

UNDER_WAY = 4  # Batches, or acks of many;
SINGLES = 1000  # or messages.
PREFETCH = 2000


class PenstockAsyncAdapter(Adapter):
    """Modes: fsync, os, memory (a topic's durability)."""

    def __init__(self, address: str, mode: str) -> None:
        self._run = uvloop.new_event_loop().run_until_complete
        self._mode = mode
        self._broker = self._run(penstock.aio.connect(address).start())
        self._tasks: list[asyncio.Future[Any]] = []

    def make(self, queue: str, groups: Sequence[str]) -> None:
        self._run(self._broker.create_topic(queue, partitions=1, durability=cast("Any", self._mode)))
        for group in groups:
            self._run(self._broker.create_group(queue, group, start="earliest"))

    def publish(self, queue: str, body: bytes) -> None:
        self._run(self._broker.publish(queue, body))

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        one = len(bodies) == 1
        work = self._broker.publish(queue, bodies[0]) if one else self._broker.publish_batch(queue, bodies)
        self._run(self._begin(work, SINGLES if one else UNDER_WAY))

    async def _begin(self, work: Coroutine[Any, Any, Any], most: int = UNDER_WAY) -> None:
        while len(self._tasks) >= most:
            await self._tasks.pop(0)
        self._tasks.append(asyncio.ensure_future(work))
        await asyncio.sleep(0)

    def flush(self) -> None:
        while self._tasks:
            self._run(self._tasks.pop(0))

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        pairs = zip(bodies, delays_s, strict=True)
        messages = [penstock.Message(body, delay=delay) for body, delay in pairs]
        self._run(self._broker.publish_batch(queue, messages))

    def subscribe(self, queue: str, group: str) -> None:
        self._consumer = self._run(self._broker.consumer(queue, group=group, prefetch=PREFETCH))

    def receive(self, count: int, wait_s: float) -> Received:
        return [(each.value, each) for each in self._run(self._consumer.receive(count, wait=wait_s))]

    def ack(self, tokens: Sequence[Token]) -> None:
        self._run(self._begin(self._consumer.ack(list(tokens))))

    def nack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._run(token.nack(delay=0))

    def close(self) -> None:
        self._run(self._broker.close())
