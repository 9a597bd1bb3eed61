"""Opens a schedule: replays its log and reconciles it with the data log.

An entry moves to the data log in two steps, which become durable at about the same
time but in any order:

    1  its message is appended to the data log, with the entry's number in a header
    2  FIRED (number, data offset) is appended to the schedule's log

A crash may keep either one without the other.  So opening compares:

    FIRED, but the data log is shorter     the message is lost: FIRED is void, the entry waits again
    message there, but no FIRED            found by its header: the entry has fired, and FIRED is written

The second does not read the whole data log.  Steps happen in order and a log keeps a
prefix of what was appended, so everything below the last offset named by a FIRED or
CHECKPOINT (``accounted``) is accounted for; above it only batch headers are read, and
the records of batches flagged SCHEDULED.

A void FIRED stays void: the data log will grow over the offset that it names.  So a
CHECKPOINT is written after it, and synced before any new message can be.

Replay takes one pass: data offsets of FIRED rise from one CHECKPOINT to the next,
so those that a CHECKPOINT makes void are on top of a stack.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.errors import InvalidValue
from penstock.log.log import Log
from penstock.schedule import cron, entries
from penstock.schedule.entries import Due
from penstock.schedule.timetable import Timetable
from penstock.wire.records import SCHEDULED, Record

STRIDE: Final = 64  # Records asked for at a time: bounds the memory if all of them are large.


@dataclass(frozen=True, slots=True)
class Fired:
    """An entry that went into the data log."""

    number: int
    data_offset: int
    next_ms: int  # When a recurring entry is due again; -1: it is done.


class Replay:
    """Reads a schedule's log into a timetable."""

    def __init__(self, log: Log, timetable: Timetable) -> None:
        self.records = 0  # In the log.
        self.accounted = 0  # Below this offset of the data log every scheduled record is accounted for.
        self._log = log
        self._timetable = timetable
        # A stack, four numbers each: those of Fired, and the moved due time that the entry had before, or -1.
        self._fired = array("q")
        self._readers: dict[int, Callable[[Record], None]] = {
            entries.ENTRY: self._entry,
            entries.FIRED: self._fire,
            entries.CANCELLED: self._cancel,
            entries.MOVED: self._move,
            entries.CHECKPOINT: self._checkpoint,
        }

    def run(self, data_end: int) -> bool:
        """Read everything; True if the data log is shorter than it was, so that something is void."""
        for record in _all_records(self._log):
            self.records += 1
            self._readers[entries.kind_of(record, self._log.path)](record)
        void = self._undo(data_end) or self.accounted > data_end
        self.accounted = min(self.accounted, data_end)
        return void

    def _entry(self, record: Record) -> None:
        self._timetable.add(record.offset, entries.entry_due_ms(record))

    def _fire(self, record: Record) -> None:
        for number, data_offset, next_ms in entries.read_decision(record, entries.FIRED):
            self.accounted = max(self.accounted, data_offset + 1)
            if number in self._timetable.live:
                before_ms = self._timetable.moved.get(number, -1)
                self._fired.extend((number, data_offset, next_ms, before_ms))
                apply_fired(self._timetable, Fired(number, data_offset, next_ms))

    def _cancel(self, record: Record) -> None:
        for (number,) in entries.read_decision(record, entries.CANCELLED):
            if number in self._timetable.live:
                self._timetable.settle(number)
                self._timetable.cancelled.add(number)

    def _move(self, record: Record) -> None:
        for number, due_ms in entries.read_decision(record, entries.MOVED):
            if number in self._timetable.live:
                self._timetable.move(number, due_ms)

    def _checkpoint(self, record: Record) -> None:
        [(data_end,)] = entries.read_decision(record, entries.CHECKPOINT)
        self._undo(data_end)
        self.accounted = data_end

    def _undo(self, data_end: int) -> bool:
        """Take back every FIRED whose message is not in the data log; was there one?"""
        void = False
        while self._fired and self._fired[-3] >= data_end:
            number, _, next_ms, before_ms = self._fired[-4:]
            del self._fired[-4:]
            self._take_back(number, next_ms, before_ms)
            void = True
        return void

    def _take_back(self, number: int, next_ms: int, before_ms: int) -> None:
        """The items of the due time before are still in the timetable: nothing was taken from it yet."""
        timetable = self._timetable
        if next_ms < 0:
            timetable.live.add(number)
        elif timetable.moved.get(number) != next_ms:
            return  # Cancelled or rescheduled since: that stands.
        timetable.moved.pop(number, None)
        if before_ms >= 0:
            timetable.moved[number] = before_ms


def find_fired(log: Log, timetable: Timetable, data_log: Log, accounted: int) -> list[Fired]:
    """Entries whose messages are in the data log, from ``accounted`` on, without a FIRED; it is applied."""
    found: list[Fired] = []
    if not timetable.live.count:
        return found
    for header in data_log.headers(accounted):
        if header.attributes & SCHEDULED:
            start = max(header.base_offset, accounted, data_log.start)
            for record in data_log.records(start, header.next_offset):
                number = entries.schedule_number(record)
                if number in timetable.live:
                    due = read_due(log, timetable, number)
                    next_ms = -1 if due is None else next_occurrence(due, record.timestamp)
                    fired = Fired(number, record.offset, next_ms)
                    apply_fired(timetable, fired)
                    found.append(fired)
    return found


def apply_fired(timetable: Timetable, fired: Fired) -> None:
    """An entry has fired: it is done, or waits for its next time."""
    if fired.next_ms < 0:
        timetable.settle(fired.number)
    else:
        timetable.move(fired.number, fired.next_ms)


def next_occurrence(due: Due, fired_ms: int) -> int:
    """When an entry that has fired is due again; -1 if it is not recurring, or has no further time.

    Occurrences that were missed are not made up for: the next one is in the future.
    """
    if due.cron is None:
        return -1
    try:
        return cron.next_ms(due.cron, due.timezone or "UTC", fired_ms)
    except InvalidValue:
        return (
            -1
        )  # It was valid when it came; now the time zone database has dropped its zone, or time ran out.


def read_record(log: Log, number: int) -> Record | None:
    """The ENTRY with that number; None if there is none, or it was cleaned away."""
    if not log.start <= number < log.end:
        return None
    records = log.records(number, number + 1)
    return records[0] if records and entries.kind_of(records[0], log.path) == entries.ENTRY else None


def read_due(log: Log, timetable: Timetable, number: int) -> Due | None:
    """A waiting entry, with the due time it has now; None if it is damaged."""
    record = read_record(log, number)
    if record is None:
        assert log.damage.skip(number) != number, "the record of a waiting entry is never cleaned away"
        return None
    due_ms = timetable.moved.get(number, -1)
    due = entries.read_entry(record)
    return due if due_ms < 0 else due.moved(due_ms)


def _all_records(log: Log) -> Iterator[Record]:
    for start in range(log.start, log.end, STRIDE):
        yield from log.records(start, min(start + STRIDE, log.end))
