"""RabbitMQ by pika: blocking for one, its select loop for many confirmations under way."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pika

from benchmarks.peers.adapter import Adapter, Received, Token

PREFETCH = 2000
KINDS = {"classic": {}, "transient": {}, "quorum": {"x-queue-type": "quorum"}}


class RabbitAdapter(Adapter):
    """Modes: classic and quorum (both persistent), transient.  A group is a queue at a fanout exchange."""

    can = frozenset({"groups", "ack", "nack"})

    def __init__(self, address: str, mode: str) -> None:
        self._mode = mode
        self._parameters = pika.URLParameters(address)
        self._channel = pika.BlockingConnection(self._parameters).channel()
        self._properties = pika.BasicProperties(delivery_mode=1 if mode == "transient" else 2)
        self._confirms = False
        self._many: _Pipeline | None = None
        self._arrived: deque[tuple[bytes, int]] = deque()

    def make(self, queue: str, groups: Sequence[str]) -> None:
        durable = self._mode != "transient"
        self._channel.exchange_declare(queue, "fanout", durable=durable)
        for group in groups:
            self._channel.queue_declare(f"{queue}.{group}", durable=durable, arguments=KINDS[self._mode])
            self._channel.queue_bind(f"{queue}.{group}", queue)

    def publish(self, queue: str, body: bytes) -> None:
        if not self._confirms:
            self._channel.confirm_delivery()
            self._confirms = True
        self._channel.basic_publish(queue, "", body, self._properties)

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        self._many = self._many or _Pipeline(self._parameters)
        self._many.publish(queue, bodies, self._properties)

    def subscribe(self, queue: str, group: str) -> None:
        self._channel.basic_qos(prefetch_count=PREFETCH)
        self._channel.basic_consume(f"{queue}.{group}", self._take)

    def _take(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self._arrived.append((body, method.delivery_tag))

    def receive(self, count: int, wait_s: float) -> Received:
        if not self._arrived:
            self._channel.connection.process_data_events(wait_s)
        return [self._arrived.popleft() for _ in range(min(count, len(self._arrived)))]

    def ack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._channel.basic_ack(token)

    def nack(self, token: Token) -> None:
        self._channel.basic_nack(token)

    def close(self) -> None:
        self._channel.connection.close()


class _Pipeline:
    """A channel with many messages that wait for their confirmation."""

    def __init__(self, parameters: pika.URLParameters) -> None:
        self._waiting: set[int] = set()
        self._tag = 0
        self._connection = pika.SelectConnection(parameters, on_open_callback=self._opened)
        self._loop = self._connection.ioloop
        self._loop.start()

    def _opened(self, connection: pika.SelectConnection) -> None:
        connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._loop.stop())

    def publish(self, queue: str, bodies: Sequence[bytes], properties: pika.BasicProperties) -> None:
        for body in bodies:
            self._tag += 1
            self._waiting.add(self._tag)
            self._channel.basic_publish(queue, "", body, properties)
        self._loop.start()

    def _confirmed(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        done = {each for each in self._waiting if each <= tag} if frame.method.multiple else {tag}
        self._waiting -= done
        if not self._waiting:
            self._loop.stop()
