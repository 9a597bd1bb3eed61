"""Receipt handles: the place of a received message, and the lease it was received with.

    base64url( version, partition, attempt, lease, offset, check )

Nothing is stored for a handle, and none is invalid because of a restart: what it names is in the log and the
group's journal.  The check is a hash with the id of the topic, so that a handle of another queue, or of a
deleted one of the same name, is not taken for one of this queue.  It is no proof of anything: permissions
are checked for each request.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

VERSION: Final = 1
CHECK_BYTES: Final = 8
_PLACE: Final = Struct(">BIHqq")
SIZE: Final = _PLACE.size + CHECK_BYTES
LENGTH: Final = -(-SIZE // 3) * 4


class ReceivedPlace(NamedTuple):
    """Which message, and which of its deliveries."""

    partition: int
    attempt: int
    lease: int
    offset: int


def write_handle(topic_id: bytes, place: ReceivedPlace) -> str:
    packed = _PLACE.pack(VERSION, place.partition, min(place.attempt, 0xFFFF), place.lease, place.offset)
    return urlsafe_b64encode(packed + _check(topic_id, packed)).decode()


def read_handle(topic_id: bytes, handle: str) -> ReceivedPlace | None:
    """What a handle of this queue names; None if it is none."""
    if len(handle) != LENGTH or not handle.isascii():
        return None
    try:
        data = urlsafe_b64decode(handle)
    except binascii.Error:
        return None
    packed, check = data[: _PLACE.size], data[_PLACE.size :]
    if len(data) != SIZE or packed[0] != VERSION or check != _check(topic_id, packed):
        return None
    _, partition, attempt, lease, offset = _PLACE.unpack(packed)
    return ReceivedPlace(partition, attempt, lease, offset)


def _check(topic_id: bytes, packed: bytes) -> bytes:
    return blake2b(packed, key=topic_id, digest_size=CHECK_BYTES).digest()
