"""What became of an entry of a schedule, told from its log."""

import pytest

from penstock.errors import DiskFull
from penstock.log.files import Files, MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.schedule.entries import CANCELLED, FIRED, MOVED
from penstock.schedule.schedule import Schedule
from penstock.testing.files import Fault, FaultyFiles
from penstock.wire.headers import SCHEDULE_ID
from penstock.wire.records import SCHEDULED, BatchBuilder

NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC: a full hour.


class Partition:
    """A data log with its schedule, and the broker's part of the work."""

    def __init__(self, files: Files | None = None, segment_bytes: int = 1 << 20) -> None:
        self.files = files or MemoryFiles()
        self.config = LogConfig(durability="os", segment_bytes=segment_bytes)
        self.open()

    def open(self) -> None:
        self.data = Log.open(self.files, "orders", self.config)
        self.schedule = Schedule.open(self.files, "orders/schedule", self.config, self.data, NOW_MS)

    def add(self, due_ms: int, value: bytes = b"v", cron: str | None = None) -> int:
        return self.schedule.add(due_ms, None, value, [], 0, NOW_MS, cron, "UTC" if cron else None)

    def fire(self, now_ms: int) -> None:
        due = self.schedule.take_due(now_ms, 1000)
        builder = BatchBuilder()
        for entry in due:
            builder.add(entry.key, entry.value, [(SCHEDULE_ID, b"%d" % entry.number)])
        timestamp = max(now_ms, self.data.last_timestamp)
        offset = self.data.append(builder.build(timestamp, timestamp, SCHEDULED))
        self.schedule.fired([(entry.number, offset + index) for index, entry in enumerate(due)], now_ms)

    def story(self, number: int) -> list[tuple[int, int, int]]:
        told = self.schedule.history(number)
        return [(one.time_ms - NOW_MS, one.kind, one.value) for one in told]


def test_nothing_has_become_of_an_entry_that_waits() -> None:
    partition = Partition()
    number = partition.add(NOW_MS + 10)

    assert partition.story(number) == []


def test_an_entry_tells_its_own_story_and_no_other() -> None:
    partition = Partition()
    first, second, third = (partition.add(NOW_MS + 10) for _ in range(3))
    partition.schedule.reschedule(second, NOW_MS + 20, NOW_MS + 1)
    partition.schedule.cancel(third, NOW_MS + 2)
    partition.fire(NOW_MS + 10)
    partition.fire(NOW_MS + 20)

    assert partition.story(first) == [(10, FIRED, 0)]
    assert partition.story(second) == [(1, MOVED, NOW_MS + 20), (20, FIRED, 1)]
    assert partition.story(third) == [(2, CANCELLED, -1)]


def test_a_recurring_entry_fires_again_and_again() -> None:
    partition = Partition()
    number = partition.add(NOW_MS, cron="0 * * * *")
    partition.fire(NOW_MS)
    partition.fire(NOW_MS + 3_600_000)

    assert partition.story(number) == [(0, FIRED, 0), (3_600_000, FIRED, 1)]


def test_a_firing_whose_message_was_lost_did_not_happen() -> None:
    """The data log lost its end in a crash, so the entry waited again, and has fired again since."""
    partition = Partition()
    number = partition.add(NOW_MS + 999)
    partition.schedule.reschedule(number, NOW_MS + 10, NOW_MS + 1)
    partition.fire(NOW_MS + 10)
    partition.data.close()
    partition.schedule.close()
    for name in partition.files.list("orders"):
        if "." in name:
            partition.files.remove(f"orders/{name}")
    partition.open()
    assert partition.story(number) == [(1, MOVED, NOW_MS + 10)]

    partition.fire(NOW_MS + 30)

    assert partition.story(number) == [(1, MOVED, NOW_MS + 10), (30, FIRED, 0)]


def test_a_firing_that_could_not_be_written_is_told_all_the_same() -> None:
    files = FaultyFiles(MemoryFiles())
    partition = Partition(files)
    number = partition.add(NOW_MS + 10)
    due = partition.schedule.take_due(NOW_MS + 10, 10)
    files.fail_next(Fault.FULL)
    with pytest.raises(DiskFull):
        partition.schedule.fired([(entry.number, 0) for entry in due], NOW_MS + 10)

    assert [(one.kind, one.value) for one in partition.schedule.history(number)] == [(FIRED, 0)]


def test_cleaning_does_not_look_like_a_move() -> None:
    partition = Partition(segment_bytes=4096)
    moved, recurring = partition.add(NOW_MS + 10), partition.add(NOW_MS, cron="0 * * * *")
    partition.schedule.reschedule(moved, NOW_MS + 999_999, NOW_MS + 1)
    gone = [partition.add(NOW_MS, bytes(100)) for _ in range(100)]
    partition.fire(NOW_MS)
    before = partition.schedule.log.size_bytes
    list(partition.schedule.maintain(NOW_MS + 5))

    assert partition.schedule.log.size_bytes < before
    assert partition.schedule.known(gone[0]) is None
    assert partition.story(moved) == partition.story(recurring) == []
    assert partition.schedule.history(gone[-1]) == []
