"""The records of a schedule's log: entries, and their state changes.

The first header of every record, ``x-schedule``, has the version of this format and
the kind of the record:

    ENTRY        a message and its due time; the record's offset is the entry's permanent number
    FIRED        entries that were appended to the data log: number, data offset, and the next due time
                 of a recurring one (-1: it is done)
    CANCELLED    entries that were cancelled: number
    MOVED        entries that were rescheduled: number, due time
    CHECKPOINT   the offset of the data log up to which every scheduled record is accounted for.  Earlier
                 FIRED records about that offset and later ones are void.

An ENTRY keeps the message's key, value and headers; the data of the schedule is in the
first header.  The others have no key, and their value consists of big-endian 64-bit
numbers.  ``docs/format/schedule.md`` describes the format byte by byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from struct import Struct, pack, unpack
from typing import Final

from penstock.errors import DirectoryUnusable, InvalidBatch
from penstock.wire.headers import SCHEDULE_ID, SCHEDULE_KIND
from penstock.wire.records import BatchBuilder, Record

VERSION: Final = 1

ENTRY: Final = 1
FIRED: Final = 2
CANCELLED: Final = 3
MOVED: Final = 4
CHECKPOINT: Final = 5
WIDTHS: Final = {FIRED: 3, CANCELLED: 1, MOVED: 2, CHECKPOINT: 1}  # Numbers that belong together.

_HEAD: Final = Struct(">BB")  # Version, kind.
_ENTRY: Final = Struct(
    ">BBqhBB"
)  # Version, kind, due time, attributes, bytes of cron expression and of time zone.


@dataclass(frozen=True, slots=True)
class Due:
    """An entry of the schedule: a message, and when it is due."""

    number: int  # Its name, for good.
    due_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    attributes: int  # Of the batch it is to be in: lane and flags.
    accepted_ms: int  # When it came into the schedule.
    cron: str | None  # Of a recurring entry, as is its time zone.
    timezone: str | None

    def moved(self, due_ms: int) -> "Due":
        """The same entry with another due time."""
        return replace(self, due_ms=due_ms)

    @property
    def size_bytes(self) -> int:
        """The approximate size in memory and in a batch."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def add_entry(
    builder: BatchBuilder,
    due_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    attributes: int,
    cron: str | None,
    timezone: str | None,
) -> None:
    expression, zone = (cron or "").encode(), (timezone or "").encode()
    facts = _ENTRY.pack(VERSION, ENTRY, due_ms, attributes, len(expression), len(zone)) + expression + zone
    builder.add(key, value, [(SCHEDULE_KIND, facts), *headers])


def add_decision(builder: BatchBuilder, kind: int, numbers: Sequence[int]) -> None:
    """Add a record of another kind: ``numbers`` are as many as its kind has, or a multiple of that."""
    assert len(numbers) % WIDTHS[kind] == 0, "numbers that belong together stay together"
    builder.add(None, pack(f">{len(numbers)}q", *numbers), [(SCHEDULE_KIND, _HEAD.pack(VERSION, kind))])


def kind_of(record: Record, path: str) -> int:
    """What a record is; DirectoryUnusable if this program does not know, rather than a guess."""
    name, facts = record.headers[0] if record.headers else ("", None)
    if name != SCHEDULE_KIND or facts is None or len(facts) < _HEAD.size:
        raise DirectoryUnusable(directory=path, why=f"record {record.offset} is not of a schedule")
    version, kind = _HEAD.unpack_from(facts)
    if version != VERSION or not ENTRY <= kind <= CHECKPOINT:
        why = f"record {record.offset} has version {version} and kind {kind}, which a newer program wrote"
        raise DirectoryUnusable(directory=path, why=why)
    return int(kind)


def read_entry(record: Record) -> Due:
    """An ENTRY, as it was written: it may have been moved since."""
    facts = _facts(record)
    _, _, due_ms, attributes, cron_bytes, zone_bytes = _ENTRY.unpack_from(facts)
    texts = facts[_ENTRY.size :]
    try:
        cron, timezone = texts[:cron_bytes].decode(), texts[cron_bytes : cron_bytes + zone_bytes].decode()
    except UnicodeDecodeError as error:
        raise InvalidBatch(why=f"record {record.offset} of a schedule: {error}") from None
    return Due(
        number=record.offset,
        due_ms=due_ms,
        key=record.key,
        value=record.value,
        headers=record.headers[1:],
        attributes=attributes,
        accepted_ms=record.timestamp,
        cron=cron or None,
        timezone=timezone or None,
    )


def _facts(record: Record) -> bytes:
    facts = record.headers[0][1]
    assert facts is not None, "the caller knows its kind"
    if len(facts) < _ENTRY.size:
        raise InvalidBatch(why=f"record {record.offset} of a schedule has too few facts")
    return facts


def entry_due_ms(record: Record) -> int:
    """The due time of an ENTRY, as it was written."""
    due_ms: int = _ENTRY.unpack_from(_facts(record))[2]
    return due_ms


def read_decision(record: Record, kind: int) -> list[tuple[int, ...]]:
    """The numbers of any other record, those that belong together in a tuple."""
    value = record.value or b""
    width = WIDTHS[kind]
    if len(value) % (8 * width):
        raise InvalidBatch(why=f"record {record.offset} of a schedule has {len(value)} bytes of numbers")
    numbers = unpack(f">{len(value) // 8}q", value)
    return [numbers[at : at + width] for at in range(0, len(numbers), width)]


def schedule_number(record: Record) -> int:
    """The entry that a record of the data log came from; -1 if it does not say."""
    for name, value in record.headers:
        if name == SCHEDULE_ID and value is not None and value.isdigit():
            return int(value)
    return -1
