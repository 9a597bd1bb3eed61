"""The topics in a consumer's subscription.

Members of a classic group exchange their subscriptions as bytes that the broker does
not interpret.  For consumers, the beginning of these bytes is known:

    int16 version, int32 count, and for each topic int16 length and its name

It is decoded only for descriptions of the group; other bytes yield no topics.
"""

import struct
from typing import Final

TOPICS_MAX: Final = 100_000


def subscribed(metadata: bytes) -> list[str]:
    try:
        _, count = struct.unpack_from(">hi", metadata, 0)
        topics, at = [], 6
        for _ in range(min(count, TOPICS_MAX)):
            (length,) = struct.unpack_from(">h", metadata, at)
            if length < 0 or at + 2 + length > len(metadata):
                return []
            topics.append(metadata[at + 2 : at + 2 + length].decode())
            at += 2 + length
    except (struct.error, UnicodeDecodeError):
        return []
    return topics
