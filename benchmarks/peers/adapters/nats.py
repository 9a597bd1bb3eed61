"""NATS JetStream by nats-py, on an event loop of its own."""

import asyncio
from collections.abc import Sequence

import nats
from nats.errors import TimeoutError as NothingThere
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

from benchmarks.peers.adapter import Adapter, Received, Token

PENDING_MAX = 4000
PIPELINED = 1000


class NatsAdapter(Adapter):
    """Modes: file (synced now and then; always, if the server is told so), memory."""

    can = frozenset({"groups", "ack", "nack"})

    def __init__(self, address: str, mode: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._mode = mode
        self._connection = self._loop.run_until_complete(nats.connect(address))
        self._stream = self._connection.jetstream(publish_async_max_pending=PENDING_MAX)

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        storage = StorageType.MEMORY if self._mode == "memory" else StorageType.FILE
        self._loop.run_until_complete(self._stream.add_stream(name=queue, subjects=[queue], storage=storage))

    def publish(self, queue: str, body: bytes) -> None:
        self._loop.run_until_complete(self._stream.publish(queue, body))

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        async def publish() -> None:
            for at in range(0, len(bodies), PIPELINED):
                sent = [await self._stream.publish_async(queue, body) for body in bodies[at : at + PIPELINED]]
                await asyncio.gather(*sent)

        self._loop.run_until_complete(publish())

    def subscribe(self, queue: str, group: str) -> None:
        config = ConsumerConfig(
            ack_policy=AckPolicy.EXPLICIT, deliver_policy=DeliverPolicy.ALL, max_ack_pending=PENDING_MAX
        )
        subscribing = self._stream.pull_subscribe(queue, durable=group, config=config)
        self._subscription = self._loop.run_until_complete(subscribing)

    def receive(self, count: int, wait_s: float) -> Received:
        try:
            found = self._loop.run_until_complete(self._subscription.fetch(count, wait_s))
        except NothingThere:
            return []
        return [(each.data, each) for each in found]

    def ack(self, tokens: Sequence[Token]) -> None:
        async def ack() -> None:
            for token in tokens:
                await token.ack()

        self._loop.run_until_complete(ack())

    def nack(self, token: Token) -> None:
        self._loop.run_until_complete(token.nak())

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.flush())
        self._loop.run_until_complete(self._connection.close())
