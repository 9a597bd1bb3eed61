"""Every file operation around a transaction goes wrong once, in every way, and it is whole or not at all.

The workload is a producer that reads, writes to two partitions and to a second topic (which is only
flushed every second: with a transaction that makes no difference), and commits the group's place with
it; every second transaction it aborts.  What fails is tried again as Kafka's clients do: by a new
producer of the same name, which fences the one before.  Segments are so small that they are full, and
the broker is opened anew in between.  It runs once for each of its file operations and each fault.
Afterwards, on healthy files:

    what was answered as committed is there, once for each answer, in every partition
    a transaction is in all of its partitions, or in none; and so is the place of the group
    nothing that was aborted is there
    the log goes on: nothing is left open

The producer of version 2 goes on from one transaction to the next with the epoch that the end has told it.
One that was killed before it was told asks for the same end again, and gets it: the transaction is whole,
and the epoch is the next one, whatever was done of it before.
"""

import pytest
from tests.crash import faults
from tests.crash.faults import CRASHES, ERRORS, either_end, try_each_operation
from tests.transactional import Producer, committed, run

from penstock.broker.journal import ledger
from penstock.broker.state import Partition
from penstock.errors import PenstockError, ProducerFenced
from penstock.log.files import Files
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk, Fault

ROUNDS = range(1, 5)
PLACES = [("orders", 0), ("orders", 1), ("audit", 0)]
STRIDE = 6


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SEGMENT_BYTES", 1024)


class Job(faults.Job):
    """Transactions one after the other; each has a number, and is tried twice."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.answered: set[bytes] = set()  # Committed, and told so.
        self.aborted: set[bytes] = set()  # Aborted, or never ended.

    def run(self) -> None:
        for number in ROUNDS:
            for attempt in range(2):
                name = b"%d.%d" % (number, attempt)
                try:
                    self.attempt(number, name)
                    break
                except PenstockError as error:
                    self.failures.append(error)
                    self.end()
            if number % 3 == 0:
                self.end()

    def attempt(self, number: int, name: bytes) -> None:
        broker = self.broker = self.broker or self.open()
        self.create("orders", 2, "fsync")
        self.create("audit", 2, "os")
        producer = Producer(broker)
        self.transact(producer, number, name)

    def transact(self, producer: Producer, number: int, name: bytes) -> None:
        for topic, partition in PLACES:
            producer.write(topic, name, name + bytes(600), partition=partition)
        producer.commit_place("orders", "g", number)
        if number % 2 == 0:
            self.aborted.add(name)
            producer.abort()
        else:
            producer.commit()
            self.answered.add(name)


class Version2(Job):
    """The same with the epochs of version 2; a producer lives as long as nothing fails."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.producer: Producer | None = None
        self.asked: tuple[int, int, bool, bytes] | None = None  # The end that was not answered.

    def attempt(self, number: int, name: bytes) -> None:
        broker = self.broker = self.broker or self.open()
        self.create("orders", 2, "fsync")
        self.create("audit", 2, "os")
        producer, self.producer = self.producer, None
        if producer is None:
            producer = Producer(broker, version=2)
            self.asked = None
        producer.broker = broker
        self.transact(producer, number, name)
        self.producer = producer

    def transact(self, producer: Producer, number: int, name: bytes) -> None:
        for topic, partition in PLACES:
            producer.write(topic, name, name + bytes(600), partition=partition)
        producer.commit_place("orders", "g", number)
        commit = number % 2 == 1
        if not commit:
            self.aborted.add(name)
        self.asked = (producer.id, producer.epoch, commit, name)
        producer.end(commit)
        self.asked = None
        if commit:
            self.answered.add(name)


def check(disk: CrashDisk, job: Job) -> None:
    healthy = Job(disk)
    healthy.clock = job.clock
    broker = healthy.broker = healthy.open()
    if {"orders", "audit"} <= set(broker.topics()):
        broker.advance("120s")  # What its producer left open is aborted.
        found = [committed(broker, topic, partition) for topic, partition in PLACES]
        assert found[0] == found[1] == found[2], "a transaction is in all of its partitions, or in none"
        names = [value for value in found[0] if value is not None and len(value) < 600]
        assert found[0] == [value for name in names for value in (name, name + bytes(600))]
        assert names == sorted(set(names)), "once, and in order"
        assert job.answered <= set(names)
        assert not job.aborted & set(names)
        places = broker._core.commits.read("orders", "g")
        last = int(names[-1].split(b".")[0]) if names else None
        assert [commit.offset for commit in places.values()] == ([] if last is None else [last])
        assert all(partition.log.unstable > partition.log.end for partition in partitions(broker))
    healthy.end()
    healthy.run()
    healthy.end()
    assert healthy.failures == []
    broker = healthy.open()
    assert {b"1.0", b"3.0"} <= set(committed(broker, "audit"))
    broker.close()


def check_version_2(disk: CrashDisk, job: Version2) -> None:
    if job.asked is not None:
        producer_id, epoch, commit, name = job.asked
        healthy = Job(disk)
        healthy.clock = job.clock
        broker = healthy.open()
        for _ in range(2):
            told = run(broker, "end_epoch", "p", producer_id, epoch, commit)
            assert told == (producer_id, epoch + 1)
            for topic, partition in PLACES:
                assert (name in committed(broker, topic, partition)) == commit
        stale = Producer.__new__(Producer)
        stale.broker, stale.name, stale.version, stale.id, stale.epoch = broker, "p", 2, producer_id, epoch
        stale.sequences = {}
        with pytest.raises(ProducerFenced):
            stale.write("orders", b"late")
        broker.close()
        if commit:
            job.answered.add(name)
    check(disk, job)


def partitions(broker: TestBroker) -> list[Partition]:
    return [partition for topic in broker._core.state.topics.values() for partition in topic.partitions]


@pytest.mark.parametrize("make", [Job, Version2])
def test_undisturbed_every_committed_transaction_is_there_once(make: type[Job]) -> None:
    disk = CrashDisk()
    job = make(disk)
    job.run()

    assert job.answered == {b"1.0", b"3.0"}
    disk.kill()
    check(disk, job)


# The thread that syncs a log of durability "os" ends with the process, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@either_end
def test_a_fault_at_any_file_operation_leaves_every_transaction_whole(fault: Fault, power: bool) -> None:
    try_each_operation(Job, check, fault, power=power, stride=STRIDE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@either_end
def test_a_fault_at_any_file_operation_leaves_every_end_of_an_epoch_whole(fault: Fault, power: bool) -> None:
    try_each_operation(Version2, check_version_2, fault, power=power, stride=STRIDE)
