"""Kafka's murmur2, so that a key lands on the same partition whichever client hashed it."""

from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of Kafka's ``Utils.murmur2``."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition Kafka's default partitioner gives a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
