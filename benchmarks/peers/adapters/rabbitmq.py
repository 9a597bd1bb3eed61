"""RabbitMQ by pika's select loop, with publisher confirms; quicker than its blocking connection."""

import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pika
from pika.exceptions import AMQPError

from benchmarks.peers.adapter import Adapter, Received, Token

PATIENCE_S = 60.0
RETRY_S = 0.05
UNDER_WAY = 2000  # Publishes without their confirm; and what a consumer is sent ahead.
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "transient": {}, "quorum": {"x-queue-type": "quorum"}}


class RabbitAdapter(Adapter):
    """Modes: classic and quorum (persistent), transient.  A group is a queue at a fanout exchange."""

    def __init__(self, address: str, mode: str) -> None:
        self._durable, self._kind = mode != "transient", KINDS[mode]
        self._properties = pika.BasicProperties(delivery_mode=2 if self._durable else 1)
        self._channel = _connected(address)
        self._arrived: deque[tuple[bytes, int]] = deque()
        self._later: set[str] = set()

    def make(self, queue: str, groups: Sequence[str]) -> None:
        self._channel.do("exchange_declare", queue, "fanout", durable=self._durable)
        for group in groups:
            self._channel.do("queue_declare", f"{queue}.{group}", durable=self._durable, arguments=self._kind)
            self._channel.do("queue_bind", f"{queue}.{group}", queue)

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._channel.publish(queue, "", body, self._properties)
        self._channel.confirmed(UNDER_WAY)

    def flush(self) -> None:
        self._channel.confirmed(0)

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        for body, delay in zip(bodies, delays_s, strict=True):
            name = f"{queue}.{delay}s"
            if name not in self._later:
                kind = self._kind | {"x-message-ttl": delay * 1000, "x-dead-letter-exchange": queue}
                self._channel.do("queue_declare", name, durable=self._durable, arguments=kind)
                self._later.add(name)
            self._channel.publish("", name, body, self._properties)
        self.flush()

    def subscribe(self, queue: str, group: str) -> None:
        self._channel.do("basic_qos", prefetch_count=UNDER_WAY)
        self._channel.do("basic_consume", f"{queue}.{group}", self._take)

    def _take(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self._arrived.append((body, method.delivery_tag))
        self._channel.wake()

    def receive(self, count: int, wait_s: float) -> Received:
        if not self._arrived:
            self._channel.turn(wait_s)
        return [self._arrived.popleft() for _ in range(min(count, len(self._arrived)))]

    def ack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._channel.ack(token)

    def nack(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._channel.nack(token)

    def close(self) -> None:
        self._channel.close()


class RabbitClusterAdapter(RabbitAdapter):
    """It connects again, to any node, and repeats the publish, so a message may be there twice."""

    def __init__(self, address: str, mode: str) -> None:
        self._address = address
        super().__init__(address, mode)

    def publish(self, queue: str, body: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return super().publish(queue, body)
            except (ConnectionError, AMQPError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_S)
            with suppress(ConnectionError, AMQPError):
                self._channel = _connected(self._address)


def _connected(addresses: str) -> "_Channel":
    """A channel of any of these nodes that can be reached."""
    *others, last = random.sample(found := addresses.split(","), len(found))
    for address in others:
        with suppress(ConnectionError, AMQPError):
            return _Channel(address)
    return _Channel(last)


class _Channel:
    """pika's asynchronous channel, whose loop runs while somebody waits for something."""

    def __init__(self, address: str) -> None:
        self._waiting: dict[int, None] = {}  # Publishes without their confirm, in their order.
        self._tag, self._bound, self._turning = 0, -1, False
        self._lost = ""
        self._connection = pika.SelectConnection(
            pika.URLParameters(address),
            lambda each: each.ioloop.stop(),
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        self._loop: Any = self._connection.ioloop
        self._run()
        self._channel: Any = self._connection.channel(on_open_callback=lambda _: self._loop.stop())
        self._run()
        self.ack, self.nack = self._channel.basic_ack, self._channel.basic_nack
        self.do("confirm_delivery", self._confirmed)

    def _closed(self, _: Any, reason: Any) -> None:
        self._lost = repr(reason)
        self._connection.ioloop.stop()

    def _run(self) -> None:
        """Until something stops the loop."""
        self._loop.start()
        if self._lost:
            raise ConnectionError(self._lost)

    def do(self, name: str, *given: Any, **more: Any) -> None:
        getattr(self._channel, name)(*given, **more, callback=lambda _: self._loop.stop())
        self._run()

    def publish(self, exchange: str, key: str, body: bytes, properties: pika.BasicProperties) -> None:
        self._tag += 1
        self._waiting[self._tag] = None
        self._channel.basic_publish(exchange, key, body, properties)

    def confirmed(self, bound: int) -> None:
        """Wait until so many at most lack their confirm; what was written goes out in any case."""
        self._bound = bound
        if len(self._waiting) > bound:
            silent = self._loop.call_later(PATIENCE_S, lambda: self._closed(None, "no confirm came"))
            self._run()
            self._loop.remove_timeout(silent)
        else:
            self.turn(0)
        self._bound = -1

    def _confirmed(self, frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            raise ConnectionError("RabbitMQ refused a message")
        if frame.method.multiple:
            while self._waiting and (first := next(iter(self._waiting))) <= frame.method.delivery_tag:
                del self._waiting[first]
        else:
            del self._waiting[frame.method.delivery_tag]
        if len(self._waiting) <= self._bound:
            self._loop.stop()

    def turn(self, wait_s: float) -> None:
        """Let the loop run until something arrives, or for so long."""
        self._turning = True
        timer = self._loop.call_later(wait_s, self._loop.stop)
        self._run()
        self._loop.remove_timeout(timer)
        self._turning = False

    def wake(self) -> None:
        if self._turning:
            self._turning = False
            self._loop.stop()

    def close(self) -> None:
        self._connection.close()
        self._loop.start()
