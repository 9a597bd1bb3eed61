"""From the bytes of a delivery to its records."""

from typing import Final

from penstock.wire.native import DeliveredBatch
from penstock.wire.records import Record, decode_batch

_SIZE_AT: Final = 8  # In the header of a record batch: the bytes that follow ...
_SIZE_FROM: Final = 12  # ... counted from here.


def records_of(batch: DeliveredBatch) -> list[Record]:
    """The records of a delivery: those of its batches that lie in its range."""
    return records_between(batch.data, batch.start, batch.end)


def records_between(data: bytes, start: int, end: int) -> list[Record]:
    """The records with these offsets, of batches one behind the other."""
    records = decode_batch(data, 0, start, end)
    position = _end_of(data, 0)
    while position < len(data):
        records += decode_batch(data, position, start, end)
        position = _end_of(data, position)
    return records


def _end_of(data: bytes, position: int) -> int:
    size = int.from_bytes(data[position + _SIZE_AT : position + _SIZE_FROM], "big")
    return position + _SIZE_FROM + size
