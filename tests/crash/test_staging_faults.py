"""Every file operation around a staged publish goes wrong once, in every way, and all is there once.

The workload does what a job of Spark does: stage, publish, and if anything
fails, or the process ends, stage anew and publish again under the same
version.  Three versions go to two partitions, with delays and times to live,
in segments so small that they are full, and the broker is opened anew between
them.  It runs once undisturbed to count its file operations, then once for each
of them and each fault.  Afterwards the job is run again as a whole, and every
row must be there exactly once.

Each fault takes every sixth operation, and each begins with another one; with
HYPOTHESIS_PROFILE=ci every second, and with soak every one.
"""

import os
from collections import Counter
from random import Random

import pytest
from tests.staged import batch, stage, values_of

from penstock.broker import intents
from penstock.config import BrokerConfig
from penstock.errors import PenstockError, TopicExists
from penstock.log.files import Files
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles
from penstock.wire.records import EXPIRES, SCHEDULED
from penstock.wire.staged import STAGING

CONFIG = BrokerConfig(snapshot_bytes=1, clock_check_ms=24 * 3600 * 1000)
VERSIONS = range(3)
STRIDE = {"ci": 2, "soak": 1}.get(os.environ.get("HYPOTHESIS_PROFILE", "dev"), 6)
ERRORS = [Fault.FULL, Fault.FAIL, Fault.STUCK]
CRASHES = [Fault.TEAR, Fault.BEFORE, Fault.AFTER]


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "SEGMENT_BYTES", 4096)


class Job:
    """A job that is run again until it has succeeded."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.clock = ManualClock()
        self.broker: TestBroker | None = None
        self.answered: set[int] = set()
        self.failures: list[PenstockError] = []

    def run(self) -> None:
        for version in VERSIONS:
            for _ in range(2):  # Spark would try more often; a fault comes once.
                try:
                    self.attempt(version)
                    break
                except PenstockError as error:
                    self.failures.append(error)
                    self.end()
            self.end()  # The next version is the next broker's.

    def attempt(self, version: int) -> None:
        broker = self.broker = self.broker or self.open()
        for name, durability in (("orders", "fsync"), (STAGING, "os")):
            try:
                broker.create_topic(
                    name,
                    partitions=2 if name == "orders" else 1,
                    durability=durability,  # type: ignore[arg-type]
                    segment_bytes=4096,
                    retention=None,
                )
            except TopicExists:
                continue
        staged: dict[str, list[tuple[int, int]]] = {}
        for task in range(2):
            staged |= stage(broker, f"{version}-{task}", *parts(version, task))
        broker.publish_staged("orders", "job", version, staged)
        self.answered.add(version)
        broker.advance("2s")

    def open(self) -> TestBroker:
        return TestBroker.open("data", config=CONFIG, files=self.files, clock=self.clock)

    def end(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            try:
                broker.close()
            except PenstockError as error:
                self.failures.append(error)


def parts(version: int, task: int) -> list[tuple[int, bytes]]:
    """Plain rows for both partitions, one that expires, one that waits."""
    name = b"%d-%d-" % (version, task)
    return [
        (0, batch([name + b"plain-%d" % row for row in range(2)])),
        (1, batch([name + b"large" + bytes(1500)])),
        (1, batch([name + b"lives"], EXPIRES, [("x-ttl", b"60000")])),
        (task, batch([name + b"waits-%d" % row for row in range(2)], SCHEDULED, [("x-delay", b"1000")])),
    ]


def rows(versions: set[int]) -> Counter[bytes]:
    """What must be there, once each."""
    kinds = (b"plain-0", b"plain-1", b"large" + bytes(1500), b"lives", b"waits-0", b"waits-1")
    names = [b"%d-%d-" % (version, task) for version in versions for task in range(2)]
    return Counter(name + kind for name in names for kind in kinds)


def check(disk: CrashDisk, job: Job) -> None:
    """Open on healthy files: what was answered is there; run again, everything is, once."""
    healthy = Job(disk)
    healthy.clock = job.clock
    broker = healthy.broker = healthy.open()
    if "orders" in broker.topics():
        broker.advance("2s")
        found = Counter(values_of(broker, "orders"))
        whole = {version for version in VERSIONS if rows({version}) <= found}
        assert whole >= job.answered
        assert found == rows(whole), "a version is there as a whole, or not at all"
    healthy.end()
    healthy.run()
    assert healthy.failures == []
    broker = healthy.open()
    assert Counter(values_of(broker, "orders")) == rows(set(VERSIONS))
    assert broker.scheduled("orders") == []
    broker.close()


def operations() -> int:
    files = FaultyFiles(CrashDisk())
    job = Job(files)
    job.run()
    assert job.failures == []
    return len(files.operations)


def places(fault: Fault, power: bool) -> range:
    first = (2 * [*ERRORS, *CRASHES].index(fault) + power) % STRIDE
    return range(1 + first, operations() + 1, STRIDE)


def end(disk: CrashDisk, seed: int, *, power: bool) -> None:
    if power:
        disk.power_cut(Random(seed))
    else:
        disk.kill()


def test_undisturbed_every_row_is_there_once() -> None:
    disk = CrashDisk()
    job = Job(disk)
    job.run()

    assert job.answered == set(VERSIONS)
    disk.kill()
    check(disk, job)


# The thread that syncs a log of durability "os" ends with the process, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_a_fault_at_any_file_operation_leaves_every_row_once(fault: Fault, power: bool) -> None:
    for at in places(fault, power):
        disk = CrashDisk()
        files = FaultyFiles(disk, at=at, fault=fault)
        job = Job(files)
        try:
            job.run()
        except Crash:
            assert fault in CRASHES
        end(disk, at, power=power)
        try:
            check(disk, job)
        except BaseException as error:
            error.add_note(f"operation {at}: {files.operations[at - 1]}; answered: {job.answered}")
            raise
