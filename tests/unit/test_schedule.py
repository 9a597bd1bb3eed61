"""The schedule of one partition, from accepting a message to having it in the log."""

import pytest

from penstock.errors import DiskFull
from penstock.log.files import Files, MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.schedule import schedule
from penstock.schedule.buckets import HOUR_MS, SPILL_PAIRS
from penstock.schedule.entries import Due
from penstock.schedule.schedule import TAKE_BYTES_MAX, Message, Schedule
from penstock.testing.files import CrashDisk, Fault, FaultyFiles
from penstock.wire.headers import SCHEDULE_ID
from penstock.wire.records import SCHEDULED, BatchBuilder

NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC: a full hour.
MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS
CONFIG = LogConfig(durability="os")


class Partition:
    """A data log with its schedule, and the broker's part of the work."""

    def __init__(self, files: Files | None = None, config: LogConfig = CONFIG) -> None:
        self.files = files or MemoryFiles()
        self.config = config
        self.open(NOW_MS)

    def open(self, now_ms: int) -> None:
        self.data = Log.open(self.files, "orders", self.config)
        self.schedule = Schedule.open(self.files, "orders/schedule", self.config, self.data, now_ms)

    def add(self, due_ms: int, value: bytes = b"v", now_ms: int = NOW_MS, cron: str | None = None) -> int:
        return self.schedule.add(due_ms, None, value, [], 0, now_ms, cron, "UTC" if cron else None)

    def append(self, due: list[Due], now_ms: int) -> int:
        builder = BatchBuilder()
        for entry in due:
            builder.add(entry.key, entry.value, [*entry.headers, (SCHEDULE_ID, b"%d" % entry.number)])
        timestamp = max(now_ms, self.data.last_timestamp)
        return self.data.append(builder.build(timestamp, timestamp, SCHEDULED))

    def fire(self, now_ms: int, limit: int = 1000) -> list[int]:
        due = self.schedule.take_due(now_ms, limit)
        if due:
            offset = self.append(due, now_ms)
            pairs = [(entry.number, offset + index) for index, entry in enumerate(due)]
            self.schedule.fired(pairs, now_ms)
        return [entry.number for entry in due]

    def came_ms(self, number: int) -> int:
        known = self.schedule.known(number)
        assert known is not None
        return known.accepted_ms

    def delivered(self) -> list[bytes | None]:
        return [record.value for record in self.data.records(self.data.start, self.data.end)]


def test_a_message_is_there_when_it_is_due_and_not_before() -> None:
    partition = Partition()
    headers: list[tuple[str, bytes | None]] = [("a", b"1")]
    number = partition.schedule.add(NOW_MS + 100, b"k", b"v", headers, 0x100, NOW_MS)

    assert partition.schedule.next_due_ms() == NOW_MS + 100
    assert partition.schedule.take_due(NOW_MS + 99, 10) == []
    [due] = partition.schedule.take_due(NOW_MS + 100, 10)

    assert due == Due(number, NOW_MS + 100, b"k", b"v", headers, 0x100, NOW_MS, None, None)
    assert partition.schedule.count == 1, "it waits until it has fired"


def test_messages_come_in_the_order_of_their_due_times() -> None:
    partition = Partition()
    numbers = [partition.add(NOW_MS + delay) for delay in (500, 100, 2 * DAY_MS, 100, 300)]

    assert partition.fire(NOW_MS + 5 * MINUTE_MS) == [numbers[1], numbers[3], numbers[4], numbers[0]]
    assert partition.schedule.next_due_ms() == NOW_MS + 2 * DAY_MS
    assert partition.fire(NOW_MS + 3 * DAY_MS) == [numbers[2]]
    assert (partition.schedule.count, partition.schedule.next_due_ms()) == (0, -1)


def test_a_message_fires_once() -> None:
    partition = Partition()
    number = partition.add(NOW_MS)

    assert partition.fire(NOW_MS) == [number]
    assert partition.fire(NOW_MS) == []
    assert partition.schedule.get(number) is None


def test_the_limit_leaves_the_later_ones() -> None:
    partition = Partition()
    numbers = [partition.add(NOW_MS + delay) for delay in range(200)]

    assert partition.fire(NOW_MS + DAY_MS, limit=150) == numbers[:150]
    assert partition.fire(NOW_MS + DAY_MS, limit=150) == numbers[150:]


def test_large_messages_are_taken_a_few_at_a_time() -> None:
    partition = Partition()
    numbers = [partition.add(NOW_MS, bytes(TAKE_BYTES_MAX // 64)) for _ in range(130)]

    assert partition.fire(NOW_MS) == numbers[:64]
    assert partition.fire(NOW_MS) == numbers[64:128]
    assert partition.fire(NOW_MS) == numbers[128:]


def test_what_was_taken_and_has_not_fired_is_taken_again() -> None:
    """The data log was full: nothing has happened."""
    partition = Partition()
    first, second = partition.add(NOW_MS), partition.add(NOW_MS + 1)
    taken = partition.schedule.take_due(NOW_MS + 1, 10)

    assert partition.schedule.next_due_ms() == NOW_MS
    assert partition.fire(NOW_MS + 1) == [first, second]

    third = partition.add(NOW_MS)
    taken = partition.schedule.take_due(NOW_MS, 10)
    partition.schedule.put_back(taken)
    partition.schedule.put_back(taken)
    assert partition.schedule.next_due_ms() == NOW_MS
    assert partition.fire(NOW_MS) == [third]


def test_a_cancelled_message_never_comes() -> None:
    partition = Partition()
    number, other = partition.add(NOW_MS + 5), partition.add(NOW_MS + 5)

    assert partition.schedule.cancel(number, NOW_MS) == "cancelled"
    assert partition.schedule.cancel(number, NOW_MS) == "cancelled"

    assert partition.fire(NOW_MS + 5) == [other]
    assert partition.schedule.count == 0


def test_a_cancel_that_comes_too_late_is_told_so() -> None:
    partition = Partition()
    number = partition.add(NOW_MS)
    partition.fire(NOW_MS)

    assert partition.schedule.cancel(number, NOW_MS) == "delivered"
    assert partition.schedule.cancel(12345, NOW_MS) == "unknown"
    assert partition.schedule.cancel(-1, NOW_MS) == "unknown"
    assert partition.schedule.cancel(number + 1, NOW_MS) == "unknown", "that is the record of the firing"


def test_a_taken_message_can_be_cancelled_when_it_could_not_be_appended() -> None:
    partition = Partition()
    number = partition.add(NOW_MS)
    partition.schedule.take_due(NOW_MS, 10)

    assert partition.schedule.cancel(number, NOW_MS) == "cancelled"
    assert partition.fire(NOW_MS) == []


@pytest.mark.parametrize("first_delay", [MINUTE_MS, 5 * DAY_MS])
@pytest.mark.parametrize("second_delay", [2 * MINUTE_MS, 9 * DAY_MS])
def test_a_message_can_be_moved_and_keeps_its_number(first_delay: int, second_delay: int) -> None:
    partition = Partition()
    number = partition.add(NOW_MS + first_delay)

    assert partition.schedule.reschedule(number, NOW_MS + second_delay, NOW_MS)

    moved = partition.schedule.get(number)
    assert moved is not None
    assert moved.due_ms == NOW_MS + second_delay
    assert partition.fire(NOW_MS + second_delay - 1) == []
    assert partition.fire(NOW_MS + second_delay) == [number]
    assert not partition.schedule.reschedule(number, NOW_MS + DAY_MS, NOW_MS)


def test_a_message_that_is_moved_there_and_back_comes_once() -> None:
    """Its due time is in the timetable twice."""
    partition = Partition()
    numbers = [partition.add(NOW_MS + 50) for _ in range(70)]
    for number in numbers:
        partition.schedule.reschedule(number, NOW_MS + 90, NOW_MS)
        partition.schedule.reschedule(number, NOW_MS + 50, NOW_MS)

    assert partition.fire(NOW_MS + 100) == numbers
    assert partition.fire(NOW_MS + 100) == []


def test_waiting_messages_are_listed_in_the_order_they_came() -> None:
    partition = Partition()
    numbers = [partition.add(NOW_MS + delay) for delay in (9 * DAY_MS, 5, 70)]
    partition.schedule.cancel(numbers[1], NOW_MS)
    partition.schedule.reschedule(numbers[2], NOW_MS + 60, NOW_MS)

    listed = [(due.number, due.due_ms) for due in partition.schedule.entries()]

    assert listed == [(numbers[0], NOW_MS + 9 * DAY_MS), (numbers[2], NOW_MS + 60)]
    assert [due.number for due in partition.schedule.entries(after=numbers[0])] == [numbers[2]]


def test_it_is_known_when_a_message_was_accepted() -> None:
    partition = Partition()
    number = partition.add(NOW_MS + 10, now_ms=NOW_MS + 3)
    partition.fire(NOW_MS + 10)

    assert partition.came_ms(number) == NOW_MS + 3
    assert partition.schedule.known(99) is None


def test_a_recurring_message_keeps_its_number_and_waits_for_its_next_time() -> None:
    partition = Partition()
    number = partition.add(NOW_MS + MINUTE_MS, cron="* * * * *")

    assert partition.fire(NOW_MS + MINUTE_MS) == [number]
    assert partition.schedule.next_due_ms() == NOW_MS + 2 * MINUTE_MS
    assert partition.fire(NOW_MS + 2 * MINUTE_MS - 1) == []
    assert partition.fire(NOW_MS + 2 * MINUTE_MS + 7) == [number]
    assert partition.schedule.next_due_ms() == NOW_MS + 3 * MINUTE_MS

    assert partition.schedule.cancel(number, NOW_MS) == "cancelled"
    assert partition.fire(NOW_MS + DAY_MS) == []


def test_occurrences_that_were_missed_fire_once() -> None:
    partition = Partition()
    number = partition.add(NOW_MS + HOUR_MS, cron="0 * * * *")
    partition.open(NOW_MS + 5 * HOUR_MS)

    assert partition.fire(NOW_MS + 5 * HOUR_MS + 1) == [number]
    assert partition.fire(NOW_MS + 5 * HOUR_MS + 1) == []
    assert partition.schedule.next_due_ms() == NOW_MS + 6 * HOUR_MS


def test_a_recurring_message_without_a_further_time_is_done() -> None:
    """Its zone was in the time zone database when it was accepted, and is not any more."""
    partition = Partition()
    number = partition.schedule.add(NOW_MS, None, b"v", [], 0, NOW_MS, "* * * * *", "Atlantis/Capital")

    assert partition.fire(NOW_MS) == [number]
    assert partition.schedule.count == 0


def test_moving_a_recurring_message_moves_its_next_occurrence() -> None:
    partition = Partition()
    number = partition.add(NOW_MS + MINUTE_MS, cron="* * * * *")
    partition.schedule.reschedule(number, NOW_MS + 90_000, NOW_MS)

    assert partition.fire(NOW_MS + MINUTE_MS) == []
    assert partition.fire(NOW_MS + 90_000) == [number]
    assert partition.schedule.next_due_ms() == NOW_MS + 2 * MINUTE_MS


def test_a_clock_that_jumps_forward_fires_what_is_due_and_back_fires_nothing_twice() -> None:
    partition = Partition()
    soon, far = partition.add(NOW_MS + 100), partition.add(NOW_MS + 40 * DAY_MS)
    later = partition.add(NOW_MS + 41 * DAY_MS)

    assert partition.fire(NOW_MS + 40 * DAY_MS) == [soon, far]
    assert partition.fire(NOW_MS) == []
    early = partition.add(NOW_MS + 10, now_ms=NOW_MS)
    assert partition.fire(NOW_MS + 20) == [early]
    assert partition.fire(NOW_MS + 41 * DAY_MS) == [later]


@pytest.mark.parametrize("ahead", [True, False])
def test_far_off_messages_wait_on_disk_and_come_back(ahead: bool) -> None:
    partition = Partition()
    count = 3 * SPILL_PAIRS
    numbers = [partition.add(NOW_MS + DAY_MS + delay) for delay in range(count)]
    assert len(partition.files.list("orders/schedule/far")) == 1

    if ahead:
        list(partition.schedule.maintain(NOW_MS + DAY_MS - HOUR_MS + 1))
        assert partition.files.list("orders/schedule/far") == []

    assert partition.schedule.next_due_ms() == NOW_MS + DAY_MS
    assert partition.fire(NOW_MS + DAY_MS + 9) == numbers[:10]
    assert partition.fire(NOW_MS + DAY_MS + count) == numbers[10:]


def test_far_off_messages_whose_file_is_damaged_are_found_in_the_log() -> None:
    disk = CrashDisk()
    partition = Partition(disk)
    numbers = [partition.add(NOW_MS + DAY_MS + delay) for delay in range(SPILL_PAIRS)]
    other = partition.add(NOW_MS + 9 * DAY_MS)
    [name] = disk.list("orders/schedule/far")
    disk.damage(f"orders/schedule/far/{name}", lambda data: bytes([data[0] ^ 1]) + data[1:])

    assert partition.fire(NOW_MS + DAY_MS + HOUR_MS) == numbers
    assert partition.schedule.next_due_ms() == NOW_MS + 9 * DAY_MS
    assert partition.schedule.get(other) is not None


def test_a_full_disk_refuses_a_message_and_changes_nothing() -> None:
    files = FaultyFiles(MemoryFiles())
    partition = Partition(files)
    number = partition.add(NOW_MS + 5)
    files.fail_next(Fault.FULL, lasting=True)

    with pytest.raises(DiskFull):
        partition.add(NOW_MS + 6)
    with pytest.raises(DiskFull):
        partition.schedule.cancel(number, NOW_MS)
    with pytest.raises(DiskFull):
        partition.schedule.reschedule(number, NOW_MS + 7, NOW_MS)
    files.heal()

    assert partition.schedule.count == 1
    assert partition.fire(NOW_MS + 5) == [number]


def test_what_has_fired_stays_fired_when_that_could_not_be_written() -> None:
    """The message is in the data log; the record of it follows with the next one."""
    files = FaultyFiles(MemoryFiles())
    partition = Partition(files)
    first, second = partition.add(NOW_MS), partition.add(NOW_MS + 50)
    [due] = partition.schedule.take_due(NOW_MS, 1)
    offset = partition.append([due], NOW_MS)
    files.fail_next(Fault.FULL)

    with pytest.raises(DiskFull):
        partition.schedule.fired([(first, offset)], NOW_MS)
    partition.schedule.put_back([due])

    assert partition.fire(NOW_MS) == []
    assert partition.fire(NOW_MS + 50) == [second]
    partition.open(NOW_MS + 50)
    assert partition.schedule.count == 0
    assert partition.schedule.cancel(first, NOW_MS) == "delivered"


def test_messages_that_cannot_be_read_wait_until_they_can() -> None:
    files = FaultyFiles(MemoryFiles())
    partition = Partition(files)
    numbers = [partition.add(NOW_MS + number, bytes(4096)) for number in range(100)]
    partition.schedule.take_due(NOW_MS + 70, 1000)  # The log has some of them in memory now.
    files.fail_next(Fault.FAIL)

    with pytest.raises(Exception, match="was made to fail"):
        partition.schedule.take_due(NOW_MS + 100, 1000)

    assert partition.fire(NOW_MS + 100) == numbers


def clean_config() -> LogConfig:
    return LogConfig(segment_bytes=4096, durability="os")


def test_cleaning_removes_what_nobody_needs_and_keeps_the_rest() -> None:
    partition = Partition(config=clean_config())
    kept = partition.add(NOW_MS + 3 * DAY_MS, b"kept")
    moved = partition.add(NOW_MS + DAY_MS, b"moved")
    partition.schedule.reschedule(moved, NOW_MS + 2 * DAY_MS, NOW_MS)
    recurring = partition.add(NOW_MS, b"recurring", cron="0 0 * * *")
    gone = [partition.add(NOW_MS, bytes(100)) for _ in range(100)]
    assert partition.schedule.cancel(gone.pop(), NOW_MS) == "cancelled"
    assert partition.fire(NOW_MS) == [recurring, *gone]
    before_bytes = partition.schedule.log.size_bytes

    list(partition.schedule.maintain(NOW_MS))

    assert partition.schedule.log.size_bytes < before_bytes / 4
    for now_ms in (NOW_MS, NOW_MS + 1):
        listed = {due.value: due.due_ms for due in partition.schedule.entries()}
        assert listed == {
            b"kept": NOW_MS + 3 * DAY_MS,
            b"moved": NOW_MS + 2 * DAY_MS,
            b"recurring": NOW_MS + 16 * HOUR_MS,
        }
        partition.open(now_ms)
    assert partition.fire(NOW_MS + 2 * DAY_MS) == [recurring, moved]
    assert partition.fire(NOW_MS + 2 * DAY_MS + 16 * HOUR_MS) == [recurring]
    assert partition.fire(NOW_MS + 3 * DAY_MS) == [kept]
    assert partition.schedule.cancel(gone[0], NOW_MS) == "unknown", "it is forgotten"


def test_cleaning_forgets_everything_when_nothing_waits() -> None:
    partition = Partition(config=clean_config())
    for _ in range(3):
        for _ in range(50):
            partition.add(NOW_MS, bytes(100))
        partition.fire(NOW_MS)
        list(partition.schedule.maintain(NOW_MS))

    assert partition.schedule.log.size_bytes < 500
    assert len(partition.schedule.log.segments()) == 1
    number = partition.add(NOW_MS + 5)
    partition.open(NOW_MS)
    assert partition.fire(NOW_MS + 5) == [number]


def test_cleaning_keeps_the_last_numbers_of_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "PRODUCERS_MAX", 2)
    partition = Partition(config=clean_config())
    for turn in range(3):
        for producer in (7, 8, 9):
            for sequence in (turn * 100, turn * 100 + 50):
                messages: list[Message] = [(NOW_MS, None, bytes(100), [], 0)] * 10
                partition.schedule.add_many(messages, NOW_MS, producer, sequence)
        assert len(partition.fire(NOW_MS)) == 60
        list(partition.schedule.maintain(NOW_MS))

        assert partition.schedule.log.size_bytes < 500
        for _ in range(2):
            found = [partition.schedule.last_sequence(producer) for producer in (7, 8, 9)]
            assert found == [-1, turn * 100 + 50, turn * 100 + 50]
            partition.open(NOW_MS)
    number = partition.add(NOW_MS + 5)
    assert partition.fire(NOW_MS + 5) == [number]


def test_cleaning_waits_until_it_is_worth_it() -> None:
    partition = Partition(config=clean_config())
    for _ in range(100):
        partition.add(NOW_MS + DAY_MS, bytes(100))
    size_bytes = partition.schedule.log.size_bytes

    list(partition.schedule.maintain(NOW_MS))

    assert partition.schedule.log.size_bytes == size_bytes


def test_cleaning_syncs_the_data_log_before_it_forgets() -> None:
    """Or a power cut takes the message from the data log after its entry is gone."""
    disk = CrashDisk()
    partition = Partition(disk, LogConfig(segment_bytes=4096))
    for _ in range(50):
        partition.add(NOW_MS, bytes(100))
    partition.schedule.log.sync()
    partition.fire(NOW_MS)
    assert partition.data.durable < partition.data.written

    list(partition.schedule.maintain(NOW_MS))

    assert partition.data.durable == partition.data.written


def test_what_settles_while_the_log_is_cleaned_is_not_forgotten_too_early() -> None:
    partition = Partition(config=clean_config())
    early = [partition.add(NOW_MS, bytes(100)) for _ in range(100)]
    late = [partition.add(NOW_MS + 1, bytes(100)) for _ in range(20)]
    partition.fire(NOW_MS)
    steps = partition.schedule.maintain(NOW_MS)
    next(steps)

    assert partition.fire(NOW_MS + 1) == late
    assert list(partition.schedule.maintain(NOW_MS)) == [], "one at a time"
    list(steps)

    assert partition.came_ms(late[-1]) == NOW_MS
    assert partition.schedule.known(early[0]) is None
    partition.open(NOW_MS)
    assert partition.schedule.count == 0


def test_a_closed_schedule_opens_as_it_was() -> None:
    partition = Partition()
    number = partition.add(NOW_MS + DAY_MS)
    partition.schedule.close()
    partition.data.close()

    partition.open(NOW_MS)

    assert [due.number for due in partition.schedule.entries()] == [number]


def test_entries_around_damage_come_and_the_damaged_one_does_not() -> None:
    disk = CrashDisk()
    partition = Partition(disk, LogConfig(segment_bytes=4096))
    numbers = [partition.add(NOW_MS, bytes(100)) for _ in range(100)]
    disk.damage("orders/schedule/00000000000000000000.log", lambda data: bytes(30) + data[30:])

    partition.open(NOW_MS)

    assert [due.number for due in partition.schedule.entries()] == numbers[1:]
    assert [due.number for due in partition.schedule.take_due(NOW_MS, 1000)] == numbers[1:]
    assert [found.first_offset for found in partition.schedule.log.damage.ranges] == [0]
