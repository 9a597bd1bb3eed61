"""Due times on disk: written in portions, read back once, and not believed when they are damaged."""

import pytest

from penstock.errors import StorageFailed
from penstock.log.files import Files, MemoryFiles
from penstock.schedule.buckets import HOUR_MS, SPILL_PAIRS, FarTimes
from penstock.testing.files import CrashDisk, Fault, FaultyFiles


def far_times(files: Files | None = None) -> FarTimes:
    return FarTimes(files or MemoryFiles(), "far", near_until_ms=HOUR_MS)


def load_all(far: FarTimes, until_ms: int, pairs_max: int = 10) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while (pairs := far.load(until_ms, pairs_max)) is not None:
        found += zip(pairs[::2], pairs[1::2], strict=True)
    return found


def test_items_come_back_when_their_hour_is_near() -> None:
    far = far_times()
    far.add(3 * HOUR_MS + 5, 1)
    far.add(2 * HOUR_MS, 2)
    far.add(2 * HOUR_MS + 7, 3)

    assert load_all(far, 2 * HOUR_MS) == []
    assert load_all(far, 2 * HOUR_MS + 1) == [(2 * HOUR_MS, 2), (2 * HOUR_MS + 7, 3)]
    assert far.near_until_ms == 3 * HOUR_MS
    assert load_all(far, 9 * HOUR_MS) == [(3 * HOUR_MS + 5, 1)]
    assert far.near_until_ms == 9 * HOUR_MS


def test_the_next_due_time_is_that_of_the_first_bucket() -> None:
    far = far_times()
    assert far.next_ms() == -1

    far.add(5 * HOUR_MS + 9, 1)
    far.add(5 * HOUR_MS + 2, 2)
    far.add(7 * HOUR_MS, 3)

    assert far.next_ms() == 5 * HOUR_MS + 2
    load_all(far, 6 * HOUR_MS)
    assert far.next_ms() == 7 * HOUR_MS


def test_a_full_buffer_goes_to_disk_and_comes_back_in_portions() -> None:
    files = MemoryFiles()
    far = far_times(files)
    items = [(2 * HOUR_MS + number, number) for number in range(3 * SPILL_PAIRS + 5)]
    for due_ms, number in items:
        far.add(due_ms, number)
    assert files.list("far") == ["2.far"]
    assert len(far._buckets[2].buffer) == 2 * 5

    first = far.load(3 * HOUR_MS, pairs_max=10)

    assert first is not None
    assert list(first) == [n for item in items[:10] for n in item]
    assert far.next_ms() == 2 * HOUR_MS, "a bucket counts until all of it is back"
    assert load_all(far, 3 * HOUR_MS) == items[10:]
    assert files.list("far") == []


def test_files_of_an_earlier_process_are_removed() -> None:
    files = MemoryFiles()
    files.write_file("far/7.far", b"rest")

    far_times(files)

    assert files.list("far") == []


def test_a_disk_that_is_full_keeps_items_in_memory() -> None:
    files = FaultyFiles(MemoryFiles())
    far = far_times(files)
    items = [(2 * HOUR_MS, number) for number in range(2 * SPILL_PAIRS)]
    files.fail_next(Fault.FULL, lasting=True)
    for due_ms, number in items[: SPILL_PAIRS + 1]:
        far.add(due_ms, number)
    files.heal()

    for due_ms, number in items[SPILL_PAIRS + 1 :]:
        far.add(due_ms, number)

    assert far._buckets[2].spilled == 2 * SPILL_PAIRS
    assert load_all(far, 3 * HOUR_MS) == items


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"\1" + data[1:], lambda data: b""])
def test_a_file_that_is_not_as_it_was_written_is_not_believed(damage: object) -> None:
    disk = CrashDisk()
    far = far_times(disk)
    for number in range(SPILL_PAIRS):
        far.add(2 * HOUR_MS, number)
    assert callable(damage)
    disk.damage("far/2.far", damage)

    load_all(far, 3 * HOUR_MS, pairs_max=SPILL_PAIRS)

    assert far.damaged == [2]
    assert far.next_ms() == -1


def test_a_file_that_cannot_be_read_is_reported_and_the_next_hour_goes_on() -> None:
    files = FaultyFiles(MemoryFiles())
    far = far_times(files)
    for number in range(SPILL_PAIRS):
        far.add(2 * HOUR_MS, number)
    far.add(3 * HOUR_MS, 99)
    files.fail_next(Fault.FAIL)

    assert load_all(far, 4 * HOUR_MS) == [(3 * HOUR_MS, 99)]
    assert far.damaged == [2]


def test_a_bucket_file_that_cannot_be_removed_is_left_for_the_next_open() -> None:
    files = FaultyFiles(MemoryFiles())
    far = far_times(files)
    for number in range(SPILL_PAIRS):
        far.add(2 * HOUR_MS, number)
    assert far.load(3 * HOUR_MS, SPILL_PAIRS) is not None
    files.fail_next(Fault.FAIL)

    assert load_all(far, 3 * HOUR_MS) == []

    with pytest.raises(StorageFailed):
        files.fail_next(Fault.FAIL)
        far_times(files)
    assert far_times(files).damaged == []
