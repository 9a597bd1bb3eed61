"""The history of one entry of a schedule, from its log.

    ENTRY 5, due 10:00   ...   MOVED 5 to 11:00   ...   FIRED 5 as offset 7
          added                  moved                    fired

The log is read from the entry on, 6 to 10 us per record; nothing extra is kept.
Cleaning removes history: of a waiting entry, that it was moved or has fired before; of
any other entry, everything.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.log.log import Log
from penstock.schedule import entries
from penstock.wire.records import Record


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to an entry."""

    time_ms: int
    kind: int  # FIRED, CANCELLED or MOVED, as in entries.py.
    value: int  # FIRED: the data offset.  MOVED: the due time.  Else -1.


def history(log: Log, number: int) -> list[Happening]:
    """What is written of the entry ``number``, in order."""
    happenings: list[Happening] = []
    for header in log.headers(number + 1):
        for record in log.records(max(header.base_offset, number + 1), header.next_offset):
            kind = entries.kind_of(record, log.path)
            if kind == entries.CHECKPOINT:
                [(data_end,)] = entries.read_decision(record, kind)
                happenings = [one for one in happenings if one.kind != entries.FIRED or one.value < data_end]
            elif kind != entries.ENTRY and not (kind == entries.MOVED and header.count > 1):
                # A MOVED among others is of a cleaning, which says again what was known before.
                happenings += _of(number, record, kind)
    return happenings


def _of(number: int, record: Record, kind: int) -> Iterator[Happening]:
    for numbers in entries.read_decision(record, kind):
        if numbers[0] == number:
            yield Happening(record.timestamp, kind, numbers[1] if len(numbers) > 1 else -1)
