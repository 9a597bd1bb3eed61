"""The four compression codecs of a record batch, with a limit on the size of their output.

    number  name    bytes
    0       none    as they are
    1       gzip    gzip members (RFC 1952)
    2       snappy  written in xerial frames, as Java does; read in xerial frames, or raw as librdkafka writes
    3       lz4     LZ4 frames
    4       zstd    Zstandard frames (RFC 8878)

Compressed data from the network may be a decompression bomb: a kilobyte of zstd can
contain gigabytes.  So ``decompress`` never holds more than twice ``limit_bytes``
(besides the codec's own window), and refuses longer data.  A length stated in the
data is trusted only up to that limit.  Any damage raises ``InvalidBatch`` and no
other error.  ``unpack`` returns the beginning of longer data, for callers that can
decide by it whether to continue.

Costs: native code throughout.  A stream says nothing trustworthy about its
unpacked length, so the output starts at four times the input and grows
eightfold until it fits: most batches fit at once.  Data that is longer than the
limit costs as much as data of ``limit_bytes``; damaged data costs what precedes the
damage.  The library distinguishes output that is too short from damaged data only by
the text of its error.  But it fills the output first, so a sentinel at its end tells
the two apart.

Not supported: levels (each codec's default) and dictionaries.
"""

from collections.abc import Callable
from typing import Any, Final

from penstock.errors import InvalidBatch

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODECS: Final[dict[str, int]] = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CODEC_NAMES: Final[dict[int, str]] = {number: name for name, number in CODECS.items()}

Data = bytes | bytearray | memoryview

_OUTPUT_BYTES_MIN: Final = 1 << 14  # Below this, a larger first try costs nothing.
_FIRST_RATIO: Final = 4  # Records of JSON shrink about fourfold.
_GROWTH: Final = 8  # Three tries reach a ratio of 256, which text does not.
_END: Final = bytes.fromhex(
    "a55a3cc396695aa5f00f0ff03ca5c369"
)  # Unless it is overwritten, there was room left.

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2  # Version 1, readable since version 1.
_XERIAL_BLOCK_BYTES: Final = 1 << 16  # Snappy never looks back further, so longer blocks gain nothing.
_SNAPPY_RATIO_MAX: Final = 64  # No element of snappy stands for more: 64 bytes from a 3-byte copy.


def compress(codec: int, data: Data) -> bytes:
    """The data in the form of a codec."""
    return _COMPRESS[codec](data)


def decompress(codec: int, data: Data, limit_bytes: int) -> bytes:
    """Decompress data; InvalidBatch if it is damaged or longer than the limit."""
    unpacked, is_whole = unpack(codec, data, limit_bytes)
    if not is_whole:
        raise InvalidBatch(why=f"its {CODEC_NAMES[codec]} data is longer than {limit_bytes} bytes")
    return unpacked


def unpack(codec: int, data: Data, limit_bytes: int) -> tuple[bytes, bool]:
    """``decompress``; of data beyond the limit some of its beginning, and False."""
    if codec == NONE:
        return bytes(data[:limit_bytes]), len(data) <= limit_bytes
    if codec == SNAPPY:
        return _unpack_snappy(data, limit_bytes)
    return _unpack_stream(codec, data, limit_bytes)


def _cramjam() -> Any:
    """Imported with the first compressed batch: it takes 1.5 MB."""
    import cramjam

    return cramjam


def _compress_snappy(data: Data) -> bytes:
    cramjam = _cramjam()
    pieces: list[bytes] = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


_COMPRESS: Final[dict[int, Callable[[Data], bytes]]] = {
    NONE: bytes,
    GZIP: lambda data: bytes(_cramjam().gzip.compress(data)),
    SNAPPY: _compress_snappy,
    LZ4: lambda data: bytes(_cramjam().lz4.compress(data)),
    ZSTD: lambda data: bytes(_cramjam().zstd.compress(data)),
}

_DECOMPRESS_INTO: Final[dict[int, Callable[[Any, Any], int]]] = {
    GZIP: lambda data, output: int(_cramjam().gzip.decompress_into(data, output)),
    LZ4: lambda data, output: int(_cramjam().lz4.decompress_into(data, output)),
    ZSTD: lambda data, output: int(_cramjam().zstd.decompress_into(data, output)),
}


def _unpack_stream(codec: int, data: Data, limit_bytes: int) -> tuple[bytes, bool]:
    cramjam = _cramjam()
    decompress_into = _DECOMPRESS_INTO[codec]
    output_bytes = min(max(len(data) * _FIRST_RATIO, _OUTPUT_BYTES_MIN), limit_bytes)
    while True:
        output = bytearray(output_bytes)
        end = _END[: min(output_bytes, len(_END))]
        output[output_bytes - len(end) :] = end
        try:
            length = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if end and output.endswith(end):
                raise InvalidBatch(why=f"its {CODEC_NAMES[codec]} data is damaged ({error})") from None
            if output_bytes >= limit_bytes:
                return bytes(output), False
            output_bytes = min(output_bytes * _GROWTH, limit_bytes)
        else:
            return bytes(memoryview(output)[:length]), True


def _unpack_snappy(data: Data, limit_bytes: int) -> tuple[bytes, bool]:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        block = _unpack_block(view, limit_bytes)
        return (b"", False) if block is None else (block, True)
    pieces: list[bytes] = []
    position = len(_XERIAL_HEADER)
    while position < len(view):
        start = position + 4
        position = start + int.from_bytes(view[position:start], "big")
        if position > len(view):
            raise InvalidBatch(why="its snappy data is cut short")
        block = _unpack_block(view[start:position], limit_bytes)
        if block is None:
            return b"".join(pieces), False
        pieces.append(block)
        limit_bytes -= len(block)
    return b"".join(pieces), True


def _unpack_block(block: memoryview, limit_bytes: int) -> bytes | None:
    """None if it is longer than the limit."""
    cramjam = _cramjam()
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > len(block) * _SNAPPY_RATIO_MAX:
            raise InvalidBatch(why=f"its snappy data claims {length} bytes, which cannot be")
        return None if length > limit_bytes else bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise InvalidBatch(why=f"its snappy data is damaged ({error})") from None
