"""Ordered queue groups through everything that may happen, against a simple rule.

The rule: of the messages with one key in one partition, only the first that
is not settled may be in anyone's hands.  So at any time at most one of a key
is in flight, and keys are settled in order, whatever is nacked, times out, is
released, sought, restarted or lost in a crash.  And nobody waits without a
reason: a receive that returns fewer than it was asked for leaves no key whose
first message could be handed out.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from penstock.api.handles import Consumer
from penstock.config.broker import BrokerConfig
from penstock.errors import AlreadySettled, Closed, LeaseLost
from penstock.model.message import ReceivedMessage
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

KEYS = ("a", "b", "c", None)
VISIBILITY_MS = 10_000


def local(consumer: Consumer) -> Any:
    """What an embedded consumer is inside."""
    return consumer._operations


@dataclass
class Message:
    """A message as the model knows it."""

    key: str | None
    settled: bool = False
    holder: int = 0  # Which receive has it; 0: none.
    deadline_ms: int = 0
    due_ms: int = 0  # Not delivered before.


@dataclass
class Held:
    """A message in a consumer's hands."""

    message: ReceivedMessage
    consumer: Consumer
    receive: int
    life: int


class OrderedGroup(RuleBasedStateMachine):
    """See the top of the module."""

    held = Bundle("held")

    @initialize(snapshots=st.booleans(), deferred_max=st.sampled_from([2, 10_000]))
    def open_first(self, snapshots: bool, deferred_max: int) -> None:
        self.disk = CrashDisk()
        self.clock = ManualClock()
        self.config = BrokerConfig(snapshot_bytes=1 if snapshots else 1 << 30, deferred_max=deferred_max)
        self.messages: list[Message] = []
        self.consumers: dict[int, Consumer] = {}
        self.receives = 0
        self.life = 0
        self.patient = deferred_max > 2  # With few set aside, a busy key may keep others waiting.
        self.broker = self.open()
        self.broker.create_topic("orders", retention=None, segment_bytes=4096)
        self.broker.create_group(
            "orders", "work", ordered=True, max_attempts=1000, visibility_timeout=VISIBILITY_MS / 1000
        )

    def open(self) -> TestBroker:
        return TestBroker.open("data", config=self.config, files=self.disk, clock=self.clock)

    @property
    def now_ms(self) -> int:
        return self.clock.steady_ms()

    def first_of(self, key: str) -> int:
        """The first message of a key that is not settled; -1 if there is none."""
        for offset, message in enumerate(self.messages):
            if message.key == key and not message.settled:
                return offset
        return -1

    def ready(self) -> list[int]:
        """What could be handed out now."""
        firsts = {self.first_of(key) for key in KEYS if key is not None} - {-1}
        return [
            offset
            for offset, message in enumerate(self.messages)
            if not message.settled
            and not message.holder
            and message.due_ms <= self.now_ms
            and (message.key is None or offset in firsts)
        ]

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5))
    def publish(self, keys: list[str | None]) -> None:
        for key in keys:
            self.broker.publish("orders", b"%d" % len(self.messages), key=key)
            self.messages.append(Message(key))

    @rule(target=held, number=st.integers(0, 1), limit=st.integers(1, 4))
    def receive(self, number: int, limit: int) -> Any:
        if number not in self.consumers:
            self.consumers[number] = self.broker.consumer("orders", group="work")
        self.receives += 1
        received = self.consumers[number].receive(limit)
        for message in received:
            assert message.offset in self.ready()
            model = self.messages[message.offset]
            model.holder = self.receives
            model.deadline_ms = self.now_ms + VISIBILITY_MS
        if self.patient and len(received) < limit:
            assert self.ready() == []
        return multiple(
            *(Held(message, self.consumers[number], self.receives, self.life) for message in received)
        )

    def holds(self, held: Held) -> bool:
        return held.life == self.life and self.messages[held.message.offset].holder == held.receive

    @rule(held=consumes(held))
    def ack(self, held: Held) -> None:
        if self.holds(held):
            held.message.ack()
            model = self.messages[held.message.offset]
            model.settled, model.holder = True, 0
        elif held.life == self.life:
            with_refusal(held)

    @rule(held=consumes(held), delay_ms=st.integers(0, 15_000))
    def nack(self, held: Held, delay_ms: int) -> None:
        if self.holds(held):
            held.message.nack(delay=delay_ms / 1000)
            model = self.messages[held.message.offset]
            model.holder, model.due_ms = 0, self.now_ms + delay_ms

    @rule(duration_ms=st.sampled_from([1, 1000, 5000, 10_000, 61_000]))
    def advance(self, duration_ms: int) -> None:
        self.broker.advance(duration_ms / 1000)
        for message in self.messages:
            if message.holder and message.deadline_ms <= self.now_ms:
                message.holder = 0

    @rule(number=st.integers(0, 1))
    def leave(self, number: int) -> None:
        consumer = self.consumers.pop(number, None)
        if consumer is not None:
            held = {lease for lease in self.leases() if lease[0] == local(consumer)._state.number}
            consumer.close()
            for _, offset in held:
                self.messages[offset].holder = 0

    def leases(self) -> list[tuple[int, int]]:
        """Consumer and offset of everything in flight."""
        [partition] = self.broker._core.state.topics["orders"].partitions
        engine = partition.groups["work"].engine
        return [(lease.consumer, lease.start) for lease in engine.leases.values()]

    @rule(share=st.floats(0, 1))
    def seek(self, share: float) -> None:
        offset = round(share * len(self.messages))
        self.broker.seek("orders", "work", offset)
        for number, message in enumerate(self.messages):
            self.messages[number] = Message(message.key, settled=number < offset)

    @rule(how=st.sampled_from(["close", "kill", "power cut"]), seed=st.integers(0, 1000))
    def end(self, how: str, seed: int) -> None:
        if how == "close":
            self.broker.close()
        elif how == "kill":
            self.disk.kill()
        else:
            self.disk.power_cut(Random(seed))
        self.consumers.clear()
        self.life += 1
        self.broker = self.open()
        for message in self.messages:
            message.holder = 0

    @invariant()
    def what_is_in_flight_is_what_the_model_says(self) -> None:
        info = self.broker.describe_group("orders", "work")
        assert info.lag == sum(not message.settled for message in self.messages)
        assert sorted(offset for _, offset in self.leases()) == [
            offset for offset, message in enumerate(self.messages) if message.holder
        ]

    def teardown(self) -> None:
        """Work everything off."""
        if not hasattr(self, "broker"):
            return
        for _ in range(2):
            self.advance(61_000)
        while received := self.receive(0, 4).values:
            for held in received:
                self.ack(held)
        assert self.broker.describe_group("orders", "work").lag == 0
        self.broker.close()


def with_refusal(held: Held) -> None:
    """An answer that comes too late is refused."""
    try:
        held.message.ack()
    except (AlreadySettled, LeaseLost, Closed):
        return
    raise AssertionError("it was not held any more")


TestOrderedGroup = OrderedGroup.TestCase
