"""Kafka's protocol, by confluent-kafka: against Penstock's Kafka port, or against Kafka itself."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.peers.adapter import Adapter, Received

WAIT_S = 30


class KafkaAdapter(Adapter):
    """No modes; its consumers commit offsets, so there is no answer for one message."""

    can = frozenset({"groups"})

    def __init__(self, address: str, mode: str) -> None:
        del mode
        self._address: dict[str, str | int | float | bool] = {"bootstrap.servers": address}
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    def make(self, queue: str, groups: Sequence[str]) -> None:
        del groups
        admin = AdminClient(self._address)
        admin.create_topics([NewTopic(queue, 1, 1)])[queue].result(WAIT_S)

    def publish(self, queue: str, body: bytes) -> None:
        self.publish_many(queue, [body])

    def publish_many(self, queue: str, bodies: Sequence[bytes]) -> None:
        if self._producer is None:
            linger = 5 if len(bodies) > 1 else 0
            self._producer = Producer(self._address | {"acks": "all", "linger.ms": linger})
        for body in bodies:
            while True:
                try:
                    self._producer.produce(queue, body, on_delivery=_must)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        assert self._producer.flush(WAIT_S) == 0, "some were not confirmed"

    def subscribe(self, queue: str, group: str) -> None:
        settings = {"group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}
        self._consumer = Consumer(self._address | settings)
        self._consumer.subscribe([queue])

    def receive(self, count: int, wait_s: float) -> Received:
        assert self._consumer is not None
        found = self._consumer.consume(count, wait_s)
        return [(each.value() or b"", None) for each in found if each.error() is None]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _must(error: KafkaError | None, _: Any) -> None:
    assert error is None, error
