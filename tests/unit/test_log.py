"""The log by example: what each call does, and what happens when it cannot."""

import inspect
import sys
from random import Random
from types import FrameType
from typing import Any

import pytest

from penstock.errors import Closed, CorruptionError, DiskFull, OffsetOutOfRange, StorageFailed
from penstock.log.files import MemoryFile, MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.log.reader import CHUNK_BYTES, HINTS_MAX, LARGE_BYTES, OPEN_MAX, WINDOWS_MAX
from penstock.testing.files import CrashDisk, Fault, FaultyFiles
from penstock.version import compiled
from penstock.wire.records import (
    DEDUP,
    EXPIRES,
    BatchBuilder,
    check_batch,
    decode_batch,
    encode_values,
    lane_attributes,
    read_header,
)

SMALL = LogConfig(segment_bytes=500, index_bytes=150)


def open_log(config: LogConfig = SMALL) -> Log:
    return Log.open(MemoryFiles(), "d", config)


def publish(log: Log, *values: bytes, timestamp: int = 1000, lane: int = 0) -> int:
    return log.append(encode_values(list(values), timestamp, lane_attributes(lane)))


def values_of(log: Log, start: int = 0, end: int | None = None) -> list[bytes | None]:
    return [record.value for record in log.records(start, log.end if end is None else end)]


def filled(batches: int = 12, config: LogConfig = SMALL) -> Log:
    """Batches of three, 10 ms apart."""
    log = open_log(config)
    for number in range(batches):
        publish(log, *(b"%d" % (3 * number + place) for place in range(3)), timestamp=1000 + 10 * number)
    log.sync()
    return log


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
def test_an_interrupt_at_any_line_of_an_append_leaves_no_trace() -> None:
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

        assert publish(log, b"b", lane=1) == 1

        log.sync()
        assert values_of(log) == [b"a", b"b"]
        assert log.lanes.ranges(0, 2) == [(1, 2, 1)]
        assert log._index(log._segments[-1]).offsets.tolist() == [0, 1]
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


# --- reading ------------------------------------------------------------------------------------------------


def test_any_range_is_read() -> None:
    log = filled()
    for start in range(36):
        for end in range(start, 37):
            assert values_of(log, start, end) == [b"%d" % number for number in range(start, end)]


def test_a_reader_that_takes_one_at_a_time_reads_the_file_once_a_chunk() -> None:
    files = FaultyFiles(MemoryFiles())
    log = Log.open(files, "d", LogConfig())
    for number in range(2000):
        publish(log, b"%d" % number * 20, b"x")
    before = len(files.operations)

    assert [log.records(offset, offset + 1)[0].offset for offset in range(4000)] == list(range(4000))

    reads = len(files.operations) - before
    assert reads <= log.size_bytes // CHUNK_BYTES + 4


def test_several_readers_at_different_places_do_not_disturb_each_other() -> None:
    files = FaultyFiles(MemoryFiles())
    log = Log.open(files, "d", LogConfig())
    for number in range(4000):
        publish(log, b"%d" % number * 20)
    places = [1000 * reader for reader in range(WINDOWS_MAX)]
    for place in places:
        log.records(place, place + 1)
    before = len(files.operations)

    for step in range(1, 100):
        for place in places:
            assert log.records(place + step, place + step + 1)[0].offset == place + step

    assert len(files.operations) == before


def test_a_batch_larger_than_a_chunk_is_read_whole() -> None:
    log = open_log(LogConfig())
    publish(log, b"a" * 200_000, b"b" * 100_000)
    publish(log, b"c")
    assert values_of(log) == [b"a" * 200_000, b"b" * 100_000, b"c"]
    assert values_of(log, 1, 2) == [b"b" * 100_000]
    log.sync()
    assert read_header(log.read(0, 10)).size > 300_000
    assert [header.base_offset for header in log.headers(0)] == [0, 2]


def test_offsets_outside_the_log_are_refused() -> None:
    log = filled()
    log.delete_before(20)
    for start, end in ((0, 5), (log.start - 1, 30), (30, 37), (40, 41), (30, 29)):
        with pytest.raises(OffsetOutOfRange):
            log.records(start, end)
    for offset in (0, log.start - 1, 37):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)


def test_raw_reads_give_whole_batches_up_to_the_limit() -> None:
    log = filled(config=LogConfig())
    size = read_header(log.read(0, 1)).size
    assert len(log.read(0, 1)) == size
    assert len(log.read(0, 2 * size)) == 2 * size
    assert len(log.read(0, 3 * size - 1)) == 2 * size
    assert read_header(log.read(4, 1)).base_offset == 3
    assert log.read(36, 100) == b""


def test_raw_reads_stop_at_what_is_durable() -> None:
    log = open_log()
    publish(log, b"a")
    log.sync()
    publish(log, b"b")
    data = log.read(0, 10_000)
    assert [record.value for record in decode_batch(data)] == [b"a"]
    assert len(data) == read_header(data).size
    assert log.read(1, 10_000) == b""


def test_a_raw_reader_goes_on_without_a_look_up() -> None:
    files = FaultyFiles(MemoryFiles())
    log = Log.open(files, "d", LogConfig())
    for number in range(100):
        publish(log, b"%d" % number * 20)
    log.sync()
    offset = 0
    before = len(files.operations)
    while offset < 100:
        log.read(offset, 500)
        offset = max(log._hints, default=100)
        if offset == 100:
            break
    assert len(files.operations) - before <= log.size_bytes // 300 + 2
    for place in range(HINTS_MAX + 20):
        log.read(place, 1)
    assert len(log._hints) <= HINTS_MAX


def test_time_is_found_to_the_record() -> None:
    log = open_log(LogConfig(index_bytes=100))
    for number in range(50):
        builder = BatchBuilder()
        for place in range(3):
            builder.add(None, b"x", [], timestamp_delta=place)
        log.append(builder.build(1000 + 10 * number, 1002 + 10 * number))
    for number in range(50):
        for place in range(3):
            assert log.offset_at(1000 + 10 * number + place) == 3 * number + place
        assert log.offset_at(1003 + 10 * number) == 3 * number + 3
    assert log.offset_at(0) == 0
    assert log.offset_at(1 << 40) == 150


def test_the_last_records_are_those_readers_may_see() -> None:
    log = filled()
    publish(log, b"not durable", timestamp=5000)
    assert [record.offset for record in log.last(4)] == [32, 33, 34, 35]
    assert len(log.last(1000)) == 36
    assert log.last(0) == []


def test_headers_are_walked_while_segments_come_and_go() -> None:
    log = filled()
    walk = log.headers(0)
    assert next(walk).base_offset == 0
    log.rewrite(lambda record: record.offset % 2 == 0, log.end)
    assert next(walk).base_offset == 3
    start = log.delete_before(20)
    assert start > 6
    assert next(walk).base_offset == start
    rest = [header.base_offset for header in walk]
    assert rest == list(range(start + 3, 36, 3))


def test_marked_headers_are_those_of_the_walk_that_have_a_mark() -> None:
    log = open_log()
    random = Random(7)
    for number in range(200):
        builder = BatchBuilder()
        for _ in range(random.randint(1, 3)):
            builder.add(None, b"x" * random.randint(0, 40), [])
        attributes = random.choice([0, 0, 0, DEDUP, EXPIRES, lane_attributes(1)])
        producer_id = random.choice([-1, -1, -1, 9])
        log.append(builder.build(1000 + number, 1000 + number, attributes, producer_id, 0, number))
    assert len(log.segments()) > 3

    for start in (0, 1, log.end // 2, log.end - 1, log.end):
        every = list(log.headers(start))
        for bits in (0, DEDUP, DEDUP | EXPIRES):
            marked = [
                header.base_offset for header in every if header.attributes & bits or header.producer_id >= 0
            ]
            assert [header.base_offset for header in log.marked_headers(start, bits)] == marked


def test_marked_headers_of_a_log_without_marks_are_none() -> None:
    assert list(filled(40).marked_headers(0, DEDUP)) == []


def test_marked_headers_are_walked_across_batches_larger_than_a_chunk() -> None:
    log = open_log(LogConfig(durability="os"))
    for number in range(5):
        log.append(encode_values([b"x" * CHUNK_BYTES], 1000, DEDUP if number == 3 else 0))
    assert [header.base_offset for header in log.marked_headers(0, DEDUP)] == [3]


def test_marked_headers_stop_at_damage() -> None:
    files = MemoryFiles()
    log = Log.open(files, "log", LogConfig(durability="os"))
    for _ in range(5):
        log.append(encode_values([b"x"], 1000))
    place = log.segments()[0].bytes // 5 * 3
    (path,) = [f"log/{name}" for name in files.list("log") if name.endswith(".log")]
    files._contents[path][place + 16] = 9  # The format of the fourth batch.
    with pytest.raises(CorruptionError):
        list(log.marked_headers(0, DEDUP))


def test_a_log_of_many_segments_keeps_few_files_open() -> None:
    class Counting(FaultyFiles):
        open_now = 0

        def open(self, path: str, *, create: bool) -> MemoryFile:
            files = self

            class Counted(MemoryFile):
                closed = False

                def close(self) -> None:
                    files.open_now -= not self.closed
                    self.closed = True

            Counting.open_now = self.open_now = self.open_now + 1
            assert isinstance(self.inner, MemoryFiles)
            return Counted(self.inner._contents.setdefault(path, bytearray()))

    files = Counting(MemoryFiles())
    log = Log.open(files, "d", SMALL)
    for number in range(100):
        publish(log, b"%d" % number * 40)
    assert len(log.segments()) > 20
    assert values_of(log) == [b"%d" % number * 40 for number in range(100)]
    assert files.open_now <= OPEN_MAX + 1
    log.close()
    assert files.open_now == 0


# --- recovery -----------------------------------------------------------------------------------------------


def test_a_closed_log_opens_without_a_scan() -> None:
    files = MemoryFiles()
    log = Log.open(files, "d", SMALL)
    for number in range(12):
        publish(log, b"%d" % number * 30, lane=number % 3 - 1, timestamp=1000 + number)
    lanes = log.lanes.ranges(0, log.end)
    log.close()

    log = Log.open(files, "d", SMALL)

    assert log.recovery.clean
    assert (log.start, log.high, log.end, log.last_timestamp) == (0, 12, 12, 1011)
    assert log.lanes.ranges(0, log.end) == lanes
    assert values_of(log) == [b"%d" % number * 30 for number in range(12)]
    assert publish(log, b"more", timestamp=2000) == 12


def test_only_the_last_segment_is_scanned_after_a_crash() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", SMALL)
    for number in range(20):
        publish(log, b"%d" % number * 30)
    disk.kill()

    recovered = Log.open(disk, "d", SMALL)

    assert recovered.recovery.scanned_bytes == log.segments()[-1].bytes
    assert recovered.recovery.rebuilt == []
    assert (recovered.high, recovered.end) == (20, 20)


def test_what_a_crash_left_is_removed_and_foreign_files_are_not() -> None:
    files = MemoryFiles()
    Log.open(files, "d", SMALL).close()
    strangers = ["notes.txt", "1.log", "00000000000000000000.cut-17"]
    left = ["00000000000000000009.index", "00000000000000000009.lanes", "00000000000000000000.rewrite.tmp"]
    for name in strangers + left:
        files.write_file(f"d/{name}", b"x")

    log = Log.open(files, "d", SMALL)

    assert sorted(log.recovery.removed) == sorted(left)
    assert set(strangers) <= set(files.list("d"))
    assert not set(left) & set(files.list("d"))


def test_an_empty_last_segment_is_used() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", SMALL)
    publish(log, b"a")
    log.roll()
    disk.kill()

    log = Log.open(disk, "d", SMALL)

    assert (log.end, len(log.segments())) == (1, 2)
    assert publish(log, b"b") == 1


def test_a_missing_segment_is_reported_and_its_offsets_are_corrupt() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", SMALL)
    for number in range(12):
        publish(log, b"%d" % number * 30)
    gone, following = log.segments()[1:3]
    log.close()
    disk.remove(f"d/{gone.base_offset:020d}.log")

    log = Log.open(disk, "d", SMALL)

    assert [damage.why for damage in log.recovery.damage] == [
        f"offsets {gone.base_offset} to {gone.next_offset - 1} are missing"
    ]
    assert len(values_of(log, 0, gone.base_offset)) == gone.base_offset
    assert len(values_of(log, following.base_offset)) == log.end - following.base_offset
    for offset in range(gone.base_offset, gone.next_offset):
        with pytest.raises(CorruptionError):
            log.records(offset, offset + 1)
    with pytest.raises(CorruptionError):
        log.records(0, log.end)


def test_damage_in_a_sealed_segment_hides_only_its_own_batch() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig(segment_bytes=2000))
    for number in range(12):
        publish(log, b"%d" % number * 30)
    log.roll()
    log.close()
    path = f"d/{0:020d}.log"
    at = disk.read_file(path).index(b"5" * 30)
    disk.damage(path, lambda data: data[:at] + b"!" + data[at + 1 :])
    disk.remove(f"d/{0:020d}.index")

    log = Log.open(disk, "d", LogConfig(segment_bytes=2000))

    assert [(damage.path, damage.why) for damage in log.recovery.damage] == [
        (path, "the checksum does not match")
    ]
    for number in range(12):
        if number == 5:
            with pytest.raises(CorruptionError) as caught:
                log.records(5, 6)
            assert caught.value.facts["position"] == log.recovery.damage[0].position
        else:
            assert values_of(log, number, number + 1) == [b"%d" % number * 30]


def test_an_abandoned_log_leaves_everything_as_it_is() -> None:
    files = MemoryFiles()
    log = Log.open(files, "d", SMALL)
    publish(log, b"a")
    before = {name: files.read_file(f"d/{name}") for name in files.list("d")}
    log.abandon()
    assert {name: files.read_file(f"d/{name}") for name in files.list("d")} == before


@pytest.mark.parametrize("indexed", [True, False])
def test_a_segment_that_was_joined_to_the_one_before_is_removed_if_a_crash_left_it(indexed: bool) -> None:
    disk = CrashDisk()
    config = LogConfig(segment_bytes=300)
    log = Log.open(disk, "d", config)
    for number in range(4):
        publish(log, b"%d" % number * 30)
        log.roll()
    second = f"d/{1:020d}.log"
    leftover = disk.read_file(second)
    log.rewrite(lambda record: record.offset not in (0, 1), log.end)
    assert not disk.exists(second)
    log.close()
    disk.write_file(second, leftover)
    if not indexed:
        disk.remove(f"d/{0:020d}.index")

    log = Log.open(disk, "d", config)

    assert log.recovery.removed == [second]
    assert log.recovery.damage == []
    assert values_of(log) == [b"2" * 30, b"3" * 30]


def test_a_batch_behind_damage_is_believed_only_if_the_next_one_confirms_its_place() -> None:
    """One batch is damaged, and of the next the base offset, which no checksum covers."""
    disk = CrashDisk()
    config = LogConfig(segment_bytes=2000)
    log = Log.open(disk, "d", config)
    for number in range(6):
        publish(log, b"%d" % number * 30)
    log.roll()
    publish(log, b"last")
    size = read_header(log.read(0, 1)).size
    log.close()
    path = f"d/{0:020d}.log"
    disk.damage(path, lambda data: data.replace(b"1" * 30, b"!" * 30))
    disk.damage(path, lambda data: data[: 2 * size + 7] + b"\x03" + data[2 * size + 8 :])
    disk.remove(f"d/{0:020d}.index")

    log = Log.open(disk, "d", config)

    for number in (0, 3, 4, 5):
        assert values_of(log, number, number + 1) == [b"%d" % number * 30]
    for number in (1, 2):
        with pytest.raises(CorruptionError):
            log.records(number, number + 1)
    assert values_of(log, 6) == [b"last"]


def test_segments_that_overlap_are_reported_and_the_later_one_counts() -> None:
    """No crash does this; a copy of a file put back by hand does."""
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    for number in range(4):
        publish(log, b"%d" % number, lane=1)
    log.sync()
    whole = disk.read_file(f"d/{0:020d}.log")
    log.cut(2)
    log.roll()
    publish(log, b"new", lane=-1)
    log.close()
    disk.write_file(f"d/{0:020d}.log", whole)

    log = Log.open(disk, "d", LogConfig())

    assert [damage.why for damage in log.recovery.damage] == ["offsets 2 to 3 are in the next segment, too"]
    assert values_of(log) == [b"0", b"1", b"new"]
    assert log.lanes.ranges(0, log.end) == [(0, 2, 1), (2, 3, -1)]


def test_what_a_killed_process_had_written_is_durable_once_the_log_is_open_again() -> None:
    """The bytes were in the kernel, not on the disk; opening shows them to readers, so it syncs them."""
    for seed in range(20):
        disk = CrashDisk()
        log = Log.open(disk, "d", SMALL)
        publish(log, b"a")
        disk.kill()
        assert Log.open(disk, "d", SMALL).high == 1

        disk.power_cut(Random(seed))

        assert values_of(Log.open(disk, "d", SMALL)) == [b"a"]


@pytest.mark.parametrize("how", ["recovery", "cut"])
def test_an_old_index_never_fits_a_segment_that_was_cut_and_grew_again(how: str) -> None:
    """It is cut, grows to the very size the old index speaks of, with other offsets; then the power fails."""
    for seed in range(20):
        disk = CrashDisk()
        log = Log.open(disk, "d", SMALL)
        publish(log, b"a")
        publish(log, b"b" * 20)
        log.close()
        size = log.segments()[0].bytes
        log = Log.open(disk, "d", SMALL)
        if how == "cut":
            log.cut(1)
        else:
            publish(log, b"c")
            disk.kill()
            disk.damage(f"d/{0:020d}.log", lambda data: data.replace(b"b" * 20, b"!" * 20))
            log = Log.open(disk, "d", SMALL)
        publish(log, b"d" * 6, b"e" * 7)
        assert log.segments()[0].bytes == size
        log.sync()

        disk.power_cut(Random(seed))

        log = Log.open(disk, "d", SMALL)
        assert values_of(log) == [b"a", b"d" * 6, b"e" * 7]


def test_only_one_large_batch_is_kept_in_memory() -> None:
    log = Log.open(MemoryFiles(), "log", LogConfig())
    for _ in range(4):
        log.append(encode_values([bytes(LARGE_BYTES)], 0))
    for _ in range(4):
        log.append(encode_values([b"small"], 0))

    for offset in (0, 5, 1, 3, 2, 7, 1):
        assert len(log.records(offset, offset + 1)) == 1

    assert sum(len(window.data) > LARGE_BYTES for window in log._windows) == 1


@pytest.mark.parametrize("again", [False, True])
def test_a_log_may_be_told_to_begin_within_a_segment(again: bool) -> None:
    files = MemoryFiles()
    log = Log.open(files, "d", SMALL)
    for number in range(12):
        publish(log, b"%d" % number, b"more")
    log.sync()

    log.begin_at(7)
    if again:
        log.close()
        log = Log.open(files, "d", SMALL)

    assert (log.start, log.end) == (7, 24)
    assert values_of(log, 7, 9) == [b"more", b"4"]
    with pytest.raises(OffsetOutOfRange):
        log.fetch(6, 1000)
    log.begin_at(24)
    assert (log.start, log.end, log.begins_whole) == (24, 24, True)
