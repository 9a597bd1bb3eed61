"""The schedule of one partition: messages that are accepted and not yet due.

    add ---> waits ---- take_due, appended to the data log, fired ----> delivered
              |  ^  |                                          |
              |  |  '--- cancel ---> cancelled                 |
              |  '------ reschedule, or recurring -------------'

Everything is in a log of its own (``entries.py``), and an entry's offset there is its
permanent number.  Memory holds only the numbers of waiting entries and near due times
(``timetable.py``); both are read from the log at open (``recovery.py``, which also makes
sure that an entry is delivered once after a crash).

The broker moves due entries under one lock, without waiting in between:

    due = schedule.take_due(now_ms, limit)
    offset = data_log.append(<a batch flagged SCHEDULED, each record with x-schedule-id>)
    schedule.fired([(entry.number, offset + index) ...], now_ms)

If the append fails nothing has changed: ``put_back``, or the next ``take_due``, returns
the entries to the timetable.  Both logs then join the same group commit.

Time is wall time and may jump.  Forward: entries become due early.  Back: an entry
that has fired stays fired, and the others wait again.  Missed occurrences of a
recurring entry fire once.

Cleaning (``maintain``): when most of the log is dead, records that no waiting entry
needs are removed.  State that cannot be derived from the remaining entries is written
again first, also the last numbers of producers, and the data log is synced, because an
entry may only be forgotten when its message can no longer be lost.

Costs, with the codec compiled: ``add`` one append, 12 us in all; taking and firing
an entry 20 us, or 50 us if its record lies far from the others' (times of a round
are shared by up to 1,000 entries); opening reads the whole log, 6 to 10 us an
entry; for memory see ``timetable.py``: 13 MB for a million due within the hour.
"""

from collections.abc import Iterator
from typing import Final, Literal, Self

from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.schedule import entries, recovery
from penstock.schedule.buckets import HOUR_MS
from penstock.schedule.entries import Due
from penstock.schedule.history import Happening, history
from penstock.schedule.recovery import Fired, Replay, find_fired, next_occurrence, read_due
from penstock.schedule.timetable import HORIZON_MS, Timetable
from penstock.wire.records import BatchBuilder

__all__ = ["Due", "Schedule"]

TAKE_BYTES_MAX: Final = 8 * 1024 * 1024  # Of messages taken at a time: they become batches of the data log.
READ_TOGETHER: Final = 64  # Entries whose records are read in the order of the log, not of their due times.
SNAPSHOT_NUMBERS: Final = 8192  # In one record of a snapshot: 64 KB.
PORTIONS_MAX: Final = 16  # Read back ahead of time by one maintain(): about 30 ms.
PRODUCERS_MAX: Final = 1000  # Whose last numbers outlive a cleaning; those that wrote last.
CLEAN_SHARE: Final = 4  # A log that has grown by a quarter of a segment is worth a look.

Cancelled = Literal["cancelled", "delivered", "unknown"]
# Due time, key, value, headers, and the attributes of the batch it will be in.
Message = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


class Schedule:
    """Messages of one partition that wait for their time.  Not thread-safe: the caller holds a lock."""

    def __init__(self, log: Log, data_log: Log, timetable: Timetable) -> None:
        self.log = log
        self._data_log = data_log
        self._timetable = timetable
        self._taken: dict[int, Due] = {}  # By number: between take_due and fired.
        self._unwritten: list[Fired] = []  # Entries that have fired while FIRED could not be written.
        self._accounted = 0  # See recovery.py; a CHECKPOINT with it is owed before the next record if ...
        self._checkpoint_owed = False
        self._dead = 0  # Records in the log that no waiting entry needs, about.
        self._cleaned_bytes = 0  # Size of the log after the last cleaning.
        self._settled_meanwhile: set[int] | None = None  # While cleaning: its records may not go yet.

    @classmethod
    def open(cls, files: Files, directory: str, config: LogConfig, data_log: Log, now_ms: int) -> Self:
        """Open the schedule in ``directory``, or begin it, in agreement with the data log."""
        log = Log.open(files, directory, config)
        timetable = Timetable(files, f"{directory}/far", now_ms)
        replay = Replay(log, timetable)
        shorter = replay.run(data_log.end)
        schedule = cls(log, data_log, timetable)
        schedule._recover(replay, shorter, now_ms)
        return schedule

    def _recover(self, replay: Replay, shorter: bool, now_ms: int) -> None:
        data_log = self._data_log
        # A FIRED that cannot be read must not make its entry fire again: then the whole data log is compared.
        accounted = data_log.start if self.log.damage.ranges else replay.accounted
        self._unwritten = find_fired(self.log, self._timetable, data_log, accounted)
        self._dead = replay.records - self._timetable.live.count
        self._accounted = data_log.end
        # Numbers that this log has lost are given again; the CHECKPOINT tells old messages that carry them.
        self._checkpoint_owed = shorter or replay.accounted < data_log.end
        if shorter or self._unwritten:
            self._write_owed(now_ms)
        if shorter:
            self.log.sync()

    # --- entries --------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return self._timetable.live.count

    def add(
        self,
        due_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        attributes: int,
        now_ms: int,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> int:
        """Accept a message; returns its number.  It is safe when ``log`` is durable.

        ``attributes`` are those of the batch it will be in.  A recurring entry
        brings its expression and zone, which the caller has checked with ``cron.next_ms``.
        """
        assert due_ms >= 0, "due times are after 1970"
        builder = BatchBuilder()
        entries.add_entry(builder, due_ms, key, value, headers, attributes, cron, timezone)
        number = self._append(builder, now_ms)
        self._timetable.add(number, due_ms)
        return number

    def add_many(self, messages: list[Message], now_ms: int, producer_id: int, sequence: int) -> None:
        """Accept messages together, all of them or none, as the batch of a producer (``last_sequence``)."""
        builder = BatchBuilder()
        for due_ms, key, value, headers, attributes in messages:
            entries.add_entry(builder, due_ms, key, value, headers, attributes, None, None)
        self._write_owed(now_ms)
        timestamp = max(now_ms, self.log.last_timestamp)
        number = self.log.append(builder.build(timestamp, timestamp, 0, producer_id, 0, sequence))
        for due_ms, *_ in messages:
            self._timetable.add(number, due_ms)
            number += 1

    def last_sequence(self, producer_id: int) -> int:
        """The number that a producer's last batch began with; -1 if there is none.  Looks through the log."""
        return self._last_sequences().get(producer_id, -1)

    def _last_sequences(self) -> dict[int, int]:
        """By producer, the number that its last batch began with; the one that wrote last comes last."""
        found: dict[int, int] = {}
        for header in self.log.marked_headers(self.log.start, 0):
            if header.producer_id >= 0:
                found[header.producer_id] = max(header.base_sequence, found.pop(header.producer_id, -1))
        return found

    def cancel(self, number: int, now_ms: int) -> Cancelled:
        """Take an entry back; ``unknown``: there is none, or it was settled long ago and is forgotten."""
        if number in self._timetable.live:
            self._decide(entries.CANCELLED, [number], now_ms)
            self._settled([number])
            self._timetable.settle(number)
            self._timetable.cancelled.add(number)
            self._taken.pop(number, None)
            return "cancelled"
        if number in self._timetable.cancelled:
            return "cancelled"
        return "unknown" if recovery.read_record(self.log, number) is None else "delivered"

    def reschedule(self, number: int, due_ms: int, now_ms: int) -> bool:
        """Let an entry (if recurring, its next occurrence) wait for another time; False: it waits no more."""
        assert due_ms >= 0, "due times are after 1970"
        if number not in self._timetable.live:
            return False
        self._decide(entries.MOVED, [number, due_ms], now_ms)
        self._timetable.move(number, due_ms)
        self._taken.pop(number, None)
        return True

    def get(self, number: int) -> Due | None:
        """An entry that waits; None if it does not."""
        return read_due(self.log, self._timetable, number) if number in self._timetable.live else None

    def known(self, number: int) -> Due | None:
        """An entry as it was accepted, waiting or not; None if there is none, or it was forgotten."""
        record = recovery.read_record(self.log, number)
        return None if record is None else entries.read_entry(record)

    def history(self, number: int) -> list[Happening]:
        """The history of an entry, oldest first, as far as it is known."""
        now_ms = self.log.last_timestamp  # About: what has fired is written as soon as that is possible.
        unwritten = [fired.data_offset for fired in self._unwritten if fired.number == number]
        return [
            *history(self.log, number),
            *(Happening(now_ms, entries.FIRED, data_offset) for data_offset in unwritten),
        ]

    def entries(self, after: int = -1) -> Iterator[Due]:
        """The waiting entries with numbers above ``after``, in the order of acceptance.

        Not in the order of their due times: that would need all of them in memory.
        """
        for number in self._timetable.live.members(after + 1):
            due = read_due(self.log, self._timetable, number)
            if due is not None:
                yield due

    # --- what is due ----------------------------------------------------------------------------------------

    def next_due_ms(self) -> int:
        """When to ``take_due`` next, or -1: never too late, but too early after a cancel or a move."""
        times = [due.due_ms for due in self._taken.values()]
        next_ms = self._timetable.next_ms()
        if next_ms >= 0:
            times.append(next_ms)
        return min(times, default=-1)

    def take_due(self, now_ms: int, limit: int) -> list[Due]:
        """Up to ``limit`` entries that are due, the earliest first; the top of the module says what to do."""
        self.put_back(list(self._taken.values()))
        while self._timetable.load(now_ms + 1):
            pass
        self._find_lost()
        size_bytes = 0
        while len(self._taken) < limit and size_bytes < TAKE_BYTES_MAX:
            items = self._timetable.pop_due(now_ms, min(READ_TOGETHER, limit - len(self._taken)))
            if not items:
                break
            for due in self._read(items):  # One that was moved there and back may come twice.
                self._taken[due.number] = due
                size_bytes += due.size_bytes
        return list(self._taken.values())

    def put_back(self, taken: list[Due]) -> None:
        """Return entries that were taken and have not fired: they wait again."""
        for due in taken:
            if self._taken.pop(due.number, None) is not None:
                self._timetable.place(due.number, due.due_ms)

    def fired(self, pairs: list[tuple[int, int]], now_ms: int) -> None:
        """Note entries that are in the data log now, by ascending numbers and offsets.

        If this cannot be written it is an error, but it is so all the same: it is
        written with the next record, or found in the data log by the next open.
        """
        for number, data_offset in pairs:
            assert data_offset >= self._accounted, "data offsets rise"
            due = self._taken.pop(number)
            fired = Fired(number, data_offset, next_occurrence(due, max(now_ms, due.due_ms)))
            recovery.apply_fired(self._timetable, fired)
            if fired.next_ms < 0:
                self._settled([number])
            self._unwritten.append(fired)
            self._accounted = data_offset + 1
        self._write_owed(now_ms)

    def _read(self, items: list[tuple[int, int]]) -> list[Due]:
        """The entries of these items, in that order."""
        found: dict[int, Due] = {}
        try:
            for number in sorted(number for _, number in items):  # The order that is cheap to read.
                due = read_due(self.log, self._timetable, number)
                if due is None:
                    self._timetable.settle(number)  # It is damaged, and never comes.
                else:
                    found[number] = due
        except BaseException:
            for due_ms, number in items:
                self._timetable.place(number, due_ms)
            raise
        # The record has the last word: a due time that came back wrong from the disk is not believed.
        return [
            found[number] for due_ms, number in items if number in found and found[number].due_ms == due_ms
        ]

    def _find_lost(self) -> None:
        """Place the entries of hours that could not be read back from disk again."""
        lost = self._timetable.lost_hours()
        if lost:
            for due in self.entries():
                if due.due_ms // HOUR_MS in lost:
                    self._timetable.place(due.number, due.due_ms)
            lost.clear()

    # --- writing --------------------------------------------------------------------------------------------

    def _append(self, builder: BatchBuilder, now_ms: int) -> int:
        self._write_owed(now_ms)
        return self._append_now(builder, now_ms)

    def _append_now(self, builder: BatchBuilder, now_ms: int) -> int:
        timestamp = max(now_ms, self.log.last_timestamp)
        return self.log.append(builder.build(timestamp, timestamp))

    def _decide(self, kind: int, numbers: list[int], now_ms: int) -> None:
        builder = BatchBuilder()
        entries.add_decision(builder, kind, numbers)
        self._append(builder, now_ms)
        self._dead += 1

    def _write_owed(self, now_ms: int) -> None:
        """Write what must be in the log before all else."""
        if not self._checkpoint_owed and not self._unwritten:
            return
        builder = BatchBuilder()
        if self._checkpoint_owed:
            entries.add_decision(builder, entries.CHECKPOINT, [self._accounted])
        if self._unwritten:
            numbers = [
                n for fired in self._unwritten for n in (fired.number, fired.data_offset, fired.next_ms)
            ]
            entries.add_decision(builder, entries.FIRED, numbers)
        self._append_now(builder, now_ms)
        self._dead += builder.count
        self._checkpoint_owed = False
        self._unwritten = []

    def _settled(self, numbers: list[int]) -> None:
        self._dead += len(numbers)
        if self._settled_meanwhile is not None:
            self._settled_meanwhile.update(numbers)

    # --- upkeep ---------------------------------------------------------------------------------------------

    def maintain(self, now_ms: int) -> Iterator[Log | None]:
        """Read ahead, and clean the log if that is worth it.  Call it about every minute.

        In steps of some milliseconds; between them the schedule may be used.  After a step that yields a log,
        the caller continues when that is durable.
        """
        for _ in range(PORTIONS_MAX):
            if not self._timetable.load(now_ms + HORIZON_MS):
                break
            yield None
        self._find_lost()
        grown = self.log.size_bytes - self._cleaned_bytes
        worth = max(self.log.config.segment_bytes // CLEAN_SHARE, self._cleaned_bytes)
        if grown >= worth and self._dead >= self.count and self._settled_meanwhile is None:
            yield from self._clean(now_ms)

    def _clean(self, now_ms: int) -> Iterator[Log | None]:
        """Remove every record that no waiting entry needs, except those of the last segment."""
        meanwhile: set[int] = set()
        self._settled_meanwhile = meanwhile
        live = self._timetable.live
        try:
            yield from _secured(self._data_log)  # What has fired so far cannot be lost from here on.
            self._dead = 0
            self.log.roll()
            upto = self.log.end
            self._write_snapshot(now_ms)
            yield from _secured(self.log)
            needed = [number for number in (live.first(), *meanwhile) if number >= 0]
            self.log.delete_before(min(*needed, upto) if needed else upto)
            for _ in self.log.rewrite(
                lambda record: record.offset in live or record.offset in meanwhile, upto
            ):
                yield None
            self._timetable.cancelled.drop_before(upto)
            self._cleaned_bytes = self.log.size_bytes
        finally:
            self._settled_meanwhile = None

    def _write_snapshot(self, now_ms: int) -> None:
        """Say again what goes: due times of moved entries, what is accounted for, numbers of producers.

        The latter in batches without records: a staged publish may be repeated long after its messages
        have fired, because another partition could not be written.
        """
        self._write_owed(now_ms)
        numbers = [n for pair in self._timetable.moved.items() for n in pair]
        builder = BatchBuilder()
        for at in range(0, len(numbers), SNAPSHOT_NUMBERS):
            entries.add_decision(builder, entries.MOVED, numbers[at : at + SNAPSHOT_NUMBERS])
        entries.add_decision(builder, entries.CHECKPOINT, [self._accounted])
        self._append_now(builder, now_ms)
        self._dead += builder.count
        timestamp = max(now_ms, self.log.last_timestamp)
        for producer_id, sequence in list(self._last_sequences().items())[-PRODUCERS_MAX:]:
            self.log.append(BatchBuilder().build(timestamp, timestamp, 0, producer_id, 0, sequence, 0))

    def close(self) -> None:
        """Close the log; the files of far due times are worthless afterwards."""
        self.log.close()


def _secured(log: Log) -> Iterator[Log]:
    """Wait until the log is durable, before something is deleted."""
    log.sync()
    if log.durable < log.written:  # A commit round decides; see ``Log.sync``.
        yield log
