"""What a dead letter is made of: the topic it goes to, and the headers that say why.

Letters are of messages that a group has given up on (``queue/dead_letters.py``), and of messages that were
published to a topic whose schema they do not match (``invalid.py``).
"""

from typing import Final

from penstock.broker.state import Topic
from penstock.config.broker import (
    DEAD_LETTER_RETENTION_MS,
    DEAD_LETTER_SUFFIX,
    MESSAGE_BYTES_MAX,
    TopicSettings,
)
from penstock.model.message import own_headers
from penstock.model.placing import Placed
from penstock.wire.headers import DEAD_LETTER_HEADERS, SOURCE
from penstock.wire.records import LANE_MASK, Record

HEADERS_BYTES: Final = 16 * 1024  # What the headers may add to a message.


def letters_topic(topic: Topic) -> str:
    """The name of the topic for a topic's dead letters."""
    return topic.settings.dead_letter_topic or topic.name + DEAD_LETTER_SUFFIX


def letters_settings(topic: Topic) -> TopicSettings:
    """The settings with which that topic is created."""
    return TopicSettings(
        partitions=topic.settings.partitions,
        durability=topic.settings.durability,
        retention_ms=DEAD_LETTER_RETENTION_MS,
        message_bytes_max=min(topic.settings.message_bytes_max + HEADERS_BYTES, MESSAGE_BYTES_MAX),
    )


def build_letter(source: Topic, number: int, target: Topic, record: Record, facts: dict[str, str]) -> Placed:
    """The dead letter of a record; ``facts`` are the headers that do not follow from its place."""
    place = dict(zip(SOURCE, (source.name, str(number), str(record.offset)), strict=True))
    added = {**facts, **place}
    made = Placed(number % len(target.partitions), record.key, record.value)
    made.headers = [
        *own_headers(record.headers, record.attributes),
        *((name, added[name].encode()) for name in DEAD_LETTER_HEADERS),
    ]
    made.attributes = record.attributes & LANE_MASK  # It keeps its lane; its time to live is over.
    return made
