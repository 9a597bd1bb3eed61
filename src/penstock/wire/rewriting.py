"""Builds record batches from stored records: with fewer records, or only the requested ones.

    rewrite_batch     compaction: the same batch without some records; offsets and producer fields are kept
    empty_batches     batches without records over a range of offsets
    slice_batch       delivery: the middle of a batch, cut out without decoding it
    encode_records    delivery: records of any batches, with the offsets and times they have

Cost: about that of encoding them the first time.
"""

from penstock.wire.records import (
    APPEND_TIME,
    CODEC_MASK,
    HEADER_BYTES,
    SPAN_MAX,
    BatchBuilder,
    Header,
    Record,
    place_batch,
    record_at,
    recount_batch,
)


def rewrite_batch(header: Header, records: list[Record]) -> bytearray:
    """The same batch with fewer records; its range of offsets and the producer's fields are kept."""
    append_time = header.attributes & APPEND_TIME != 0
    builder = BatchBuilder()
    max_timestamp = header.max_timestamp
    if records and not append_time:
        max_timestamp = max([record.timestamp for record in records])
    for record in records:
        timestamp_delta = 0 if append_time else record.timestamp - header.base_timestamp
        offset_delta = record.offset - header.base_offset
        builder.add(record.key, record.value, record.headers, timestamp_delta, offset_delta)
    batch = builder.build(
        header.base_timestamp, max_timestamp, header.attributes,
        header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset_delta,
    )  # fmt: skip
    place_batch(batch, header.base_offset, header.leader_epoch)
    return batch


def empty_batches(start: int, end: int, timestamp: int) -> list[bytearray]:
    """Empty batches that replace lost records at the offsets ``[start, end)``."""
    made: list[bytearray] = []
    while start < end:
        span = min(end - start, SPAN_MAX)
        made.append(empty_batch(start, span - 1, timestamp))
        start += span
    return made


def empty_batch(
    base_offset: int, last_offset_delta: int, timestamp: int, attributes: int = 0, leader_epoch: int = 0
) -> bytearray:
    """A batch without records, with its position in the log."""
    batch = BatchBuilder().build(timestamp, timestamp, attributes, last_offset_delta=last_offset_delta)
    place_batch(batch, base_offset, leader_epoch)
    return batch


def slice_batch(data: bytes, position: int, header: Header, start: int, end: int) -> bytearray:
    """The batch at a position of data with its records of the offsets ``[start, end)`` only.

    For a batch that lacks no record and is not compressed; what a record says of itself stays as it is.
    """
    first = max(start - header.base_offset, 0)
    last = min(end, header.next_offset) - header.base_offset
    records_end = position + header.size
    begin = record_at(data, position + HEADER_BYTES, records_end, first)
    finish = record_at(data, begin, records_end, last - first)
    batch = bytearray(data[position : position + HEADER_BYTES])
    batch += data[begin:finish]
    recount_batch(batch, last - 1, last - first)
    return batch


def encode_records(records: list[Record]) -> bytes:
    """Stored records as batches, not compressed, with their offsets, times and attributes.

    A batch has one set of attributes, so there is one for each run of records that agree.
    """
    batches: list[bytearray] = []
    begin = 0
    for at in range(1, len(records) + 1):
        if at == len(records) or records[at].attributes != records[begin].attributes:
            batches.append(_encode_run(records, begin, at))
            begin = at
    return bytes(batches[0]) if len(batches) == 1 else b"".join(batches)


def _encode_run(records: list[Record], begin: int, end: int) -> bytearray:
    first = records[begin]
    base_offset = first.offset
    base_timestamp = first.timestamp
    builder = BatchBuilder()
    last_timestamp = base_timestamp
    for at in range(begin, end):
        record = records[at]
        last_timestamp = max(last_timestamp, record.timestamp)
        builder.add(
            record.key, record.value, record.headers,
            record.timestamp - base_timestamp, record.offset - base_offset,
        )  # fmt: skip
    attributes = first.attributes & ~(CODEC_MASK | APPEND_TIME)
    batch = builder.build(base_timestamp, last_timestamp, attributes)
    place_batch(batch, base_offset, 0)
    return batch
