"""Receipt handles: the partition and offset of a received message, and its lease.

    base64url( version, partition, attempt, lease, offset, check )

Nothing is stored for a handle, and a restart invalidates none: the message and its lease are in the log and
the group's journal.  The check is a hash with the id of the topic, so that handles of other queues, or of a
deleted queue of the same name, are refused.  It proves no permission: permissions are checked for each
request.
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
    """Identifies a message, and one of its deliveries."""

    partition: int
    attempt: int
    lease: int
    offset: int


def write_handle(topic_id: bytes, handle: ReceiptHandle) -> str:
    packed = _PACKED.pack(VERSION, handle.partition, min(handle.attempt, 0xFFFF), handle.lease, handle.offset)
    return urlsafe_b64encode(packed + _check(topic_id, packed)).decode()


def read_handle(topic_id: bytes, text: str) -> ReceiptHandle | None:
    """Decode a handle of this queue; None if it is invalid."""
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
