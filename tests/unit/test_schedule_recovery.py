"""A crash between the two logs: whatever survives, a message is delivered once."""

from random import Random

import pytest

from penstock.log.log import Log, LogConfig
from penstock.schedule.entries import CHECKPOINT, Due, kind_of, read_decision
from penstock.schedule.schedule import Schedule
from penstock.testing.files import CrashDisk
from penstock.wire.headers import SCHEDULE_ID
from penstock.wire.records import SCHEDULED, BatchBuilder

NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC.
MINUTE_MS = 60_000
SMALL = LogConfig(segment_bytes=4096)  # Cleaning is soon worth it.


class Partition:
    """A data log and its schedule on a disk that can lose power; steps of a move one by one."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.config = config or LogConfig()
        self.disk = CrashDisk()
        self.open()

    def open(self, now_ms: int = NOW_MS) -> None:
        self.data = Log.open(self.disk, "orders", self.config)
        self.schedule = Schedule.open(self.disk, "orders/schedule", self.config, self.data, now_ms)

    def add(self, value: bytes, due_ms: int = NOW_MS, cron: str | None = None) -> int:
        return self.schedule.add(due_ms, None, value, [], 0, NOW_MS, cron, "UTC" if cron else None)

    def append(self, due: list[Due], now_ms: int = NOW_MS) -> list[tuple[int, int]]:
        builder = BatchBuilder()
        for entry in due:
            builder.add(entry.key, entry.value, [(SCHEDULE_ID, b"%d" % entry.number)])
        offset = self.data.append(builder.build(now_ms, now_ms, SCHEDULED))
        return [(entry.number, offset + index) for index, entry in enumerate(due)]

    def publish(self, value: bytes) -> None:
        builder = BatchBuilder()
        builder.add(None, value, [])
        self.data.append(builder.build(NOW_MS, NOW_MS))

    def fire(self, now_ms: int = NOW_MS) -> None:
        self.schedule.fired(self.append(self.schedule.take_due(now_ms, 1000), now_ms), now_ms)

    def sync(self) -> None:
        self.data.sync()
        self.schedule.log.sync()

    def lose_what_is_not_synced(self, now_ms: int = NOW_MS) -> None:
        for node in self.disk._names.values():
            node.content = bytearray(node.synced)
        self.disk.kill()
        self.open(now_ms)

    def kill(self, now_ms: int = NOW_MS) -> None:
        self.disk.kill()
        self.open(now_ms)

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.data.records(0, self.data.end)]

    def waiting(self) -> list[bytes | None]:
        return [due.value for due in self.schedule.entries()]


def test_a_message_without_its_record_of_firing_is_not_delivered_again() -> None:
    partition = Partition()
    partition.add(b"a")
    partition.add(b"b")
    partition.sync()
    [first, _] = partition.schedule.take_due(NOW_MS, 2)
    partition.append([first])

    partition.kill()

    assert (partition.values(), partition.waiting()) == ([b"a"], [b"b"])
    assert partition.schedule.cancel(first.number, NOW_MS) == "delivered"
    partition.kill()
    assert partition.waiting() == [b"b"]


def test_a_record_of_firing_without_its_message_is_void() -> None:
    """And stays void when the data log has grown over the offset that it names."""
    partition = Partition()
    partition.add(b"a")
    partition.sync()
    partition.fire()
    partition.schedule.log.sync()

    partition.lose_what_is_not_synced()

    assert (partition.values(), partition.waiting()) == ([], [b"a"])
    partition.publish(b"other")
    partition.data.sync()
    partition.lose_what_is_not_synced()
    assert (partition.values(), partition.waiting()) == ([b"other"], [b"a"])
    partition.fire()
    partition.kill()
    assert (partition.values(), partition.waiting()) == ([b"other", b"a"], [])


def test_after_a_void_firing_the_data_log_is_searched_from_its_new_end() -> None:
    """Not from where it had been before the power cut: the next message is below that."""
    partition = Partition()
    partition.add(b"a")
    partition.add(b"b")
    partition.sync()
    partition.fire()
    partition.schedule.log.sync()
    partition.lose_what_is_not_synced()
    [first, _] = partition.schedule.take_due(NOW_MS, 2)
    partition.append([first])

    partition.kill()

    assert (partition.values(), partition.waiting()) == ([b"a"], [b"b"])


def test_a_void_firing_gives_a_moved_message_its_due_time_back() -> None:
    partition = Partition()
    number = partition.add(b"a", NOW_MS)
    partition.schedule.reschedule(number, NOW_MS + 500, NOW_MS)
    partition.sync()
    partition.fire(NOW_MS + 500)
    partition.schedule.log.sync()

    partition.lose_what_is_not_synced()

    [due] = partition.schedule.entries()
    assert due.due_ms == NOW_MS + 500
    assert partition.schedule.take_due(NOW_MS + 499, 10) == []
    assert partition.schedule.take_due(NOW_MS + 500, 10) == [due]


def test_a_void_firing_gives_a_recurring_message_its_occurrence_back() -> None:
    partition = Partition()
    partition.add(b"a", NOW_MS, cron="* * * * *")
    partition.sync()
    partition.fire()
    partition.schedule.log.sync()

    partition.lose_what_is_not_synced()

    [due] = partition.schedule.entries()
    assert due.due_ms == NOW_MS
    partition.fire(NOW_MS + MINUTE_MS)
    partition.sync()
    partition.schedule.log.sync()
    partition.fire(NOW_MS + 2 * MINUTE_MS)
    partition.schedule.log.sync()
    partition.lose_what_is_not_synced()
    [due] = partition.schedule.entries()
    assert due.due_ms == NOW_MS + 2 * MINUTE_MS


@pytest.mark.parametrize("decision", ["cancel", "reschedule"])
def test_what_was_decided_about_a_recurring_message_after_a_void_firing_stands(decision: str) -> None:
    partition = Partition()
    number = partition.add(b"a", NOW_MS, cron="* * * * *")
    partition.sync()
    partition.fire()
    if decision == "cancel":
        partition.schedule.cancel(number, NOW_MS)
    else:
        partition.schedule.reschedule(number, NOW_MS + 5 * MINUTE_MS, NOW_MS)
    partition.schedule.log.sync()

    partition.lose_what_is_not_synced()

    dues = [due.due_ms for due in partition.schedule.entries()]
    assert dues == ([] if decision == "cancel" else [NOW_MS + 5 * MINUTE_MS])


def test_lost_records_of_a_recurring_message_are_made_up_for_as_they_were() -> None:
    """Three occurrences are in the data log; the next one follows the last of them, not the crash."""
    partition = Partition()
    partition.add(b"a", NOW_MS, cron="* * * * *")
    partition.sync()
    for minutes in range(3):
        partition.fire(NOW_MS + minutes * MINUTE_MS)
    partition.data.sync()

    partition.lose_what_is_not_synced(NOW_MS + 60 * MINUTE_MS)

    assert partition.values() == [b"a", b"a", b"a"]
    [due] = partition.schedule.entries()
    assert due.due_ms == NOW_MS + 3 * MINUTE_MS


def test_a_number_that_was_lost_and_given_again_is_another_message() -> None:
    """The old one reached the data log, the schedule forgot it: the new one must not pass for delivered."""
    partition = Partition()
    partition.schedule.log.sync()
    old = [partition.add(b"old") for _ in range(3)]
    partition.fire()
    partition.data.sync()
    partition.lose_what_is_not_synced()
    assert (partition.values(), partition.waiting()) == ([b"old"] * 3, [])

    new = [partition.add(b"new") for _ in range(3)]
    assert set(old) & set(new)
    partition.sync()
    partition.lose_what_is_not_synced()

    assert partition.waiting() == [b"new"] * 3


def test_a_clean_end_writes_nothing_at_the_next_open() -> None:
    partition = Partition()
    partition.add(b"a")
    partition.add(b"b", NOW_MS + 500)
    partition.fire()
    end = partition.schedule.log.end
    for _ in range(2):
        partition.schedule.close()
        partition.data.close()
        partition.open()
        assert partition.schedule.log.end == end


def test_an_unused_schedule_writes_nothing() -> None:
    partition = Partition()
    partition.publish(b"x")
    partition.data.sync()
    partition.kill()

    assert partition.schedule.log.end == 0
    number = partition.add(b"a")
    [record] = partition.schedule.log.records(0, 1)
    assert kind_of(record, "") == CHECKPOINT
    assert read_decision(record, CHECKPOINT) == [(1,)]
    assert number == 1


def test_other_messages_of_the_data_log_are_nobodys() -> None:
    """Not flagged as scheduled, or with a number that does not wait."""
    partition = Partition()
    number = partition.add(b"a", NOW_MS + 5)
    partition.sync()
    builder = BatchBuilder()
    builder.add(None, b"by hand", [(SCHEDULE_ID, b"%d" % number)])
    partition.data.append(builder.build(NOW_MS, NOW_MS))
    builder = BatchBuilder()
    builder.add(None, b"unknown", [(SCHEDULE_ID, b"99")])
    builder.add(None, b"none", [])
    partition.data.append(builder.build(NOW_MS, NOW_MS, SCHEDULED))

    partition.kill()

    assert partition.waiting() == [b"a"]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_in_the_middle_of_cleaning_loses_and_repeats_nothing(seed: int) -> None:
    """Cleaning is stopped after each of its steps, in turn."""
    random = Random(seed)
    partition = Partition(SMALL)
    for index in range(60):
        partition.add(b"early %d " % index + bytes(100))
    moved = [partition.add(b"moved %d" % index) for index in range(5)]
    for number in moved:
        partition.schedule.reschedule(number, NOW_MS + 70, NOW_MS)
    partition.fire()
    partition.sync()
    steps = partition.schedule.maintain(NOW_MS)
    for _ in range(seed % 5):
        next(steps, None)

    partition.disk.power_cut(random)
    partition.open()

    assert partition.waiting() == [b"moved %d" % index for index in range(5)]
    assert [due.due_ms for due in partition.schedule.entries()] == [NOW_MS + 70] * 5
    partition.fire(NOW_MS + 70)
    assert len(partition.values()) == 65


def test_what_fires_while_the_log_is_cleaned_is_not_forgotten_before_its_message_is_durable() -> None:
    partition = Partition(SMALL)
    partition.add(b"far", NOW_MS + 1000 * MINUTE_MS)  # So that no segment goes as a whole.
    for _ in range(100):
        partition.add(b"early" + bytes(100))
    late = partition.add(b"late", NOW_MS + 1)
    partition.fire()
    partition.sync()
    steps = partition.schedule.maintain(NOW_MS)
    next(steps)
    assert partition.schedule.log.segments()[-1].base_offset > late, "its record is in what is cleaned"
    partition.fire(NOW_MS + 1)
    for _ in steps:
        pass
    assert partition.schedule.known(1) is None

    partition.lose_what_is_not_synced()

    assert partition.waiting() == [b"far", b"late"]


def test_cleaning_does_not_forget_what_is_accounted_for() -> None:
    """Or the next open takes old messages of a recurring entry for new ones, and gives it a wrong time."""
    partition = Partition(SMALL)
    number = partition.add(b"recurring", NOW_MS, cron="* * * * *")
    for _ in range(100):
        partition.add(b"early" + bytes(100))
    partition.fire()
    partition.schedule.reschedule(number, NOW_MS + 30 * MINUTE_MS, NOW_MS)
    list(partition.schedule.maintain(NOW_MS))
    assert partition.schedule.known(number + 1) is None

    partition.kill()

    assert [due.due_ms for due in partition.schedule.entries()] == [NOW_MS + 30 * MINUTE_MS]
