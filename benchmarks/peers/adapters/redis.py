"""Redis Streams by redis-py with hiredis, pipelined."""

from collections.abc import Sequence

import redis

from benchmarks.peers.adapter import Adapter, Received, Token

UNDER_WAY = 2000  # Commands without their answer.


class RedisAdapter(Adapter):
    """How safely it keeps messages is the server's setting, so there are no modes."""

    def __init__(self, address: str, mode: str) -> None:
        del mode
        self._client = redis.Redis.from_url(address, socket_timeout=None)
        self._connection = self._client.connection_pool.get_connection()  # For what is pipelined.
        self._under_way = 0
        self._failed: list[bytes] = []

    def make(self, queue: str, groups: Sequence[str]) -> None:
        for group in groups:
            self._client.xgroup_create(queue, group, id="0", mkstream=True)

    def publish(self, queue: str, body: bytes) -> None:
        self._client.xadd(queue, {"v": body})

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        commands = [("XADD", queue, "*", "v", body) for body in bodies]
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        self._under_way += len(commands)
        self._read(UNDER_WAY)

    def _read(self, left: int) -> None:
        while self._under_way > left:
            self._connection.read_response()
            self._under_way -= 1

    def flush(self) -> None:
        self._read(0)

    def subscribe(self, queue: str, group: str) -> None:
        self._queue, self._group = queue, group

    def receive(self, count: int, wait_s: float) -> Received:
        if self._failed:
            entries = self._client.xclaim(self._queue, self._group, "one", 0, self._failed)
            self._failed = []
        else:
            wait_ms, new = max(int(wait_s * 1000), 1), {self._queue: ">"}
            found = self._client.xreadgroup(self._group, "one", new, count=count, block=wait_ms)
            entries = [entry for _, entries in found for entry in entries]
        return [(fields[b"v"], number) for number, fields in entries]

    def ack(self, tokens: Sequence[Token]) -> None:
        self._client.xack(self._queue, self._group, *tokens)

    def nack(self, tokens: Sequence[Token]) -> None:
        self._failed += tokens

    def close(self) -> None:
        self._connection.disconnect()
        self._client.close()
