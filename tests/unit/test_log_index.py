"""Index and lanes files: the exact bytes, and every way to be damaged."""

from penstock.log.index import (
    INDEX_HEAD_BYTES,
    IndexHead,
    SegmentIndex,
    decode_index,
    decode_index_head,
    decode_lanes,
    encode_index,
    encode_lanes,
)

# docs/format/log.md shows these bytes.  If this test fails, the format has changed: give it a new version.
INDEX_BYTES = bytes.fromhex(
    "50734978"  # PsIx
    "0100 0000"
    "6400000000000000"  # base offset 100
    "6e00000000000000"  # next offset 110
    "8813000000000000"  # 5000 bytes
    "e803000000000000"  # newest 1000
    "0200000000000000"  # 2 entries
    "0300000000000000"  # 3 lane ranges
    "c39e7a59"  # CRC-32C of the body
    "85916177"  # CRC-32C of the head before it
    "6400000000000000 6800000000000000"  # offsets 100, 104
    "0000000000000000 b80b000000000000"  # positions 0, 3000
    "8403000000000000 b603000000000000"  # before: 900, 950
)
LANES_BYTES = bytes.fromhex(
    "50734c6e"  # PsLn
    "0100 0000"
    "6400000000000000"
    "8813000000000000"
    "0200000000000000"  # 2 ranges
    "91d86d90"
    "1ade4b11"
    "6600000000000000 6800000000000000"  # from 102, 104
    "6700000000000000 6900000000000000"  # to 103, 105
    "01 fe"  # lanes 1, -2
)
RANGES = [(102, 103, 1), (104, 105, -2)]
HEAD = IndexHead(
    base_offset=100,
    next_offset=110,
    segment_bytes=5000,
    max_timestamp=1000,
    entries=2,
    lane_ranges=3,
    body_crc=0,
)


def small_index() -> SegmentIndex:
    index = SegmentIndex()
    index.add(100, 0, 900)
    index.add(104, 3000, 950)
    return index


def test_the_bytes_of_an_index_file() -> None:
    assert encode_index(HEAD, small_index()).hex() == INDEX_BYTES.hex()


def test_the_bytes_of_a_lanes_file() -> None:
    assert encode_lanes(100, 5000, RANGES).hex() == LANES_BYTES.hex()


def test_an_index_file_is_read_back() -> None:
    head = decode_index_head(INDEX_BYTES)
    index = decode_index(INDEX_BYTES)
    assert head is not None
    assert index is not None
    assert (head.base_offset, head.next_offset, head.segment_bytes) == (100, 110, 5000)
    assert (head.max_timestamp, head.entries, head.lane_ranges) == (1000, 2, 3)
    assert (list(index.offsets), list(index.positions), list(index.befores)) == (
        [100, 104],
        [0, 3000],
        [900, 950],
    )
    assert decode_lanes(LANES_BYTES, 100, 5000) == RANGES


def test_any_damaged_byte_of_an_index_is_noticed() -> None:
    for at in range(len(INDEX_BYTES)):
        data = INDEX_BYTES[:at] + bytes([INDEX_BYTES[at] ^ 0x10]) + INDEX_BYTES[at + 1 :]
        assert decode_index(data) is None
        assert (decode_index_head(data) is None) == (at < INDEX_HEAD_BYTES)


def test_any_damaged_byte_of_a_lanes_file_is_noticed() -> None:
    for at in range(len(LANES_BYTES)):
        data = LANES_BYTES[:at] + bytes([LANES_BYTES[at] ^ 0x10]) + LANES_BYTES[at + 1 :]
        assert decode_lanes(data, 100, 5000) is None


def test_files_that_are_too_short_too_long_or_of_another_segment_are_refused() -> None:
    for size in range(len(INDEX_BYTES)):
        assert decode_index(INDEX_BYTES[:size]) is None
    for size in range(len(LANES_BYTES)):
        assert decode_lanes(LANES_BYTES[:size], 100, 5000) is None
    assert decode_index(INDEX_BYTES + b"x") is None
    assert decode_lanes(LANES_BYTES + b"x", 100, 5000) is None
    assert decode_lanes(LANES_BYTES, 101, 5000) is None
    assert decode_lanes(LANES_BYTES, 100, 5001) is None


def test_an_offset_is_found_at_or_below() -> None:
    index = small_index()
    assert [index.find_offset(offset) for offset in (100, 103, 104, 109)] == [
        (100, 0),
        (100, 0),
        (104, 3000),
        (104, 3000),
    ]


def test_a_time_is_found_behind_all_that_is_earlier() -> None:
    index = small_index()
    assert [index.find_time(timestamp)[0] for timestamp in (0, 900, 950, 951, 2000)] == [
        100,
        100,
        100,
        104,
        104,
    ]


def test_entries_behind_a_cut_are_forgotten() -> None:
    index = small_index()
    index.drop_from(3000)
    assert list(index.offsets) == [100]
    index.drop_from(0)
    assert list(index.offsets) == []
