"""Distinguishes a repeated batch from a different one with the same sequence numbers.

A producer that missed a response sends the batch again.  Some clients encode it again, with other timestamps
or another codec, so the records are compared if the bytes differ.  Records that compaction has removed from
the stored batch cannot be compared, and count as equal as long as others are left.
"""

from penstock.wire.records import CODEC_MASK, HEADER_BYTES, TRANSACTIONAL, Record, decode_batch, read_header


def is_repeat_of(stored: bytes, sent: bytes) -> bool:
    """Whether ``sent`` has the same records as ``stored``; both are whole batches that can be decoded."""
    first, second = read_header(stored), read_header(sent)
    if (first.attributes ^ second.attributes) & TRANSACTIONAL:
        return False
    if not (first.attributes ^ second.attributes) & CODEC_MASK and (
        stored[HEADER_BYTES : first.size] == sent[HEADER_BYTES : second.size]
    ):
        return True
    if first.last_offset_delta != second.last_offset_delta:
        return False
    theirs = {record.offset - second.base_offset: record for record in decode_batch(sent)}
    ours = decode_batch(stored)
    return bool(ours) and all(
        _are_equal(record, theirs.get(record.offset - first.base_offset)) for record in ours
    )


def _are_equal(record: Record, other: Record | None) -> bool:
    return (
        other is not None
        and record.key == other.key
        and record.value == other.value
        and record.headers == other.headers
    )
