"""beanstalkd by greenstalk, and by its socket where many commands go out at once: greenstalk cannot."""

# ruff: noqa: SLF001

from collections.abc import Sequence

import greenstalk

from benchmarks.peers.adapter import Adapter, Received, Token

UNDER_WAY = 500  # Commands that are written before the first answer is read.
PUT = b"put 65536 %d 60 %d\r\n%b\r\n"


class BeanstalkAdapter(Adapter):
    """How safely it keeps messages is the server's setting, so there are no modes."""

    def __init__(self, address: str, mode: str) -> None:
        del mode
        host, port = address.split(":")
        self._client = greenstalk.Client((host, int(port)), encoding=None)
        self._used = ""

    def make(self, queue: str, groups: Sequence[str]) -> None:
        """A tube is there when it is used."""

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        self.publish_later(queue, bodies, [0] * len(bodies))

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        if self._used != queue:
            self._client.use(queue)
            self._used = queue
        pairs = zip(bodies, delays_s, strict=True)
        self._pipelined([PUT % (delay, len(body), body) for body, delay in pairs], b"INSERTED")

    def _pipelined(self, commands: Sequence[bytes], answer: bytes) -> None:
        for at in range(0, len(commands), UNDER_WAY):
            some = commands[at : at + UNDER_WAY]
            self._client._sock.sendall(b"".join(some))
            for _ in some:
                line = self._client._reader.readline()
                assert line.startswith(answer), line

    def subscribe(self, queue: str, group: str) -> None:
        del group
        self._client.watch(queue)

    def receive(self, count: int, wait_s: float) -> Received:
        found = some = self._reserve(1, max(round(wait_s), 1))
        while some and len(found) < count:  # As many again: soon many at once, and few for nothing.
            some = self._reserve(min(len(found), 64), 0)
            found = found + some
        return found

    def _reserve(self, count: int, wait_s: int) -> Received:
        self._client._sock.sendall(b"reserve-with-timeout %d\r\n" % wait_s * count)
        found: Received = []
        for _ in range(count):
            answer, *facts = self._client._reader.readline().split()
            if answer == b"RESERVED":
                found.append((self._client._read_chunk(int(facts[1])), int(facts[0])))
        return found

    def ack(self, tokens: Sequence[Token]) -> None:
        self._pipelined([b"delete %d\r\n" % token for token in tokens], b"DELETED")

    def nack(self, tokens: Sequence[Token]) -> None:
        self._pipelined([b"release %d 65536 0\r\n" % token for token in tokens], b"RELEASED")

    def close(self) -> None:
        self._client.close()
