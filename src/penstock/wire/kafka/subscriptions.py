"""The topics in a consumer's subscription.

Members of a classic group tell each other what they read in bytes that are none of
the broker's business.  For consumers, their beginning is known all the same:

    int16 version, int32 count, and for each topic int16 length and its name

It is looked at for people only; bytes that are something else have no topics.
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
