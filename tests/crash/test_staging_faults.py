"""Every file operation around a staged publish goes wrong once, in every way, and all is there once.

The workload does what a job of Spark does: stage, publish, and if anything
fails, or the process ends, stage anew and publish again under the same
version.  Three versions go to two partitions, with delays and times to live,
in segments so small that they are full, and the broker is opened anew between
them.  It runs once for each of its file operations and each fault.  Afterwards
the job is run again as a whole, and every row must be there exactly once.
"""

from collections import Counter

import pytest
from tests.crash import faults
from tests.crash.faults import CRASHES, ERRORS, either_end, try_each_operation
from tests.staged import batch, stage, values_of

from penstock.broker.journal import intents
from penstock.broker.publish import staging
from penstock.config.broker import Durability
from penstock.errors import PenstockError
from penstock.log.files import Files
from penstock.testing.files import CrashDisk, Fault
from penstock.wire.records import EXPIRES, SCHEDULED
from penstock.wire.staged import STAGING

VERSIONS = range(3)
STRIDE = 6


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "SEGMENT_BYTES", 4096)
    monkeypatch.setattr(staging, "TURN_BYTES", 1)


class Job(faults.Job):
    """A job that is run again until it has succeeded."""

    durability: Durability = "fsync"  # Of its topic.

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.answered: set[int] = set()

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
        self.create("orders", 2, self.durability)
        self.create(STAGING, 1, "os")
        staged: dict[str, list[tuple[int, int]]] = {}
        for task in range(2):
            staged |= stage(broker, f"{version}-{task}", *parts(version, task))
        broker.publish_staged("orders", "job", version, staged)
        self.answered.add(version)
        broker.advance("2s")


class UnsyncedJob(Job):
    """Its publishes do not wait for the disk, but what they have answered is there all the same."""

    durability: Durability = "os"


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
    healthy = type(job)(disk)
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


@pytest.mark.parametrize("make", [Job, UnsyncedJob])
def test_undisturbed_every_row_is_there_once(make: type[Job]) -> None:
    disk = CrashDisk()
    job = make(disk)
    job.run()

    assert job.answered == set(VERSIONS)
    disk.kill()
    check(disk, job)


# The thread that syncs a log of durability "os" ends with the process, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("make", [Job, UnsyncedJob])
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@either_end
def test_a_fault_at_any_file_operation_leaves_every_row_once(
    fault: Fault, power: bool, make: type[Job]
) -> None:
    try_each_operation(make, check, fault, power=power, stride=STRIDE)
