"""Messages before they are written: checked, placed on a partition, with the headers that the broker adds.

Nothing is written here.
"""

from collections.abc import Iterable
from typing import Any

from penstock.broker.state import Topic
from penstock.errors import KeyMissing
from penstock.model.message import Message
from penstock.model.placing import ANYWHERE, Placed, check_size, dedup_bytes, due_ms, placed
from penstock.types import ttl_ms
from penstock.wire.headers import DEDUP_ID, EXPIRES_AT
from penstock.wire.records import DEDUP, EXPIRES


def prepare(topic: Topic, message: Message, now_ms: int) -> Placed:
    """Check and place one message without writing it."""
    return _prepared(topic, message, now_ms, any_partition(topic))


def prepare_all(topic: Topic, messages: Iterable[Any], now_ms: int) -> list[Placed]:
    """The same for many; those without a key go to one partition."""
    anywhere = any_partition(topic)
    return [
        _prepared(topic, each if isinstance(each, Message) else Message(each), now_ms, anywhere)
        for each in messages
    ]


def any_partition(topic: Topic) -> int:
    """Where messages without a key of this call go; the next call goes to the next one."""
    topic.turn += 1
    owned = topic.partitions.owned
    return owned[topic.turn % len(owned)].number if owned else 0


def _prepared(topic: Topic, message: Message, now_ms: int, anywhere: int) -> Placed:
    item = placed(topic.name, message, len(topic.partitions))
    if item.key is None and topic.settings.compact:
        raise KeyMissing(topic=topic.name)
    if item.partition == ANYWHERE:
        item.partition = anywhere
    if message.delay is not None or message.deliver_at is not None:
        item.due_ms = due_ms(message.delay, message.deliver_at, now_ms, topic.settings.delay_max_ms)
    if message.ttl is not None or message.dedup_id is not None:
        _add_system_headers(item, message, max(now_ms, item.due_ms))
    check_size(item.key, item.value, item.headers, topic.settings.message_bytes_max)
    return item


def _add_system_headers(item: Placed, message: Message, visible_ms: int) -> None:
    headers = list(item.headers)
    if message.ttl is not None:
        # The time to live begins when the message can be seen.
        expires_ms = visible_ms + ttl_ms(message.ttl)
        headers.append((EXPIRES_AT, str(expires_ms).encode()))
        item.attributes |= EXPIRES
    if message.dedup_id is not None:
        headers.append((DEDUP_ID, dedup_bytes(message.dedup_id)))
        item.attributes |= DEDUP
        item.dedup_id = message.dedup_id
    item.headers = headers
