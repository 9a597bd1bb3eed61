"""The log by example, as it is written: what each call does, and what happens when it cannot."""

import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.logs import SMALL, filled, open_log, publish, values_of

from penstock.errors import Closed, DiskFull, OffsetOutOfRange, PenstockError, StorageFailed
from penstock.log.files import MemoryFiles, SystemFiles
from penstock.log.log import Log, LogConfig
from penstock.testing.files import CrashDisk, Fault, FaultyFiles
from penstock.version import compiled
from penstock.wire.records import (
    check_batch,
    encode_values,
    lane_attributes,
)

# --- appending ----------------------------------------------------------------------------------------------


def test_a_new_log_is_empty() -> None:
    log = open_log()
    assert (log.start, log.high, log.end, log.last_timestamp, log.size_bytes) == (0, 0, 0, 0, 0)
    assert log.records(0, 0) == []
    assert log.read(0, 1000) == b""
    assert log.last(5) == []
    assert log.offset_at(0) == 0
    assert list(log.headers(0)) == []
    assert log.recovery.clean


def test_a_batch_is_placed_behind_the_last_one() -> None:
    log = open_log()
    assert publish(log, b"a", b"b") == 0
    assert publish(log, b"c", timestamp=1005) == 2
    assert (log.end, log.last_timestamp) == (3, 1005)
    assert [(r.offset, r.timestamp, r.value) for r in log.records(0, 3)] == [
        (0, 1000, b"a"),
        (1, 1000, b"b"),
        (2, 1005, b"c"),
    ]


def test_the_leader_epoch_is_stamped_into_every_batch() -> None:
    log = open_log()
    log.leader_epoch = 7
    publish(log, b"a")
    log.sync()
    assert check_batch(log.read(0, 1000)).leader_epoch == 7


def test_a_batch_may_be_older_than_those_before_it() -> None:
    log = open_log()
    for timestamp in (1000, 700, 1200, 900):
        publish(log, b"a", timestamp=timestamp)

    assert [log.offset_at(timestamp) for timestamp in (600, 1000, 1001, 1201)] == [0, 0, 2, 4]
    assert log.last_timestamp == 1200


@pytest.mark.parametrize(("durability", "high"), [("fsync", 0), ("os", 1), ("memory", 1)])
def test_readers_see_what_is_as_durable_as_promised(durability: str, high: int) -> None:
    configs: dict[str, LogConfig] = {
        "fsync": LogConfig(durability="fsync"),
        "os": LogConfig(durability="os"),
        "memory": LogConfig(durability="memory"),
    }
    log = open_log(configs[durability])

    publish(log, b"a")

    assert (log.high, log.end) == (high, 1)
    assert log.durable == 0
    log.sync()
    assert (log.high, log.durable) == (1, log.written)


def test_a_log_in_memory_is_never_synced() -> None:
    files = FaultyFiles(MemoryFiles())
    log = Log.open(files, "d", LogConfig(durability="memory"))
    publish(log, b"a")
    log.sync()
    assert not [operation for operation in files.operations if operation.startswith("sync ")]


def test_a_full_disk_changes_nothing_and_later_there_is_room() -> None:
    files = FaultyFiles(CrashDisk())
    log = Log.open(files, "d", SMALL)
    publish(log, b"a", lane=1)
    files.fail_next(Fault.FULL)

    with pytest.raises(DiskFull):
        publish(log, b"b", timestamp=2000, lane=2)

    assert (log.end, log.last_timestamp, log.failed) == (1, 1000, None)
    assert log.lanes.lanes() == [1, 0]
    assert publish(log, b"c", timestamp=1500) == 1
    log.sync()
    assert values_of(log) == [b"a", b"c"]


def test_a_write_that_cannot_be_taken_back_stops_the_log() -> None:
    disk = CrashDisk()
    files = FaultyFiles(disk)
    log = Log.open(files, "d", SMALL)
    publish(log, b"a")
    log.sync()
    files.fail_next(Fault.STUCK)

    for _ in range(2):
        with pytest.raises(StorageFailed):
            publish(log, b"b" * 50)

    with pytest.raises(StorageFailed):
        log.sync()
    assert values_of(log, 0, log.high) == [b"a"]
    log.close()
    disk.kill()
    log = Log.open(disk, "d", SMALL)
    assert log.recovery.cut_bytes > 0
    assert values_of(log) == [b"a"]


def test_a_failed_sync_is_never_tried_again() -> None:
    disk = CrashDisk()
    files = FaultyFiles(disk)
    log = Log.open(files, "d", SMALL)
    publish(log, b"a")
    files.fail_next(Fault.FAIL)

    with pytest.raises(StorageFailed):
        log.sync()
    count = len(files.operations)
    for call in (log.sync, log.roll, lambda: publish(log, b"b")):
        with pytest.raises(StorageFailed):
            call()

    assert len(files.operations) == count
    assert (log.high, log.durable) == (0, 0)
    assert log.failed is not None


class InterruptAtLine:
    """Ctrl-C before the n-th line of ``Log.append``, as a signal handler would raise it.

    Not within the plain stores at its end: the interpreter lets no handler in there.
    """

    def __init__(self, number: int) -> None:
        self.left = number
        lines, first = inspect.getsourcelines(Log.append)
        (stores,) = (at for at, line in enumerate(lines) if "only plain stores" in line)
        self.stores = first + stores

    def __enter__(self) -> None:
        self.before = sys.gettrace()  # Someone may be measuring coverage.
        sys.settrace(self.trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not Log.append.__code__:
            return None
        if event == "line" and frame.f_lineno < self.stores:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.trace


@pytest.mark.skipif(compiled(), reason="compiled code has no lines to interrupt between")
@pytest.mark.parametrize("sealed", [False, True])
def test_an_interrupt_at_any_line_of_an_append_leaves_no_trace(sealed: bool) -> None:
    for number in range(1, 100):
        log = open_log(LogConfig(index_bytes=1))
        publish(log, b"a")
        batch = encode_values([b"interrupted"], 1000, lane_attributes(2))
        try:
            with InterruptAtLine(number):
                log.append(batch)
        except KeyboardInterrupt:
            pass
        else:
            break

        if sealed:
            log.roll()
        assert publish(log, b"b", lane=1) == 1

        log.sync()
        assert values_of(log) == [b"a", b"b"]
        assert log.lanes.ranges(0, 2) == [(1, 2, 1)]
        indexed = [offset for segment in log._segments for offset in log._index(segment).offsets]
        assert indexed == [0, 1]
        assert log.size_bytes == log.written == log.durable
    assert 15 < number < 99


def test_a_closed_log_takes_nothing() -> None:
    log = open_log()
    publish(log, b"a")
    log.roll()
    log.close()
    log.close()
    for call in (lambda: publish(log, b"b"), lambda: log.records(0, 1), lambda: log.read(0, 100)):
        with pytest.raises(Closed):
            call()


# --- segments -----------------------------------------------------------------------------------------------


def test_a_segment_is_sealed_before_it_outgrows_its_size() -> None:
    log = filled()
    segments = log.segments()
    assert len(segments) > 2
    assert all(segment.bytes <= SMALL.segment_bytes for segment in segments)
    assert [segment.sealed for segment in segments] == [True] * (len(segments) - 1) + [False]
    assert [s.next_offset for s in segments[:-1]] == [s.base_offset for s in segments[1:]]
    assert [s.max_timestamp for s in segments] == [
        max(record.timestamp for record in log.records(s.base_offset, s.next_offset)) for s in segments
    ]
    assert log.size_bytes == sum(segment.bytes for segment in segments)


def test_a_batch_larger_than_a_segment_has_one_to_itself() -> None:
    log = open_log()
    publish(log, b"a")
    publish(log, b"b" * 2000)
    publish(log, b"c")
    assert [segment.base_offset for segment in log.segments()] == [0, 1, 2]
    assert values_of(log) == [b"a", b"b" * 2000, b"c"]


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = open_log()
    log.roll()
    publish(log, b"a")
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments()] == [0, 1]


def test_rolling_makes_all_before_durable() -> None:
    log = open_log()
    publish(log, b"a")
    log.roll()
    assert (log.high, log.durable) == (1, log.written)


def test_a_roll_that_finds_no_room_is_finished_before_anything_is_appended() -> None:
    rolled = FaultyFiles(MemoryFiles())
    log = Log.open(rolled, "d", SMALL)
    publish(log, b"a")
    log.sync()
    begun = len(rolled.operations)
    log.roll()
    names = rolled.operations[begun:]
    assert names[-1] == "sync_directory d"

    for at, name in enumerate(names, begun + 1):
        if name.startswith("sync d/"):
            continue  # A disk that is full does not fail that.
        files = FaultyFiles(MemoryFiles(), at=at, fault=Fault.FULL)
        log = Log.open(files, "d", SMALL)
        publish(log, b"a")
        log.sync()
        with pytest.raises(DiskFull):
            log.roll()

        publish(log, b"b")
        log.sync()

        assert values_of(log) == [b"a", b"b"]
        assert values_of(Log.open(files.inner, "d", SMALL)) == [b"a", b"b"], name  # After a kill.


def test_whole_sealed_segments_below_an_offset_are_deleted() -> None:
    files = MemoryFiles()
    log = Log.open(files, "d", SMALL)
    for number in range(12):
        publish(log, b"%d" % number * 30, lane=number % 2)
    second, third = log.segments()[1:3]

    assert log.delete_before(third.base_offset - 1) == second.base_offset
    assert log.delete_before(10_000) == log.segments()[-1].base_offset == log.start

    assert len(log.segments()) == 1
    assert len(files.list("d")) == 1
    assert log.lanes.ranges(0, log.end) == log.lanes.ranges(log.start, log.end)
    with pytest.raises(OffsetOutOfRange):
        log.records(0, 1)
    assert len(values_of(log, log.start)) == log.end - log.start


def test_a_log_all_of_which_was_deleted_goes_on_from_its_end() -> None:
    files = MemoryFiles()
    log = Log.open(files, "d", SMALL)
    publish(log, b"a", b"b")
    log.roll()
    log.delete_before(2)
    log.close()

    log = Log.open(files, "d", SMALL)

    assert (log.start, log.end) == (2, 2)
    assert publish(log, b"c") == 2


def test_a_cut_removes_everything_from_an_offset_on() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", SMALL)
    for number in range(12):
        publish(log, b"%d" % number * 30, lane=number % 2)
    log.sync()

    log.cut(4)

    assert (log.start, log.high, log.end) == (0, 4, 4)
    assert publish(log, b"new") == 4
    log.sync()
    assert values_of(log)[3:] == [b"3" * 30, b"new"]
    assert log.lanes.ranges(0, 100) == [(1, 2, 1), (3, 4, 1)]
    disk.kill()
    assert values_of(Log.open(disk, "d", SMALL))[3:] == [b"3" * 30, b"new"]


def test_what_a_cut_leaves_is_durable_and_visible() -> None:
    log = open_log()
    publish(log, b"a")
    publish(log, b"b")
    log.cut(1)
    assert (log.high, log.end, log.durable) == (1, 1, log.written)


def test_a_cut_to_the_very_beginning_leaves_an_empty_log() -> None:
    log = filled()
    log.cut(0)
    assert (log.start, log.end) == (0, 0)
    assert publish(log, b"a", timestamp=5000) == 0
    assert values_of(log) == [b"a"]


def test_a_log_is_cut_between_batches_and_within_itself() -> None:
    log = filled()
    with pytest.raises(AssertionError):
        log.cut(4)
    with pytest.raises(OffsetOutOfRange):
        log.cut(1000)
    log.cut(log.end)
    assert log.end == 36


def test_a_cut_that_fails_half_way_stops_the_log_and_the_next_open_is_right() -> None:
    disk = CrashDisk()
    files = FaultyFiles(disk)
    log = Log.open(files, "d", SMALL)
    for number in range(12):
        publish(log, b"%d" % number * 30)
    log.sync()
    expected = values_of(log)
    log.records(3, 4)
    files.fail_next(Fault.FAIL)

    with pytest.raises(StorageFailed):
        log.cut(3)
        pytest.fail("the first operation of a cut reads")  # pragma: no cover - the line above raises

    disk.kill()
    log = Log.open(disk, "d", SMALL)
    assert log.recovery.damage == []
    assert values_of(log) == expected[: log.end]


# Logs that never had a batch.


def test_a_log_without_a_batch_has_no_file(tmp_path: Path) -> None:
    log = Log.open(SystemFiles(), f"{tmp_path}/topic/0", SMALL)

    assert (log.start, log.end, log.records(0, 0), log.read(0, 1000)) == (0, 0, [], b"")
    log.roll()
    log.sync()
    log.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Closed):
        publish(log, b"a")


def test_the_first_batch_makes_the_file_and_the_first_sync_makes_sure_of_it() -> None:
    files = FaultyFiles(CrashDisk())
    log = Log.open(files, "topics/orders/0/journal", SMALL)
    publish(log, b"a")
    before = len(files.operations)

    log.sync()

    directories = ["topics/orders/0/journal", "topics/orders/0", "topics/orders", "topics"]
    assert files.operations[before + 1 :] == [f"sync_directory {path}" for path in directories]
    publish(log, b"b")
    log.sync()
    assert len(files.operations) == before + 1 + 4 + 2


def test_a_log_that_did_not_change_is_closed_without_a_write() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", SMALL)
    publish(log, b"a")
    log.close()
    files = FaultyFiles(disk)

    log = Log.open(files, "d", SMALL)
    before = len(files.operations)
    log.close()

    assert files.operations[before:] == []


def test_a_log_whose_directory_is_gone_on_purpose_reports_no_trouble() -> None:
    files = FaultyFiles(CrashDisk())
    log = Log.open(files, "topics/orders/0", SMALL)
    told: list[PenstockError] = []
    log.on_trouble = told.append
    publish(log, b"a")

    log.give_up(Closed(what="topic orders"))

    with pytest.raises(Closed):
        log.sync()
    assert told == []
