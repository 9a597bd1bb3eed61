"""Any records survive a batch; any damage to a batch is an InvalidBatch or a list of records, never more.

The damage is done where it hurts most: the records themselves, which the
checksum would have protected, are given to the decoder as they are.
"""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.errors import InvalidBatch, InvalidRecords, MessageTooLarge
from penstock.model.placing import stored_bytes
from penstock.wire.columns import decode_columns
from penstock.wire.compression import CODEC_NAMES, compress, decompress
from penstock.wire.records import (
    APPEND_TIME,
    CODEC_MASK,
    HEADER_BYTES,
    MS_MAX,
    OFFSET_MAX,
    BatchBuilder,
    Headers,
    Record,
    check_batch,
    decode_batch,
    lane_attributes,
    place_batch,
    read_header,
    stamp_batch,
)
from penstock.wire.rewriting import encode_records, rewrite_batch, slice_batch
from penstock.wire.validation import EVERYTHING, Limits, check_records

EVERY_COLUMN = 127
LIMIT_BYTES = 1 << 16  # More than any batch below, so that only damage runs into it.

blobs = st.binary(max_size=20) | st.integers(0, 9_000).map(bytes)
names = st.text("aé☃", max_size=6)
header_lists: st.SearchStrategy[Headers] = st.lists(
    st.tuples(names, st.none() | st.binary(max_size=9)), max_size=2
)
timestamp_deltas = st.integers(-1_000, 1_000) | st.integers(-(2**60), 2**60)
gaps = st.sampled_from([0, 0, 0, 1, 700])
parts = st.tuples(gaps, timestamp_deltas, st.none() | blobs, st.none() | blobs, header_lists)
attribute_bits = st.builds(
    lambda codec, lane, own: codec | lane_attributes(lane) | own << 11,
    st.sampled_from(sorted(CODEC_NAMES)),
    st.integers(-2, 2),
    st.integers(0, 15),
)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Records of one batch: offsets rise, with gaps, from where it begins."""
    offset = draw(st.integers(0, 2**61))
    base_timestamp = draw(st.integers(0, 2**41))
    records: list[Record] = []
    for gap, timestamp_delta, key, value, headers in draw(st.lists(parts, min_size=1, max_size=6)):
        offset += gap
        timestamp = base_timestamp + (timestamp_delta if records else 0)
        records.append(Record(offset, timestamp, key, value, headers, 0))
        offset += 1
    return records


def batch_of(records: list[Record], attributes: int) -> bytearray:
    first = records[0]
    builder = BatchBuilder()
    for record in records:
        timestamp_delta, offset_delta = record.timestamp - first.timestamp, record.offset - first.offset
        builder.add(record.key, record.value, record.headers, timestamp_delta, offset_delta)
    batch = builder.build(first.timestamp, max(r.timestamp for r in records), attributes)
    assert attributes & 7 or len(batch) == builder.size
    place_batch(batch, first.offset, 1)
    return batch


def with_attributes(records: list[Record], attributes: int) -> list[Record]:
    return [Record(r.offset, r.timestamp, r.key, r.value, r.headers, attributes) for r in records]


def outcome(data: bytes, position: int = 0) -> str | list[Record]:
    """What decoding comes to; any other exception fails the test."""
    try:
        return decode_batch(data, position, limit_bytes=LIMIT_BYTES)
    except InvalidBatch as error:
        return str(error)


@given(record_lists(), attribute_bits)
def test_records_survive_a_batch(records: list[Record], attributes: int) -> None:
    batch = batch_of(records, attributes)

    header = check_batch(batch)
    decoded = decode_batch(bytes(batch))

    assert decoded == with_attributes(records, attributes)
    assert (header.base_offset, header.next_offset) == (records[0].offset, records[-1].offset + 1)
    assert (header.count, header.size, header.attributes) == (len(records), len(batch), attributes)
    assert rewrite_batch(header, decoded) == batch


@given(record_lists(), st.lists(attribute_bits, min_size=1, max_size=3), st.integers(1, 4))
def test_stored_records_survive_being_encoded_again(
    records: list[Record], attributes: list[int], run: int
) -> None:
    stored = [
        Record(
            each.offset,
            each.timestamp,
            each.key,
            each.value,
            each.headers,
            attributes[at // run % len(attributes)],
        )
        for at, each in enumerate(records)
    ]

    data = encode_records(stored)

    decoded: list[Record] = []
    at = 0
    while at < len(data):
        header = check_batch(data, at)
        decoded += decode_batch(data, at)
        at += header.size
    kept = ~(CODEC_MASK | APPEND_TIME)
    assert decoded == [
        Record(each.offset, each.timestamp, each.key, each.value, each.headers, each.attributes & kept)
        for each in stored
    ]


@given(record_lists(), st.binary(max_size=70), st.data())
def test_a_batch_is_cut_to_the_records_that_are_wanted(
    records: list[Record], before: bytes, data: st.DataObject
) -> None:
    first = records[0].offset
    dense = [
        Record(first + at, each.timestamp, each.key, each.value, each.headers, 0)
        for at, each in enumerate(records)
    ]
    batch = before + batch_of(dense, 0)
    start = data.draw(st.integers(max(first - 2, 0), first + len(dense) - 1))
    end = data.draw(st.integers(max(start, first) + 1, first + len(dense) + 2))

    part = slice_batch(batch, len(before), check_batch(batch, len(before)), start, end)

    assert check_batch(part).size == len(part)
    assert decode_batch(bytes(part)) == [each for each in dense if start <= each.offset < end]


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=50), st.integers(0, 3000))
def test_values_together_are_as_values_one_by_one(values: list[bytes], before: int) -> None:
    one_by_one, together = BatchBuilder(), BatchBuilder()
    for builder in (one_by_one, together):
        builder.add(None, None, [], offset_delta=before)
    for value in values:
        one_by_one.add(None, value, [])
    together.add_values(values)
    assert together.build(1, 1) == one_by_one.build(1, 1)


@given(record_lists(), attribute_bits, st.data())
def test_a_part_is_a_slice_of_the_whole(records: list[Record], attributes: int, data: st.DataObject) -> None:
    batch = bytes(batch_of(records, attributes))
    offsets = st.integers(records[0].offset - 2, records[-1].offset + 3)
    start, end = data.draw(offsets), data.draw(offsets)

    part = decode_batch(batch, 0, start, end)

    assert part == [r for r in with_attributes(records, attributes) if start <= r.offset < end]


@given(record_lists(), attribute_bits, st.data(), st.integers(0, 2**41))
def test_compaction_drops_records_and_nothing_else(
    records: list[Record], attributes: int, data: st.DataObject, stamp: int
) -> None:
    batch = batch_of(records, attributes)
    if data.draw(st.booleans()):
        stamp_batch(batch, stamp)
    header, decoded = check_batch(batch), decode_batch(batch)
    kept = [record for record in decoded if data.draw(st.booleans())]

    rewritten = rewrite_batch(header, kept)

    after = check_batch(rewritten)
    assert (after.base_offset, after.next_offset, after.count) == (
        header.base_offset,
        header.next_offset,
        len(kept),
    )
    assert decode_batch(rewritten) == kept
    if kept and not header.attributes & APPEND_TIME:
        assert after.max_timestamp == max(record.timestamp for record in kept)


@st.composite
def damaged_batches(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A batch, and the same with some bytes after its header changed; the size field is true for both."""
    batch = batch_of(draw(record_lists()), draw(attribute_bits))
    body = bytearray(batch[HEADER_BYTES:])
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(body) - 1, 0)))
        match draw(st.sampled_from(["change", "change", "extreme", "cut", "insert", "double"])):
            case "change":
                body[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case "extreme":  # Lengths of -2 and -1, and numbers that do not end.
                body[place : place + 1] = draw(
                    st.sampled_from([b"\x03", b"\x01", b"\xff", b"\xff" * 9 + b"\x01"])
                )
            case "cut":
                del body[place:]
            case "insert":
                body[place:place] = draw(st.binary(max_size=12))
            case _:
                body += body[place:]
    damaged = batch[:HEADER_BYTES] + body
    damaged[8:12] = (len(damaged) - 12).to_bytes(4, "big")
    return bytes(batch), bytes(damaged)


@given(damaged_batches(), st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_damaged_records_are_refused_and_nothing_beside_them_is_read(
    batches: tuple[bytes, bytes], before: bytes, after: bytes, other: bytes
) -> None:
    batch, damaged = batches

    alone = outcome(damaged)

    if isinstance(alone, list):  # The damage hit contents, not structure.
        header = read_header(damaged)
        offsets = [record.offset for record in alone]
        assert len(alone) == header.count
        assert offsets == sorted(set(offsets))
        assert all(header.base_offset <= offset < header.next_offset for offset in offsets)
        assert decode_batch(rewrite_batch(header, alone)) == alone
    # The neighbours make no difference; the text may name other byte positions.
    beside_one, beside_other = (
        outcome(before + damaged + after, len(before)),
        outcome(before + damaged + other, len(before)),
    )
    assert beside_one == beside_other
    assert isinstance(beside_one, list) == isinstance(alone, list)
    if damaged != batch:
        try:
            check_batch(damaged)
        except InvalidBatch:
            return
        raise AssertionError("the checksum does not see the damage")


@given(record_lists(), attribute_bits, st.data())
def test_damaged_headers_are_refused_or_harmless(
    records: list[Record], attributes: int, data: st.DataObject
) -> None:
    batch = batch_of(records, attributes)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, HEADER_BYTES - 1))
        batch[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    damaged = bytes(batch)

    records_or_error = outcome(damaged)

    if isinstance(records_or_error, list):
        assert len(records_or_error) == read_header(damaged).count


@given(st.binary(max_size=200))
@example(bytes(HEADER_BYTES))
def test_noise_is_no_batch(noise: bytes) -> None:
    for data in (noise, noise.ljust(HEADER_BYTES, b"\x00")):
        try:
            check_batch(data)
        except InvalidBatch:
            continue
        raise AssertionError("noise passed for a batch")


@given(record_lists(), st.data(), st.integers(0, 7))
def test_a_flipped_bit_is_always_seen(records: list[Record], data: st.DataObject, bit: int) -> None:
    """But for the base offset and the leader epoch, which lie outside the checksum."""
    batch = batch_of(records, 0)
    batch[data.draw(st.sampled_from([*range(8, 12), *range(16, len(batch))]))] ^= 1 << bit

    try:
        check_batch(batch)
    except InvalidBatch:
        return
    raise AssertionError("the checksum does not see the flipped bit")


@given(st.sampled_from(sorted(CODEC_NAMES)), st.binary(max_size=300) | st.integers(0, 60_000).map(bytes))
def test_bytes_survive_a_codec(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@given(st.sampled_from([1, 2, 3, 4]), blobs, st.data())
def test_damaged_compression_is_refused_or_within_its_limit(
    codec: int, blob: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, blob))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))

    try:
        unpacked = decompress(codec, packed, LIMIT_BYTES)
    except InvalidBatch:
        return
    assert len(unpacked) <= LIMIT_BYTES


def changed(data: bytes, places: list[tuple[int, int]]) -> bytes:
    """Some bytes of the records with others in their place."""
    body = bytearray(data)
    for at, byte in places:
        if len(body) > HEADER_BYTES:
            body[HEADER_BYTES + at % (len(body) - HEADER_BYTES)] = byte
    return bytes(body)


changes = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)


@given(records=record_lists(), attributes=attribute_bits, places=changes)
def test_whatever_is_let_in_can_be_read_by_everybody(
    records: list[Record], attributes: int, places: list[tuple[int, int]]
) -> None:
    data = changed(bytes(batch_of(records, attributes)), places)
    header = read_header(data)
    try:
        check_records(data, header, Limits(LIMIT_BYTES, dense=False), EVERYTHING)
    except (InvalidRecords, MessageTooLarge):
        return

    found = decode_batch(data)

    assert len(found) == header.count
    columns = decode_columns(data, 0, 0, OFFSET_MAX, EVERY_COLUMN)
    assert columns.rows == header.count
    assert all(stored_bytes(it.key, it.value, it.headers) <= LIMIT_BYTES for it in found)


@given(records=record_lists(), attributes=attribute_bits)
def test_whatever_we_encode_is_let_in(records: list[Record], attributes: int) -> None:
    data = bytes(batch_of(records, attributes))
    assume(all(abs(record.timestamp) <= MS_MAX for record in records))

    assert check_records(data, read_header(data), Limits(LIMIT_BYTES, dense=False), EVERYTHING) == []
