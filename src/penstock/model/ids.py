"""Message ids as UUIDs, for protocols whose ids are UUIDs; such an id can be traced like any other.

    bits 0-47    offset           version 8 of RFC 9562: the contents are ours
    bits 52-63   partition, upper 12 of its 14 bits
    bits 66-67   partition, lower 2 bits
    bits 68-127  60 bits of a hash of the topic's name

There is no index: the place of a message is in its id, and the topic is the one of the known topics whose
hash it is.  Two topics with equal hashes would need some 10^9 topics.

SQS needs the id before the offset is known, and an id that is never reused.  Such an id has the topic and
the time, from which on the message is looked for:

    bits 0-47    when it was sent, in milliseconds; version 7 of RFC 9562
    bits 52-63   upper 12 bits of a number that counts messages of a process, from a random one on
    bits 66-87   lower 22 bits of that number
    bits 88-127  40 bits of the hash of the topic's name
"""

import re
import uuid
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

OFFSET_BITS: Final = 48  # More messages than a partition can hold.
PARTITION_BITS: Final = 14
HASH_BITS: Final = 60
VERSION: Final = 8
VARIANT: Final = 0b10
SENT_VERSION: Final = 7
NUMBER_BITS: Final = 34
SENT_HASH_BITS: Final = 40
SENT_ID: Final = "sqs-id"  # The header that has such an id.
SENT_STEP_MS: Final = (
    1000  # So much earlier than it was sent a message may be stored: by another node's clock.
)
SENT_LOOKED_AT_MAX: Final = 10_000  # Messages from then on among which it is looked for.
TOPICS_MAX: Final = 10_000  # Whose hashes are remembered.
_KAFKA: Final = re.compile(r"(.+)-(\d{1,9})@(\d{1,18})", re.ASCII)


def message_uuid(topic: str, partition: int, offset: int) -> str:
    """The UUID of a message: always the same for the same place."""
    assert offset < 1 << OFFSET_BITS, "no log is that long"
    assert partition < 1 << PARTITION_BITS, "PARTITIONS_MAX is smaller"
    upper = offset << 16 | VERSION << 12 | partition >> 2
    lower = VARIANT << 62 | (partition & 3) << HASH_BITS | _hash(topic)
    return str(uuid.UUID(int=upper << 64 | lower))


def is_uuid(identity: object) -> bool:
    """Whether it is an id that ``message_uuid`` may have made."""
    try:
        return isinstance(identity, str) and uuid.UUID(identity).version == VERSION
    except ValueError:
        return False


def position_of(identity: str, topics: Iterable[str]) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a message's UUID; None if none of these topics has it."""
    number = uuid.UUID(identity).int
    upper, lower = number >> 64, number & (1 << 64) - 1
    wanted = lower & (1 << HASH_BITS) - 1
    partition = (upper & 0xFFF) << 2 | lower >> HASH_BITS & 3
    return next(((name, partition, upper >> 16) for name in topics if _hash(name) == wanted), None)


def sent_uuid(topic: str, sent_ms: int, number: int) -> str:
    """The UUID of a message that is not stored yet."""
    number &= (1 << NUMBER_BITS) - 1
    upper = (sent_ms & (1 << 48) - 1) << 16 | SENT_VERSION << 12 | number >> 22
    lower = VARIANT << 62 | (number & (1 << 22) - 1) << SENT_HASH_BITS | _hash(topic) >> 20
    # As str(UUID(int=...)) in half the time: every message of SQS has one.
    start = f"{upper >> 32:08x}-{upper >> 16 & 0xFFFF:04x}-{upper & 0xFFFF:04x}"
    return f"{start}-{lower >> 48:04x}-{lower & (1 << 48) - 1:012x}"


def is_sent_uuid(identity: object) -> bool:
    """Whether it is an id that ``sent_uuid`` may have made."""
    try:
        return isinstance(identity, str) and uuid.UUID(identity).version == SENT_VERSION
    except ValueError:
        return False


def sent_position(identity: str, topics: Iterable[str]) -> tuple[str, int] | None:
    """The topic of such a message, and when it was sent; None if it was sent to none of these."""
    number = uuid.UUID(identity).int
    wanted = number & (1 << SENT_HASH_BITS) - 1
    return next(((name, number >> 80) for name in topics if _hash(name) >> 20 == wanted), None)


def kafka_position(identity: object) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a message as Kafka's clients write it: orders-0@7."""
    found = _KAFKA.fullmatch(identity) if isinstance(identity, str) else None
    return None if found is None else (found[1], int(found[2]), int(found[3]))


@lru_cache(TOPICS_MAX)
def _hash(topic: str) -> int:
    return int.from_bytes(blake2b(topic.encode(), digest_size=8).digest()) & (1 << HASH_BITS) - 1
