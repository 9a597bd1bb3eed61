"""The log by example, when it is opened: after a close, a crash, a cut, and damage."""

from collections.abc import Callable
from random import Random

import pytest
from tests.logs import SMALL, publish, rewritten, values_of

from penstock.errors import OffsetOutOfRange
from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.log.reader import LARGE_BYTES
from penstock.log.segment import (
    ROOM_BYTES_MAX,
    ROOM_BYTES_MIN,
    ZEROED_BATCH_BYTES_MAX,
    ZEROED_BYTES_MAX,
)
from penstock.testing.files import CrashDisk, CrashFile
from penstock.wire.records import (
    encode_values,
    read_header,
)


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


def test_a_log_whose_lanes_were_lost_is_scanned_once() -> None:
    disk = MemoryFiles()
    log = Log.open(disk, "d", SMALL)
    publish(log, b"urgent", lane=1)
    log.close()
    disk.remove("d/00000000000000000000.lanes")

    log = Log.open(disk, "d", SMALL)
    assert log.recovery.scanned_bytes
    log.close()

    assert Log.open(disk, "d", SMALL).recovery.clean


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


def on_disk(disk: CrashDisk, name: str = "d/00000000000000000000.log") -> bytes:
    return disk.read_file(name)


def test_room_for_more_batches_is_no_news_after_a_crash() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"a")
    first = log.segments()[-1].bytes
    assert len(on_disk(disk)) == first  # Room comes behind a batch: zeros alone would be damage.
    publish(log, b"b")
    log.sync()
    disk.kill()
    written = log.segments()[-1].bytes
    assert on_disk(disk)[written:] == bytes(first + ROOM_BYTES_MIN - written)

    log = Log.open(disk, "d", LogConfig())

    assert (log.recovery.cut_bytes, log.recovery.scanned_bytes) == (0, written)
    assert len(on_disk(disk)) == written
    assert publish(log, b"c") == 2
    assert values_of(log) == [b"a", b"b", b"c"]


def test_a_segment_of_nothing_but_zeros_is_reported() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"a")
    log.sync()
    disk.kill()
    disk.damage("d/00000000000000000000.log", lambda data: bytes(len(data)))

    log = Log.open(disk, "d", LogConfig())

    assert log.recovery.cut_bytes > 0
    assert log.end == 0


def test_a_torn_batch_before_room_is_cut() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"a")
    whole = log.segments()[-1].bytes
    publish(log, b"b" * 100)
    disk.kill()
    disk.damage("d/00000000000000000000.log", lambda data: data[: whole + 70] + bytes(len(data) - whole - 70))

    log = Log.open(disk, "d", LogConfig())

    assert (log.recovery.cut_position, log.recovery.cut_bytes) == (whole, ROOM_BYTES_MIN)
    assert values_of(log) == [b"a"]


def test_zeros_that_are_too_many_for_room_are_reported() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"a")
    disk.kill()
    disk.damage("d/00000000000000000000.log", lambda data: data + bytes(ROOM_BYTES_MAX + 1))

    log = Log.open(disk, "d", LogConfig())

    assert log.recovery.cut_bytes > ROOM_BYTES_MAX
    assert values_of(log) == [b"a"]


@pytest.mark.parametrize("sealed", [False, True])
def test_room_that_a_crash_gave_back_to_a_whole_segment_is_cut_without_a_scan(sealed: bool) -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"a")
    if sealed:
        log.roll()
    log.close()
    whole = on_disk(disk)
    disk.damage("d/00000000000000000000.log", lambda data: data + bytes(1000))

    log = Log.open(disk, "d", LogConfig())

    assert log.recovery.clean
    assert on_disk(disk) == whole
    assert values_of(log) == [b"a"]


def test_damage_in_a_sealed_segment_that_ends_with_room_costs_no_more_than_the_damage() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    ends = []
    for number in range(3):
        publish(log, b"%d" % number)
        ends.append(log.segments()[-1].bytes)
    log.roll()
    log.close()
    disk.remove("d/00000000000000000000.index")
    disk.damage("d/00000000000000000000.log", lambda data: damaged(data, ends[1] - 1) + bytes(500))

    log = Log.open(disk, "d", LogConfig())

    assert [found.position for found in log.recovery.damage] == [ends[0]]
    assert values_of(log, 2) == [b"2"]


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_room_is_reserved_again_behind_a_cut() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    for number in range(40):
        publish(log, b"%d" % number * 1000)
    log.sync()

    log.cut(2)
    left = log.segments()[-1].bytes
    publish(log, b"again")

    assert len(on_disk(disk)) == left + ROOM_BYTES_MIN
    assert values_of(log)[2:] == [b"again"]


def test_room_grows_with_the_log_and_ends_with_the_segment() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig(segment_bytes=100_000))
    reserved = set()
    while log.segments()[-1].base_offset == 0:
        publish(log, b"a" * 1000)
        reserved.add(len(on_disk(disk)))

    assert max(reserved) == 100_000
    assert len(reserved) < 8
    assert len(on_disk(disk)) == log.segments()[0].bytes


def test_room_for_small_batches_is_zeroed_and_for_large_ones_it_is_only_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, bool]] = []
    reserve = CrashFile.reserve

    def noted(file: CrashFile, size: int, *, zeroed: bool) -> None:
        made.append((size - file.size, zeroed))
        reserve(file, size, zeroed=zeroed)

    monkeypatch.setattr(CrashFile, "reserve", noted)
    log = Log.open(CrashDisk(), "d", LogConfig())
    for _ in range(100):
        publish(log, b"a" * (ZEROED_BATCH_BYTES_MAX - 1000))
    small = list(made)
    for _ in range(100):
        publish(log, b"a" * 2 * ZEROED_BATCH_BYTES_MAX)
    large = made[len(small) :]

    assert all(zeroed for _, zeroed in small)
    assert max(size for size, _ in small) == ZEROED_BYTES_MAX
    assert not any(zeroed for _, zeroed in large)
    assert max(size for size, _ in large) == ROOM_BYTES_MAX


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


def test_a_missing_segment_is_reported_and_its_offsets_are_absent() -> None:
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
        assert log.records(offset, offset + 1) == []
    assert len(values_of(log)) == log.end - (gone.next_offset - gone.base_offset)
    assert [(found.first_offset, found.end_offset) for found in log.damage.ranges] == [
        (gone.base_offset, gone.next_offset)
    ]


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
            assert log.records(5, 6) == []
        else:
            assert values_of(log, number, number + 1) == [b"%d" % number * 30]
    assert len(values_of(log)) == 11


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
    rewritten(log, lambda record: record.offset not in (0, 1), log.end)
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
        assert log.records(number, number + 1) == []
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
        overhead = log.segments()[0].bytes - 1
        publish(log, b"b" * 50, *[b"b" * 10] * (4 if how == "recovery" else 0))
        log.close()
        size = log.segments()[0].bytes
        log = Log.open(disk, "d", SMALL)
        if how == "cut":
            log.cut(1)
        else:
            publish(log, b"cc")
            disk.kill()
            disk.damage(f"d/{0:020d}.log", lambda data: data.replace(b"bb", b"!!").replace(b"cc", b"!!"))
            log = Log.open(disk, "d", SMALL)  # An empty batch has the offset of the second from now on.
        new = b"d" * (size - log.segments()[0].bytes - overhead)
        publish(log, new)
        assert log.segments()[0].bytes == size
        log.sync()

        disk.power_cut(Random(seed))

        log = Log.open(disk, "d", SMALL)
        assert values_of(log) == [b"a", new]


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


def damaged_log(change: Callable[[bytearray], None], *, intact: bool = True) -> Log:
    """A log whose process was killed, with something changed in its only segment; twelve batches of one."""
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    for number in range(12):
        publish(log, b"%02d" % number * 30)
    log.sync()
    disk.kill()
    disk.intact = intact
    content = bytearray(disk.read_file(f"d/{0:020d}.log"))
    change(content)
    disk.damage(f"d/{0:020d}.log", lambda _: bytes(content))
    return Log.open(disk, "d", LogConfig())


def spoil_fifth(content: bytearray) -> None:
    content[content.index(b"05" * 30)] ^= 1


def test_in_the_last_segment_of_a_killed_process_only_the_damaged_batch_is_lost() -> None:
    log = damaged_log(spoil_fifth)

    assert values_of(log) == [b"%02d" % number * 30 for number in range(12) if number != 5]
    assert log.end == 12
    assert [(found.first_offset, found.end_offset) for found in log.recovery.damage] == [(5, 6)]
    assert log.recovery.cut_bytes == 0
    assert publish(log, b"new") == 12


def test_after_a_power_cut_everything_behind_an_invalid_batch_is_cut_and_kept() -> None:
    """Later bytes may have reached the disk before earlier ones: a log is a prefix of what was appended."""
    log = damaged_log(spoil_fifth, intact=False)

    assert values_of(log) == [b"%02d" % number * 30 for number in range(5)]
    assert log.recovery.cut_bytes > 0
    assert log.recovery.kept_path


def test_what_was_there_when_the_log_was_closed_is_not_cut_even_after_a_power_cut() -> None:
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    for number in range(6):
        publish(log, b"%02d" % number * 30)
    log.close()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"later")
    log.sync()
    disk.kill()
    disk.intact = False
    disk.damage(f"d/{0:020d}.log", lambda data: data.replace(b"02" * 30, b"!!" * 30))

    log = Log.open(disk, "d", LogConfig())

    expected = [b"%02d" % number * 30 for number in (0, 1, 3, 4, 5)]
    assert values_of(log) == [*expected, b"later"]


@pytest.mark.parametrize("lost", [1, 50, 150], ids=["a byte", "half a batch", "two batches"])
def test_offsets_that_a_closed_log_had_are_not_given_again_if_its_end_is_gone(lost: int) -> None:
    """Whoever has stored an offset elsewhere would take new records for those that it has read."""
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    for number in range(5):
        publish(log, b"%d" % number * 30)
    log.close()
    disk.damage("d/00000000000000000000.log", lambda data: data[:-lost])

    log = Log.open(disk, "d", LogConfig())
    assert log.end == 5
    [found] = log.damage.ranges
    assert (found.end_offset, found.offsets) == (5, 1 if lost < 100 else 2)
    assert "when it was closed" in found.why
    assert publish(log, b"new") == 5
    log.sync()
    left = [b"%d" % number * 30 for number in range(found.first_offset)]
    assert values_of(log) == [*left, b"new"]
    disk.kill()

    log = Log.open(disk, "d", LogConfig())
    assert values_of(log) == [*left, b"new"]
    assert log.damage.ranges == []


def test_damage_before_the_place_where_a_log_was_closed_is_no_torn_end_after_a_power_cut() -> None:
    """The last batch before it is damaged, and the next valid one begins exactly there."""
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"a" * 30)
    publish(log, b"b" * 30)
    log.close()
    log = Log.open(disk, "d", LogConfig())
    publish(log, b"c" * 30)
    log.sync()
    disk.kill()
    disk.intact = False
    disk.damage("d/00000000000000000000.log", lambda data: data.replace(b"b" * 30, b"!" * 30))

    log = Log.open(disk, "d", LogConfig())

    assert values_of(log) == [b"a" * 30, b"c" * 30]
    assert [(found.first_offset, found.end_offset) for found in log.damage.ranges] == [(1, 2)]
    assert log.recovery.cut_bytes == 0


def test_bytes_that_an_earlier_recovery_kept_stay_kept() -> None:
    disk = CrashDisk()
    values = [b"a" * 30, b"b" * 30]
    for value in values:
        log = Log.open(disk, "d", LogConfig())
        publish(log, value)
        log.sync()
        disk.kill()
        disk.damage("d/00000000000000000000.log", lambda data: damaged(data, 30))
        assert Log.open(disk, "d", LogConfig()).recovery.kept_path
        disk.kill()

    kept = sorted(name for name in disk.list("d") if ".cut-" in name)
    assert [
        disk.read_file(f"d/{name}")[-len(value) - 1 : -1] for name, value in zip(kept, values, strict=True)
    ] == values
