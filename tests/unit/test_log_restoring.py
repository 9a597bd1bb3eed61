"""Segments that come back below a log's start."""

import pytest

from penstock.errors import InvalidBatch, RestoreRefused
from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.log.maintenance.restoring import Restoration
from penstock.wire.records import DEDUP, Record, encode_values, lane_attributes, place_batch

SMALL = LogConfig(segment_bytes=500, index_bytes=150)


def publish(log: Log, batches: int, lanes: tuple[int, ...] = (0,)) -> None:
    """Batches of three, 10 ms apart."""
    for number in range(batches):
        values = [b"%d" % (log.end + place) * 4 for place in range(3)]
        lane = lanes[number % len(lanes)]
        log.append(encode_values(values, 1000 + 10 * log.end, lane_attributes(lane)))
    log.sync()


def everything(log: Log, start: int, end: int) -> bytes:
    """The batches of a range, as they lie."""
    data = b""
    while start < end:
        data += log.read(start, 1 << 20)
        start = log.segments()[[s.next_offset > start for s in log.segments()].index(True)].next_offset
    return data


def trimmed(files: MemoryFiles, lanes: tuple[int, ...] = (0,)) -> tuple[Log, list[Record], bytes]:
    """A log whose first half was deleted, the records it had, and the batches that are gone."""
    log = Log.open(files, "d", SMALL)
    publish(log, 24, lanes)
    records = log.records(0, log.end)
    middle = log.segments()[len(log.segments()) // 2].base_offset
    gone = everything(log, 0, middle)
    log.delete_before(middle)
    return log, records, gone


def restore(log: Log, files: MemoryFiles, start: int, *parts: bytes) -> None:
    restoration = Restoration(log, files, SMALL, start)
    for part in parts:
        restoration.add(part)
    for _ in restoration.install():
        pass


def test_what_was_deleted_is_there_again_for_every_reader() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)
    assert log.start > 0

    restore(log, files, 0, gone)

    assert log.start == 0
    assert log.records(0, log.end) == records
    assert [header.base_offset for header in log.headers(0)] == list(range(0, 72, 3))
    assert log.offset_at(1000 + 10 * 6) == 6
    assert log.last(72) == records
    assert not files.exists("d/restoring")


def test_a_restored_log_opens_without_a_scan_and_goes_on() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)
    restore(log, files, 0, gone)
    log.close()

    log = Log.open(files, "d", SMALL)

    assert log.recovery.clean
    assert log.records(0, log.end) == records
    publish(log, 1)
    assert log.records(log.end - 1, log.end)[0].offset == 74


def test_the_lanes_of_what_comes_back_are_known_again() -> None:
    files = MemoryFiles()
    log, _, gone = trimmed(files, lanes=(2, 2, 0, -1))
    untouched = Log.open(MemoryFiles(), "d", SMALL)
    publish(untouched, 24, lanes=(2, 2, 0, -1))

    restore(log, files, 0, gone)

    assert log.lanes.ranges(0, log.end) == untouched.lanes.ranges(0, log.end)
    for lane in (2, 0, -1):
        for cursor in range(log.end):
            assert log.lanes.next_range(lane, cursor, log.end) == untouched.lanes.next_range(
                lane, cursor, log.end
            )
    log.close()
    assert Log.open(files, "d", SMALL).lanes.ranges(0, 72) == untouched.lanes.ranges(0, 72)


def test_it_can_be_done_again_and_deleted_again() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)
    middle = log.start

    for start, part in ((9, gone), (0, everything_until(gone, 9))):
        restore(log, files, start, part)
        assert log.records(start, log.end) == records[start:]
    log.delete_before(middle)

    assert log.start == middle
    assert log.records(middle, log.end) == records[middle:]


def test_a_part_of_it_can_come_back_and_the_rest_later() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)

    with pytest.raises(InvalidBatch, match="do not fit"):
        Restoration(log, files, SMALL, 10).add(gone)  # 10 is within a batch.
    restoration = Restoration(log, files, SMALL, 9)
    restoration.add(gone)  # What lies below is left out.
    list(restoration.install())

    assert (log.start, log.records(9, log.end)) == (9, records[9:])


def test_offsets_that_no_batch_has_are_holes() -> None:
    files = MemoryFiles()
    log, records, _ = trimmed(files)
    middle = log.start
    some = bytearray()
    for base in (6, 9, 18):
        batch = encode_values([b"again"] * 3, 1000)
        place_batch(batch, base, 0)
        some += batch

    restore(log, files, 3, bytes(some))

    assert log.start == 3
    assert [record.offset for record in log.records(3, middle)] == [6, 7, 8, 9, 10, 11, 18, 19, 20]
    assert log.records(middle, log.end) == records[middle:]
    log.close()
    assert Log.open(files, "d", SMALL).recovery.damage == []


def test_batches_that_come_twice_count_once() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)
    half = everything_until(gone, 12)

    restore(log, files, 0, half, half, gone)

    assert log.records(0, log.end) == records


def everything_until(data: bytes, offset: int) -> bytes:
    at = 0
    while int.from_bytes(data[at : at + 8], "big") < offset:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return data[:at]


def test_a_batch_beyond_the_start_or_damaged_is_refused() -> None:
    files = MemoryFiles()
    log, _, _ = trimmed(files)
    restoration = Restoration(log, files, SMALL, 0)
    beyond, damaged = (encode_values([b"x"] * 3, 1000) for _ in range(2))
    place_batch(beyond, log.start - 1, 0)
    damaged[-1] ^= 1

    for batch, why in ((beyond, "do not fit"), (damaged, "checksum")):
        with pytest.raises(InvalidBatch, match=why):
            restoration.add(bytes(batch))

    assert restoration.next_offset == 0


def test_a_log_that_was_trimmed_meanwhile_refuses() -> None:
    files = MemoryFiles()
    log, _, gone = trimmed(files)
    restoration = Restoration(log, files, SMALL, 0)
    restoration.add(gone)
    start = log.start
    log.delete_before(log.end)

    with pytest.raises(RestoreRefused, match="the log begins at") as refused:
        list(restoration.install())

    assert refused.value.facts["end"] == start
    assert log.start > start


def test_above_the_start_there_is_nothing_to_restore() -> None:
    files = MemoryFiles()
    log, _, _ = trimmed(files)

    with pytest.raises(RestoreRefused, match="begins below"):
        Restoration(log, files, SMALL, log.start + 1)


def test_a_log_that_was_emptied_takes_its_past_and_keeps_its_time() -> None:
    """Nothing is left, not even after a restart; what is appended later is not older than what came back."""
    files = MemoryFiles()
    log = Log.open(files, "d", SMALL)
    publish(log, 8)
    records, gone, end = log.records(0, log.end), everything(log, 0, log.end), log.end
    log.roll()
    log.delete_before(end)
    log.close()
    log = Log.open(files, "d", SMALL)
    assert (log.start, log.end, log.last_timestamp) == (end, end, 0)

    restore(log, files, 0, gone)

    assert log.records(0, end) == records
    assert log.last_timestamp == records[-1].timestamp
    log.append(encode_values([b"x"], 1))
    assert log.last_timestamp == records[-1].timestamp


def test_what_was_given_up_is_removed_by_the_next_one_and_by_the_next_open() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)
    Restoration(log, files, SMALL, 0).add(gone)
    log.close()
    start = log.start

    log = Log.open(files, "d", SMALL)

    assert (log.recovery.removed, log.start) == (["restoring"], start)
    Restoration(log, files, SMALL, 6).add(gone)
    restore(log, files, 0, gone)
    assert log.records(0, log.end) == records


def test_dedup_ids_that_come_back_are_told() -> None:
    files = MemoryFiles()
    log, _, _ = trimmed(files)
    restoration = Restoration(log, files, SMALL, 0)
    batch = encode_values([b"x"] * 3, 1000, DEDUP)

    restoration.add(bytes(batch))

    assert restoration.dedup_last == 2


def test_reading_goes_on_while_segments_come_back() -> None:
    files = MemoryFiles()
    log, records, gone = trimmed(files)
    middle = log.start
    headers = log.headers(middle)
    next(headers)
    log.records(middle, middle + 2)
    restoration = Restoration(log, files, SMALL, 0)
    restoration.add(gone)

    starts = []
    for _ in restoration.install():
        starts.append(log.start)
        assert log.records(log.start, log.end) == records[log.start :]
        assert log.read(middle, 100)[:8] == middle.to_bytes(8, "big")

    assert starts == sorted(starts, reverse=True)
    assert len(starts) > 1
    assert [header.base_offset for header in headers] == list(range(middle + 3, 72, 3))
