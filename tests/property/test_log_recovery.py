"""Damaged files: opening never fails, and a reader gets the right records, or none where it is damaged."""

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.log.log import Log, LogConfig
from penstock.log.scan import Scan, find_batch
from penstock.testing.files import CrashDisk
from penstock.wire.records import (
    BatchBuilder,
    Record,
    check_batch,
    decode_batch,
    encode_values,
    lane_attributes,
    place_batch,
)

CONFIG = LogConfig(segment_bytes=900, index_bytes=200)
BATCHES = 16

Change = Callable[[bytes], bytes]


def make_log(*, clean: bool) -> tuple[CrashDisk, list[Record]]:
    """A log of several segments, batches of every codec and lane; closed or killed."""
    disk = CrashDisk()
    log = Log.open(disk, "d", CONFIG)
    expected: list[Record] = []
    for number in range(BATCHES):
        builder = BatchBuilder()
        for place in range(number % 4 + 1):
            builder.add(b"k%d" % place, b"value %d " % number * 4, [("h", b"x")], place)
        attributes = number % 5 | lane_attributes(number % 3 - 1)
        batch = builder.build(1000 + 10 * number, 1000 + 10 * number + number % 4, attributes)
        log.append(batch)
        expected += decode_batch(bytes(batch))
    log.sync()
    if clean:
        log.close()
    disk.kill()
    return disk, expected


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, Change]:
    """Something that can happen to the bytes of a file, and what to call it."""
    at = draw(st.floats(0, 1))
    kind = draw(st.sampled_from(["flip", "cut", "insert", "zero", "double", "remove", "number"]))
    noise = draw(st.binary(min_size=1, max_size=40))
    # Shorter than a batch: if bytes 0 to 20 of one and the rest of another were brought together, nothing
    # would tell, since the base offset is outside the checksum (docs/format/log.md).
    length = draw(st.integers(1, 60))

    def change(data: bytes) -> bytes:
        position = int(at * len(data))
        before, after = data[:position], data[position:]
        changed = {
            "flip": bytes(byte ^ 1 << noise[0] % 8 for byte in after[:1]) + after[1:],
            "cut": b"",
            "insert": noise + after,
            "zero": bytes(len(after[:length])) + after[length:],
            "double": after[:length] + after,
            "remove": after[length:],
            # The wrong number in the right place is the worst: lengths, counts, offsets.
            "number": noise[:8] + after[len(noise[:8]) :],
        }
        return before + changed[kind]

    return f"{kind} at {at}", change


def check_reads(log: Log, expected: list[Record]) -> int:
    """Ask for every record alone and for ranges; returns how many were right."""
    right = 0
    wrong = {record.offset: record for record in expected}
    for offset in range(log.start, min(log.end, len(expected))):
        found = log.records(offset, offset + 1)
        if log.damage.skip(offset) == offset:
            assert found == [wrong[offset]]
            right += 1
        else:
            assert found == []
    sound = [record for record in expected if log.damage.skip(record.offset) == record.offset]
    for start in range(log.start, log.end, 7):
        end = min(start + 10, log.end)
        assert log.records(start, end) == [record for record in sound if start <= record.offset < end]
    return right


def check_everything_else(log: Log) -> None:
    """Damage is no error for the other questions either."""
    for timestamp in range(990, 1200, 25):
        log.offset_at(timestamp)
    for offset in range(log.start, log.end, 3):
        check_batch(log.read(offset, 500)) if log.damage.skip(offset) < log.end else None
        list(log.headers(offset))
        log.last(offset)
        data, following = log.fetch(offset, 500)
        assert following > offset
        while data:
            data = data[check_batch(data).size :]


@given(data=st.data(), clean=st.booleans(), damage=st.lists(changes(), min_size=1, max_size=3))
def test_a_damaged_log_opens_and_gives_right_records_around_the_damage(
    data: st.DataObject, clean: bool, damage: list[tuple[str, Change]]
) -> None:
    disk, expected = make_log(clean=clean)
    for _, change in damage:
        disk.damage(f"d/{data.draw(st.sampled_from(disk.list('d')))}", change)

    log = Log.open(disk, "d", CONFIG)

    assert log.start == 0
    check_reads(log, expected)
    check_everything_else(log)
    # And it goes on: what is appended now is there, also after the next open.
    batch = encode_values([b"new"], max(log.last_timestamp, 2000))
    offset = log.append(batch)
    log.sync()
    assert [record.value for record in log.records(offset, log.end)] == [b"new"]
    disk.kill()
    log = Log.open(disk, "d", CONFIG)
    if log.end > offset:
        assert [record.value for record in log.records(offset, log.end)] == [b"new"]
    else:  # The last segment was damaged where a clean end had vouched for it; only now was it scanned.
        assert b"new" in disk.read_file(log.recovery.kept_path)


@given(data=st.data(), name=st.sampled_from([".index", ".lanes"]), change=changes())
def test_damage_to_what_can_be_derived_costs_nothing_but_time(
    data: st.DataObject, name: str, change: tuple[str, Change]
) -> None:
    disk, expected = make_log(clean=True)
    intact = Log.open(disk, "d", CONFIG)
    lanes = intact.lanes.ranges(0, intact.end)
    names = [file for file in disk.list("d") if file.endswith(name)]
    disk.damage(f"d/{data.draw(st.sampled_from(names))}", change[1])

    log = Log.open(disk, "d", CONFIG)

    assert log.recovery.damage == []
    assert check_reads(log, expected) == len(expected) == log.end
    assert log.lanes.ranges(0, log.end) == lanes


@given(data=st.data())
def test_removed_index_and_lane_files_are_made_again(data: st.DataObject) -> None:
    disk, expected = make_log(clean=True)
    lanes = Log.open(disk, "d", CONFIG).lanes.ranges(0, len(expected))
    derived = [name for name in disk.list("d") if not name.endswith(".log")]
    for name in data.draw(st.sets(st.sampled_from(derived))):
        disk.remove(f"d/{name}")

    log = Log.open(disk, "d", CONFIG)

    assert check_reads(log, expected) == len(expected) == log.end
    assert log.lanes.ranges(0, log.end) == lanes
    disk.kill()
    assert Log.open(disk, "d", CONFIG).recovery.scanned_bytes <= log.segments()[-1].bytes


@given(position=st.floats(0, 1))
@example(position=1.0)
def test_a_torn_tail_is_cut_exactly_behind_the_last_whole_batch(position: float) -> None:
    disk, expected = make_log(clean=False)
    log = Log.open(disk, "d", CONFIG)
    headers = list(log.headers(0))
    last = log.segments()[-1]
    path = f"d/{last.base_offset:020d}.log"
    size = int(position * last.bytes)
    disk.kill()
    disk.damage(path, lambda data: data[:size])
    torn = disk.read_file(path)

    log = Log.open(disk, "d", CONFIG)

    whole = 0
    end = last.base_offset
    for header in headers:
        if header.base_offset >= last.base_offset:
            if whole + header.size > size:
                break
            whole += header.size
            end = header.next_offset
    assert (log.end, log.segments()[-1].bytes) == (end, whole)
    # Nothing but zeros, the beginning of an offset, is taken for room that was reserved behind a batch.
    is_room = whole > 0 and not any(torn[whole:])
    assert log.recovery.cut_bytes == (0 if is_room else size - whole)
    assert bool(log.recovery.kept_path) == bool(log.recovery.cut_bytes)
    assert check_reads(log, expected) == end


@given(data=st.data())
def test_after_a_power_cut_batches_behind_damage_in_the_last_segment_are_kept_beside_it(
    data: st.DataObject,
) -> None:
    disk, _ = make_log(clean=False)
    log = Log.open(disk, "d", CONFIG)
    last = log.segments()[-1]
    headers = list(log.headers(last.base_offset))
    path = f"d/{last.base_offset:020d}.log"
    intact = disk.read_file(path)
    broken = data.draw(st.integers(0, len(headers) - 2))
    begin = sum(header.size for header in headers[:broken])
    at = begin + data.draw(st.integers(21, headers[broken].size - 1))  # Within the checksum.
    disk.kill()
    disk.intact = False
    disk.damage(path, lambda data: data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    damaged = disk.read_file(path)

    log = Log.open(disk, "d", CONFIG)

    assert log.end == headers[broken].base_offset
    assert disk.read_file(path) == intact[:begin]
    assert log.recovery.kept_path == f"d/{last.base_offset:020d}.cut-{begin}"
    assert disk.read_file(log.recovery.kept_path) == damaged[begin:]


@given(junk=st.binary(max_size=400), base_offset=st.integers(0, 1 << 40), count=st.integers(1, 3))
def test_a_valid_batch_is_found_in_any_junk(junk: bytes, base_offset: int, count: int) -> None:
    batch = encode_values([b"v" * 10] * count, 1000)
    place_batch(batch, base_offset, 0)

    place = find_batch(junk + batch + junk, base_offset)

    assert place == len(junk)


@given(data=st.binary(max_size=600), base_offset=st.integers(0, 1 << 40))
def test_a_scan_of_junk_ends(data: bytes, base_offset: int) -> None:
    scan = Scan(base_offset, 100, 0)
    scan.feed(data)
    assert scan.position == 0
    assert scan.next_offset == base_offset
