"""Penstock by its own client."""

from collections.abc import Sequence
from typing import Any, cast

import penstock
from benchmarks.peers.adapter import Adapter, Received, Token

BATCH = 1000


class PenstockAdapter(Adapter):
    """Modes: fsync, os, memory (a topic's durability)."""

    can = frozenset({"groups", "ack", "nack", "delay"})

    def __init__(self, address: str, mode: str) -> None:
        self._broker = penstock.connect(address)
        self._mode = mode

    def make(self, queue: str, groups: Sequence[str]) -> None:
        self._broker.create_topic(queue, partitions=1, durability=cast("Any", self._mode))
        for group in groups:
            self._broker.create_group(queue, group, start="earliest")

    def publish(self, queue: str, body: bytes) -> None:
        self._broker.publish(queue, body)

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        for at in range(0, len(bodies), BATCH):
            self._broker.publish_batch(queue, bodies[at : at + BATCH])

    def publish_later(self, queue: str, bodies: Sequence[tuple[bytes, float]]) -> None:
        messages = [penstock.Message(body, delay=f"{delay:.3f}s") for body, delay in bodies]
        for at in range(0, len(messages), BATCH):
            self._broker.publish_batch(queue, messages[at : at + BATCH])

    def subscribe(self, queue: str, group: str) -> None:
        self._consumer = self._broker.consumer(queue, group=group)

    def receive(self, count: int, wait_s: float) -> Received:
        return [(each.value, each) for each in self._consumer.receive(count, wait=f"{wait_s:.3f}s")]

    def ack(self, tokens: Sequence[Token]) -> None:
        self._consumer.ack(list(tokens))

    def nack(self, token: Token) -> None:
        token.nack(delay="0s")

    def close(self) -> None:
        self._broker.close()
