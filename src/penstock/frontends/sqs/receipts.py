"""Receipt handles: the partition and offset of a received message, and its lease.

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
_PACKED: Final = Struct(">BIHqq")
SIZE: Final = _PACKED.size + CHECK_BYTES
LENGTH: Final = -(-SIZE // 3) * 4


class ReceiptHandle(NamedTuple):
    """Which message, and which of its deliveries."""

    partition: int
    attempt: int
    lease: int
    offset: int


def write_handle(topic_id: bytes, handle: ReceiptHandle) -> str:
    packed = _PACKED.pack(VERSION, handle.partition, min(handle.attempt, 0xFFFF), handle.lease, handle.offset)
    return urlsafe_b64encode(packed + _check(topic_id, packed)).decode()


def read_handle(topic_id: bytes, text: str) -> ReceiptHandle | None:
    """What a handle of this queue names; None if it is none."""
    if len(text) != LENGTH or not text.isascii():
        return None
    try:
        data = urlsafe_b64decode(text)
    except binascii.Error:
        return None
    packed, check = data[: _PACKED.size], data[_PACKED.size :]
    if len(data) != SIZE or packed[0] != VERSION or check != _check(topic_id, packed):
        return None
    _, partition, attempt, lease, offset = _PACKED.unpack(packed)
    return ReceiptHandle(partition, attempt, lease, offset)


def _check(topic_id: bytes, packed: bytes) -> bytes:
    return blake2b(packed, key=topic_id, digest_size=CHECK_BYTES).digest()
