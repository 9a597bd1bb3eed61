"""The hash of keys is Kafka's, bit for bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.murmur import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [  # From Kafka's own tests.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_kafka_does(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(), st.integers(1, 10_000))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= murmur2(key) < 1 << 32
    assert partition_of(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions
