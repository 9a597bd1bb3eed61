"""WAL entries: what they hold, and what is refused."""

import pytest

from penstock.cluster.core.objects import unwrap, wrap
from penstock.cluster.core.wal import Slice, decode_entry, encode_entry, encode_tombstone
from penstock.errors import CorruptionError

PARTS = [
    (Slice("orders", 0, 3, "data", 10, 4), b"a\nbc"),
    (Slice("orders", 1, 3, "data", 0, 2), b"de"),
    (Slice("orders", 0, 3, "journal", 7, 0), b""),
]


def test_slices_are_found_by_partition_and_epoch() -> None:
    entry = decode_entry("wal/a/0", encode_entry("nonce", PARTS))

    found = [(part.log, part.first, bytes(data)) for part, data in entry.slices(("orders", 0), 3)]
    assert found == [("data", 10, b"a\nbc"), ("journal", 7, b"")]
    assert entry.slices(("orders", 0), 4) == []
    assert not entry.tombstone


def test_a_tombstone_is_no_entry() -> None:
    assert decode_entry("wal/a/0", encode_tombstone("nonce")).tombstone


@pytest.mark.parametrize("at", [0, 9, 12, 20, -1])
def test_a_flipped_byte_is_noticed(at: int) -> None:
    data = bytearray(encode_entry("nonce", PARTS))
    data[at] ^= 1

    with pytest.raises(CorruptionError):
        decode_entry("wal/a/0", bytes(data))


def test_a_newer_version_and_another_kind_are_refused() -> None:
    with pytest.raises(CorruptionError, match="newer version"):
        unwrap("wal", "wal/a/0", wrap("wal", b"").replace(b" 1 ", b" 2 "))
    with pytest.raises(CorruptionError, match="not a wal object"):
        unwrap("wal", "wal/a/0", wrap("meta", b""))
