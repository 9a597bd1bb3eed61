"""Redis Streams by redis-py with hiredis."""

from collections.abc import Sequence

import redis

from benchmarks.peers.adapter import Adapter, Received, Token

PIPELINED = 1000


class RedisAdapter(Adapter):
    """How safely it keeps messages is the server's setting, so there are no modes."""

    can = frozenset({"groups", "ack"})  # What was not acked can be claimed after a time, not given back.

    def __init__(self, address: str, mode: str) -> None:
        del mode
        self._client = redis.Redis.from_url(address)

    def make(self, queue: str, groups: Sequence[str]) -> None:
        for group in groups:
            self._client.xgroup_create(queue, group, id="0", mkstream=True)

    def publish(self, queue: str, body: bytes) -> None:
        self._client.xadd(queue, {"v": body})

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        for at in range(0, len(bodies), PIPELINED):
            pipeline = self._client.pipeline(transaction=False)
            for body in bodies[at : at + PIPELINED]:
                pipeline.xadd(queue, {"v": body})
            pipeline.execute()

    def subscribe(self, queue: str, group: str) -> None:
        self._queue, self._group = queue, group

    def receive(self, count: int, wait_s: float) -> Received:
        wait_ms = max(int(wait_s * 1000), 1)
        found = self._client.xreadgroup(self._group, "one", {self._queue: ">"}, count=count, block=wait_ms)
        return [(fields[b"v"], number) for _, entries in found for number, fields in entries]

    def ack(self, tokens: Sequence[Token]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for token in tokens:
            pipeline.xack(self._queue, self._group, token)
        pipeline.execute()

    def close(self) -> None:
        self._client.close()
