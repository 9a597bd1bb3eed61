"""Record batches: by hand, against librdkafka's own bytes, against aiokafka, and each way to be damaged."""

import struct
from typing import Any

import pytest

from penstock.errors import InvalidBatch, InvalidValue
from penstock.wire import compression
from penstock.wire.records import (
    APPEND_TIME,
    BATCH_BYTES_MAX,
    CONTROL,
    DEDUP,
    EXPIRES,
    HEADER_BYTES,
    OFFSET_MAX,
    RECORDS_MAX,
    REDRIVEN,
    SCHEDULED,
    TRANSACTIONAL,
    BatchBuilder,
    Headers,
    Record,
    check_batch,
    decode_batch,
    encode_values,
    lane_attributes,
    lane_of,
    place_batch,
    read_header,
    stamp_batch,
)
from penstock.wire.rewriting import rewrite_batch

EVERY_CODEC = sorted(compression.CODEC_NAMES)
PENSTOCK_BITS = lane_attributes(-2) | SCHEDULED | EXPIRES | DEDUP | REDRIVEN

# One batch of two records, byte by byte as docs/format/record-batch.md explains it.
BY_HAND = bytes.fromhex(
    "0000000000000007"  # base offset 7
    "00000047"  # 71 bytes follow
    "00000005"  # leader epoch 5
    "02"  # format 2
    "f5d30152"  # CRC-32C from the next byte on
    "0100"  # attributes: lane high
    "00000001"  # last offset delta 1
    "00000000000003e8"  # base timestamp 1000
    "00000000000003e9"  # max timestamp 1001
    "ffffffffffffffff"  # no producer id
    "ffff"  # no producer epoch
    "ffffffff"  # no sequence
    "00000002"  # two records
    "10" "00" "00" "00" "01" "04" "6869" "00"  # 8: attributes, +0 ms, +0, no key, "hi", no headers
    "18" "00" "02" "02" "02" "6b" "01" "02" "02" "68" "04" "7631"  # 12: +1 ms, +1, key "k", no value, h=v1
)  # fmt: skip


def batch_of(count: int, attributes: int = 0) -> bytearray:
    builder = BatchBuilder()
    for number in range(count):
        headers: Headers = [("a", None), ("trace", b"%d" % number)] if number % 3 == 0 else []
        key = None if number % 2 else b"key"
        value = None if number % 5 == 4 else b"value %d" % number
        builder.add(key, value, headers, timestamp_delta=10 * number - 40)
    return builder.build(base_timestamp=1_000, max_timestamp=950 + 10 * count, attributes=attributes)


def patched(batch: bytes | bytearray, position: int, layout: str, number: int) -> bytes:
    copy = bytearray(batch)
    struct.pack_into(layout, copy, position, number)
    return bytes(copy)


def with_body(count: int, body: bytes) -> bytes:
    """A header that counts ``count`` records, and a body given byte by byte."""
    batch = bytearray(encode_values([b"x"] * count, 0)[:HEADER_BYTES]) + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return bytes(batch)


def test_a_batch_is_laid_out_as_documented() -> None:
    builder = BatchBuilder()
    builder.add(None, b"hi", [])
    builder.add(b"k", None, [("h", b"v1")], timestamp_delta=1)
    assert (builder.count, builder.size) == (2, len(BY_HAND))

    batch = builder.build(1_000, 1_001, lane_attributes(1))
    place_batch(batch, 7, 5)

    assert batch.hex() == BY_HAND.hex()
    assert decode_batch(BY_HAND) == [
        Record(7, 1_000, None, b"hi", [], 0x0100),
        Record(8, 1_001, b"k", None, [("h", b"v1")], 0x0100),
    ]


def test_a_header_tells_all_about_its_batch() -> None:
    batch = batch_of(3)
    place_batch(batch, 40, 6)
    builder = BatchBuilder()
    builder.add(None, b"x", [])
    idempotent = builder.build(5, 5, TRANSACTIONAL, producer_id=9, producer_epoch=2, base_sequence=77)

    header = check_batch(batch)
    assert (header.base_offset, header.last_offset_delta, header.next_offset) == (40, 2, 43)
    assert (header.size, header.count, header.leader_epoch) == (len(batch), 3, 6)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 980)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.attributes, header.codec, header.lane) == (0, 0, 0)
    header = check_batch(idempotent)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 77)
    assert header.attributes == TRANSACTIONAL


@pytest.mark.parametrize("lane", [2, 1, 0, -1, -2])
def test_a_lane_survives_in_the_attributes(lane: int) -> None:
    attributes = lane_attributes(lane) | compression.ZSTD | APPEND_TIME | CONTROL | REDRIVEN

    assert lane_of(attributes) == lane
    assert check_batch(batch_of(2, attributes)).lane == lane
    assert attributes & compression.ZSTD == compression.ZSTD


def test_a_lane_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        lane_attributes(3)


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_every_codec_gives_the_same_records(codec: int) -> None:
    plain = decode_batch(bytes(batch_of(300)))
    batch = batch_of(300, codec)

    assert check_batch(batch).codec == codec
    records = decode_batch(bytes(batch))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in plain
    ]
    assert {r.attributes for r in records} == {codec}
    assert codec == 0 or len(batch) < len(batch_of(300))


def test_numbers_take_as_many_bytes_as_they_need() -> None:
    deltas = [sign * (1 << shift) + more for shift in range(62) for sign in (1, -1) for more in (-1, 0, 1)]
    deltas += [-(1 << 62) + 2_000]
    builder = BatchBuilder()
    for delta in deltas:
        builder.add(None, b"", [], delta)

    batch = builder.build(-1, -1)

    assert len(batch) == builder.size
    assert [r.timestamp for r in decode_batch(bytes(batch))] == [delta - 1 for delta in deltas]


@pytest.mark.parametrize("length", [0, 63, 64, 1_023, 1_024, 8_191, 8_192, 70_000])
def test_lengths_take_as_many_bytes_as_they_need(length: int) -> None:
    blob = b"x" * length
    builder = BatchBuilder()
    builder.add(blob, blob, [("h" * length, blob)])
    batch = builder.build(0, 0)

    assert len(batch) == builder.size
    assert decode_batch(bytes(batch)) == [Record(0, 0, blob, blob, [("h" * length, blob)], 0)]


def test_offsets_may_have_gaps_but_never_go_back() -> None:
    builder = BatchBuilder()
    builder.add(None, b"a", [], offset_delta=3)
    builder.add(None, b"b", [])
    builder.add(None, b"c", [], offset_delta=9)
    with pytest.raises(AssertionError):
        builder.add(None, b"d", [], offset_delta=9)
    batch = builder.build(0, 0)
    place_batch(batch, 100, 0)

    assert [r.offset for r in decode_batch(bytes(batch))] == [103, 104, 109]
    assert check_batch(batch).next_offset == 110


@pytest.mark.parametrize("length", [0, 1, 63, 64, 1_015, 1_016, 1_017, 1_024, 8_191, 8_192, 70_000])
@pytest.mark.parametrize("codec", [0, 4])
def test_values_may_come_between_other_records(length: int, codec: int) -> None:
    values = [b"x" * length, b"", b"y" * length]
    one_by_one, together = BatchBuilder(), BatchBuilder()
    for builder in (one_by_one, together):
        builder.add(b"key", b"first", [("h", b"v")], offset_delta=5)
    for value in values:
        one_by_one.add(None, value, [])
    together.add_values(values)
    together.add_values([])
    for builder in (one_by_one, together):
        builder.add(b"key", b"last", [], timestamp_delta=7)

    assert (together.count, together.size) == (one_by_one.count, one_by_one.size)
    assert together.build(0, 7, codec) == one_by_one.build(0, 7, codec)


def test_values_may_be_more_than_are_prepared_for() -> None:
    values = [b"%d" % number for number in range(1_100)]
    batch = encode_values(values, 50)
    assert [record.value for record in decode_batch(bytes(batch))] == values
    assert check_batch(bytes(batch)).count == 1_100


def test_values_alone_are_a_batch_like_any_other() -> None:
    values = [b"", b"a", b"b" * 300]
    builder = BatchBuilder()
    for value in values:
        builder.add(None, value, [])

    assert encode_values(values, 50, lane_attributes(2)) == builder.build(50, 50, lane_attributes(2))


def test_a_header_name_that_is_not_unicode_leaves_the_builder_as_it_was() -> None:
    builder = BatchBuilder()
    builder.add(None, b"a", [])
    size = builder.size
    with pytest.raises(InvalidValue, match="Unicode"):
        builder.add(b"key", b"b", [("fine", b""), ("\udc80", b"")])
    assert (builder.count, builder.size) == (1, size)
    builder.add(None, b"c", [])

    assert [r.value for r in decode_batch(bytes(builder.build(0, 0)))] == [b"a", b"c"]


def test_an_empty_builder_builds_nothing() -> None:
    with pytest.raises(AssertionError):
        BatchBuilder().build(0, 0)


def test_a_batch_beyond_the_limits_is_not_built() -> None:
    many = BatchBuilder()
    many.count = RECORDS_MAX  # As if there were.
    many.add(None, None, [])
    with pytest.raises(InvalidBatch, match=f"{RECORDS_MAX + 1} records"):
        many.build(0, 0)

    large = BatchBuilder()
    large.size = BATCH_BYTES_MAX - 6
    large.add(None, None, [])
    with pytest.raises(InvalidBatch, match=f"{BATCH_BYTES_MAX + 1} bytes"):
        large.build(0, 0)


def test_batches_are_read_where_they_stand() -> None:
    first, second = bytes(batch_of(5)), bytes(batch_of(7, compression.LZ4))
    data = first + second + b"torn"

    assert check_batch(data).size == len(first)
    assert check_batch(data, len(first)).count == 7
    assert decode_batch(data, len(first)) == decode_batch(second)
    with pytest.raises(InvalidBatch, match="4 bytes are less than the 61"):
        read_header(data, len(first) + len(second))


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_buffer_will_do(kind: type[bytearray] | type[memoryview], codec: int) -> None:
    batch = bytes(batch_of(5, codec))
    data = kind(b"before" + batch + b"after")

    assert check_batch(data, 6).crc == check_batch(batch).crc
    assert decode_batch(data, 6) == decode_batch(batch)


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_a_part_of_a_batch_is_the_same_part_of_its_records(codec: int) -> None:
    batch = batch_of(200, codec)
    place_batch(batch, 1_000, 0)
    data = bytes(batch)
    records = decode_batch(data)

    assert decode_batch(data, 0, 1_050, 1_060) == records[50:60]
    assert decode_batch(data, 0, 0, 1_001) == records[:1]
    assert decode_batch(data, 0, 1_199) == records[199:]
    assert (
        decode_batch(data, 0, 0, 1_000)
        == decode_batch(data, 0, 1_200)
        == decode_batch(data, 0, 1_070, 1_070)
        == []
    )


def test_placing_a_batch_leaves_its_checksum_right() -> None:
    batch = batch_of(3)
    crc = check_batch(batch).crc

    place_batch(batch, OFFSET_MAX - 3, 2**31 - 1)

    assert check_batch(batch).crc == crc
    assert [r.offset for r in decode_batch(batch)] == [OFFSET_MAX - 3, OFFSET_MAX - 2, OFFSET_MAX - 1]


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_a_stamped_batch_has_one_time_for_all_its_records(codec: int) -> None:
    batch = batch_of(4, codec | PENSTOCK_BITS)

    stamp_batch(batch, 5_000)

    header = check_batch(batch)
    assert (header.max_timestamp, header.base_timestamp) == (5_000, 1_000)
    assert header.attributes == codec | PENSTOCK_BITS | APPEND_TIME
    assert {r.timestamp for r in decode_batch(batch)} == {5_000}


def test_a_control_batch_is_just_records() -> None:
    builder = BatchBuilder()
    builder.add(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", [])
    batch = bytes(builder.build(0, 0, CONTROL | TRANSACTIONAL))

    (record,) = decode_batch(batch)
    assert (record.key, record.attributes) == (b"\x00\x00\x00\x01", CONTROL | TRANSACTIONAL)


@pytest.mark.parametrize("attributes", [*EVERY_CODEC, PENSTOCK_BITS])
def test_a_batch_rewritten_whole_stays_as_it_was(attributes: int) -> None:
    batch = batch_of(20, attributes)
    place_batch(batch, 500, 3)

    assert rewrite_batch(check_batch(batch), decode_batch(batch)) == batch


@pytest.mark.parametrize("stamped", [False, True])
def test_a_batch_rewritten_with_fewer_records_keeps_its_place(stamped: bool) -> None:
    builder = BatchBuilder()
    for number in range(10):
        builder.add(b"k%d" % number, b"v", [], timestamp_delta=number)
    batch = builder.build(100, 109, lane_attributes(1), producer_id=4, producer_epoch=1, base_sequence=30)
    place_batch(batch, 70, 2)
    if stamped:
        stamp_batch(batch, 900)
    before, records = check_batch(batch), decode_batch(batch)

    rewritten = rewrite_batch(before, records[2:5:2])

    after = check_batch(rewritten)
    assert decode_batch(rewritten) == [records[2], records[4]]
    assert (after.base_offset, after.next_offset, after.leader_epoch, after.count) == (70, 80, 2, 2)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (4, 1, 30)
    assert after.attributes == before.attributes
    assert after.max_timestamp == (900 if stamped else 104)


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_a_batch_rewritten_with_no_records_still_spans_its_offsets(codec: int) -> None:
    batch = batch_of(10, codec | lane_attributes(-1))
    place_batch(batch, 70, 2)

    rewritten = rewrite_batch(check_batch(batch), [])

    after = check_batch(rewritten)
    assert (len(rewritten), after.count, after.next_offset, after.lane) == (HEADER_BYTES, 0, 80, -1)
    assert after.codec == 0
    assert decode_batch(rewritten) == []
    assert decode_batch(patched(rewritten, 21, ">h", codec)) == []


def test_a_stamped_batch_is_rewritten_whatever_its_base_timestamp() -> None:
    batch = bytearray(patched(batch_of(2), 27, ">q", -(2**63)))
    stamp_batch(batch, 2**63 - 1)
    records = decode_batch(batch)

    assert decode_batch(rewrite_batch(check_batch(batch), records)) == records


def test_records_are_compared_by_what_they_hold() -> None:
    record = Record(1, 2, b"k", b"v", [("h", b"x")], 0)
    twin = Record(1, 2, b"k", b"v", [("h", b"x")], 0)

    assert record == twin
    assert hash(record) == hash(twin)
    assert record != Record(1, 2, b"k", b"v", [("h", b"y")], 0)
    assert record != (1, 2, b"k", b"v", [("h", b"x")], 0)
    assert repr(record) == "Record(1, 2, b'k', b'v', [('h', b'x')], 0)"


@pytest.mark.parametrize(
    ("position", "layout", "number", "why"),
    [
        (0, ">q", -1, "spans 5 offsets from -1"),
        (0, ">q", OFFSET_MAX - 4, "spans 5 offsets"),
        (8, ">i", 48, "size is 60 bytes"),
        (8, ">i", -12, "size is 0 bytes"),
        (8, ">i", BATCH_BYTES_MAX, f"size is {BATCH_BYTES_MAX + 12} bytes"),
        (16, ">b", 1, "format is 1"),
        (21, ">h", 5, "no codec 5"),
        (21, ">h", 3 << 8, "no lane 3"),
        (21, ">h", 4 << 8, "no lane -4"),
        (23, ">i", -1, "spans 0 offsets"),
        (23, ">i", 3, "5 records in 4 offsets"),
        (57, ">i", -1, "-1 records"),
        (57, ">i", 2**31 - 1, "2147483647 records"),
    ],
)
def test_an_absurd_header_is_refused(position: int, layout: str, number: int, why: str) -> None:
    damaged = patched(batch_of(5), position, layout, number)

    with pytest.raises(InvalidBatch, match=why):
        read_header(damaged)
    with pytest.raises(InvalidBatch, match=why):
        decode_batch(damaged)


@pytest.mark.parametrize(("codec", "limit"), [(0, RECORDS_MAX), (4, RECORDS_MAX)])
def test_more_records_than_fit_are_refused(codec: int, limit: int) -> None:
    spacious = patched(batch_of(5, codec), 23, ">i", 2**31 - 1)

    with pytest.raises(InvalidBatch, match=f"{limit + 1} records in"):
        read_header(patched(spacious, 57, ">i", limit + 1))
    with pytest.raises(InvalidBatch, match=r"fit into|cut short"):
        decode_batch(patched(spacious, 57, ">i", limit))


def test_a_compressed_batch_that_counts_records_has_a_body() -> None:
    empty = with_body(1, b"")

    with pytest.raises(InvalidBatch, match="1 records do not fit into 61 bytes"):
        read_header(patched(empty, 21, ">h", compression.ZSTD))


def test_a_batch_that_is_not_all_there_is_refused() -> None:
    batch = bytes(batch_of(5))

    assert read_header(batch[:-1]).size == len(batch)
    for function in (check_batch, decode_batch):
        with pytest.raises(InvalidBatch, match=f"only {len(batch) - 1} of its {len(batch)} bytes"):
            function(batch[:-1])


def test_every_bit_under_the_checksum_counts() -> None:
    batch = bytes(batch_of(3))
    for position in range(17, len(batch)):
        for bit in range(8):
            damaged = patched(batch, position, ">B", batch[position] ^ (1 << bit))
            with pytest.raises(InvalidBatch):
                check_batch(damaged)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("0e000000010200", "a length of 7 at"),  # The record would end after the batch.
        ("ff000000000000", "cut short|a length of -|64 bits"),  # Its length is unreadable.
        ("0a0000000101", "do not fit"),
        ("0b00000001010000", "a length of -6"),
        ("0c000000010100", None),  # A good one: no key, no value.
        ("0c000000010180", "a number is cut short"),  # The number of headers goes on, and the batch does not.
        ("0c000000018080", "a number is cut short"),
        ("0c000000010102", "a length of 1"),  # A header is announced, and nothing follows.
        ("0c000000010101", "a length of -1"),  # Minus one header.
        ("0c000000030100", "a length of -2"),  # A key of length -2.
        ("0c000002010100", "offset 1 is out of order or outside"),
        ("0c000001010100", "offset -1 is out of order or outside"),
        ("0e00000001010000", "does not end where it should"),  # A byte too many in the record.
        ("0c00000001010000", "1 bytes are left over"),  # A byte too many after it.
        ("120000000101020100", "does not end where it should|left over|a length|cut short"),
        ("1200000001010202ff00", "not UTF-8"),
        ("10000000010102010000"[:18], "without a name"),
        ("1e00ffffffffffffffffff7f00010100", "does not fit into 64 bits"),
        ("2000ffffffffffffffffffff0100010100", "does not fit into 64 bits"),
        ("1e00feffffffffffffffff0100010100", "a timestamp of"),
    ],
)
def test_a_damaged_record_is_refused(body: str, why: str | None) -> None:
    batch = with_body(1, bytes.fromhex(body))
    if why is None:
        assert decode_batch(batch) == [Record(0, 0, None, None, [], 0)]
        return
    with pytest.raises(InvalidBatch, match=why):
        decode_batch(batch)


def test_records_in_the_wrong_order_are_refused() -> None:
    body = bytes.fromhex("0c0000020101000c000000010100")

    with pytest.raises(InvalidBatch, match="offset 0 is out of order"):
        decode_batch(with_body(2, body))


def test_a_small_batch_cannot_explode() -> None:
    bomb = BatchBuilder()
    bomb.add(None, bytes(50_000_000), [])
    batch = bytes(bomb.build(0, 0, compression.ZSTD))
    assert len(batch) < 5_000

    with pytest.raises(InvalidBatch, match="longer than 1000000 bytes"):
        decode_batch(batch, limit_bytes=1_000_000)


# What librdkafka 2.16 sent to a broker: values repeat their number, the second record has headers,
# the third is empty, timestamps fall by 10 ms, and the zstd producer is idempotent.
LIBRDKAFKA = {
    "none": """
        000000000000000000000120000000000225ba28890000000000030000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff000000048e0100000001800176616c756520302076616c756520302076616c756520302076616c
        756520302076616c756520302076616c756520302076616c756520302076616c756520302000a201001302066b657980
        0176616c756520312076616c756520312076616c756520312076616c756520312076616c756520312076616c75652031
        2076616c756520312076616c75652031200402610231026e010c0027040101009401003b06066b6579800176616c7565
        20332076616c756520332076616c756520332076616c756520332076616c756520332076616c756520332076616c7565
        20332076616c756520332000""",
    "gzip": """
        0000000000000000000000820000000002306a6d010001000000030000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff000000041f8b0800000000000003eb63646060606c602c4bcc294d55305020976658c4c820ccc4
        969d5a0933cb50815c9a852991c990298f9187419d859191610a2383351bb2c9c60ae4d20c002af555e9ef000000""",
    "snappy": """
        00000000000000000000007c00000000021b33adf90002000000030000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff00000004ef013c8e0100000001800176616c7565203020de08002400a201001302066b6579114c
        00310d4cc60800500402610231026e010c0027040101009401003b06061d5a00330d5ac608000000""",
    "lz4": """
        00000000000000000000009000000000028f5800160003000000030000018bcfe568000000018bcfe56800ffffffffff
        ffffffffffffffffff0000000404224d1860408250000000ff018e0100000001800176616c7565203020080025a400a2
        01001302066b65794c0013314c000f08001ff8050402610231026e010c0027040101009401003b065a0013335a000f08
        001b50652033200000000000""",
    "zstd": """
        000000000000000000000080000000000200f036650004000000030000018bcfe568000000018bcfe568000000000014
        4ac3600000000000000000000428b52ffd005835020014038e0100000001800176616c756520302000a201001302066b
        6579310402610231026e010c0027040101009401003b06330007008308905d5de0781001f27d028174675902""",
}


@pytest.mark.parametrize("name", sorted(LIBRDKAFKA))
def test_a_batch_of_librdkafka_is_read(name: str) -> None:
    batch = bytes.fromhex(LIBRDKAFKA[name])
    codec = compression.CODECS[name]
    now_ms = 1_700_000_000_000

    header = check_batch(batch)
    assert (header.size, header.codec, header.base_sequence) == (
        len(batch),
        codec,
        0 if name == "zstd" else -1,
    )
    records = decode_batch(batch)
    assert records == [
        Record(0, now_ms, None, b"value 0 " * 8, [], codec),
        Record(1, now_ms - 10, b"key", b"value 1 " * 8, [("a", b"1"), ("n", None)], codec),
        Record(2, now_ms - 20, None, None, [], codec),
        Record(3, now_ms - 30, b"key", b"value 3 " * 8, [], codec),
    ]
    if name == "none":
        assert rewrite_batch(header, records) == batch


ORACLE_RECORDS: list[tuple[int, bytes | None, bytes | None, Headers]] = [
    (1_000, b"key", b"value", []),
    (1_000, None, b"x" * 100_000, []),
    (400, b"", b"", [("a", b"1"), ("a", None), ("ü", b"")]),
    (-5, b"deleted", None, [("h" * 200, b"v" * 9_000)]),
    (1_700_000_000_000, None, b"late", []),
]


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_aiokafka_reads_what_we_write(codec: int) -> None:
    oracle: Any = pytest.importorskip("aiokafka.record.default_records")
    builder = BatchBuilder()
    for timestamp, key, value, headers in ORACLE_RECORDS:
        builder.add(key, value, headers, timestamp - 1_000)
    batch = builder.build(1_000, 1_700_000_000_000, codec | PENSTOCK_BITS, 9, 2, 77)
    place_batch(batch, 123, 4)

    theirs = oracle.DefaultRecordBatch(bytes(batch))

    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.next_offset, theirs.compression_type) == (123, 128, codec)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 2, 77)
    assert not theirs.is_control_batch
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs] == [
        (123 + number, *record) for number, record in enumerate(ORACLE_RECORDS)
    ]


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_we_read_what_aiokafka_writes(codec: int) -> None:
    oracle: Any = pytest.importorskip("aiokafka.record.default_records")
    theirs = oracle.DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=1,
        producer_id=9, producer_epoch=2, base_sequence=77, batch_size=1_000_000,
    )  # fmt: skip
    for number, (timestamp, key, value, headers) in enumerate(ORACLE_RECORDS):
        assert theirs.append(number, timestamp, key, value, headers) is not None
    batch = bytes(theirs.build())

    header = check_batch(batch)

    assert (header.codec, header.count, header.next_offset) == (codec, 5, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 77)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_700_000_000_000)
    records = decode_batch(batch)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records] == ORACLE_RECORDS
    if codec == compression.NONE:
        assert rewrite_batch(header, records) == batch
