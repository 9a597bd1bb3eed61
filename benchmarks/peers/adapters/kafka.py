"""Kafka's protocol, by confluent-kafka: against Penstock's Kafka port, or against Kafka itself."""

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers.adapter import Adapter, Received

WAIT_S = 30
UNDER_WAY = 50_000  # Fewer than it has room for.


class KafkaAdapter(Adapter):
    """Modes: plain, and headers (Penstock's).  Consumers commit offsets: no answer for one message."""

    replicas = 1

    def __init__(self, address: str, mode: str) -> None:
        self._address: dict[str, Any] = {
            "bootstrap.servers": address,
            "socket.nagle.disable": True,
            "log_level": 0,
        }
        self._topic = {"penstock.headers": "true"} if mode == "headers" else {}
        self._producer = Producer(self._address | {"acks": "all", "linger.ms": 0})
        self._consumer: Consumer | None = None
        self._early: list[Message] = []  # Arrived while the consumer joined its group.

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        topic = NewTopic(queue, 1, self.replicas, config=self._topic)
        admin = AdminClient(self._address)
        admin.create_topics([topic])[queue].result(WAIT_S)

    def send(self, queue: str, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._produce(queue, body)
        self._producer.poll(0)

    def _produce(self, queue: str, body: bytes, **more: Any) -> None:
        while len(self._producer) >= UNDER_WAY:
            self._producer.poll(0.1)
        self._producer.produce(queue, body, on_delivery=_must, **more)

    def flush(self) -> None:
        assert self._producer.flush(WAIT_S) == 0, "some were not confirmed"

    def publish_later(self, queue: str, bodies: Sequence[bytes], delays_s: Sequence[int]) -> None:
        for body, delay in zip(bodies, delays_s, strict=True):
            self._produce(queue, body, headers={"x-delay-ms": b"%d" % (delay * 1000)})
        self.flush()

    def subscribe(self, queue: str, group: str) -> None:
        settings = {"group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}
        self._consumer = Consumer(self._address | settings)
        self._consumer.subscribe([queue])
        self._early = _assigned(self._consumer)

    def receive(self, count: int, wait_s: float) -> Received:
        assert self._consumer is not None
        found, self._early = self._early, []
        first = (
            None if found else self._consumer.poll(wait_s)
        )  # ``consume`` would wait until it has all of them.
        if first is not None:
            found = [first, *self._consumer.consume(count - 1, 0)]
        return [(each.value() or b"", each) for each in found if each.error() is None]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _must(error: KafkaError | None, _: Message) -> None:
    assert error is None, error


def _assigned(consumer: Consumer) -> list[Message]:
    """Wait until the consumer has its partitions; the messages that arrived meanwhile.

    A new group waits for further members before it assigns (seconds in Apache Kafka).  That is not part of
    the latency of a message, so it ends before the measurement begins.
    """
    early: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, "nothing was assigned"
        if (message := consumer.poll(0.1)) is not None:
            early.append(message)
    return early
