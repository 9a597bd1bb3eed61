"""Transactions of three producers, in any order, through restarts and crashes, against lists.

The model of a producer is what it has written since its transaction began; ending it moves that to the
list of what readers see, or nowhere.  A reader sees a partition up to the first message that is not
decided, and of that what was committed or never was in a transaction, in the order of the log.  Every
reader must agree: who reads, who fetches batches, a queue group and a stream group.  A queue group that
reads uncommitted messages sees all of them, whatever becomes of them.  After a crash, what was open goes on.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.transactional import Producer, committed, run

from penstock.errors import ProducerFenced, SequenceReused, TransactionNotOpen
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.records import decode_batch, read_header

TOPIC = "orders"
PARTITIONS = (0, 1)
NAMES = {"a": 1, "b": 2, "c": 2}  # With the version of transactions that they know.
TIMEOUT_MS = 60_000


@dataclass
class Entry:
    """A message in the log."""

    value: bytes
    writer: str = ""  # The producer whose transaction is open; none: it is decided.
    counts: bool = True


@dataclass
class Model:
    """One producer, and whether its transaction is open."""

    producer: Producer
    ongoing: bool = False
    begun_ms: int = 0
    place: int | None = None  # Of the group, to be committed.


@dataclass
class Reader:
    """What a group has received."""

    got: dict[int, list[bytes]] = field(default_factory=lambda: {number: [] for number in PARTITIONS})


class AnyOrderOfCalls(RuleBasedStateMachine):
    """One topic of two partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashDisk()
        self.clock = ManualClock()
        self.log: dict[int, list[Entry]] = {number: [] for number in PARTITIONS}
        self.models: dict[str, Model] = {}
        self.readers = {"queue": Reader(), "stream": Reader(), "uncommitted": Reader()}
        self.place: int | None = None
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.open()
        self.broker.create_topic(TOPIC, partitions=2, segment_bytes=4096, retention=None)
        self.broker.create_group(TOPIC, "queue", max_attempts=1000)
        self.broker.create_group(TOPIC, "stream", kind="stream")
        self.broker.create_group(TOPIC, "uncommitted", max_attempts=1000, isolation="read_uncommitted")
        for name in NAMES:
            self.models[name] = Model(self.new_producer(name))

    def open(self) -> None:
        self.broker = TestBroker.open("data", files=self.disk, clock=self.clock)
        for model in self.models.values():
            model.producer.broker = self.broker
            model.begun_ms = self.clock.steady_ms()

    def teardown(self) -> None:
        self.broker.close()

    # What producers do.

    @rule(number=st.sampled_from(PARTITIONS), large=st.booleans())
    def publish(self, number: int, large: bool) -> None:
        value = self.new_value(large)
        self.broker.publish(TOPIC, value, partition=number)
        self.log[number].append(Entry(value))

    @rule(name=st.sampled_from(sorted(NAMES)), number=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def write(self, name: str, number: int, count: int) -> None:
        model = self.models[name]
        some = [self.new_value(large=False) for _ in range(count)]
        model.producer.write(TOPIC, *some, partition=number)
        self.log[number] += [Entry(value, name) for value in some]
        self.ongoing(model)

    @rule(name=st.sampled_from(sorted(NAMES)), offset=st.integers(0, 50))
    def tell_place(self, name: str, offset: int) -> None:
        model = self.models[name]
        offset %= self.broker._core.state.topics[TOPIC].partitions[0].log.end + 1
        model.producer.commit_place(TOPIC, "outside", offset)
        self.ongoing(model)
        model.place = offset

    @rule(name=st.sampled_from(sorted(NAMES)), commit=st.booleans(), again=st.booleans())
    def end(self, name: str, commit: bool, again: bool) -> None:
        model = self.models[name]
        if model.ongoing:
            model.producer.end(commit)
            if again:
                model.producer.end_again(commit)
            self.ended(name, commit)

    @rule(name=st.sampled_from(sorted(NAMES)))
    def send_the_last_batch_again(self, name: str) -> None:
        """It is a repeat as long as its transaction is open, and never anything else after that."""
        model = self.models[name]
        if model.producer.last is None:
            return
        topic, number, data = model.producer.last
        if model.ongoing and name in [entry.writer for entry in self.log[number]]:
            assert self.broker.append(topic, number, data).duplicate
        else:
            with pytest.raises((SequenceReused, ProducerFenced, TransactionNotOpen)):
                self.broker.append(topic, number, data)

    @rule(name=st.sampled_from(sorted(NAMES)))
    def start_anew(self, name: str) -> None:
        self.models[name].producer = self.new_producer(name)
        self.ended(name, commit=False)

    # What readers do.

    @rule(group=st.sampled_from(("queue", "stream", "uncommitted")), count=st.integers(1, 6))
    def consume(self, group: str, count: int) -> None:
        with self.broker.consumer(TOPIC, group=group) as consumer:
            received = consumer.receive(count)
            for message in received:
                assert message.value is not None
                self.readers[group].got[message.partition].append(message.value)
            if received:
                consumer.ack(received)

    # Time and trouble.

    @rule(seconds=st.integers(1, 90))
    def let_pass(self, seconds: int) -> None:
        self.broker.advance(f"{seconds}s")
        for name, model in self.models.items():
            if model.ongoing and self.clock.steady_ms() - model.begun_ms >= TIMEOUT_MS:
                model.producer = self.new_producer(name)
                self.ended(name, commit=False)

    @rule()
    def restart(self) -> None:
        self.broker.close()
        self.open()

    @rule()
    def crash(self) -> None:
        self.disk.kill()
        self.open()

    # What must be true.

    @invariant()
    def every_reader_sees_the_same(self) -> None:
        for number in PARTITIONS if self.models else ():
            wanted = self.seen(number)
            assert committed(self.broker, TOPIC, number) == wanted
            assert self.fetched(number) == wanted
            written = [entry.value for entry in self.log[number]]
            for group, reader in self.readers.items():
                got = reader.got[number]
                assert got == (written if group == "uncommitted" else wanted)[: len(got)]

    @invariant()
    def a_group_of_uncommitted_messages_never_waits_for_the_end_of_a_transaction(self) -> None:
        if self.models:
            lag = self.broker.describe_group(TOPIC, "uncommitted").lag
            with self.broker.consumer(TOPIC, group="uncommitted") as consumer:
                found = len(consumer.receive(1000))
            missing = sum(map(len, self.log.values())) - sum(
                map(len, self.readers["uncommitted"].got.values())
            )
            assert found == missing <= lag

    @invariant()
    def a_place_counts_once_it_is_committed(self) -> None:
        if self.models:
            commits = self.broker._core.commits
            places = [commit.offset for commit in commits.read(TOPIC, "outside").values()]
            assert places == ([] if self.place is None else [self.place])
            told = any(model.place is not None for model in self.models.values())
            assert commits.unsettled(TOPIC, "outside", 0) == told

    # The model.

    def new_producer(self, name: str) -> Producer:
        return Producer(self.broker, name, TIMEOUT_MS, NAMES[name])

    def new_value(self, large: bool) -> bytes:
        self.count += 1
        return b"%d" % self.count + bytes(1500 * large)

    def ongoing(self, model: Model) -> None:
        if not model.ongoing:
            model.ongoing = True
            model.begun_ms = self.clock.steady_ms()

    def ended(self, name: str, commit: bool) -> None:
        model = self.models[name]
        for entries in self.log.values():
            for entry in entries:
                if entry.writer == name:
                    entry.writer, entry.counts = "", commit
        if commit and model.place is not None:
            self.place = model.place
        model.ongoing, model.place = False, None

    def seen(self, number: int) -> list[bytes]:
        entries = self.log[number]
        undecided = next((place for place, entry in enumerate(entries) if entry.writer), len(entries))
        return [entry.value for entry in entries[:undecided] if entry.counts]

    def fetched(self, number: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        offset = 0
        while data := (answer := self.broker.fetch(TOPIC, number, offset)).batches:
            at = 0
            while at < len(data):
                found += [record.value for record in decode_batch(data, at)]
                at += read_header(data, at).size
            offset = answer.next_offset
        return found


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase


def test_one_story_that_has_everything() -> None:
    story = AnyOrderOfCalls()
    story.begin()
    story.write("a", 0, 2)
    story.write("b", 0, 1)
    story.publish(0, large=False)
    story.tell_place("a", 4)
    story.end("b", commit=True, again=True)
    story.crash()
    story.write("a", 1, 1)
    story.end("a", commit=True, again=False)
    story.consume("queue", 6)
    story.write("c", 0, 3)
    story.consume("uncommitted", 6)
    story.restart()
    story.let_pass(61)
    story.consume("stream", 6)
    story.consume("uncommitted", 6)

    story.every_reader_sees_the_same()
    story.a_group_of_uncommitted_messages_never_waits_for_the_end_of_a_transaction()
    story.a_place_counts_once_it_is_committed()
    assert len(committed(story.broker, TOPIC, 0)) == 4
    assert run(story.broker, "committed_offsets", TOPIC, "outside")[0].offset == 4
    story.teardown()
