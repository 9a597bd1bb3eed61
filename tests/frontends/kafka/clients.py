"""confluent-kafka as tests use it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.frontends.kafka.conftest import PARTITIONS, Server

Settings = Mapping[str, Any]
NO_SETTINGS: Final[Settings] = MappingProxyType({})


def producer(kafka: Server, settings: Settings = NO_SETTINGS) -> Producer:
    """With these settings."""
    return Producer({"bootstrap.servers": kafka.address, **settings})


def reader(
    kafka: Server, topic: str = "orders", start: int = 0, settings: Settings = NO_SETTINGS
) -> Consumer:
    """A consumer of all partitions, without a group protocol."""
    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": "g", "enable.auto.commit": False, **settings}
    )
    consumer.assign([TopicPartition(topic, number, start) for number in range(PARTITIONS)])
    return consumer


def publish(
    kafka: Server, contents: list[bytes], topic: str = "orders", settings: Settings = NO_SETTINGS
) -> list[Message]:
    """Produce, and wait; returns what was acknowledged."""
    told: list[Message] = []
    made = producer(kafka, settings)
    for number, value in enumerate(contents):
        made.produce(topic, value, key=str(number).encode(), on_delivery=lambda error, it: told.append(it))
        made.poll(0)
    assert made.flush(30) == 0
    assert all(it.error() is None for it in told)
    return told


def values(messages: list[Message]) -> list[bytes]:
    """What is in them, in order."""
    return sorted(it.value() or b"" for it in messages)


def receive(consumer: Consumer, count: int) -> list[Message]:
    """So many messages, or a failure."""
    got: list[Message] = []
    while len(got) < count:
        more = consumer.consume(count - len(got), timeout=20)
        assert more, f"only {len(got)} of {count}"
        got += more
    return got
