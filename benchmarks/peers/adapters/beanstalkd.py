"""beanstalkd by greenstalk."""

from collections.abc import Sequence

import greenstalk

from benchmarks.peers.adapter import Adapter, Received, Token


class BeanstalkAdapter(Adapter):
    """How safely it keeps messages is the server's setting, so there are no modes."""

    can = frozenset({"ack", "nack", "delay"})  # One job at a time: its protocol has no batches.

    def __init__(self, address: str, mode: str) -> None:
        del mode
        host, port = address.split(":")
        self._client = greenstalk.Client((host, int(port)), encoding=None)
        self._used = ""

    def make(self, queue: str, groups: Sequence[str]) -> None:
        """A tube is there when it is used."""

    def publish(self, queue: str, body: bytes) -> None:
        self._put(queue, body, 0)

    def publish_later(self, queue: str, bodies: Sequence[tuple[bytes, float]]) -> None:
        for body, delay in bodies:
            self._put(queue, body, round(delay))

    def _put(self, queue: str, body: bytes, delay: int) -> None:
        if self._used != queue:
            self._client.use(queue)
            self._used = queue
        self._client.put(body, delay=delay)

    def subscribe(self, queue: str, group: str) -> None:
        del group
        self._client.watch(queue)

    def receive(self, count: int, wait_s: float) -> Received:
        found: Received = []
        try:
            while len(found) < count:
                job = self._client.reserve(timeout=0 if found else max(round(wait_s), 1))
                found.append((job.body, job))
        except greenstalk.TimedOutError:
            pass
        return found

    def ack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._client.delete(token)

    def nack(self, token: Token) -> None:
        self._client.release(token)

    def close(self) -> None:
        self._client.close()
