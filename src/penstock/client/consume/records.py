"""Decodes the bytes of a delivery to its records."""

from penstock.wire.native import LeasedBatch
from penstock.wire.records import Record, decode_batch, size_of


def records_of(batch: LeasedBatch) -> list[Record]:
    """The records of a delivery: those of its batches that lie in its range."""
    return records_between(batch.data, batch.start, batch.end)


def records_between(data: bytes, start: int, end: int) -> list[Record]:
    """The records with these offsets, from concatenated batches."""
    records = decode_batch(data, 0, start, end)
    position = size_of(data)
    while position < len(data):
        records += decode_batch(data, position, start, end)
        position += size_of(data, position)
    return records
