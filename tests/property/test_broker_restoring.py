"""Retention takes, restoring gives back: a broker against sets of offsets, through restarts and crashes.

The model of a group is the set of offsets that it has not settled.  Publishing
adds to all of them, acking takes away, retention takes what is below the log's
start, and restoring sets one group's to all from an offset on.  After every step
each group's lag is the size of its set, and the log is what was published, from
its start on.  While a group is held, retention takes nothing of it.
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

TOPIC = "orders"
QUEUES = ("fast", "slow")
STREAM = "flow"
HOLD_MS = 3 * 3600 * 1000
LANES = ("critical", "normal", "low")


@dataclass
class Group:
    """What a group has before it."""

    todo: set[int] = field(default_factory=set)
    held_end: int = 0
    held_until_ms: int = 0


class AnyOrderOfCalls(RuleBasedStateMachine):
    """One partition, two queue groups and a stream group."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashDisk()
        self.clock = ManualClock()
        self.groups = {name: Group() for name in (*QUEUES, STREAM)}
        self.values: list[bytes] = []
        self.batches: list[tuple[int, bytes]] = []  # Base offset and bytes, as they lay in the log.
        self.start = 0

    @initialize()
    def begin(self) -> None:
        self.open()
        self.broker.create_topic(TOPIC, partitions=1, retention="1h", segment_bytes=4096)
        for name in QUEUES:
            self.broker.create_group(TOPIC, name, max_attempts=1000)
        self.broker.create_group(TOPIC, STREAM, kind="stream")

    def open(self) -> None:
        self.broker = TestBroker.open("data", files=self.disk, clock=self.clock)

    # What users do.

    @rule(count=st.integers(1, 4), lane=st.sampled_from(LANES), size=st.sampled_from([1, 1500]))
    def publish(self, count: int, lane: str, size: int) -> None:
        end = len(self.values)
        some = [(b"%d " % (end + place)).ljust(size) for place in range(count)]
        self.broker.publish_batch(TOPIC, [Message(value, priority=lane) for value in some])
        for group in self.groups.values():
            group.todo |= set(range(end, end + count))
        self.values += some
        self.batches.append((end, self.broker.fetch(TOPIC, 0, end, max_bytes=1).batches))

    @rule(name=st.sampled_from(QUEUES), count=st.integers(1, 6), acked=st.integers(0, 6))
    def consume(self, name: str, count: int, acked: int) -> None:
        group = self.groups[name]
        with self.broker.consumer(TOPIC, group=name) as consumer:
            received = consumer.receive(count)
            offsets = {message.offset for message in received}
            assert offsets <= group.todo
            assert len(offsets) == len(received) > 0 or not group.todo
            consumer.ack(received[:acked])
            group.todo -= {message.offset for message in received[:acked]}

    @rule(count=st.integers(1, 6))
    def stream(self, count: int) -> None:
        group = self.groups[STREAM]
        with self.broker.consumer(TOPIC, group=STREAM) as consumer:
            received = consumer.receive(count)
            assert [message.offset for message in received] == sorted(group.todo)[: len(received)]
            assert received or not group.todo
            if received:
                consumer.ack(received[-1:])
                group.todo -= {message.offset for message in received}

    @precondition(lambda self: self.values)
    @rule(data=st.data(), name=st.sampled_from((*QUEUES, STREAM)), given_up=st.booleans())
    def restore(self, data: st.DataObject, name: str, given_up: bool) -> None:
        bases = [base for base, _ in self.batches if base <= self.start] or [0]
        goal = data.draw(st.sampled_from([*bases, len(self.values)]))
        begun = self.broker.begin_restore(TOPIC, 0, goal)
        wanted = b"".join(batch for base, batch in self.batches if begun.start <= base < begun.end)
        if wanted:
            assert self.broker.restore(TOPIC, 0, begun.restore, wanted) == begun.end
        if given_up:
            return
        self.broker.finish_restore(TOPIC, 0, begun.restore, name, hold=HOLD_MS / 1000)
        group = self.groups[name]
        group.todo = set(range(goal, len(self.values)))
        group.held_end = len(self.values)
        group.held_until_ms = self.clock.wall_ms() + HOLD_MS
        self.start = begun.start

    # Time and trouble.

    @rule(minutes=st.integers(1, 90))
    def let_pass(self, minutes: int) -> None:
        self.broker.advance(minutes * 60)
        self.notice()

    def notice(self) -> None:
        """Retention may have been there."""
        start = self.broker.describe_topic(TOPIC).partitions[0].start
        assert start >= self.start
        for group in self.groups.values():
            lost = {offset for offset in group.todo if offset < start}
            held = self.clock.wall_ms() < group.held_until_ms and min(group.todo, default=0) < group.held_end
            assert not (lost and held), "retention waits for who is held"
            group.todo -= lost
        self.start = start

    @rule(how=st.sampled_from(["close", "kill", "power cut"]), seed=st.integers(0, 1 << 16))
    def restart(self, how: str, seed: int) -> None:
        if how == "close":
            self.broker.close()
        elif how == "kill":
            self.disk.kill()
        else:
            self.disk.power_cut(Random(seed))
        self.open()
        self.notice()

    # Always.

    @invariant()
    def everybody_knows_what_is_before_them(self) -> None:
        if not hasattr(self, "broker"):
            return
        for name, group in self.groups.items():
            assert self.broker.describe_group(TOPIC, name).lag == len(group.todo), name

    @invariant()
    def the_log_is_what_was_published(self) -> None:
        if hasattr(self, "broker"):
            found = self.broker.read(TOPIC, partition=0, offset=self.start, limit=10_000)
            assert [(each.offset, each.value) for each in found] == list(enumerate(self.values))[self.start :]

    def teardown(self) -> None:
        """Whoever goes on gets all of the rest, once."""
        if hasattr(self, "broker"):
            for name in QUEUES:
                with self.broker.consumer(TOPIC, group=name) as consumer:
                    received = consumer.receive(10_000)
                    assert {message.offset for message in received} == self.groups[name].todo
            self.broker.close()


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase
TestAnyOrderOfCalls.settings = settings(stateful_step_count=20)
