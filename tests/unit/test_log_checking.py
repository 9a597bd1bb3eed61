"""Checking and repairing a log whose segments were damaged in more than one byte."""

from collections.abc import Callable

import pytest
from tests.logs import publish, values_of

from penstock.log.log import Log, LogConfig
from penstock.log.maintenance.checking import examine, repair
from penstock.testing.files import CrashDisk

CONFIG = LogConfig(segment_bytes=450)
FIRST = f"d/{0:020d}.log"


def closed_log(count: int = 16) -> tuple[CrashDisk, Log]:
    """A log that was closed, with a message of 30 bytes in each of its batches, and four segments."""
    disk = CrashDisk()
    log = Log.open(disk, "d", CONFIG)
    for number in range(count):
        publish(log, message(number))
    log.close()
    return disk, log


def message(number: int) -> bytes:
    return b"%02d" % number * 15


def last_batch(data: bytes) -> int:
    """Where the last batch of a segment begins."""
    at = following = 0
    while following < len(data):
        at, following = (
            following,
            following + 12 + int.from_bytes(data[following + 8 : following + 12], "big"),
        )
    return at


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "the last batch is zeros": lambda data: data[: last_batch(data)].ljust(len(data), b"\0"),
    "the last batch is gone": lambda data: data[: last_batch(data)],
    "a few bytes of the last batch are left": lambda data: data[: last_batch(data) + 7],
    "the last byte is gone": lambda data: data[:-1],
    "there are bytes in the last batch that do not belong there": lambda data: data[:-20] + b"!" + data[-20:],
}


@pytest.mark.parametrize("which", [0, -1], ids=["sealed", "last"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_check_finds_the_lost_end_of_a_segment_and_one_repair_is_enough(damage: str, which: int) -> None:
    disk, log = closed_log()
    segment = log.segments()[which]
    disk.damage(f"d/{segment.base_offset:020d}.log", DAMAGES[damage])
    lost = segment.next_offset - 1

    found = [(each.first_offset, each.end_offset) for each in examine(disk, "d") if not each.note]
    done = list(repair(disk, "d"))

    assert found == [(lost, lost + 1)]
    assert sum(each.lost for each in done) == 1
    assert [each for each in examine(disk, "d") if not each.note] == []
    log = Log.open(disk, "d", CONFIG)
    assert log.damage.ranges == []
    assert log.end == 16
    assert values_of(log) == [message(number) for number in range(16) if number != lost]


def test_a_check_finds_a_segment_that_is_gone_and_a_repair_lets_the_one_before_reach_over_it() -> None:
    disk, log = closed_log()
    second = log.segments()[1]
    disk.remove(f"d/{second.base_offset:020d}.log")

    [found] = examine(disk, "d")
    assert (found.path, found.first_offset, found.end_offset) == (
        FIRST,
        second.base_offset,
        second.next_offset,
    )
    [done] = repair(disk, "d")
    assert done.lost == second.next_offset - second.base_offset
    assert list(examine(disk, "d")) == []


def test_bytes_that_were_kept_by_an_earlier_repair_stay_kept() -> None:
    disk, _ = closed_log()
    disk.damage(FIRST, lambda data: data[:30] + b"!" + data[31:])
    list(repair(disk, "d"))
    disk.damage(FIRST, lambda data: data[:30] + b"?" + data[31:])
    list(repair(disk, "d"))

    kept = sorted(name for name in disk.list("d") if ".damaged-" in name)
    assert kept == [f"{0:020d}.damaged-0", f"{0:020d}.damaged-0-1"]
    assert [disk.read_file(f"d/{name}")[30:31] for name in kept] == [b"!", b"?"]
