"""Every file operation of a log goes wrong once, in every way; and a real process dies many times.

The workload is fixed and small, and does everything a log can do.  It runs
once undisturbed to count its file operations; then, for each operation and
each fault, it runs again until that fault, the log is opened anew as after a
crash, and compared with what had been acknowledged by then.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import pytest
from tests.logs import rewritten

from penstock.errors import DiskFull, PenstockError, StorageFailed
from penstock.log.files import SystemFiles
from penstock.log.log import Log, LogConfig
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles
from penstock.wire.records import Record, encode_values, lane_attributes

CONFIG = LogConfig(segment_bytes=600, index_bytes=150)
KILLS = 40


@dataclass
class Promises:
    """What the workload has been told so far."""

    written: dict[int, bytes] = field(default_factory=dict)  # Appended: offset -> value.
    durable: int = 0  # Offsets below this were synced.
    deleted: int = 0  # Offsets below this may be gone (deleting them was begun).
    surely_deleted: int = 0  # Below this they are gone (deleting them had returned).
    thinned: int = 0  # Below this, odd offsets may be gone.
    surely_thinned: int = 0


def workload(files: FaultyFiles, promises: Promises) -> None:
    """Append, sync, roll, rewrite, delete, close, reopen, append."""
    log = Log.open(files, "d", CONFIG)
    for number in range(12):
        publish(log, promises, number)
        if number % 3 == 2:
            log.sync()
            promises.durable = log.high
    log.roll()
    promises.durable = log.high
    promises.thinned = log.end
    rewritten(log, lambda record: record.offset % 2 == 0, log.end)
    promises.surely_thinned = log.end
    for number in range(12, 16):
        publish(log, promises, number)
    log.sync()
    promises.durable = log.high
    promises.deleted = log.segments()[1].base_offset
    log.delete_before(promises.deleted)
    promises.surely_deleted = promises.deleted
    log.close()
    log = Log.open(files, "d", CONFIG)
    publish(log, promises, 16)
    log.sync()
    promises.durable = log.high
    log.close()


def publish(log: Log, promises: Promises, number: int) -> None:
    values = [b"%d:%d " % (number, place) * 5 for place in range(number % 3 + 1)]
    end = log.end
    promises.written |= {end + place: value for place, value in enumerate(values)}
    log.append(encode_values(values, 1000 + number, lane_attributes(number % 2)))


def check(log: Log, promises: Promises) -> None:
    """Everything promised is there, nothing else is, and nothing is corrupt."""
    assert log.recovery.damage == []
    assert promises.durable <= log.end <= len(promises.written)
    assert promises.surely_deleted <= log.start <= promises.deleted
    found = {record.offset: record.value for record in log.records(log.start, log.end)}
    for offset in range(log.start, log.end):
        odd = offset % 2 == 1
        if odd and offset < promises.surely_thinned:
            assert offset not in found
        elif odd and offset < promises.thinned:
            assert found.get(offset, promises.written[offset]) == promises.written[offset]
        else:
            assert found[offset] == promises.written[offset]


def count_operations() -> list[str]:
    files = FaultyFiles(CrashDisk())
    workload(files, Promises())
    return files.operations


OPERATIONS = count_operations()


@pytest.mark.parametrize("fault", [Fault.TEAR, Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_any_file_operation_loses_nothing_acknowledged(fault: Fault, power: bool) -> None:
    for at in range(1, len(OPERATIONS) + 1):
        for seed in range(4 if power else 1):
            disk = CrashDisk()
            promises = Promises()
            with pytest.raises(Crash):
                workload(FaultyFiles(disk, at=at, fault=fault), promises)
            if power:
                disk.power_cut(Random(seed))
            else:
                disk.kill()

            log = Log.open(disk, "d", CONFIG)

            check(log, promises)
            go_on(log, disk)


@pytest.mark.parametrize("fault", [Fault.TEAR, Fault.BEFORE, Fault.AFTER])
def test_a_crash_during_recovery_is_recovered_from(fault: Fault) -> None:
    """Crash in the workload, then again at every operation of the recovery."""
    for at in range(1, len(OPERATIONS) + 1, 3):
        second = 0
        while True:
            second += 1
            disk = CrashDisk()
            promises = Promises()
            with pytest.raises(Crash):
                workload(FaultyFiles(disk, at=at, fault=Fault.TEAR), promises)
            disk.power_cut(Random(at))
            try:
                Log.open(FaultyFiles(disk, at=second, fault=fault), "d", CONFIG)
            except Crash:
                disk.power_cut(Random(second))
                check(Log.open(disk, "d", CONFIG), promises)
            else:
                break


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.FAIL, Fault.STUCK])
def test_an_error_at_any_file_operation_loses_nothing_acknowledged(fault: Fault) -> None:
    """The error reaches the caller, who gives up; the log that is then opened is whole."""
    for at in range(1, len(OPERATIONS) + 1):
        disk = CrashDisk()
        promises = Promises()
        files = FaultyFiles(disk, at=at, fault=fault)
        with pytest.raises(PenstockError):
            workload(files, promises)
        disk.kill()

        log = Log.open(disk, "d", CONFIG)

        check(log, promises)
        go_on(log, disk)


def go_on(log: Log, disk: CrashDisk) -> None:
    """The log works as if nothing had been."""
    offset = log.append(encode_values([b"after"], 5000))
    log.close()
    disk.kill()
    reopened = Log.open(disk, "d", CONFIG)
    assert reopened.recovery.clean
    assert [record.value for record in reopened.records(offset, reopened.end)] == [b"after"]


def test_a_disk_that_is_full_for_a_while_stops_nothing_but_writing() -> None:
    """From every operation on the disk is full; reading goes on; with room again, so does writing."""
    for at in range(1, 100):
        disk = CrashDisk()
        files = FaultyFiles(disk, at=at, fault=Fault.FULL, lasting=True)
        values: list[bytes] = []
        log = open_when_there_is_room(files)
        for number in range(30):
            value = b"%d " % number * 20
            batch = encode_values([value], 1000 + number)
            try:
                log.append(batch)
            except DiskFull:
                assert [record.value for record in log.records(0, log.end)] == values
                with pytest.raises(DiskFull):
                    log.append(batch)
                assert log.failed is None
                files.heal()
                log.append(batch)
            values.append(value)
        log.sync()
        assert [record.value for record in log.records(0, log.end)] == values
        disk.power_cut(Random(at))
        log = Log.open(disk, "d", CONFIG)
        assert [record.value for record in log.records(0, log.end)] == values


def open_when_there_is_room(files: FaultyFiles) -> Log:
    try:
        return Log.open(files, "d", CONFIG)
    except DiskFull:
        files.heal()
        return Log.open(files, "d", CONFIG)


def test_a_call_that_found_the_disk_full_can_just_be_made_again() -> None:
    """Whichever operation finds no room: after a second try of the same call all is as if it had not been."""
    undisturbed, count = run_with_second_tries(at=0)
    for at in range(1, count + 1):
        found, _ = run_with_second_tries(at)
        assert found == undisturbed


def run_with_second_tries(at: int) -> tuple[list[Record], int]:
    disk = CrashDisk()
    files = FaultyFiles(disk, at=at, fault=Fault.FULL)
    log = open_when_there_is_room(files)
    steps: list[Callable[[], object]] = []
    for number in range(12):
        batch = encode_values([b"%d " % number * 20] * 2, 1000 + number, lane_attributes(number % 2))
        steps.append(partial(log.append, batch))
    steps += [
        log.roll,
        lambda: rewritten(log, lambda record: record.offset % 3 > 0, log.end),
        lambda: log.delete_before(5),
    ]
    for step in steps:
        try:
            step()
        except DiskFull:
            step()
        except StorageFailed:  # A sync: that one is for good, and is tested elsewhere.
            assert "sync" in files.operations[at - 1]
            return run_with_second_tries(at=0)
    count = len(files.operations)
    files.heal()
    log.sync()
    records = log.records(log.start, log.end)
    disk.power_cut(Random(at))
    log = Log.open(disk, "d", CONFIG)
    assert log.recovery.damage == []
    assert log.records(log.start, log.end) == records
    return records, count


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_was_told_is_durable(tmp_path: Path) -> None:
    """A process appends from three threads with group commit, reports what is durable, and is killed."""
    random = Random(20_26)
    durable: dict[int, bytes] = {}
    for _ in range(KILLS):
        durable |= kill_a_writer(tmp_path, reports=random.randint(0, 60))
        log = Log.open(SystemFiles(), str(tmp_path / "log"), LogConfig(segment_bytes=20_000))
        found = {record.offset: record.value for record in log.records(0, log.end)}
        assert log.recovery.damage == []
        assert list(found) == list(range(log.end))
        assert {offset: found.get(offset) for offset in durable} == durable
        log.abandon()
    assert len(durable) > KILLS


def kill_a_writer(directory: Path, reports: int) -> dict[int, bytes]:
    """Start a writer, kill it after some reports, and return all it had reported."""
    command = [sys.executable, "-c", WRITER_PROGRAM, str(directory / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        durable: dict[int, bytes] = {}
        for _ in range(reports):
            line = writer.stdout.readline()
            assert line, "the writer ended by itself"
            offset, value = line.split()
            durable[int(offset)] = value
        os.kill(writer.pid, signal.SIGKILL)
        for line in writer.stdout:
            if line.endswith(b"\n"):
                offset, value = line.split()
                durable[int(offset)] = value
    return durable


WRITER_PROGRAM = """
import os, sys, threading
from penstock.log.commit import GroupCommit
from penstock.log.files import SystemFiles
from penstock.log.log import Log, LogConfig
from penstock.wire.records import encode_values

log = Log.open(SystemFiles(), sys.argv[1], LogConfig(segment_bytes=20_000))
commit = GroupCommit()
lock = threading.Lock()

def write(thread):
    number = 0
    while True:
        number += 1
        value = b"%d-%d-%d-" % (os.getpid(), thread, number) + b"x" * (number % 97)
        with lock:
            offset = log.append(encode_values([value], 1000))
            written = log.written
            commit.mark(log)
        commit.wait(log, written)
        os.write(1, b"%d %s\\n" % (offset, value))

threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
"""
