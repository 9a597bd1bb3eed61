"""Every file operation around a transaction of our own client goes wrong once, in every way.

The workload takes messages from a queue group, publishes each to two topics (three partitions; one topic is
only flushed every second) and acks it, in one transaction; every third transaction is aborted.  What fails is
tried again.  The broker is opened anew in between.  Afterwards, on healthy files:

    a transaction is in all of its partitions, or in none
    an input is acked exactly if one transaction of it was committed, and no other was
    what was answered as committed is there, what was aborted is not
"""

import pytest
from tests.crash import faults
from tests.crash.faults import CRASHES, ERRORS, either_end, try_each_operation
from tests.transactional import committed

from penstock import Message
from penstock.broker.journal import ledger
from penstock.errors import PenstockError
from penstock.log.files import Files
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk, Fault

INPUTS = [b"%d" % number for number in range(5)]
PLACES = [("bills", 0), ("bills", 1), ("audit", 0)]
ATTEMPTS = 3
STRIDE = 8


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SEGMENT_BYTES", 1024)


class Job(faults.Job):
    """Work on one input after the other; each transaction has a name of its own."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.answered: set[bytes] = set()  # Committed, and told so.
        self.aborted: set[bytes] = set()
        self.number = 0

    def run(self) -> None:
        for _ in range(ATTEMPTS):
            try:
                self.work()
                break
            except PenstockError as error:
                self.failures.append(error)
                self.end()
        self.end()

    def work(self) -> None:
        broker = self.broker = self.broker or self.open()
        self.create("in", 1, "fsync")
        self.create("bills", 2, "fsync")
        self.create("audit", 1, "os")
        broker.publish_batch("in", [Message(each, dedup_id=each.decode()) for each in INPUTS])
        with broker.consumer("in", group="g", max_attempts=100) as consumer:
            for message in consumer.receive(len(INPUTS)):
                self.number += 1
                name = b"%s.%d" % (message.value, self.number)
                with broker.transaction("worker") as transaction:
                    for topic, partition in PLACES:
                        transaction.publish(topic, name, partition=partition)
                        transaction.publish(topic, name + bytes(600), partition=partition)
                    transaction.ack(message)
                    if self.number % 3 == 0:
                        self.aborted.add(name)
                        transaction.abort()
                    else:
                        transaction.commit()
                        self.answered.add(name)


def check(disk: CrashDisk, job: Job) -> None:
    healthy = Job(disk)
    healthy.clock = job.clock
    broker = healthy.broker = healthy.open()
    if "audit" in broker.topics():
        broker.advance("120s")  # What was left open is aborted, and what was leased is due.
        found = [committed(broker, topic, partition) for topic, partition in PLACES]
        assert found[0] == found[1] == found[2], "a transaction is in all of its partitions, or in none"
        names = [value for value in found[0] if value is not None and len(value) < 600]
        assert found[0] == [value for name in names for value in (name, name + bytes(600))]
        done = [name.split(b".")[0] for name in names]
        assert len(set(done)) == len(done), "an input is worked on once"
        assert job.answered <= set(names)
        assert not job.aborted & set(names)
        assert sorted([*done, *left(broker)]) == sorted(message.value for message in broker.read("in"))
    healthy.end()
    healthy.run()
    assert healthy.failures == []


def left(broker: TestBroker) -> list[bytes]:
    """The inputs that are not acked."""
    with broker.consumer("in", group="g", max_attempts=100) as consumer:
        return [message.value for message in consumer.receive(len(INPUTS), wait="1h")]


def test_undisturbed_every_transaction_is_there_once() -> None:
    disk = CrashDisk()
    job = Job(disk)
    job.run()

    assert len(job.answered) == 4
    assert len(job.aborted) == 1
    disk.kill()
    check(disk, job)


# The thread that syncs a log of durability "os" ends with the process, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@either_end
def test_a_fault_at_any_file_operation_leaves_messages_and_acks_together(fault: Fault, power: bool) -> None:
    try_each_operation(Job, check, fault, power=power, stride=STRIDE)
