"""Of every key the last value stays; tombstones stay for a while."""

import pytest
from tests.logs import compacted

from penstock.log.files import MemoryFiles
from penstock.log.log import Cleaned, Log, LogConfig
from penstock.log.rewrite import RewriteReport
from penstock.testing.files import CrashDisk
from penstock.wire.records import CONTROL, BatchBuilder, lane_attributes

DAY_MS = 86_400_000
Pair = tuple[str | None, str | None]


def publish(
    log: Log, *pairs: Pair, timestamp: int = 1000, producer_id: int = -1, attributes: int = 0
) -> None:
    builder = BatchBuilder()
    for key, value in pairs:
        builder.add(None if key is None else key.encode(), None if value is None else value.encode(), [])
    log.append(builder.build(timestamp, timestamp, attributes, producer_id, 0, 0))


def found(log: Log) -> dict[int, Pair]:
    return {
        record.offset: (text(record.key), text(record.value)) for record in log.records(log.start, log.end)
    }


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def open_log(segment_bytes: int = 10_000) -> Log:
    return Log.open(MemoryFiles(), "d", LogConfig(segment_bytes=segment_bytes, index_bytes=100))


def test_the_picture_at_the_top_of_the_module() -> None:
    log = open_log()
    publish(log, ("a", "1"), ("b", "1"), ("a", "2"), (None, "x"), ("b", None), ("a", "3"))

    compacted(log, now_ms=1500, tombstone_ms=1000)
    assert found(log) == {3: (None, "x"), 4: ("b", None), 5: ("a", "3")}

    publish(log, ("c", "1"), timestamp=2500)
    compacted(log, now_ms=2500, tombstone_ms=1000)
    assert found(log) == {3: (None, "x"), 5: ("a", "3"), 6: ("c", "1")}


def test_an_empty_log_and_one_without_repeated_keys_are_left_alone() -> None:
    log = open_log()
    assert compacted(log, 1000, DAY_MS) == RewriteReport()
    publish(log, ("a", "1"), ("b", "1"))
    assert compacted(log, 1000, DAY_MS) == RewriteReport()
    assert found(log) == {0: ("a", "1"), 1: ("b", "1")}


def test_values_are_compared_across_batches_and_segments() -> None:
    log = open_log(segment_bytes=300)
    for number in range(20):
        publish(log, (f"k{number % 3}", f"v{number}"), (f"only{number}", "x"))

    report = compacted(log, 1000, DAY_MS)

    values = found(log)
    assert [value for key, value in values.values() if key and key.startswith("k")] == ["v17", "v18", "v19"]
    assert sum(1 for key, _ in values.values() if key and key.startswith("only")) == 20
    assert report.records_removed == 17
    assert report.bytes_removed > 0


def test_it_waits_until_half_of_the_log_is_new() -> None:
    log = open_log()
    publish(log, *((f"k{number}", "x" * 50) for number in range(20)))
    compacted(log, 1000, DAY_MS)
    publish(log, ("k0", "new"))

    assert compacted(log, 1000, DAY_MS) == RewriteReport()

    publish(log, *((f"k{number}", "y" * 50) for number in range(20)))
    assert compacted(log, 1000, DAY_MS).records_removed == 21
    assert sorted(found(log)) == list(range(21, 41))


def test_overdue_tombstones_go_even_if_nothing_is_new() -> None:
    log = open_log()
    publish(log, ("a", "1"), ("b", "1"), ("a", None))
    compacted(log, now_ms=1500, tombstone_ms=1000)
    assert found(log) == {1: ("b", "1"), 2: ("a", None)}

    assert compacted(log, now_ms=1999, tombstone_ms=1000) == RewriteReport()
    compacted(log, now_ms=2000, tombstone_ms=1000)

    assert found(log) == {1: ("b", "1")}


def test_a_little_that_is_new_waits_no_longer_than_a_tombstone_lives() -> None:
    log = open_log()
    publish(log, *((f"k{number}", "x" * 50) for number in range(20)), timestamp=1000)
    compacted(log, now_ms=1000, tombstone_ms=1000)
    publish(log, ("k0", None), timestamp=1000)

    assert compacted(log, now_ms=1999, tombstone_ms=1000) == RewriteReport()
    compacted(log, now_ms=2000, tombstone_ms=1000)

    assert list(found(log)) == list(range(1, 20))


def test_more_keys_than_the_map_holds_are_compacted_in_several_passes() -> None:
    log = open_log(segment_bytes=500)
    for turn in range(3):
        publish(log, *((f"k{number}", f"v{turn}") for number in range(10)))

    removed = 0
    for _ in range(20):
        removed += compacted(log, 1000, DAY_MS, keys_max=4).records_removed

    assert removed == 20
    assert found(log) == {20 + number: (f"k{number}", "v2") for number in range(10)}


def test_long_keys_are_told_apart() -> None:
    log = open_log()
    long, other = "k" * 100 + "a", "k" * 100 + "b"
    publish(log, (long, "1"), (other, "1"), (long, "2"))
    compacted(log, 1000, DAY_MS)
    assert found(log) == {1: (other, "1"), 2: (long, "2")}


def test_what_is_not_durable_supersedes_nothing() -> None:
    """Only sealed segments are compacted, and sealing syncs; so a crash cannot take the newer value away."""
    disk = CrashDisk()
    log = Log.open(disk, "d", LogConfig())
    publish(log, ("a", "1"))
    publish(log, ("a", "2"))

    compacted(log, 1000, DAY_MS)

    assert log.high == 2
    assert found(log) == {1: ("a", "2")}


def test_control_batches_stay_and_producers_keep_their_sequence() -> None:
    log = open_log()
    publish(log, ("a", "1"), producer_id=7)
    publish(log, ("a", "2"), attributes=CONTROL)
    publish(log, ("a", "3"))

    compacted(log, 1000, DAY_MS)

    assert [(h.base_offset, h.count, h.producer_id) for h in log.headers(0)] == [
        (0, 0, 7),
        (1, 1, -1),
        (2, 1, -1),
    ]


def test_small_segments_are_joined_and_empty_runs_are_one_batch() -> None:
    log = open_log(segment_bytes=400)
    for number in range(30):
        publish(log, ("a", f"v{number}"), timestamp=1000 + number)
    before = len(log.segments())

    for _ in range(4):  # Each pass joins what is small before it.
        log.cleaned = Cleaned()
        compacted(log, 1000, DAY_MS)

    assert before > 5
    assert len(log.segments()) == 2
    assert [(h.base_offset, h.next_offset, h.count) for h in log.headers(0)] == [(0, 29, 0), (29, 30, 1)]
    assert found(log) == {29: ("a", "v29")}
    assert [log.offset_at(timestamp) for timestamp in (0, 1029, 1030)] == [29, 29, 30]
    assert [record.offset for record in log.last(5)] == [29]
    log.close()


def test_removed_records_stay_in_their_lanes() -> None:
    """An empty batch stands for one lane only, so an index made from the segment says the same as before."""
    files = MemoryFiles()
    log = Log.open(files, "d", LogConfig())
    for lane in (1, 1, -2, 0, 2):
        publish(log, ("a", "x"), attributes=lane_attributes(lane))
    lanes = log.lanes.ranges(0, 5)

    compacted(log, 1000, DAY_MS)
    log.close()
    for name in files.list("d"):
        if not name.endswith(".log"):
            files.remove(f"d/{name}")
    log = Log.open(files, "d", LogConfig())

    assert log.lanes.ranges(0, 5) == lanes == [(0, 2, 1), (2, 3, -2), (4, 5, 2)]
    assert [(h.base_offset, h.count, h.lane) for h in log.headers(0)] == [
        (0, 0, 1),
        (2, 0, -2),
        (3, 0, 0),
        (4, 1, 2),
    ]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_of_any_codec_loses_records_and_keeps_the_others(codec: int) -> None:
    log = open_log()
    publish(log, ("a", "1"), ("b", "1"), attributes=codec)
    publish(log, ("a", "2"), attributes=codec)

    compacted(log, 1000, DAY_MS)

    assert found(log) == {1: ("b", "1"), 2: ("a", "2")}


def test_a_log_deleted_while_it_is_compacted_is_no_trouble() -> None:
    log = open_log(segment_bytes=300)
    for number in range(20):
        publish(log, ("a", f"v{number}" * 10))
    steps = log.rewrite(lambda record: record.offset % 2 == 0, log.end)
    next(steps)
    start = log.delete_before(10)

    report = None
    try:
        while True:
            next(steps)
    except StopIteration as done:
        report = done.value

    assert report is not None
    sealed = log.segments()[-1].base_offset
    expected = [offset for offset in range(start, 20) if offset % 2 == 0 or offset >= sealed]
    assert list(found(log)) == expected
