"""A broker process that is killed, again and again; run by test_broker_kill.py.

    python broker_worker.py <directory> <rounds> <seed>

This process only forks, listens and kills.  Each child opens the directory,
compares it with everything that was answered so far, and then publishes and
consumes in several threads, telling through a pipe what it was answered, until
it is killed at a random moment: while opening, while comparing, at work.  The
last child is left alone: it works everything off and compares once more.

What is told is told after the answer, so a line may be missing for something
that was answered, and never the other way round.
"""

import os
import select
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import penstock
import penstock.broker.embedded  # Once, here: a child that had to import it would not live to open it.
from penstock.model.message import Message, ReceivedMessage, StoredMessage

TOPIC = "work"
PARTITIONS = 2
ROUND_SECONDS = 0.3  # A child lives at most about this long, opening included.
FULL_ROUNDS = 20  # How often the whole log is compared, and not just its end.

Place = tuple[int, int]


@dataclass
class Ledger:
    """What children have told: what they were answered."""

    published: dict[Place, bytes] = field(default_factory=dict)
    delayed: set[bytes] = field(default_factory=set)
    acked: set[Place] = field(default_factory=set)
    rejected: set[Place] = field(default_factory=set)
    recent: dict[Place, bytes] = field(default_factory=dict)  # Published since the last comparison.
    opened: int = 0

    def take(self, line: bytes) -> None:
        """Enter one line."""
        kind, *facts = line.split()
        match kind:
            case b"published":
                place = (int(facts[0]), int(facts[1]))
                self.published[place] = self.recent[place] = facts[2]
            case b"delayed":
                self.delayed.add(facts[0])
            case b"acked":
                self.acked.add((int(facts[0]), int(facts[1])))
            case b"rejected":
                self.rejected.add((int(facts[0]), int(facts[1])))
            case b"opened":
                self.opened += 1
                self.recent.clear()  # Compared; from here on now and then, with everything.
            case _:
                raise SystemExit(f"a child found: {line.decode()}")


class Child:
    """One life of the broker."""

    def __init__(self, directory: str, pipe: int, ledger: Ledger, number: int) -> None:
        self._pipe = pipe
        self._ledger = ledger
        self._number = number
        self._broker = penstock.open(directory)

    def tell(self, text: bytes) -> None:
        os.write(self._pipe, text + b"\n")

    def prepare(self) -> None:
        """Topics and group, if this is the first life that came so far."""
        broker = self._broker
        for name, partitions in ((TOPIC, PARTITIONS), ("out", 1)):
            if name not in broker.topics():
                broker.create_topic(name, partitions=partitions, segment_bytes=50_000)
        broker.create_group(TOPIC, "workers", max_attempts=1000, backoff=["10ms"])

    def compare(self, *, full: bool) -> None:
        """Everything answered is there."""
        expected = self._ledger.published if full else self._ledger.recent
        for partition in range(PARTITIONS):
            offsets = [offset for number, offset in expected if number == partition]
            if not offsets:
                continue
            found = {message.offset: message.value for message in self.stored(TOPIC, partition, min(offsets))}
            lost = [offset for offset in offsets if found.get(offset) != expected[partition, offset]]
            assert not lost, f"lost in partition {partition}: {lost[:10]}"
        self.tell(b"opened")

    def stored(self, topic: str, partition: int, offset: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while page := self._broker.read(topic, partition=partition, offset=offset, limit=10_000):
            found += page
            offset = page[-1].offset + 1
        return found

    def work(self) -> None:
        """Publish and consume until killed."""
        jobs = (self.publish_singly, self.publish_batches, self.publish_later, self.consume)
        for job in jobs:
            threading.Thread(target=self.guard, args=(job,), daemon=True).start()
        while True:
            signal.pause()

    def guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
            self.tell(traceback.format_exc().replace("\n", " | ").encode())

    def publish_singly(self) -> None:
        for number in range(1_000_000):
            kind = (b"p", b"p", b"c", b"x")[number % 4]
            value = b"%s-%d-%d" % (kind, self._number, number)
            receipt = self._broker.publish(TOPIC, value, priority="high" if number % 7 == 0 else 0)
            self.tell(b"published %d %d %s" % (receipt.partition, receipt.offset or 0, value))

    def publish_batches(self) -> None:
        for number in range(1_000_000):
            values = [b"b-%d-%d-%d" % (self._number, number, index) for index in range(number % 20 + 1)]
            receipts = self._broker.publish_batch(TOPIC, values)
            for receipt, value in zip(receipts, values, strict=True):
                self.tell(b"published %d %d %s" % (receipt.partition, receipt.offset or 0, value))

    def publish_later(self) -> None:
        for number in range(1_000_000):
            value = b"d-%d-%d" % (self._number, number)
            self._broker.publish(TOPIC, value, delay=number % 10 / 100)
            self.tell(b"delayed " + value)

    def consume(self) -> None:
        with self._broker.consumer(TOPIC, group="workers") as consumer:
            while True:
                self.settle(consumer, consumer.receive(10, wait="10ms"))

    def settle(self, consumer: penstock.Consumer, messages: list[ReceivedMessage]) -> None:
        plain: list[ReceivedMessage] = []
        for message in messages:
            place = (message.partition, message.offset)
            assert place not in self._ledger.acked, f"delivered after its ack: {place}"
            assert place not in self._ledger.rejected, f"delivered after its reject: {place}"
            if message.value[:1] == b"c":
                consumer.ack(message, publish=[("out", Message(message.value))])
                self.tell(b"acked %d %d" % place)
            elif message.value[:1] == b"x":
                message.reject("poison")
                self.tell(b"rejected %d %d" % place)
            else:
                plain.append(message)
        consumer.ack(plain)
        for message in plain:
            self.tell(b"acked %d %d" % (message.partition, message.offset))

    def finish(self) -> None:
        """Work everything off, and compare all of it."""
        self.compare(full=True)
        settled: set[Place] = set()
        with self._broker.consumer(TOPIC, group="workers") as consumer:
            while self._broker.scheduled_count(TOPIC):
                time.sleep(0.01)
            # A delayed message that has just moved into the log counts for the depth after the next sync.
            for number in range(PARTITIONS):
                self._broker.publish(TOPIC, b"a-barrier-%d" % number, partition=number)
            while self._broker.depth(TOPIC, "workers"):
                messages = consumer.receive(1000, wait="50ms")
                places = {(message.partition, message.offset) for message in messages}
                assert not places & settled, "delivered twice"
                settled |= places
                self.settle(consumer, messages)
        stored = [message for number in range(PARTITIONS) for message in self.stored(TOPIC, number, 0)]
        values = Counter(message.value for message in stored)
        assert [value for value, count in values.items() if count > 1] == []
        assert self._ledger.delayed <= set(values)
        outputs = Counter(message.value for message in self.stored("out", 0, 0))
        assert outputs == Counter(value for value in values if value[:1] == b"c")
        poisonous = {m.id for m in stored if m.value[:1] == b"x"}
        letters = Counter(letter.source for letter in self._broker.dead_letters(TOPIC, 1_000_000))
        assert letters == Counter(poisonous)
        self._broker.close()


def live(directory: str, pipe: int, ledger: Ledger, number: int, *, last: bool) -> None:
    """A child's life."""
    try:
        child = Child(directory, pipe, ledger, number)
        child.prepare()
        if last:
            child.finish()
        else:
            child.compare(full=number % FULL_ROUNDS == 0)
            child.work()
    except BaseException:  # noqa: BLE001 - the same
        os.write(pipe, traceback.format_exc().replace("\n", " | ").encode() + b"\n")
        os._exit(1)
    os._exit(0)


def listen(pipe: int, pid: int, ledger: Ledger, seconds: float) -> None:
    """Hear a child out, and kill it when its time is up."""
    deadline = time.monotonic() + seconds
    killed = False
    rest = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 and not killed:
            os.kill(pid, signal.SIGKILL)
            killed = True
        ready, _, _ = select.select([pipe], [], [], None if killed else max(left, 0))
        if ready:
            data = os.read(pipe, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                ledger.take(line)


def main(directory: str, rounds: int, seed: int) -> None:
    """Fork and kill."""
    random = Random(seed)
    ledger = Ledger()
    for number in range(rounds + 1):
        last = number == rounds
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            live(directory, writing, ledger, number, last=last)
        os.close(writing)
        try:
            listen(reading, pid, ledger, 60 if last else random.random() * ROUND_SECONDS)
        finally:
            os.kill(pid, signal.SIGKILL)  # It is not reaped yet, so the number is still its own.
            _, status = os.waitpid(pid, 0)
            os.close(reading)
        if last and status:
            raise SystemExit(f"the last child ended with {status}")
    counts = (
        ledger.opened,
        len(ledger.published),
        len(ledger.delayed),
        len(ledger.acked),
        len(ledger.rejected),
    )
    sys.stdout.write(" ".join(map(str, counts)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
