"""Programs that use one operation again and again while nodes are killed, and check what it has promised.

Each has topics of its own, and asks node 1, which is not killed; its partitions belong to all nodes.
"""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

from tests.staged import batch

import penstock
from penstock.api.handles import Consumer
from penstock.errors import OutcomeUnknown, PenstockError, QueueFull
from penstock.model.message import Message, ReceivedMessage
from penstock.wire.records import check_batch, decode_batch
from penstock.wire.staged import encode_staged

PARTITIONS = 3
SETTLE_S = 60.0  # Longer than any fault.
GROUP = "workers"


class Work:
    """One operation; ``step`` uses it once, and ``check`` compares what is left at the end."""

    topics: tuple[str, ...] = ()  # Besides the one that has the name of the class.

    def __init__(self) -> None:
        self.name = type(self).__name__.lower()
        self.steps = 0  # That had an effect.
        self.violations: list[str] = []
        self._chance = random.Random(self.name)

    def prepare(self, broker: penstock.Broker) -> None:
        for topic in (self.name, *self.topics):
            broker.create_topic(topic, partitions=PARTITIONS)

    def begin(self, broker: penstock.Broker) -> None:
        """On the connection that steps use."""

    def step(self, broker: penstock.Broker) -> None:
        raise NotImplementedError

    def check(self, broker: penstock.Broker) -> None:
        raise NotImplementedError

    def run(self, broker: penstock.Broker, stop: threading.Event) -> None:
        self.begin(broker)
        while not stop.is_set():
            self.step(broker)

    # Helpers.

    @property
    def partition(self) -> int:
        return self.steps % PARTITIONS

    def publish_surely(self, broker: penstock.Broker, topic: str, value: str) -> None:
        """Once, whatever happens."""
        until_done(lambda: broker.publish(topic, value.encode(), dedup_id=value))


def until_done(call: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        try:
            call()
        except PenstockError:
            if time.monotonic() > deadline_s:
                raise
        else:
            return


def values(broker: penstock.Broker, topic: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for partition in range(PARTITIONS):
        offset = 0
        while messages := broker.read(topic, partition=partition, offset=offset, limit=1000):
            found.update(message.value.decode() for message in messages)
            offset = messages[-1].offset + 1
    return found


class Publish(Work):
    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def step(self, broker: penstock.Broker) -> None:
        self.attempt(broker, f"{len(self.outcomes)}", partition=self.partition)

    def attempt(self, broker: penstock.Broker, value: str, **options: int) -> None:
        try:
            broker.publish(self.name, value.encode(), partition=options["partition"])
        except OutcomeUnknown:
            self.outcomes[value] = "unknown"
        except PenstockError:
            self.outcomes[value] = "refused"
        else:
            self.outcomes[value] = "answered"
            self.steps += 1

    def check(self, broker: penstock.Broker) -> None:
        found = values(broker, self.name)
        allowed = {"answered": {1}, "refused": {0}, "unknown": {0, 1}}
        for value, outcome in self.outcomes.items():
            assert found[value] in allowed[outcome], (
                f"{value} was {outcome}, and is there {found[value]} times"
            )
        assert set(found) <= set(self.outcomes)


class PublishBatch(Publish):
    """A batch for all partitions; one that raises may be there in part."""

    def step(self, broker: penstock.Broker) -> None:
        batch = [f"{len(self.outcomes) + each}" for each in range(2 * PARTITIONS)]
        messages = [Message(each.encode(), partition=at % PARTITIONS) for at, each in enumerate(batch)]
        try:
            broker.publish_batch(self.name, messages)
        except PenstockError:
            self.outcomes |= dict.fromkeys(batch, "unknown")
        else:
            self.outcomes |= dict.fromkeys(batch, "answered")
            self.steps += 1


class Deduplication(Work):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def step(self, broker: penstock.Broker) -> None:
        value = f"{self.count}"
        for _ in range(2):
            self.publish_surely(broker, self.name, value)
        self.count += 1
        self.steps += 1

    def check(self, broker: penstock.Broker) -> None:
        assert values(broker, self.name) == {f"{each}": 1 for each in range(self.count)}


class IdempotentProducer(Work):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def begin(self, broker: penstock.Broker) -> None:
        self.producer = broker.producer()

    def step(self, broker: penstock.Broker) -> None:
        value, partition = f"{self.count}".encode(), self.partition
        until_done(lambda: self.producer.publish(self.name, value, partition=partition))
        self.count += 1
        self.steps += 1

    def check(self, broker: penstock.Broker) -> None:
        assert values(broker, self.name) == {f"{each}": 1 for each in range(self.count)}


class Queue(Work):
    """A consumer that spans all nodes: what it has acked does not come again, and all of it is settled."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.acked: set[str] = set()

    def begin(self, broker: penstock.Broker) -> None:
        self.consumer = broker.consumer(self.name, group=GROUP)

    def step(self, broker: penstock.Broker) -> None:
        self.publish_surely(broker, self.name, f"{self.count}")
        self.count += 1
        self.take(self.consumer, 0.2)

    def take(self, consumer: Consumer, wait_s: float) -> int:
        try:
            messages = consumer.receive(10, wait=wait_s)
        except PenstockError:
            return 0
        for message in messages:
            value = message.value.decode()
            if value in self.acked:
                self.violations.append(f"{value} came again after it was acked")
            try:
                self.answer(consumer, message)
            except PenstockError:
                continue  # Its lease was lost with the owner, or the outcome is unknown.
            self.acked.add(value)
            self.steps += 1
        return len(messages)

    def answer(self, consumer: Consumer, message: ReceivedMessage) -> None:
        consumer.extend(message, 20)
        consumer.ack(message)

    def check(self, broker: penstock.Broker) -> None:
        self.consumer.close()
        deadline_s = time.monotonic() + SETTLE_S
        with broker.consumer(self.name, group=GROUP) as consumer:
            while broker.describe_group(self.name, GROUP).lag:
                self.take(consumer, 0.5)
                assert time.monotonic() < deadline_s, broker.describe_group(self.name, GROUP)
        assert not self.violations, self.violations
        assert values(broker, self.name) == {f"{each}": 1 for each in range(self.count)}


class AckAndPublish(Queue):
    topics = ("outputs",)

    def answer(self, consumer: Consumer, message: ReceivedMessage) -> None:
        partition = (int(message.value) + 1) % PARTITIONS
        consumer.ack(message, publish=[("outputs", Message(message.value, partition=partition))])

    def check(self, broker: penstock.Broker) -> None:
        super().check(broker)
        until_done(lambda: self._compare(broker))

    def _compare(self, broker: penstock.Broker) -> None:
        """The outbox of a partition that was taken over may be a moment late."""
        found = values(broker, "outputs")
        if sum(found.values()) < self.count:
            raise PenstockError(reason=f"{sum(found.values())} of {self.count} outputs are there")
        assert found == {f"{each}": 1 for each in range(self.count)}


class Transactions(Queue):
    """Each input has one output, in partitions of other owners, and both take effect or neither."""

    topics = ("transacted",)

    def begin(self, broker: penstock.Broker) -> None:
        super().begin(broker)
        self.broker = broker

    def answer(self, consumer: Consumer, message: ReceivedMessage) -> None:
        with self.broker.transaction(timeout="10s") as transaction:
            for each in (1, 2):
                partition = (int(message.value) + each) % PARTITIONS
                transaction.publish("transacted", b"%s.%d" % (message.value, each), partition=partition)
            transaction.ack(message)
            if self._chance.random() < 0.1:
                transaction.abort()
                consumer.nack(message)
                raise PenstockError(reason="it comes again")

    def check(self, broker: penstock.Broker) -> None:
        self.broker = broker
        super().check(broker)
        expected = {f"{value}.{each}": 1 for value in range(self.count) for each in (1, 2)}
        assert values(broker, "transacted") == expected


class Staged(Work):
    """Every version is there once, in all partitions, and repeats are recognised."""

    topics = ("staged-elsewhere",)  # Its intents may have another owner.

    def step(self, broker: penstock.Broker) -> None:
        version = self.steps
        until_done(lambda: self._publish(broker, version))
        self.steps += 1

    def _publish(self, broker: penstock.Broker, version: int) -> None:
        """As a job does it: with what a lost attempt has staged, too, it begins anew."""
        for topic in (self.name, *self.topics):
            parts = [(number, batch([b"%d.%d" % (version, number)])) for number in range(PARTITIONS)]
            token = f"{topic}-{version}-{self._chance.random()}"
            first = broker.stage(topic, encode_staged(token, parts))
            done = broker.publish_staged(topic, "job", version, {token: [(first, first + PARTITIONS)]})
            last = broker.published_version(topic, "job")
            if last != version or done.published not in (0, PARTITIONS):
                self.violations.append(f"{topic}: {done}, and version {last} after {version}")

    def check(self, broker: penstock.Broker) -> None:
        assert not self.violations, self.violations
        expected = {f"{version}.{number}": 1 for version in range(self.steps) for number in range(PARTITIONS)}
        for topic in (self.name, *self.topics):
            assert values(broker, topic) == expected
            assert broker.publish_staged(topic, "job", self.steps - 1, {}).duplicate


class DeadLetters(Queue):
    def answer(self, consumer: Consumer, message: ReceivedMessage) -> None:
        if message.attempt == 1 and self._chance.random() < 0.5:
            consumer.nack(message, delay=0.01)
            self.acked.discard(message.value.decode())
            raise PenstockError(reason="it comes again")
        consumer.reject(message, "no good")

    def check(self, broker: penstock.Broker) -> None:
        super().check(broker)
        until_done(lambda: self._compare(broker))

    def _compare(self, broker: penstock.Broker) -> None:
        found = Counter(each.source for each in broker.dead_letters(self.name, 100_000))
        if sum(found.values()) < self.count:
            raise PenstockError(reason=f"{sum(found.values())} of {self.count} dead letters are there")
        assert set(found.values()) == {1}
        assert len(found) == self.count


class Redrive(Queue):
    """Dead letters that were there before are sent back, a few at a time; each is there once more."""

    letters = 400

    def prepare(self, broker: penstock.Broker) -> None:
        super().prepare(broker)
        with broker.consumer(self.name, group=GROUP) as consumer:
            broker.publish_batch(self.name, [b"%d" % each for each in range(self.letters)])
            for _ in range(self.letters):
                [message] = consumer.receive(1, wait=20)
                consumer.reject(message, "no good")

    def step(self, broker: penstock.Broker) -> None:
        try:
            broker.redrive(self.name, limit=3)
        except PenstockError:
            return
        self.steps += 1
        self.take(self.consumer, 0.2)

    def check(self, broker: penstock.Broker) -> None:
        until_done(lambda: broker.redrive(self.name))
        deadline_s = time.monotonic() + SETTLE_S
        self.consumer.close()
        with broker.consumer(self.name, group=GROUP) as consumer:
            while len(self.acked) < self.letters or broker.describe_group(self.name, GROUP).lag:
                self.take(consumer, 0.5)
                assert time.monotonic() < deadline_s, len(self.acked)
        assert not self.violations, self.violations
        assert set(values(broker, self.name).values()) == {2}


class Schedule(Work):
    """Delayed messages come once, not before their time; those that were cancelled do not come."""

    def __init__(self) -> None:
        super().__init__()
        self.due_ms: dict[str, int] = {}
        self.unknown: set[str] = set()
        self.cancelled: set[str] = set()
        self.count = 0

    def step(self, broker: penstock.Broker) -> None:
        value, delay_s = f"{self.count}", self._chance.choice([0.05, 1.0, 4.0])
        self.count += 1
        before_ms = time.time() * 1000
        try:
            receipt = broker.publish(self.name, value.encode(), delay=delay_s, partition=self.partition)
            self.due_ms[value] = int(before_ms + 1000 * delay_s)
            self.steps += 1
            if self.count % 3 == 0:
                self.unknown.add(value)
                assert receipt.schedule_id is not None
                if broker.cancel(receipt.schedule_id) == "cancelled":
                    self.cancelled.add(value)
                self.unknown.discard(value)
        except PenstockError:
            self.unknown.add(value)

    def check(self, broker: penstock.Broker) -> None:
        deadline_s = time.monotonic() + SETTLE_S
        expected = self.due_ms.keys() - self.unknown - self.cancelled
        # A message that is due has left the schedule a moment before it is committed to the log.
        while broker.scheduled_count(self.name) or expected - values(broker, self.name).keys():
            if time.monotonic() > deadline_s:
                break
        found = values(broker, self.name)
        for value in self.due_ms.keys() - self.unknown:
            assert found[value] == (0 if value in self.cancelled else 1), f"{value} came {found[value]} times"
        assert set(found.values()) <= {1}
        for partition in range(PARTITIONS):
            for message in broker.read(self.name, partition=partition, offset=0, limit=100_000):
                due_ms = self.due_ms.get(message.value.decode())
                assert due_ms is None or message.timestamp >= due_ms


class StreamGroup(Work):
    """What was committed is not delivered again."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[int, int] = defaultdict(int)
        self.seen: dict[int, int] = {}
        self.count = 0

    def begin(self, broker: penstock.Broker) -> None:
        self.consumer = broker.consumer(self.name, group=GROUP, kind="stream")

    def step(self, broker: penstock.Broker) -> None:
        self.publish_surely(broker, self.name, f"{self.count}")
        self.count += 1
        self.take(self.consumer, 0.2)

    def take(self, consumer: Consumer, wait_s: float) -> None:
        try:
            for message in consumer.receive(10, wait=wait_s):
                if message.offset < self.committed[message.partition]:
                    self.violations.append(f"{message.partition}:{message.offset} was committed")
                self.seen[message.partition] = message.offset + 1
            consumer.commit()
        except PenstockError:
            self.seen.clear()
            return
        self.committed |= self.seen
        self.steps += 1

    def check(self, broker: penstock.Broker) -> None:
        self.consumer.close()
        deadline_s = time.monotonic() + SETTLE_S
        with broker.consumer(self.name, group=GROUP, kind="stream") as consumer:
            while broker.describe_group(self.name, GROUP).lag:
                self.take(consumer, 0.5)
                assert time.monotonic() < deadline_s
        assert not self.violations, self.violations


class CommittedOffsets(Work):
    """The last answered commit of each partition counts, unless a later one may have been executed."""

    def __init__(self) -> None:
        super().__init__()
        self.low: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.ends: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def step(self, broker: penstock.Broker) -> None:
        partition = self.partition
        try:
            receipt = broker.publish(self.name, b"x", partition=partition)
            assert receipt.offset is not None
            self.ends[partition] = receipt.offset + 1
            broker.commit_offsets(self.name, GROUP, dict(self.ends))
        except PenstockError:
            return
        self.low = dict(self.ends)
        self.steps += 1

    def check(self, broker: penstock.Broker) -> None:
        found = {each.partition: each.floor for each in broker.describe_group(self.name, GROUP).partitions}
        for partition, low in self.low.items():
            assert low <= found[partition] <= self.ends[partition]


class Seek(Work):
    """The group is where the last answered seek has put it."""

    def prepare(self, broker: penstock.Broker) -> None:
        super().prepare(broker)
        broker.create_group(self.name, GROUP)
        broker.publish_batch(self.name, [Message(b"x", partition=each) for each in range(PARTITIONS)])

    def step(self, broker: penstock.Broker) -> None:
        to = ("earliest", "latest")[self.steps % 2]
        try:
            for partition in range(PARTITIONS):
                broker.seek(self.name, GROUP, to, partition=partition)
            found = broker.describe_group(self.name, GROUP).partitions
        except PenstockError as error:
            if not error.retryable and not isinstance(error, OutcomeUnknown):
                self.violations.append(str(error))
            return
        self.steps += 1
        # A partition that is being taken over is left out.
        offsets = {each.partition: each.floor for each in found}
        if set(offsets.values()) - {0 if to == "earliest" else 1}:
            self.violations.append(f"offsets {offsets} after a seek to {to}")

    def check(self, broker: penstock.Broker) -> None:
        assert not self.violations, self.violations


class Purge(Work):
    """After an answered purge nothing waits for the group on any partition."""

    def begin(self, broker: penstock.Broker) -> None:
        broker.create_group(self.name, GROUP, start="earliest")

    def step(self, broker: penstock.Broker) -> None:
        for partition in range(PARTITIONS):
            until_done(partial(broker.publish, self.name, b"x", partition=partition))
        until_done(lambda: broker.purge(self.name, GROUP))
        lags: dict[int, int] = {}
        until_done(lambda: lags.update(self._lags(broker)))
        if lags != dict.fromkeys(range(PARTITIONS), 0):
            self.violations.append(f"after a purge these wait: {lags}")
        self.steps += 1

    def _lags(self, broker: penstock.Broker) -> dict[int, int]:
        found = broker.describe_group(self.name, GROUP).partitions
        return {each.partition: each.lag for each in found}

    def check(self, broker: penstock.Broker) -> None:
        assert not self.violations, self.violations
        assert broker.describe_group(self.name, GROUP).lag == 0


class Fetch(Work):
    """A reader that follows the logs gets every acknowledged message, once and in order."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.fetched: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        self.count = 0

    def step(self, broker: penstock.Broker) -> None:
        value, partition = f"{self.count}", self.partition
        until_done(lambda: broker.publish(self.name, value.encode(), dedup_id=value, partition=partition))
        self.count += 1
        until_done(lambda: self._fetch(broker, partition))
        if self.fetched[partition][-1:] != [value]:
            self.violations.append(f"{value} was acknowledged, and not fetched from {partition}")
        self.steps += 1

    def _fetch(self, broker: penstock.Broker, partition: int) -> None:
        found = broker.fetch(self.name, partition, self.positions[partition])
        position = 0
        while position < len(found.batches):
            header = check_batch(found.batches, position)
            for record in decode_batch(found.batches, position):
                self.fetched[partition].append((record.value or b"").decode())
            position += header.size
        self.positions[partition] = found.next_offset

    def check(self, broker: penstock.Broker) -> None:
        assert not self.violations, self.violations
        for partition, fetched in self.fetched.items():
            read = broker.read(self.name, partition=partition, offset=0, limit=100_000)
            assert fetched == [(message.value or b"").decode() for message in read]


class DepthLimit(Work):
    """The limit holds for the topic, whoever owns its partitions."""

    limit = 30

    def prepare(self, broker: penstock.Broker) -> None:
        broker.create_topic(self.name, partitions=PARTITIONS, depth_max=self.limit)
        self.full = 0

    def step(self, broker: penstock.Broker) -> None:
        try:
            broker.publish(self.name, b"x", partition=self._chance.randrange(PARTITIONS))
        except QueueFull:
            self.full += 1
            time.sleep(0.05)  # Nobody makes room: it is refused again and again.
        except PenstockError:
            return
        self.steps += 1

    def check(self, broker: penstock.Broker) -> None:
        assert self.full
        found = values(broker, self.name)["x"]
        assert found <= self.limit, f"{found} messages"


WORKS: tuple[type[Work], ...] = (
    Publish, PublishBatch, Deduplication, IdempotentProducer, Queue, AckAndPublish, Transactions, Staged,
    DeadLetters, Redrive, Schedule, StreamGroup, CommittedOffsets, Seek, Purge, Fetch, DepthLimit,
)  # fmt: skip
