"""Partitions that close and open at random under load, against a broker that never closed them.

Both get the same requests.  One that the moving broker refuses with ``NotOwner`` is not made to the other,
and a move ends all leases, in both.  At any time both have the same messages at the same offsets, and at the
end the same ones are left to deliver.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.movable import close, reopen
from tests.transactional import Producer

from penstock import Message
from penstock.api.handles import Consumer
from penstock.config.broker import GroupOptions
from penstock.errors import NotOwner
from penstock.model.message import ReceivedMessage
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

PARTITIONS = 3
NUMBERS = st.integers(0, PARTITIONS - 1)
DURATIONS = st.sampled_from(["10ms", "1s", "20s", "2m"])
GROUP: GroupOptions = {"max_attempts": 1000, "visibility_timeout": "30s"}


class Side:
    """One of the two brokers."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.broker = TestBroker.open("data", files=self.disk, clock=ManualClock())
        for topic in ("orders", "out"):
            self.broker.create_topic(topic, partitions=PARTITIONS, dedup_window="1h")
        self.consumer: Consumer = self.broker.consumer("orders", group="work", **GROUP)
        self.producer = Producer(self.broker, timeout_ms=900_000)
        self.held: dict[tuple[int, int], ReceivedMessage] = {}

    def rejoin(self) -> None:
        """The consumer begins anew: what it held is delivered again."""
        self.consumer.close()
        self.consumer = self.broker.consumer("orders", group="work", **GROUP)
        self.held.clear()

    def receive(self, count: int) -> None:
        for message in self.consumer.receive(count):
            self.held[message.partition, message.offset] = message

    def contents(self, topic: str, number: int) -> list[tuple[int, bytes | None, bytes]]:
        read = self.broker.read(topic, partition=number)
        return [(message.offset, message.key, message.value) for message in read]


class Moves(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.moving, self.steady = Side(), Side()
        self.elsewhere: set[tuple[str, int]] = set()
        self.epoch = 1
        self.count = 0
        self.written: set[int] = set()  # Partitions with messages of the open transaction.

    # Load.

    def publish(self, message: Message) -> None:
        try:
            [receipt] = self.moving.broker.publish_batch("orders", [message])
        except NotOwner as error:
            refused = (error.topic, error.partition)
        else:
            placed = Message(
                message.value, key=message.key, delay=message.delay, dedup_id=message.dedup_id,
                partition=receipt.partition,
            )  # fmt: skip
            [other] = self.steady.broker.publish_batch("orders", [placed])
            assert (other.offset, other.duplicate) == (receipt.offset, receipt.duplicate)
            return
        assert refused in self.elsewhere

    def next_value(self) -> bytes:
        self.count += 1
        return b"%d" % self.count

    @rule(number=NUMBERS)
    def publish_to(self, number: int) -> None:
        self.publish(Message(self.next_value(), partition=number))

    @rule(key=st.sampled_from(["a", "b", "c", None]))
    def publish_anywhere(self, key: str | None) -> None:
        self.publish(Message(self.next_value(), key=key))

    @rule(name=st.sampled_from(["x", "y", "z"]))
    def publish_once(self, name: str) -> None:
        self.publish(Message(self.next_value(), dedup_id=name))

    @rule(number=NUMBERS, delay=DURATIONS)
    def publish_later(self, number: int, delay: str) -> None:
        self.publish(Message(self.next_value(), partition=number, delay=delay))

    @rule(count=st.integers(1, 4))
    def receive(self, count: int) -> None:
        if len(self.elsewhere & {("orders", n) for n in range(PARTITIONS)}) < PARTITIONS:
            for side in (self.moving, self.steady):
                side.receive(count)

    @rule(answer=st.sampled_from(["ack", "nack", "send"]))
    def answer(self, answer: str) -> None:
        """Answer a message that both consumers hold."""
        both = sorted(self.moving.held.keys() & self.steady.held.keys())
        for place in both[:1]:
            messages = [(side, side.held.pop(place)) for side in (self.moving, self.steady)]
            if ("orders", place[0]) in self.elsewhere:
                continue
            value = self.next_value()
            for side, message in messages:
                if answer == "ack":
                    message.ack()
                elif answer == "nack":
                    message.nack(delay="1s", error="no")
                else:
                    side.consumer.ack(message, publish=[("out", Message(value, partition=place[0]))])

    @rule(number=NUMBERS)
    def write_in_transaction(self, number: int) -> None:
        if ("orders", number) not in self.elsewhere:
            value = self.next_value()
            self.written.add(number)
            for side in (self.moving, self.steady):
                side.producer.write("orders", value, partition=number)

    @precondition(lambda self: self.written)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        if not self.elsewhere & {("orders", number) for number in self.written}:
            self.written.clear()
            for side in (self.moving, self.steady):
                side.producer.end(commit)

    @rule(duration=DURATIONS)
    def advance(self, duration: str) -> None:
        """Time passes only while all is here, or what is due would come later and get another place."""
        if not self.elsewhere:
            for side in (self.moving, self.steady):
                side.broker.advance(duration)
                side.held.clear()  # Some may have expired.
                side.rejoin()

    # Moves.

    @rule(topic=st.sampled_from(["orders", "out"]), number=NUMBERS)
    def close_one(self, topic: str, number: int) -> None:
        if (topic, number) not in self.elsewhere:
            self.elsewhere.add((topic, number))
            close(self.moving.broker, topic, number, epoch=self.epoch)
            if topic == "orders":
                for side in (self.moving, self.steady):
                    side.rejoin()

    @precondition(lambda self: self.elsewhere)
    @rule(data=st.data())
    def open_one(self, data: st.DataObject) -> None:
        topic, number = data.draw(st.sampled_from(sorted(self.elsewhere)))
        self.open(topic, number)

    def open(self, topic: str, number: int) -> None:
        self.epoch += 1
        self.elsewhere.discard((topic, number))
        reopen(self.moving.broker, topic, number, epoch=self.epoch)
        if topic == "orders":
            for side in (self.moving, self.steady):
                side.rejoin()

    # Agreement.

    @invariant()
    def same_messages(self) -> None:
        for number in range(PARTITIONS):
            if ("orders", number) not in self.elsewhere:
                assert self.moving.contents("orders", number) == self.steady.contents("orders", number)

    def teardown(self) -> None:
        if not hasattr(self, "moving"):
            return
        for topic, number in sorted(self.elsewhere):
            self.open(topic, number)
        if self.written:
            for side in (self.moving, self.steady):
                side.producer.end(True)
        left = []
        for side in (self.moving, self.steady):
            side.rejoin()
            side.broker.advance("10m")
            left.append(sorted((m.partition, m.offset, m.value) for m in side.consumer.receive(10_000)))
        assert left[0] == left[1]
        for number in range(PARTITIONS):
            for topic in ("orders", "out"):
                assert sorted(v for _, _, v in self.moving.contents(topic, number)) == (
                    sorted(v for _, _, v in self.steady.contents(topic, number))
                )


TestMoves = Moves.TestCase
