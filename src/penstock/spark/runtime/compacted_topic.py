"""Reads and writes the small compacted system topics, such as ``__pipelines``; creates them when needed."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.errors import TopicExists, TopicNotFound

if TYPE_CHECKING:
    from penstock.api.broker import Broker
    from penstock.model.message import Receipt, StoredMessage

READ_MESSAGES: Final = 1000  # At once.
SEGMENT_BYTES: Final = 1024 * 1024  # Small, because only sealed segments are compacted.


def publish(broker: "Broker", topic: str, key: str, value: bytes) -> "Receipt":
    """Publish to the topic, which is created if it is missing."""
    try:
        return broker.publish(topic, value, key=key)
    except TopicNotFound:
        create(broker, topic)
        return broker.publish(topic, value, key=key)


def create(broker: "Broker", topic: str) -> None:
    """Create the topic, unless it exists."""
    with suppress(TopicExists):
        broker.create_topic(topic, partitions=1, compact=True, retention=None, segment_bytes=SEGMENT_BYTES)


def messages(broker: "Broker", topic: str, offset: int = 0) -> "Iterator[StoredMessage]":
    """The messages of the topic from an offset on; none if there is no topic."""
    while True:
        try:
            found = broker.read(topic, partition=0, offset=offset, limit=READ_MESSAGES)
        except TopicNotFound:
            return
        if not found:
            return
        yield from found
        offset = found[-1].offset + 1
