"""The log by example, as it is read: by offset, by time, raw, from many places at once."""

from random import Random

import pytest
from tests.logs import SMALL, filled, open_log, publish, rewritten, undecodable, values_of

from penstock.errors import OffsetOutOfRange
from penstock.log.files import MemoryFile, MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.log.reader import CHUNK_BYTES, HINTS_MAX, OPEN_MAX, WINDOWS_MAX
from penstock.log.scan import find_batch
from penstock.testing.files import FaultyFiles
from penstock.wire.records import (
    DEDUP,
    EXPIRES,
    HEADER_BYTES,
    BatchBuilder,
    check_batch,
    decode_batch,
    encode_values,
    lane_attributes,
    place_batch,
    read_header,
)


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


def test_time_is_found_in_batches_of_one_time() -> None:
    log = open_log(LogConfig(index_bytes=100))
    for number in range(50):
        log.append(encode_values([b"x"] * 3, 1000 + number))

    assert [log.offset_at(1000 + number) for number in range(50)] == list(range(0, 150, 3))
    assert log.offset_at(0) == 0
    assert log.offset_at(2000) == 150


def test_time_is_found_from_a_start_inside_a_batch_on() -> None:
    log = open_log()
    for time_ms in (1000, 2000):
        log.append(encode_values([b"x"] * 3, time_ms))
    log.sync()
    log.begin_at(1)

    assert [log.offset_at(time_ms) for time_ms in (0, 1000, 1001, 2001)] == [1, 1, 3, 6]


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
    rewritten(log, lambda record: record.offset % 2 == 0, log.end)
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


def test_marked_headers_go_on_behind_damage() -> None:
    files = MemoryFiles()
    log = Log.open(files, "log", LogConfig(durability="os"))
    for _ in range(5):
        log.append(encode_values([b"x"], 1000))
    place = log.segments()[0].bytes // 5 * 3
    (path,) = [f"log/{name}" for name in files.list("log") if name.endswith(".log")]
    files._contents[path][place + 16] = 9  # The format of the fourth batch.
    reported: list[tuple[int, int]] = []
    log.on_damage = lambda found: reported.append((found.first_offset, found.end_offset))

    assert [header.base_offset for header in log.headers(0)] == [0, 1, 2, 4]
    assert list(log.marked_headers(0, DEDUP)) == []
    assert [record.offset for record in log.records(0, 5)] == [0, 1, 2, 4]
    assert reported == [(3, 4)]


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


def test_a_batch_that_cannot_be_decoded_is_reported_once_and_left_out() -> None:
    log = Log.open(MemoryFiles(), "log", LogConfig(durability="os"))
    for number in range(30):
        log.append(undecodable() if number % 3 == 1 else encode_values([b"%d" % number], 1000))
    expected = [number for number in range(30) if number % 3 != 1]
    reported: list[int] = []
    log.on_damage = lambda found: reported.append(found.first_offset)

    assert [record.offset for record in log.records(0, 30)] == expected

    for _ in range(3):
        assert [record.offset for record in log.records(0, 30)] == expected
        assert [record.offset for record in log.last(5)] == expected[-5:]
        assert log.offset_at(1000) == 0
    assert reported == list(range(1, 30, 3))


def test_whoever_fetches_what_cannot_be_decoded_a_second_time_gets_what_is_around_it() -> None:
    log = Log.open(MemoryFiles(), "log", LogConfig(durability="os"))
    log.append(encode_values([b"before"], 1000))
    log.append(undecodable())
    log.append(encode_values([b"after"], 1000))

    first, following = log.fetch(0, 10_000)  # As it is: nothing was decoded.
    assert (len(list(offsets_of(first))), following) == (3, 3)

    assert offsets_of(log.fetch(1, 10_000)[0]) == [1, 2]
    assert offsets_of(log.fetch(1, 10_000)[0]) == [2]
    assert offsets_of(log.fetch(0, 10_000)[0]) == [0]
    assert [found.first_offset for found in log.damage.ranges] == [1]


def offsets_of(data: bytes) -> list[int]:
    found: list[int] = []
    while data:
        header = check_batch(data)
        found.append(header.base_offset)
        data = data[header.size :]
    return found


def test_what_was_there_before_is_summed_when_it_is_fetched_for_the_first_time() -> None:
    files = MemoryFiles()
    log = Log.open(files, "log", LogConfig(durability="os"))
    for number in range(20):
        log.append(encode_values([b"%02d" % number], 1000))
    size = next(log.headers(0)).size
    log.close()
    (path,) = [f"log/{name}" for name in files.list("log") if name.endswith(".log")]
    files._contents[path][7 * size + 65] ^= 1  # In a record of the eighth batch.
    log = Log.open(files, "log", LogConfig(durability="os"))
    [segment] = log._segments
    found: list[int] = []
    position = 0
    while position < log.high:
        data, position = log.fetch(position, 5 * size)
        found += offsets_of(data)

    assert found == [number for number in range(20) if number != 7]
    assert [each.first_offset for each in log.damage.ranges] == [7]
    assert segment.is_checked(8 * size, segment.size)  # So whoever comes next need not wait for it.
    log.append(encode_values([b"20"], 1000))
    assert segment.is_checked(segment.size - size, segment.size)  # Written by this process.


def test_headers_that_somebody_believes_are_summed() -> None:
    """A changed number of a producer breaks no chain; it would make its next batch a repeat."""
    files = MemoryFiles()
    log = Log.open(files, "log", LogConfig(durability="os"))
    for number in range(5):
        builder = BatchBuilder()
        builder.add(None, b"x", [])
        log.append(builder.build(1000, 1000, 0, 7, 0, number))
    size = next(log.headers(0)).size
    log.close()
    (path,) = [f"log/{name}" for name in files.list("log") if name.endswith(".log")]
    files._contents[path][2 * size + 56] ^= 0x40  # The last byte of the third one's sequence number.
    log = Log.open(files, "log", LogConfig(durability="os"))

    assert [header.base_sequence for header in log.marked_headers(0, 0, summed=True)] == [0, 1, 3, 4]
    assert [(found.first_offset, found.end_offset) for found in log.damage.ranges] == [(2, 3)]


def test_a_message_full_of_what_looks_like_batches_does_not_keep_a_survey_busy() -> None:
    """Each of them says that it is as long as all that follow: to sum them all takes quadratic time."""
    whole = encode_values([b"x"], 1000)
    place_batch(whole, 7, 0)
    fakes = bytearray()
    count = 1000
    for number in range(count):
        fake = encode_values([b"x" * ((count - number) * HEADER_BYTES)], 1000)[:HEADER_BYTES]
        fake[0:8] = (7).to_bytes(8, "big")
        fakes += fake
    data = bytes(fakes + bytes(2 * HEADER_BYTES) + whole)

    assert find_batch(data, 7) == data.index(whole)
    assert find_batch(data, 7, sum_max=10 * len(data)) == -1
    assert find_batch(data, 7, begin=len(fakes), sum_max=len(whole)) == data.index(whole)
    assert find_batch(data, 8) == -1
