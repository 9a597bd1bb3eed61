"""Message ids as UUIDs, for protocols whose ids are UUIDs; such an id can be traced like any other.

    bits 0-47    offset           version 8 of RFC 9562: the contents are ours
    bits 52-63   partition, upper 12 of its 14 bits
    bits 66-67   partition, lower 2 bits
    bits 68-127  60 bits of a hash of the topic's name

There is no index: the place of a message is in its id, and the topic is the one of the known topics whose
hash it is.  Two topics with equal hashes would need some 10^9 topics.
"""

import uuid
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

OFFSET_BITS: Final = 48  # More messages than a partition can hold.
PARTITION_BITS: Final = 14
HASH_BITS: Final = 60
VERSION: Final = 8
VARIANT: Final = 0b10


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


def place_of(identity: str, topics: Iterable[str]) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a message's UUID; None if none of these topics has it."""
    number = uuid.UUID(identity).int
    upper, lower = number >> 64, number & (1 << 64) - 1
    wanted = lower & (1 << HASH_BITS) - 1
    partition = (upper & 0xFFF) << 2 | lower >> HASH_BITS & 3
    return next(((name, partition, upper >> 16) for name in topics if _hash(name) == wanted), None)


def _hash(topic: str) -> int:
    return int.from_bytes(blake2b(topic.encode(), digest_size=8).digest()) & (1 << HASH_BITS) - 1
