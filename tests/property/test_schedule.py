"""Any order of adding, cancelling, moving, firing, cleaning and crashing, against a dict and a list.

The model is exact.  It remembers what was done since the last crash and where each
step was written; after a power cut it looks how far both logs have survived, and
does again, on a copy of the older state, just the steps that did:

    add, cancel, move     survive with their record in the schedule's log
    fire                  survives with its message in the data log, whatever became of its record

So there is one right answer to every question, also after a crash: which entries
wait, for what time, and which messages are in the data log, in which order.
"""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.log.log import Log, LogConfig
from penstock.schedule.cron import next_ms
from penstock.schedule.entries import Due
from penstock.schedule.schedule import Schedule
from penstock.testing.files import Crash, CrashDisk
from penstock.wire.headers import SCHEDULE_ID
from penstock.wire.records import SCHEDULED, BatchBuilder

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
CRON = "*/10 * * * * *"  # Every ten seconds; and no other due time is a whole second.
NEVER = 1 << 62  # The place of a record that was not written.
CONFIG = LogConfig(segment_bytes=2048)  # Small, so that cleaning is soon worth it.
SOON_MS = st.sampled_from([1, 2, 501, 9_001])
FAR_MS = st.sampled_from([HOUR_MS + 1, 3 * HOUR_MS + 1, 3 * HOUR_MS + 2, 400 * HOUR_MS + 1])
STEPS_MS = st.sampled_from([1, 500, 10_000, HOUR_MS, 4 * HOUR_MS, -1, -9_000, -2 * HOUR_MS])
POWER = st.none() | st.integers(0, 1 << 32)  # A seed: power is cut.  None: only the process ends.


@dataclass(frozen=True)
class Waiting:
    """An entry that waits."""

    value: bytes
    due_ms: int
    recurring: bool


@dataclass
class State:
    """What the schedule should say."""

    waiting: dict[int, Waiting] = field(default_factory=dict)
    settled: dict[int, str] = field(default_factory=dict)  # What a cancel is told.


@dataclass(frozen=True)
class Step:
    """Something that was done; ``place`` is the offset of its record in the schedule's log."""

    place: int
    number: int

    def survives(self, schedule_end: int, data_end: int) -> bool:
        return self.place < schedule_end

    def apply(self, state: State, schedule_end: int) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Add(Step):
    entry: Waiting

    def apply(self, state: State, schedule_end: int) -> None:
        state.waiting[self.number] = self.entry


@dataclass(frozen=True)
class Cancel(Step):
    def apply(self, state: State, schedule_end: int) -> None:
        del state.waiting[self.number]
        state.settled[self.number] = "cancelled"


@dataclass(frozen=True)
class Move(Step):
    due_ms: int

    def apply(self, state: State, schedule_end: int) -> None:
        state.waiting[self.number] = replace(state.waiting[self.number], due_ms=self.due_ms)


@dataclass(frozen=True)
class Fire(Step):
    data_offset: int
    next_ms: int  # As the schedule computes it when it fires, and as recovery does from the message.
    recovered_next_ms: int

    def survives(self, schedule_end: int, data_end: int) -> bool:
        return self.data_offset < data_end

    def apply(self, state: State, schedule_end: int) -> None:
        entry = state.waiting.get(self.number)
        if entry is None:
            return  # It was never acknowledged, and only its message has survived.
        if entry.recurring:
            due_ms = self.next_ms if self.place < schedule_end else self.recovered_next_ms
            state.waiting[self.number] = replace(entry, due_ms=due_ms)
        else:
            del state.waiting[self.number]
            state.settled[self.number] = "delivered"


class ScheduleAndDataLog(RuleBasedStateMachine):
    """One partition on a disk that loses power."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashDisk()
        self.now_ms = START_MS
        self.tokens = 0
        self.messages: list[bytes] = []  # In the data log, by offset.
        self.state = State()
        self.before = State()  # At the last open; and what was done since.
        self.steps: list[Step] = []
        self.cleaned = False  # Then settled entries may be forgotten.
        self.cleaning = self.no_cleaning()
        self.look_at_all = True
        self.many = False
        self.open()

    def no_cleaning(self) -> Iterator[Log | None]:
        return iter(())

    def open(self) -> None:
        self.data = Log.open(self.disk, "orders", LogConfig())
        self.schedule = Schedule.open(self.disk, "orders/schedule", CONFIG, self.data, self.now_ms)
        self.cleaning = self.no_cleaning()
        self.before = deepcopy(self.state)
        self.steps = []
        self.look_at_all = True

    def do(self, step: Step) -> None:
        self.steps.append(step)
        step.apply(self.state, NEVER)

    def last_place(self) -> int:
        return self.schedule.log.end - 1

    def new_value(self) -> bytes:
        self.tokens += 1
        return b"%d " % self.tokens + bytes(60)

    def add_entry(self, delay_ms: int, recurring: bool) -> None:
        due_ms = next_ms(CRON, "UTC", self.now_ms) if recurring else self.now_ms + delay_ms
        entry = Waiting(self.new_value(), due_ms, recurring)
        cron, zone = (CRON, "UTC") if recurring else (None, None)
        number = self.schedule.add(due_ms, None, entry.value, [], 0, self.now_ms, cron, zone)
        assert number == self.last_place()
        self.do(Add(number, number, entry))

    @rule(delay_ms=SOON_MS | FAR_MS)
    def add(self, delay_ms: int) -> None:
        self.add_entry(delay_ms, False)

    @rule()
    def add_recurring(self) -> None:
        self.add_entry(0, True)

    @precondition(lambda self: not self.many)
    @rule()
    def add_so_many_that_some_go_to_disk(self) -> None:
        self.many = True
        for _ in range(70):
            self.add_entry(5 * HOUR_MS + 1, False)

    @precondition(lambda self: self.state.waiting or self.state.settled)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.state.waiting | self.state.settled)))
        answer = self.schedule.cancel(number, self.now_ms)
        if number in self.state.waiting:
            assert answer == "cancelled"
            self.do(Cancel(self.last_place(), number))
        else:
            assert answer == self.state.settled[number] or (answer == "unknown" and self.cleaned)

    @precondition(lambda self: self.state.waiting)
    @rule(data=st.data(), delay_ms=SOON_MS | FAR_MS)
    def reschedule(self, data: st.DataObject, delay_ms: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.state.waiting)))
        assert self.schedule.reschedule(number, self.now_ms + delay_ms, self.now_ms)
        self.do(Move(self.last_place(), number, self.now_ms + delay_ms))

    @rule(step_ms=STEPS_MS)
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms

    def take(self, limit: int) -> list[Due]:
        """What is due, checked against the model: all of it, in order, and nothing else."""
        due = self.schedule.take_due(self.now_ms, limit)
        expected = sorted(
            (entry.due_ms, number, entry.value)
            for number, entry in self.state.waiting.items()
            if entry.due_ms <= self.now_ms
        )
        assert [(each.due_ms, each.number, each.value) for each in due] == expected[:limit]
        return due

    def append(self, due: list[Due]) -> tuple[list[tuple[int, int]], int]:
        builder = BatchBuilder()
        for each in due:
            assert each.value is not None
            builder.add(None, each.value, [(SCHEDULE_ID, b"%d" % each.number)])
            self.messages.append(each.value)
        timestamp = max(self.now_ms, self.data.last_timestamp)
        offset = self.data.append(builder.build(timestamp, timestamp, SCHEDULED))
        return [(each.number, offset + index) for index, each in enumerate(due)], timestamp

    def fire_steps(self, due: list[Due], pairs: list[tuple[int, int]], timestamp: int, place: int) -> None:
        for each, (number, data_offset) in zip(due, pairs, strict=True):
            times = [-1, -1]
            if each.cron is not None:
                times = [next_ms(CRON, "UTC", after_ms) for after_ms in (self.now_ms, timestamp)]
            self.do(Fire(place, number, data_offset, times[0], times[1]))

    @rule(limit=st.sampled_from([1, 3, 1000]), wait=st.booleans())
    def fire(self, limit: int, wait: bool) -> None:
        if wait:
            self.wait_for_the_next()
        due = self.take(limit)
        if due:
            pairs, timestamp = self.append(due)
            self.schedule.fired(pairs, self.now_ms)
            self.fire_steps(due, pairs, timestamp, self.last_place())

    def wait_for_the_next(self) -> None:
        self.now_ms = max(self.now_ms, min((e.due_ms for e in self.state.waiting.values()), default=0))

    @rule(seed=POWER)
    def fire_and_crash_half_way(self, seed: int | None) -> None:
        self.wait_for_the_next()
        due = self.take(1000)
        if due:
            pairs, timestamp = self.append(due)
            self.fire_steps(due, pairs, timestamp, NEVER)
        self.crash(seed)

    @rule(seed=POWER, data_first=st.booleans())
    def fire_and_crash_between_the_syncs(self, seed: int | None, data_first: bool) -> None:
        self.fire(1000, True)
        (self.data if data_first else self.schedule.log).sync()
        self.crash(seed)

    @rule(give_back=st.booleans())
    def take_in_vain(self, give_back: bool) -> None:
        due = self.take(1000)
        if give_back:
            self.schedule.put_back(due)

    @rule()
    def publish(self) -> None:
        value = self.new_value()
        builder = BatchBuilder()
        builder.add(None, value, [])
        timestamp = max(self.now_ms, self.data.last_timestamp)
        self.data.append(builder.build(timestamp, timestamp))
        self.messages.append(value)

    @rule()
    def sync_the_data_log(self) -> None:
        self.data.sync()

    @rule()
    def sync_the_schedule(self) -> None:
        self.schedule.log.sync()

    @rule()
    def maintain(self) -> None:
        self.cleaned = self.look_at_all = True
        list(self.schedule.maintain(self.now_ms))

    @rule(steps=st.integers(1, 3))
    def maintain_in_steps(self, steps: int) -> None:
        self.cleaned = self.look_at_all = True
        for _ in range(steps):
            if next(self.cleaning, False) is False:
                self.cleaning = self.schedule.maintain(self.now_ms)

    @rule(seed=POWER)
    def crash(self, seed: int | None) -> None:
        """Without a seed only the process ends; with one, power is cut."""
        if seed is None:
            self.disk.kill()
        else:
            self.disk.power_cut(Random(seed))
        with suppress(Crash):
            getattr(self.cleaning, "close", lambda: None)()
        data_end = Log.open(self.disk, "orders", LogConfig()).end
        schedule_end = Log.open(self.disk, "orders/schedule", CONFIG).end
        del self.messages[data_end:]
        self.state = self.before
        for step in self.steps:
            if step.survives(schedule_end, data_end):
                step.apply(self.state, schedule_end)
        self.open()

    @rule()
    def close_and_open(self) -> None:
        self.schedule.close()
        self.data.close()
        self.open()

    def seen(self, each: Due) -> Waiting:
        return Waiting(each.value or b"", each.due_ms, each.cron is not None)

    @invariant()
    def the_same_entries_wait_for_the_same_times(self) -> None:
        """All are compared after what may touch all, otherwise the one that the last step was about."""
        if self.look_at_all:
            listed = {each.number: self.seen(each) for each in self.schedule.entries()}
            assert listed == self.state.waiting
            self.look_at_all = False
        elif self.steps:
            number = self.steps[-1].number
            entry = self.schedule.get(number)
            assert (entry and self.seen(entry)) == self.state.waiting.get(number)
        assert self.schedule.count == len(self.state.waiting)

    @invariant()
    def every_message_is_in_the_data_log_as_often_as_it_should(self) -> None:
        records = self.data.records(0, self.data.end)
        assert [record.value for record in records] == self.messages

    @invariant()
    def nothing_is_looked_at_too_late(self) -> None:
        first_ms = min((entry.due_ms for entry in self.state.waiting.values()), default=NEVER)
        next_due_ms = self.schedule.next_due_ms()
        assert next_due_ms <= first_ms
        assert next_due_ms >= 0 or not self.state.waiting

    def teardown(self) -> None:
        """Everything that is left comes, once, in the end."""
        self.now_ms = START_MS + 10_000 * HOUR_MS
        waiting = [entry.value for entry in self.state.waiting.values()]
        self.fire(limit=100_000, wait=False)
        assert sorted(self.messages[len(self.messages) - len(waiting) :]) == sorted(waiting)


TestScheduleAndDataLog = ScheduleAndDataLog.TestCase
