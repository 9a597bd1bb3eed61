"""WAL entries: what they hold, and what is refused."""

import pytest

from penstock.cluster.core.objects import unwrap, wrap
from penstock.cluster.core.wal import Joining, Slice, decode_entry, encode_entries, encode_tombstone
from penstock.errors import CorruptionError

PARTS = [
    (Slice("orders", 0, 3, "data", 10, 4), b"a\nbc"),
    (Slice("orders", 1, 3, "data", 0, 2), b"de"),
    (Slice("orders", 0, 3, "journal", 7, 0), b""),
]


def test_slices_are_found_by_partition_and_epoch() -> None:
    entry = decode_entry("wal/a/0", *encode_entries("nonce", PARTS, 1 << 20))

    found = [(part.log, part.first, bytes(data)) for part, data in entry.slices(("orders", 0), 3)]
    assert found == [("data", 10, b"a\nbc"), ("journal", 7, b"")]
    assert entry.slices(("orders", 0), 4) == []
    assert not entry.tombstone


def test_a_round_that_is_too_large_is_several_entries_that_count_together() -> None:
    slices = [(Slice("orders", 0, 3, "data", 10, 3000), bytes(range(250)) * 12), *PARTS[1:]]

    objects = encode_entries("nonce", slices, 1000)
    joining = Joining()
    *unfinished, entry = [
        joining.add(f"wal/a/{at}", decode_entry("", data)) for at, data in enumerate(objects)
    ]

    assert len(objects) > 3
    assert all(len(data) <= 1000 for data in objects)
    assert unfinished == [None] * (len(objects) - 1)
    assert entry is not None
    assert [bytes(data) for _, data in entry.slices(("orders", 0), 3)] == [slices[0][1], b""]
    assert [bytes(data) for _, data in entry.slices(("orders", 1), 3)] == [b"de"]


def test_a_part_that_does_not_follow_the_one_before_is_refused() -> None:
    first, second, *_ = encode_entries("nonce", [(PARTS[0][0], b"abcd" * 1000)], 1000)
    joining = Joining()
    joining.add("wal/a/0", decode_entry("wal/a/0", first))

    with pytest.raises(CorruptionError, match="part 1 should follow"):
        joining.add("wal/a/1", decode_entry("wal/a/1", first))
    with pytest.raises(CorruptionError, match="part 0 should follow"):
        Joining().add("wal/a/1", decode_entry("wal/a/1", second))


def test_a_tombstone_is_no_entry() -> None:
    assert decode_entry("wal/a/0", encode_tombstone("nonce")).tombstone


@pytest.mark.parametrize("at", [0, 9, 12, 20, -1])
def test_a_flipped_byte_is_noticed(at: int) -> None:
    data = bytearray(*encode_entries("nonce", PARTS, 1 << 20))
    data[at] ^= 1

    with pytest.raises(CorruptionError):
        decode_entry("wal/a/0", bytes(data))


def test_a_newer_version_and_another_kind_are_refused() -> None:
    with pytest.raises(CorruptionError, match="newer version"):
        unwrap("wal", "wal/a/0", wrap("wal", b"").replace(b" 1 ", b" 2 "))
    with pytest.raises(CorruptionError, match="not a wal object"):
        unwrap("wal", "wal/a/0", wrap("meta", b""))
