"""The four codecs: there and back, what others write, damage, and bombs."""

import gzip
import tracemalloc

import cramjam
import pytest

from penstock.errors import InvalidBatch
from penstock.wire.compression import CODEC_NAMES, CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress

LIMIT_BYTES = 1 << 20
PACKING = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"".join(b'{"order": %d, "state": "paid"}\n' % number for number in range(5_000))


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES))
@pytest.mark.parametrize("data", [b"", b"a", b"a" * 70_000, TEXT, bytes(range(256)) * 300])
def test_what_goes_in_comes_out(codec: int, data: bytes) -> None:
    packed = compress(codec, data)

    assert decompress(codec, packed, LIMIT_BYTES) == data
    assert decompress(codec, memoryview(b"<" + packed + b">")[1:-1], LIMIT_BYTES) == data


@pytest.mark.parametrize("codec", PACKING)
def test_text_shrinks(codec: int) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 4


def test_names_and_numbers_are_those_of_kafka() -> None:
    assert CODECS == {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    assert {CODECS[name] for name in CODEC_NAMES.values()} == set(CODEC_NAMES)


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES))
def test_the_limit_is_exact(codec: int) -> None:
    packed = compress(codec, TEXT)

    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(InvalidBatch):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_data_that_shrank_very_much_still_fits(codec: int) -> None:
    zeros = bytes(LIMIT_BYTES - 1)  # From zstd, a ratio of 10,000: the output has to grow several times.

    assert decompress(codec, compress(codec, zeros), LIMIT_BYTES) == zeros


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(16 << 20))

    tracemalloc.start()
    try:
        with pytest.raises(InvalidBatch):
            decompress(codec, bomb, LIMIT_BYTES)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * LIMIT_BYTES


def test_snappy_is_not_believed_when_it_claims_too_much() -> None:
    claims_a_mebibyte = b"\x80\x80\x40" + b"\x00a"

    with pytest.raises(InvalidBatch, match="claims 1048576 bytes"):
        decompress(SNAPPY, claims_a_mebibyte, LIMIT_BYTES)


@pytest.mark.parametrize("codec", PACKING)
def test_data_that_is_cut_short_is_refused(codec: int) -> None:
    packed = compress(codec, TEXT)

    for length in (len(packed) - 1, len(packed) // 2, 17, 3):
        with pytest.raises(InvalidBatch):
            decompress(codec, packed[:length], LIMIT_BYTES)


@pytest.mark.parametrize("codec", PACKING)
def test_noise_is_refused(codec: int) -> None:
    with pytest.raises(InvalidBatch):
        decompress(codec, b"\xff" * 100, LIMIT_BYTES)


def test_snappy_is_written_as_java_writes_it() -> None:
    packed = compress(SNAPPY, b"a" * 100_000)

    assert packed[:16] == b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x01"
    first = int.from_bytes(packed[16:20], "big")
    second = int.from_bytes(packed[20 + first : 24 + first], "big")
    assert len(packed) == 24 + first + second
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == b"a" * 65_536


def test_snappy_without_frames_is_read_too() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), LIMIT_BYTES) == TEXT


def test_the_blocks_of_snappy_share_one_limit() -> None:
    packed = compress(SNAPPY, bytes(3 * 65_536))

    with pytest.raises(InvalidBatch, match="longer than 196607 bytes"):
        decompress(SNAPPY, packed, 3 * 65_536 - 1)


def test_the_length_of_a_snappy_block_may_not_pass_the_end() -> None:
    packed = compress(SNAPPY, b"abc")

    with pytest.raises(InvalidBatch, match="cut short"):
        decompress(SNAPPY, packed[:16] + b"\xff\xff\xff\xff" + packed[20:], LIMIT_BYTES)


def test_gzip_of_the_standard_library_is_read_also_in_two_members() -> None:
    packed = gzip.compress(TEXT) + gzip.compress(b"and more")

    assert decompress(GZIP, packed, LIMIT_BYTES) == TEXT + b"and more"
    assert gzip.decompress(compress(GZIP, TEXT)) == TEXT


# "Penstock " forty times, by lz4 4.4.5 (liblz4, linked blocks, content size and checksum) and by
# zstandard 0.25 (libzstd, streamed without a content size): other people's code than ours.
FOREIGN = {
    LZ4: "04224d187c406801000000000000b7140000009f50656e73746f636b200900ff48"
    "50746f636b20a5a03e440000000010a9f511",
    ZSTD: "28b52ffd04588500004850656e73746f636b2001005c54cb1193da277c",
}


@pytest.mark.parametrize("codec", sorted(FOREIGN))
def test_frames_of_the_reference_libraries_are_read(codec: int) -> None:
    assert decompress(codec, bytes.fromhex(FOREIGN[codec]), LIMIT_BYTES) == b"Penstock " * 40


def test_a_codec_that_does_not_exist_is_a_bug() -> None:
    for codec in (-1, 5):
        with pytest.raises(KeyError):
            compress(codec, b"")
        with pytest.raises(KeyError):
            decompress(codec, b"", LIMIT_BYTES)
    assert compress(NONE, b"x") == b"x"
