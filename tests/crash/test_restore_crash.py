"""Every file operation of a restoration goes wrong once, in every way.

The log that is opened afterwards has no gap: it begins where it began, where
the restoration wanted it, or at a segment between; whatever it has is what was
there before retention deleted it; and what it never lost is untouched.  After
``install`` has returned, everything is back for good.
"""

from itertools import product
from random import Random

import pytest

from penstock.errors import PenstockError
from penstock.log.log import Log, LogConfig
from penstock.log.maintenance.restoring import Restoration
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles
from penstock.wire.records import Record, encode_values, lane_attributes

CONFIG = LogConfig(segment_bytes=300, index_bytes=100)


def trimmed() -> tuple[CrashDisk, list[Record], list[bytes]]:
    """A disk with a log whose beginning was deleted; its records, and the batches that are gone."""
    disk = CrashDisk()
    log = Log.open(disk, "d", CONFIG)
    for number in range(12):
        values = [b"%d:%d " % (number, place) * 3 for place in range(number % 3 + 1)]
        log.append(encode_values(values, 1000 + number, lane_attributes(number % 2)))
    log.sync()
    records = log.records(0, log.end)
    middle = log.segments()[-3].base_offset
    gone = [log.read(segment.base_offset, 1 << 20) for segment in log.segments()[:-3]]
    log.delete_before(middle)
    log.close()
    disk.kill()
    return disk, records, gone


def restore(files: FaultyFiles, gone: list[bytes]) -> None:
    log = Log.open(files, "d", CONFIG)
    restoration = Restoration(log, files, CONFIG, 0)
    for batches in gone:
        restoration.add(batches)
    for _ in restoration.install():
        pass
    log.close()


def count_operations() -> int:
    disk, _, gone = trimmed()
    files = FaultyFiles(disk)
    restore(files, gone)
    return len(files.operations)


OPERATIONS = count_operations()


def check(disk: CrashDisk, records: list[Record], gone: list[bytes]) -> None:
    """Nothing is missing and nothing is new; and the whole can be done again."""
    log = Log.open(disk, "d", CONFIG)
    assert log.recovery.damage == []
    assert log.records(log.start, log.end) == records[log.start :]
    assert not disk.exists("d/restoring")
    start = log.start
    log.close()
    disk.kill()
    log = Log.open(disk, "d", CONFIG)
    assert log.start == start
    rest = [batches for batches in gone if int.from_bytes(batches[:8], "big") < start]
    restoration = Restoration(log, disk, CONFIG, 0)
    for batches in rest:
        restoration.add(batches)
    list(restoration.install())
    assert log.records(0, log.end) == records
    disk.power_cut(Random(start))  # It had returned: it is there for good.
    log = Log.open(disk, "d", CONFIG)
    assert log.recovery.damage == []
    assert log.records(0, log.end) == records


@pytest.mark.parametrize("fault", [Fault.TEAR, Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_crash_while_segments_come_back_leaves_no_gap(fault: Fault, power: bool) -> None:
    starts = set()
    for at in range(1, OPERATIONS + 1):
        for seed in range(2 if power else 1):
            disk, records, gone = trimmed()
            with pytest.raises(Crash):
                restore(FaultyFiles(disk, at=at, fault=fault), gone)
            disk.power_cut(Random(seed)) if power else disk.kill()
            starts.add(Log.open(disk, "d", CONFIG).start)
            disk.kill()

            check(disk, records, gone)
    assert len(starts) > 2, "some crashes came between two segments"


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.FAIL, Fault.STUCK])
def test_an_error_while_segments_come_back_leaves_no_gap(fault: Fault) -> None:
    for at in range(1, OPERATIONS + 1):
        disk, records, gone = trimmed()
        with pytest.raises(PenstockError):
            restore(FaultyFiles(disk, at=at, fault=fault), gone)
        disk.kill()

        check(disk, records, gone)


def test_a_running_log_goes_on_after_an_error_and_can_be_restored_again() -> None:
    """Whichever operation fails once: the log in memory is as good as before, and a second try works."""
    disk, _, gone = trimmed()
    files = FaultyFiles(disk)
    Log.open(files, "d", CONFIG)
    opening = len(files.operations)
    for at in range(opening + 1, OPERATIONS - 5):
        disk, records, gone = trimmed()
        files = FaultyFiles(disk, at=at, fault=Fault.FAIL)
        log = Log.open(files, "d", CONFIG)
        try:
            restoration = Restoration(log, files, CONFIG, 0)
            for batches in gone:
                restoration.add(batches)
            list(restoration.install())
        except PenstockError:
            assert log.records(log.start, log.end) == records[log.start :]
            again = Restoration(log, files, CONFIG, 0)
            for batches in gone:
                if int.from_bytes(batches[:8], "big") < log.start:
                    again.add(batches)
            list(again.install())
        assert log.records(0, log.end) == records
        log.close()
        disk.kill()
        assert Log.open(disk, "d", CONFIG).records(0, log.end) == records


def test_a_broker_that_dies_while_it_restores_has_the_group_moved_or_not() -> None:
    """At every file operation: after the restart the group is where it was, or at the restored beginning."""
    moved: list[bool] = []
    for at, chance in product(range(1, broker_operations() + 1), range(4)):
        disk, clock = CrashDisk(), ManualClock()
        gone = trimmed_topic(disk, clock)
        files = FaultyFiles(disk)
        broker = TestBroker.open("data", files=files, clock=clock)
        files._at, files._fault = len(files.operations) + at, Fault.TEAR
        with pytest.raises(Crash):
            restore_for_audit(broker, gone)
        disk.power_cut(Random(chance))

        broker = TestBroker.open("data", files=disk, clock=clock)
        received = [int(message.value) for message in broker.consumer("orders", group="audit").receive(100)]
        assert received in ([], list(range(40)))
        moved.append(len(received) == 40)
        restore_for_audit(broker, gone)  # A second try does it.
        consumer = broker.consumer("orders", group="audit")
        assert [int(message.value) for message in consumer.receive(100)] == list(range(40))
        disk.kill()
    assert any(moved)
    assert not all(moved)


def broker_operations() -> int:
    disk, clock = CrashDisk(), ManualClock()
    gone = trimmed_topic(disk, clock)
    files = FaultyFiles(disk)
    broker = TestBroker.open("data", files=files, clock=clock)
    before = len(files.operations)
    restore_for_audit(broker, gone)
    return len(files.operations) - before


def trimmed_topic(disk: CrashDisk, clock: ManualClock) -> bytes:
    """A topic without its first half, a group at its end, and what was deleted."""
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        broker.create_topic("orders", retention="1h", segment_bytes=4096)
        broker.publish_batch("orders", [b"%d" % number for number in range(20)])
        gone = broker.fetch("orders", 0, 0).batches
        broker.advance("2h")
        broker.publish_batch("orders", [b"%d" % number for number in range(20, 40)])
        broker.create_group("orders", "audit", start="latest")
        assert broker.describe_topic("orders").partitions[0].start == 20
    disk.kill()
    return gone


def restore_for_audit(broker: TestBroker, gone: bytes) -> None:
    begun = broker.begin_restore("orders", 0, 0)
    if begun.start < begun.end:
        broker.restore("orders", 0, begun.restore, gone)
    broker.finish_restore("orders", 0, begun.restore, "audit")
