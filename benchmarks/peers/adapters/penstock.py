"""Penstock by its own client, as a program with threads uses it."""

from collections.abc import Sequence
from typing import Any, cast

import penstock
from benchmarks.peers.adapter import Adapter, Received, Token

BATCH = 1000
PREFETCH = 2000
PATIENCE = "60s"  # As the others, when a node of a cluster is killed.


class PenstockAdapter(Adapter):
    """Modes: fsync, os, memory (a topic's durability)."""

    def __init__(self, address: str, mode: str) -> None:
        self._broker = penstock.connect(address, request_timeout=PATIENCE)
        self._mode = mode

    def make(self, queue: str, groups: Sequence[str]) -> None:
        self._broker.create_topic(queue, partitions=1, durability=cast("Any", self._mode))
        for group in groups:
            self._broker.create_group(queue, group, start="earliest")

    def publish(self, queue: str, body: bytes) -> None:
        self._broker.publish(queue, body)

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        if len(bodies) == 1:
            self._broker.publish_nowait(queue, bodies[0])
        for at in range(0, len(bodies) if len(bodies) > 1 else 0, BATCH):
            self._broker.publish_batch(queue, bodies[at : at + BATCH])

    def flush(self) -> None:
        self._broker.flush()

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        pairs = zip(bodies, delays_s, strict=True)
        self._broker.publish_batch(queue, [penstock.Message(body, delay=delay) for body, delay in pairs])

    def subscribe(self, queue: str, group: str) -> None:
        self._consumer = self._broker.consumer(queue, group=group, prefetch=PREFETCH)

    def receive(self, count: int, wait_s: float) -> Received:
        return [(each.value, each) for each in self._consumer.receive(count, wait=wait_s)]

    def ack(self, tokens: Sequence[Token]) -> None:
        self._consumer.ack(list(tokens))

    def nack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            token.nack(delay=0)

    def close(self) -> None:
        self._broker.close()
