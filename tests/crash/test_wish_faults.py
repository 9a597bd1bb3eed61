"""Every file operation around batches whose headers wish something goes wrong once, and it is there once.

The workload is an idempotent producer of Kafka's on a topic that looks at headers.  Its batches go to
the log, to several lanes of it, to the schedule, or to all of these: in parts.  What is not answered is sent
again with the same numbers, as Kafka's clients do, to a broker that was opened anew.  It runs once for each
of its file operations and each fault.  Afterwards, on healthy files, the producer goes on where it was:

    every message of every batch is there, once, however often it was sent
    the producer's numbers are known: neither is a batch refused, nor one that was answered written again
"""

from contextlib import suppress

import pytest
from tests.crash import faults
from tests.crash.faults import CRASHES, ERRORS, either_end, try_each_operation
from tests.transactional import run

from penstock.errors import PenstockError, TopicExists
from penstock.log.files import Files
from penstock.model.message import Receipt
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk, Fault
from penstock.wire.records import BatchBuilder

STRIDE = 24
PRODUCER = 7
PLAIN: list[tuple[str, bytes | None]] = []
SHORT: list[tuple[str, bytes | None]] = [("x-ttl-ms", b"86400000")]
HIGH: list[tuple[str, bytes | None]] = [("x-priority", b"high")]
LONG = ("long", bytes(900))  # So that segments are full.
SOON: list[tuple[str, bytes | None]] = [("x-delay-ms", b"1000")]
# What the records of each batch wish.
BATCHES = [
    [PLAIN, PLAIN],
    [SHORT, SHORT],
    [SOON, SOON],
    [HIGH, PLAIN],
    [PLAIN],
    [SOON, PLAIN, HIGH, SOON],
    [SOON],
]
SEQUENCES = [sum(map(len, BATCHES[:number])) for number in range(len(BATCHES))]
VALUES = sorted(b"%d" % number for number in range(sum(map(len, BATCHES))))


def encoded(number: int) -> bytes:
    builder = BatchBuilder()
    for index, wishes in enumerate(BATCHES[number]):
        builder.add(None, b"%d" % (SEQUENCES[number] + index), [*wishes, LONG])
    return bytes(builder.build(0, 0, 0, PRODUCER, 0, SEQUENCES[number]))


class Job(faults.Job):
    """Batches one after the other, each until it is answered."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.answered = 0

    def run(self) -> None:
        for number in range(self.answered, len(BATCHES)):
            for _ in range(3):
                try:
                    self.send(number)
                    self.answered = number + 1
                    break
                except PenstockError as error:
                    self.failures.append(error)
                    self.end()
            if number % 3 == 2:
                self.end()

    def send(self, number: int) -> Receipt:
        broker = self.broker = self.broker or self.open()
        with suppress(TopicExists):
            broker.create_topic("orders", partitions=1, kafka_headers=True, segment_bytes=4096)
        [answer] = run(broker, "append_records", "orders", [(0, encoded(number))], True)
        if isinstance(answer, PenstockError):
            raise answer
        assert isinstance(answer, Receipt)
        return answer


def check(disk: CrashDisk, job: Job) -> None:
    healthy = Job(disk)
    healthy.clock = job.clock
    healthy.answered = job.answered
    if job.answered:
        assert healthy.send(job.answered - 1).duplicate, "it is known, whatever became of the broker"
    healthy.run()
    healthy.end()
    assert healthy.failures == []
    broker = healthy.open()
    assert run(broker, "append_records", "orders", [(0, encoded(len(BATCHES) - 1))], True)[0].duplicate
    broker.advance("10s")
    assert sorted(values(broker)) == VALUES
    broker.close()


def values(broker: TestBroker) -> list[bytes]:
    return [message.value or b"" for message in broker.read("orders", limit=1000)]


def test_undisturbed_every_message_is_there_once() -> None:
    disk = CrashDisk()
    job = Job(disk)
    job.run()

    assert job.answered == len(BATCHES)
    disk.kill()
    check(disk, job)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@either_end
def test_a_fault_at_any_file_operation_leaves_every_message_there_once(fault: Fault, power: bool) -> None:
    try_each_operation(Job, check, fault, power=power, stride=STRIDE)
