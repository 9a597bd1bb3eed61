"""A fixed workload, run once for each of its file operations and each fault.

It runs once undisturbed, to count its file operations.  Then it runs anew for
each of them; that one goes wrong, and the process is killed or the power is
cut, wherever it has come by then.  What it left is the caller's to check, on
healthy files.  A step that fails raises a ``PenstockError``, which the
workload notes and goes on, as a program would.

To try every operation with every fault takes minutes.  So each fault takes
every n-th one (``stride``), and each begins with another one, so that together
they try all of them.  With HYPOTHESIS_PROFILE=ci each takes three times as
many, and with soak every one.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Protocol, TypeVar

import pytest

from penstock.config.broker import BrokerConfig, Durability
from penstock.errors import PenstockError, TopicExists
from penstock.log.files import Files
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles

# A snapshot at every upkeep, so that snapshots and replay both happen.
CONFIG = BrokerConfig(snapshot_bytes=1, clock_check_ms=24 * 3600 * 1000)
ERRORS = [Fault.FULL, Fault.FAIL, Fault.STUCK]
CRASHES = [Fault.TEAR, Fault.BEFORE, Fault.AFTER]
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")

either_end = pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])


class Workload(Protocol):
    """What is run; it notes in ``failures`` what went wrong."""

    failures: list[PenstockError]

    def run(self) -> None: ...


W = TypeVar("W", bound=Workload)


class Job:
    """What the workloads have in common that open a broker, lose it and open it again."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.clock = ManualClock()
        self.broker: TestBroker | None = None
        self.failures: list[PenstockError] = []

    def open(self) -> TestBroker:
        return TestBroker.open("data", config=CONFIG, files=self.files, clock=self.clock)

    def create(self, topic: str, partitions: int, durability: Durability) -> None:
        """A topic of segments so small that they are full; it may be there from the last attempt."""
        assert self.broker is not None
        with suppress(TopicExists):
            self.broker.create_topic(
                topic, partitions=partitions, durability=durability, segment_bytes=4096, retention=None
            )

    def end(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            try:
                broker.close()
            except PenstockError as error:
                self.failures.append(error)


def try_each_operation(
    make: Callable[[Files], W],
    check: Callable[[CrashDisk, W], None],
    fault: Fault,
    *,
    power: bool,
    stride: int,
) -> None:
    """Run the workload with the fault at one operation after the other, and check what it leaves."""
    for at in places(operations(make), fault, power, stride):
        disk = CrashDisk()
        files = FaultyFiles(disk, at=at, fault=fault)
        work = make(files)
        try:
            work.run()
        except Crash:
            assert fault in CRASHES
        assert files.crashed == (fault in CRASHES), "it came to that operation, and nobody overheard it"
        end(disk, at, power=power)
        try:
            check(disk, work)
        except BaseException as error:
            error.add_note(f"operation {at}: {files.operations[at - 1]}; answered: {work.failures}")
            raise


def operations(make: Callable[[Files], Workload]) -> int:
    """How many it does, undisturbed."""
    files = FaultyFiles(CrashDisk())
    work = make(files)
    work.run()
    assert work.failures == []
    return len(files.operations)


def places(count: int, fault: Fault, power: bool, stride: int) -> range:
    """The operations that this fault hits, counted from 1."""
    step = {"ci": max(stride // 3, 1), "soak": 1}.get(PROFILE, stride)
    first = (2 * [*ERRORS, *CRASHES].index(fault) + power) % step
    return range(1 + first, count + 1, step)


def end(disk: CrashDisk, seed: int, *, power: bool) -> None:
    """The process is gone; or the machine, with what was not synced."""
    if power:
        disk.power_cut(Random(seed))
    else:
        disk.kill()
