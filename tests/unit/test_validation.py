"""Looking at the records of a batch before it is written."""

from collections.abc import Callable
from struct import pack

import cramjam
import pytest

from penstock.errors import InvalidRecords, MessageTooLarge, PenstockError
from penstock.wire import compression
from penstock.wire.compression import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from penstock.wire.records import BatchBuilder, encode_values, read_header
from penstock.wire.validation import EVERYTHING, INLINE_BYTES, UNPACKED_BYTES, Limits, check_records

LIMITS = Limits(1 << 20)
MIB = 1 << 20


def checked(data: bytes, limits: Limits = LIMITS, at_most: int = EVERYTHING) -> list[int] | None:
    return check_records(data, read_header(data), limits, at_most)


def with_body(body: bytes, count: int, codec: int = NONE, span: int | None = None) -> bytes:
    """A batch with any bytes in the place of its records; nobody looks at the checksum here."""
    last = (count if span is None else span) - 1
    head = pack(">qiibIhiqqqhii", 0, 49 + len(body), 0, 2, 0, codec, last, 1000, 1000, -1, -1, -1, count)
    return head + body


def varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else ((-number) << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(
    *,
    delta: int = 0,
    time: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    def blob(data: bytes | None) -> bytes:
        return varint(-1) if data is None else varint(len(data)) + data

    body = b"\0" + varint(time) + varint(delta) + blob(key) + blob(value) + headers
    return varint(len(body) if length is None else length) + body


@pytest.mark.parametrize("codec", CODECS.values())
def test_what_our_own_encoder_makes_passes(codec: int) -> None:
    builder = BatchBuilder()
    for number in range(300):
        builder.add(b"k" * number, b"v" * number * 10, [("name", b"x"), ("näme", None)], number)
    builder.add(None, None, [])
    data = bytes(builder.build(1000, 2000, codec))

    assert checked(data) == []


BROKEN: dict[str, tuple[bytes, int]] = {
    "garbage": (bytes(range(7, 250)), 3),
    "nothing": (b"", 1),
    "a record too few": (record(), 2),
    "a record too many": (record() + record(delta=1), 1),
    "bytes left over": (record() + b"\0", 1),
    "a length that is too long": (record(length=90), 1),
    "a length that is too short": (record(length=6), 1),
    "a negative length": (record(length=-1), 1),
    "a record that ends too early": (record(headers=b"\0\0"), 1),
    "an offset that is missing": (record() + record(delta=2), 2),
    "offsets that do not rise": (record() + record(delta=0), 2),
    "a negative offset": (record(delta=-1), 1),
    "a time that nobody can hold": (record(time=1 << 62), 1),
    "a number that does not end": (b"\xff" * 20, 1),
    "a key that is too long": (varint(8) + b"\0\0\0" + varint(100) + b"abcd", 1),
    "a negative count of headers": (record(headers=varint(-1)), 1),
    "more headers than bytes": (record(headers=varint(1000)), 1),
    "a header without a name": (record(headers=varint(1) + varint(-1) + varint(0)), 1),
    "a name that is not UTF-8": (record(headers=varint(1) + varint(1) + b"\xff" + varint(0)), 1),
    "a header that is too long": (record(headers=varint(1) + varint(1) + b"n" + varint(9)), 1),
}


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_is_refused(name: str, codec: int) -> None:
    body, count = BROKEN[name]
    data = with_body(compress(codec, body) if codec else body, count, codec)
    if len(data) < 61 + 7 * count and not codec:
        data += bytes(61 + 7 * count - len(data))  # Less is refused by the header.
        data = data[:8] + pack(">i", len(data) - 12) + data[12:]

    with pytest.raises(InvalidRecords):
        checked(data)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_data_that_cannot_be_unpacked_is_refused(codec: int) -> None:
    with pytest.raises(InvalidRecords, match=r"damaged|claims|cut short"):
        checked(with_body(b"\x9b" * 200, 1, codec), at_most=INLINE_BYTES)


def test_a_record_to_blame_is_named() -> None:
    with pytest.raises(InvalidRecords) as caught:
        checked(with_body(record() + record(delta=7), 2))

    assert caught.value.records == [1]


def test_a_batch_without_records_or_with_gaps_is_for_restores_only() -> None:
    gap = with_body(record() + record(delta=5), 2, span=6)
    empty = with_body(b"", 0, span=3)

    for data in (gap, empty):
        assert checked(data, Limits(MIB, dense=False)) == []
        with pytest.raises(InvalidRecords, match="offsets"):
            checked(data)
    with pytest.raises(InvalidRecords, match="offsets from the first"):
        checked(with_body(record() + record(delta=6), 2, span=6), Limits(MIB, dense=False))


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("part", ["key", "value", "name", "header"])
def test_the_limit_counts_key_value_and_headers(codec: int, part: str) -> None:
    def made(size: int) -> bytes:
        builder = BatchBuilder()
        big = b"x" * size
        if part in ("key", "value"):
            builder.add(big if part == "key" else b"", big if part == "value" else b"", [])
        else:
            builder.add(None, b"", [(big.decode(), b"") if part == "name" else ("", big)])
        return bytes(builder.build(1000, 1000, codec))

    assert checked(made(1000), Limits(1000)) == []
    with pytest.raises(MessageTooLarge) as caught:
        checked(made(1001), Limits(1000))
    assert caught.value.facts == {"size_bytes": 1001, "limit_bytes": 1000}


@pytest.mark.slow
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_one_record_that_is_too_large_is_refused_by_its_length(codec: int) -> None:
    """60 MiB in some kilobytes: it is not unpacked, and needs no thread."""
    body = record(value=bytes(60 * MIB))
    data = with_body(compress(codec, body), 1, codec)

    with pytest.raises(MessageTooLarge) as caught:
        checked(data, at_most=INLINE_BYTES)
    assert caught.value.facts["size_bytes"] > 60 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_batch_that_unpacks_to_more_than_its_limit_is_refused(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [bytes(1000)] * (UNPACKED_BYTES // 1000 + 1)
    data = bytes(encode_values(values, 1000, codec))
    largest = watch_outputs(monkeypatch)

    assert checked(data, at_most=INLINE_BYTES) is None
    with pytest.raises(MessageTooLarge):
        checked(data)
    assert max(largest) <= UNPACKED_BYTES


def watch_outputs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all buffers that something is unpacked into."""
    seen: list[int] = []

    def watched(inner: Callable[[bytes, bytearray], int]) -> Callable[[bytes, bytearray], int]:
        def into(data: bytes, output: bytearray) -> int:
            seen.append(len(output))
            return inner(data, output)

        return into

    table = {codec: watched(inner) for codec, inner in compression._DECOMPRESS_INTO.items()}
    monkeypatch.setattr(compression, "_DECOMPRESS_INTO", table)
    return seen


@pytest.mark.slow
def test_a_thousand_mebibytes_in_32_kilobytes_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = bytes(cramjam.zstd.compress(bytes(1000 * MIB)))
    assert len(packed) < 40_000
    largest = watch_outputs(monkeypatch)

    with pytest.raises(PenstockError):
        checked(with_body(packed, 1, ZSTD))
    assert max(largest) <= UNPACKED_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 1000, 8 * MIB, 64 * MIB])
def test_a_record_that_its_topic_takes_may_be_compressed(limit: int) -> None:
    data = bytes(encode_values([bytes(limit)], 1000, ZSTD))

    assert checked(data, Limits(limit)) == []


def test_what_is_large_is_left_to_who_has_time() -> None:
    many = bytes(encode_values([b""] * 20_000, 1000))
    large = bytes(encode_values([bytes(2 * MIB)], 1000, ZSTD))

    assert checked(many, at_most=INLINE_BYTES) is None
    assert checked(large, Limits(4 * MIB), at_most=INLINE_BYTES) is None
    assert checked(many) == checked(large, Limits(4 * MIB)) == []


def test_records_without_a_key_are_named_where_each_needs_one() -> None:
    builder = BatchBuilder()
    for key in (b"a", None, b"", None):
        builder.add(key, b"v", [])
    data = bytes(builder.build(1000, 1000))

    assert checked(data, Limits(MIB, keyed=True)) == [1, 3]
    assert checked(data) == []


def test_headers_that_are_nothing_but_lengths_count() -> None:
    """A million headers without a byte in them would be a million objects for each reader."""
    headers = varint(1_000_000) + b"\0\0" * 1_000_000
    data = with_body(compress(ZSTD, record(headers=headers)), 1, ZSTD)

    with pytest.raises(MessageTooLarge):
        checked(data, Limits(1000))
