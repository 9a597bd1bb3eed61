"""Every file operation of a broker goes wrong once, in every way, and no promise is broken.

One fixed workload does everything a broker can do: topics, publishing of every
kind, leases and all their answers, dead letters, redrive, an atomic ack, seek,
stream commits, schedules, retention, compaction, snapshots, closing, reopening.
It runs once for each of its file operations and each fault.  Then the directory
is opened on healthy files, and what is there is compared with what was answered.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from tests.crash.faults import CONFIG, CRASHES, ERRORS, either_end, try_each_operation

from penstock.broker.topic.topics import partition_logs
from penstock.config.broker import TopicOptions
from penstock.errors import PenstockError
from penstock.log.files import Files
from penstock.model.message import Message, Receipt, ReceivedMessage, StoredMessage
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk, Fault

ATTEMPTS = 2
STRIDE = 12

Place = tuple[str, int, int]


def place_of(message: StoredMessage) -> Place:
    return (message.topic, message.partition, message.offset)


@dataclass
class Ledger:
    """What the workload asked for, and what it was answered."""

    asked: set[bytes] = field(default_factory=set)  # Values it tried to publish.
    published: dict[Place, bytes] = field(default_factory=dict)  # Answered.
    scheduled: set[bytes] = field(default_factory=set)  # Answered.
    cancelled: set[bytes] = field(default_factory=set)  # Asked; what is not in ``cancel_answered`` may be.
    cancel_answered: set[bytes] = field(default_factory=set)
    settling: set[Place] = field(default_factory=set)  # Acks that were asked for ...
    acked: set[Place] = field(default_factory=set)  # ... and answered.
    linked: dict[Place, bytes] = field(default_factory=dict)  # Acked input -> output published with it.
    rejected: set[bytes] = field(default_factory=set)  # Answered.
    redriven: int = 0  # Answered.
    committing: int = 0  # Stream commit asked for, on partition 0 ...
    committed: int = 0  # ... and answered.
    sought: int = -1  # Seek answered.
    seeking: bool = False
    topics: set[str] = field(default_factory=set)


class Workload:
    """The fixed workload over files that may fail."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.clock = ManualClock()
        self.ledger = Ledger()
        self.failures: list[PenstockError] = []
        self.broker: TestBroker | None = None
        self.held: list[ReceivedMessage] = []

    def run(self) -> None:
        for step in (
            self.open, self.create, self.publish, self.delay, self.deduplicate, self.consume, self.answer,
            self.die, self.chain, self.redrive, self.stream, self.seek, self.advance, self.change_schedule,
            self.compact, self.close, self.open, self.publish_more, self.consume_more, self.upkeep,
            self.close,
        ):  # fmt: skip
            if self.broker is not None or step == self.open:
                step()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A failure is an answer too, and the next step is tried all the same."""
        try:
            yield
        except PenstockError as error:
            self.failures.append(error)

    def open(self) -> None:
        for _ in range(2):  # A second try, as an operator would.
            if self.broker is None:
                with self.attempt():
                    self.broker = TestBroker.open("data", config=CONFIG, files=self.files, clock=self.clock)

    def live(self) -> TestBroker:
        assert self.broker is not None
        return self.broker

    def create(self) -> None:
        broker = self.live()
        topics: dict[str, TopicOptions] = {
            "orders": {"partitions": 2, "retention": None},
            "out": {"retention": None},
            "state": {"compact": True, "segment_bytes": 4096, "retention": None},
            "short": {"segment_bytes": 4096, "retention": "1m"},
        }
        for name, options in topics.items():
            for _ in range(2):
                if name not in self.ledger.topics:
                    with self.attempt():
                        broker.create_topic(name, **options)
                        self.ledger.topics.add(name)

    def _publish(self, value: bytes, **options: object) -> Receipt | None:
        self.ledger.asked.add(value)
        with self.attempt():
            receipt = self.live().publish("orders", value, **options)  # type: ignore[arg-type]
            if receipt.schedule_id is not None:
                self.ledger.scheduled.add(value)
            elif not receipt.duplicate:
                assert receipt.offset is not None
                self.ledger.published["orders", receipt.partition, receipt.offset] = value
            return receipt
        return None

    def publish(self) -> None:
        for number in range(4):
            self._publish(b"plain-%d" % number, partition=number % 2, key=f"k{number}")
        batch = [b"batch-%d" % number for number in range(3)]
        self.ledger.asked |= set(batch)
        with self.attempt():
            messages = [Message(value, partition=0) for value in batch]
            for value, receipt in zip(batch, self.live().publish_batch("orders", messages), strict=True):
                assert receipt.offset is not None
                self.ledger.published["orders", 0, receipt.offset] = value
        self._publish(b"high", priority="high", partition=0)
        self._publish(b"lived", ttl="1s", partition=1)

    def delay(self) -> None:
        self._publish(b"delayed-0", delay="10s", partition=0)
        self._publish(b"delayed-1", delay="1h", partition=0)
        self._publish(b"delayed-2", delay="1h", partition=1)

    def deduplicate(self) -> None:
        first = self._publish(b"once", dedup_id="once", partition=1)
        second = self._publish(b"twice", dedup_id="once", partition=1)
        if first is not None and second is not None:
            assert second.duplicate
            assert second.offset == first.offset

    def consume(self) -> None:
        with self.attempt():
            consumer = self.live().consumer(
                "orders", group="work", max_attempts=ATTEMPTS, visibility_timeout="30s", backoff=["1s"]
            )
            self.held = consumer.receive(20)

    def _ack(self, message: ReceivedMessage, ask: Callable[[], None]) -> None:
        self.ledger.settling.add(place_of(message))
        with self.attempt():
            ask()
            self.ledger.acked.add(place_of(message))

    def answer(self) -> None:
        if len(self.held) < 6:
            return
        for message in self.held[:2]:
            self._ack(message, message.ack)
        with self.attempt():
            self.held[2].nack(error=ValueError("no"))
        with self.attempt():
            self.held[3].reject("bad")
            self.ledger.rejected.add(self.held[3].value)
        with self.attempt():
            self.held[4].extend("1h")

    def die(self) -> None:
        """The last attempt of one message fails, and it becomes a dead letter."""
        with self.attempt():
            self.live().advance("2s")
            consumer = self.live().consumer("orders", group="work")
            for message in consumer.receive(1):
                message.nack(delay=0, error=ValueError("again"))

    def chain(self) -> None:
        """An ack with an output: both or neither."""
        if len(self.held) < 6:
            return
        message, output = self.held[5], b"output"
        self.ledger.linked[place_of(message)] = output
        consumer = message.delivery.settler
        self._ack(message, lambda: consumer.ack([message], publish=[("out", Message(output))]))  # type: ignore[call-arg]

    def redrive(self) -> None:
        with self.attempt():
            self.ledger.redriven = self.live().redrive("orders", limit=1).redriven

    def stream(self) -> None:
        with self.attempt():
            consumer = self.live().consumer("orders", group="flow", kind="stream")
            received = [message for message in consumer.receive(100) if message.partition == 0]
            self.ledger.committing = max((message.offset + 1 for message in received), default=0)
            consumer.commit()
            self.ledger.committed = self.ledger.committing

    def seek(self) -> None:
        with self.attempt():
            self.live().create_group("orders", "mover")
            self.ledger.seeking = True
            self.live().seek("orders", "mover", 2, partition=0)
            # A log that failed before it had so many messages takes the group only to its end.
            self.ledger.sought = self.live().describe_group("orders", "mover").partitions[0].floor

    def advance(self) -> None:
        with self.attempt():
            self.live().advance("15s")

    def change_schedule(self) -> None:
        waiting = []
        with self.attempt():
            waiting = self.live().scheduled("orders")
        for entry in waiting:
            with self.attempt():
                if entry.value == b"delayed-1":
                    self.live().reschedule(entry.id, delay="5s")
                if entry.value == b"delayed-2":
                    self.ledger.cancelled.add(b"delayed-2")
                    if self.live().cancel(entry.id) == "cancelled":
                        self.ledger.cancel_answered.add(b"delayed-2")

    def compact(self) -> None:
        for number in range(12):
            for topic in ("state", "short"):
                with self.attempt():
                    self.live().publish(topic, b"%d " % number * 300, key=f"key-{number % 3}")
        self.upkeep()

    def upkeep(self) -> None:
        with self.attempt():
            self.live().advance("65s")

    def publish_more(self) -> None:
        for number in range(2):
            self._publish(b"more-%d" % number, partition=number)

    def consume_more(self) -> None:
        with self.attempt():
            for message in self.live().consumer("orders", group="work").receive(2):
                self._ack(message, message.ack)

    def close(self) -> None:
        with self.attempt():
            self.live().close()
        self.broker = None


def check(disk: CrashDisk, work: Workload) -> None:
    """Open the directory on healthy files and compare it with what was answered."""
    ledger = work.ledger
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=work.clock)
    assert set(broker.topics()) >= ledger.topics
    for name in broker.topics():
        check_logs(broker, name)
    if "orders" in broker.topics():
        stored = {place_of(message): message for message in everything(broker)}
        for place, value in ledger.published.items():
            assert stored[place].value == value
        check_stream_and_seek(broker, ledger)
        broker.advance("2h")
        check_schedule(broker, ledger)
        check_dead_letters(broker, ledger)
        check_group(broker, ledger)
    go_on(broker, disk, work)


def everything(broker: TestBroker, topic: str = "orders") -> list[StoredMessage]:
    return broker.read(topic, limit=10_000) if topic in broker.topics() else []


def check_logs(broker: TestBroker, name: str) -> None:
    for partition in broker._core.state.topics[name].partitions:
        for log in partition_logs(partition):
            assert log.recovery.damage == []
            assert log.failed is None


def check_stream_and_seek(broker: TestBroker, ledger: Ledger) -> None:
    groups = broker.groups("orders")
    if ledger.committed or "flow" in groups:
        floor = broker.describe_group("orders", "flow").partitions[0].floor
        assert floor in (0, ledger.committing)
        assert floor >= ledger.committed
    if ledger.sought >= 0:
        assert broker.describe_group("orders", "mover").partitions[0].floor == ledger.sought


def check_schedule(broker: TestBroker, ledger: Ledger) -> None:
    counts = Counter(
        message.value for message in everything(broker) if "x-redriven-from" not in message.headers
    )
    assert {value for value, count in counts.items() if count > 1} == set()
    assert set(counts) <= ledger.asked
    assert ledger.scheduled - ledger.cancelled <= set(counts)
    assert not ledger.cancel_answered & set(counts)
    assert broker.scheduled("orders") == []


def check_dead_letters(broker: TestBroker, ledger: Ledger) -> None:
    letters = Counter(
        (
            message.headers["x-group"],
            message.headers["x-source-offset"],
            message.headers["x-source-partition"],
        )
        for message in everything(broker, "orders.dlq")
    )
    assert {place for place, count in letters.items() if count > 1} == set()
    assert ledger.rejected <= {message.value for message in everything(broker, "orders.dlq")}
    listed = len(broker.dead_letters("orders"))
    redriven = [message for message in everything(broker) if "x-redriven-from" in message.headers]
    assert len(redriven) == letters.total() - listed
    assert len(redriven) >= ledger.redriven


def check_group(broker: TestBroker, ledger: Ledger) -> None:
    """Everything in the log is acked, or dead, or delivered now; and nothing acked is delivered."""
    if "work" not in broker.groups("orders"):
        assert not ledger.acked
        return
    dead = {
        ("orders", int(message.headers["x-source-partition"]), int(message.headers["x-source-offset"]))
        for message in everything(broker, "orders.dlq")
    }
    delivered: Counter[Place] = Counter()
    consumer = broker.consumer("orders", group="work")
    while messages := consumer.receive(100):
        delivered.update(place_of(message) for message in messages)
        consumer.ack(messages)
    assert {place for place, count in delivered.items() if count > 1} == set()
    for message in everything(broker):
        place = place_of(message)
        ways = (place in delivered) + (place in dead) + (place in ledger.acked)
        possible = place in ledger.settling or message.value == b"lived"
        assert ways == 1 or (ways == 0 and possible), message
    outputs = Counter(message.value for message in everything(broker, "out"))
    for place, output in ledger.linked.items():
        assert outputs[output] == (0 if place in delivered or place in dead else 1)
    assert broker.describe_group("orders", "work").lag == 0


def go_on(broker: TestBroker, disk: CrashDisk, work: Workload) -> None:
    """The broker works as if nothing had been."""
    if "orders" not in broker.topics():
        broker.create_topic("orders")
    broker.publish("orders", b"after", partition=0)
    consumer = broker.consumer("orders", group="fresh", start="latest")
    broker.publish("orders", b"last", partition=0)
    [message] = consumer.receive(10)
    assert message.value == b"last"
    message.ack()
    broker.close()
    disk.kill()
    reopened = TestBroker.open("data", config=CONFIG, files=disk, clock=work.clock)
    assert reopened.describe_group("orders", "fresh").lag == 0
    reopened.close()


def test_the_workload_does_what_it_should() -> None:
    """Undisturbed, everything is answered; so the faults below hit what they are meant to hit."""
    disk = CrashDisk()
    work = Workload(disk)
    work.run()

    ledger = work.ledger
    assert work.failures == []
    assert len(ledger.published) == 12
    assert len(ledger.scheduled) == 3
    assert len(ledger.acked) == 5
    assert (len(ledger.rejected), ledger.redriven, ledger.sought) == (1, 1, 2)
    assert ledger.committed > 0
    disk.kill()
    check(disk, work)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ERRORS, *CRASHES])
@either_end
def test_a_fault_at_any_file_operation_breaks_no_promise(fault: Fault, power: bool) -> None:
    try_each_operation(Workload, check, fault, power=power, stride=STRIDE)
