"""Every single file operation goes wrong once, in every way; afterwards each message is there once."""

from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

import pytest

from penstock.errors import PenstockError
from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.schedule.schedule import Schedule
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles
from penstock.wire.headers import SCHEDULE_ID
from penstock.wire.records import SCHEDULED, BatchBuilder

P = ParamSpec("P")

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
CONFIG = LogConfig(segment_bytes=2048)


class Work:
    """A short life of a schedule; remembers what it was promised."""

    def __init__(self) -> None:
        self.accepted: dict[bytes, int] = {}  # By value: the number.
        self.asked_for: set[bytes] = set()  # Accepted or not: the answer did not come.
        self.cancelled: set[bytes] = set()
        self.maybe_cancelled: set[bytes] = set()

    def run(self, files: Files) -> None:
        data = Log.open(files, "orders", CONFIG)
        schedule = Schedule.open(files, "orders/schedule", CONFIG, data, NOW_MS)
        for round_number in range(3):
            now_ms = NOW_MS + round_number
            for index in range(6):
                self.attempt(self.add, schedule, b"near %d %d" % (round_number, index), now_ms)
            self.attempt(self.add, schedule, b"far %d" % round_number, now_ms + 9 * HOUR_MS)
            self.attempt(self.cancel, schedule, b"near %d 0" % round_number)
            self.attempt(self.fire, data, schedule, now_ms)
            self.attempt(self.maintain, schedule, now_ms)
        schedule.close()
        data.close()

    def attempt(self, action: Callable[P, None], *args: P.args, **keywords: P.kwargs) -> None:
        """Go on after an error, as a broker does."""
        with suppress(PenstockError):
            action(*args, **keywords)

    def add(self, schedule: Schedule, value: bytes, due_ms: int) -> None:
        self.asked_for.add(value)
        number = schedule.add(due_ms, None, value + bytes(60), [], 0, NOW_MS)
        schedule.log.sync()
        self.accepted[value] = number

    def maintain(self, schedule: Schedule, now_ms: int) -> None:
        list(schedule.maintain(now_ms))

    def cancel(self, schedule: Schedule, value: bytes) -> None:
        if value in self.accepted:
            self.maybe_cancelled.add(value)
            assert schedule.cancel(self.accepted[value], NOW_MS) == "cancelled"
            schedule.log.sync()
            self.cancelled.add(value)

    def fire(self, data: Log, schedule: Schedule, now_ms: int) -> None:
        due = schedule.take_due(now_ms, 100)
        builder = BatchBuilder()
        for entry in due:
            builder.add(None, entry.value, [(SCHEDULE_ID, b"%d" % entry.number)])
        if due:
            timestamp = max(now_ms, data.last_timestamp)
            offset = data.append(builder.build(timestamp, timestamp, SCHEDULED))
            schedule.fired([(entry.number, offset + index) for index, entry in enumerate(due)], now_ms)
            data.sync()

    def check(self, files: Files) -> None:
        data = Log.open(files, "orders", CONFIG)
        schedule = Schedule.open(files, "orders/schedule", CONFIG, data, NOW_MS)
        self.fire(data, schedule, NOW_MS + 99 * HOUR_MS)
        values = [(record.value or b"").rstrip(b"\0") for record in data.records(0, data.end)]
        assert sorted(values) == sorted(set(values)), "no message comes twice"
        assert set(values) <= self.asked_for - self.cancelled
        assert set(values) >= self.accepted.keys() - self.maybe_cancelled


def operations() -> int:
    files = FaultyFiles(CrashDisk())
    work = Work()
    work.run(files)
    work.check(files.inner)
    assert len(work.accepted) == 21
    return len(files.operations)


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
def test_whatever_goes_wrong_each_message_comes_once(fault: Fault) -> None:
    for at in range(1, operations() + 1):
        disk = CrashDisk()
        work = Work()
        try:
            work.run(FaultyFiles(disk, at=at, fault=fault))
        except (Crash, PenstockError):
            disk.kill()
        work.check(disk)
