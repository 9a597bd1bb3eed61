"""What clients were answered, and whether the server has kept it.

published   a message is at a place           it is there, that value is nowhere else, and in order
later       a delayed message was taken       it is in the log once
acked       a message is settled              it was not delivered to a receive that began afterwards
received    a message was delivered           (see acked)
nacked      it comes again                    (it is settled in the end, as all are)
"""

import time
from collections import Counter

import penstock
from penstock.model.message import StoredMessage

PARTITIONS = 2
TOPIC = "work"
OUT = "out"

Place = tuple[int, int]


class Ledger:
    """All that was told."""

    def __init__(self) -> None:
        self.published: dict[Place, bytes] = {}
        self.later: set[bytes] = set()
        self.acked: dict[Place, int] = {}  # When the answer was there.
        self.nacked = 0
        self.prefetched = 0
        self.streamed = 0
        self.begun = 0  # Processes.
        self.done = 0
        self.failures: list[str] = []

    def take(self, line: str) -> None:
        """Enter one line."""
        kind, *words = line.split(" ")
        enter = getattr(self, f"_{kind}", None)
        if enter is None:
            self.failures.append(line)
        else:
            enter(words)

    def _begun(self, _: list[str]) -> None:
        self.begun += 1

    def _done(self, _: list[str]) -> None:
        self.done += 1

    def _published(self, words: list[str]) -> None:
        for word in words:
            partition, offset, value = word.split(":")
            self.published[int(partition), int(offset)] = value.encode()

    def _later(self, words: list[str]) -> None:
        self.later.add(words[0].encode())

    def _acked(self, words: list[str]) -> None:
        for place in map(place_of, words[1:]):
            self.acked[place] = int(words[0])

    def _nacked(self, _: list[str]) -> None:
        self.nacked += 1

    def _prefetched(self, words: list[str]) -> None:
        self.prefetched = int(words[0])

    def _streamed(self, words: list[str]) -> None:
        self.streamed = int(words[0])

    def _received(self, words: list[str]) -> None:
        asked_ns = int(words[0])
        for place in map(place_of, words[1:]):
            if self.acked.get(place, asked_ns) < asked_ns:
                self.failures.append(f"{place} was delivered after its ack")

    def check(self, broker: penstock.Broker) -> None:
        """Work everything off, and compare."""
        assert self.failures == [], self.failures[0]
        self._work_off(broker)
        assert self.failures == [], self.failures[0]
        stored = {
            (message.partition, message.offset): message.value
            for number in range(PARTITIONS)
            for message in all_of(broker, TOPIC, number)
        }
        lost = {place: value for place, value in self.published.items() if stored.get(place) != value}
        assert lost == {}, f"{len(lost)} are not where they were said to be"
        values = Counter(stored.values())
        assert [value for value, count in values.items() if count > 1] == []
        assert self.later - set(values) == set()
        assert_in_order(stored)
        forwarded = Counter(message.value for message in all_of(broker, OUT, 0))
        assert forwarded == Counter(value for value in values if value[:1] == b"f")
        letters = Counter(letter.message.value for letter in broker.dead_letters(TOPIC, 1_000_000))
        assert letters == Counter(value for value in values if value[:1] == b"x")

    def _work_off(self, broker: penstock.Broker) -> None:
        """Settle what the clients have left, as they would have.

        A delayed message that has just moved into the log is no longer scheduled, and counts for the depth
        only after the next sync.  A durable publish waits for that sync.
        """
        settled: set[Place] = set()
        with broker.consumer(TOPIC, group="workers") as consumer:
            while broker.scheduled_count(TOPIC):
                time.sleep(0.01)
            for number in range(PARTITIONS):
                broker.publish(TOPIC, b"a-barrier-%d" % number, partition=number)
            while broker.depth(TOPIC, "workers"):
                messages = consumer.receive(1000, wait="50ms")
                places = {(message.partition, message.offset) for message in messages}
                assert not places & settled, "delivered twice"
                assert not places & set(self.acked), "delivered after its ack"
                settled |= places
                for message in messages:
                    if message.value[:1] == b"f":
                        consumer.ack(message, publish=[(OUT, penstock.Message(message.value))])
                    elif message.value[:1] == b"x":
                        message.reject("poison")
                consumer.ack([message for message in messages if message.value[:1] not in b"fx"])


def place_of(word: str) -> Place:
    partition, offset = word.split(":")
    return int(partition), int(offset)


def all_of(broker: penstock.Broker, topic: str, partition: int) -> list[StoredMessage]:
    """Everything in a partition."""
    found: list[StoredMessage] = []
    offset = 0
    while page := broker.read(topic, partition=partition, offset=offset, limit=5000):
        found += page
        offset = page[-1].offset + 1
    return found


def assert_in_order(stored: dict[Place, bytes]) -> None:
    """What one program published to one partition, one after the other, is there in that order."""
    last: dict[bytes, int] = {}
    for _, value in sorted(stored.items()):
        if value.endswith(b"-one"):
            _, number, count, _ = value.split(b"-")
            assert int(count) > last.get(number, -1), f"{value!r} came after {last[number]}"
            last[number] = int(count)
