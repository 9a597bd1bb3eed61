"""Kafka's murmur2 hash, so that every client maps a key to the same partition.

Every number fits into a machine word, so the compiled function costs less than its call.
"""

from typing import Final

from penstock.types import i64

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of Kafka's ``Utils.murmur2``."""
    length: i64 = len(data)
    value: i64 = _SEED ^ length
    k: i64 = 0
    position: i64 = 0
    while position + 4 <= length:
        k = data[position] | data[position + 1] << 8 | data[position + 2] << 16 | data[position + 3] << 24
        k = k * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ k
        position += 4
    if position < length:
        k = 0
        while length > position:
            length -= 1
            k = k << 8 | data[length]
        value = (value ^ k) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition Kafka's default partitioner gives a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
