"""A whole broker against a model that is obviously right: a dict from message to state.

The machine publishes (lanes, delays, time to live, dedup ids, keys), consumes
with two queue groups and a stream group, answers in every way, lets time pass,
sets the wall clock, redrives dead letters, closes and reopens, kills the
process and cuts the power.  After every step the broker and the model are
compared, by equality: what is in each log and in which order, what waits in the
schedule, each group's lag and what it has in flight and to retry, the dead
letters.  A receive must return exactly the messages the model says, in that
order, with those attempt numbers.

What a crash may change is small, and the model says it: a lease (or its end
by timeout) that was not yet written down may be forgotten, so the attempt
number is then between the last one written and the one that was lost.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from penstock.api.handles import Consumer
from penstock.config.broker import BrokerConfig
from penstock.errors import AlreadySettled, Closed, LeaseLost
from penstock.model.message import Message, Receipt, ReceivedMessage
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

TOPIC = "orders"
GROUPS = ("fast", "slow")
STREAM = "flow"
PARTITIONS = 2
VISIBILITY_MS = 10_000
BACKOFF_MS = (1000, 4000)
DEDUP_MS = 60_000
FLUSH_MS = 1000  # What was only noted is written within this time.
FOREVER_MS = 1 << 60

LANES = {"critical": 2, "high": 1, "normal": 0, "low": -1, "background": -2}


def local(consumer: Consumer) -> Any:
    """What an embedded consumer is inside."""
    return consumer._operations


@dataclass
class Entry:
    """A message as the model knows it."""

    value: bytes
    lane: int
    expires_ms: int = FOREVER_MS  # Wall time.
    only: str = ""  # A redriven message is for this group; the others skip it.


@dataclass
class Delayed:
    """A message that waits for its time."""

    due_ms: int
    number: int  # The order in which they were accepted.
    entry: Entry
    partition: int


@dataclass
class Progress:
    """One message in the eyes of one group."""

    state: str = "fresh"  # fresh, waiting, leased, done
    attempt: int = 1  # Of the current or the next delivery.
    due_ms: int = 0  # If waiting.
    deadline_ms: int = 0  # If leased.
    lease: int = 0
    consumer: int = 0
    # What was only noted, when last (-1: nothing), and the numbers that the next delivery would have if a
    # crash forgot all or some of it: after a power cut, and if only the process dies.
    noted_ms: int = -1
    after_cut: set[int] = field(default_factory=set)
    after_kill: set[int] = field(default_factory=set)

    @property
    def following(self) -> int:
        """The number of the next delivery, if the process ended now: one that was begun counts."""
        return self.attempt + (self.state == "leased")

    def note(self, now_ms: int) -> None:
        """A change is about to be made that is written down within a second."""
        if self.noted_ms + FLUSH_MS <= now_ms:
            self.after_kill.clear()
        if self.noted_ms < 0:
            self.after_cut.clear()
        self.after_kill.add(self.following)
        self.after_cut.add(self.following)
        self.noted_ms = now_ms


@dataclass
class Model:
    """The whole broker."""

    logs: list[list[Entry]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    delayed: list[Delayed] = field(default_factory=list)
    dead: Counter[tuple[str, int, int, int]] = field(default_factory=Counter)  # Group, place, attempts.
    listed: Counter[tuple[str, int, int]] = field(default_factory=Counter)  # Dead letters not redriven.
    progress: dict[tuple[str, int, int], Progress] = field(default_factory=dict)
    dedup: dict[str, tuple[int, int, Receipt]] = field(
        default_factory=dict
    )  # Surely known until, perhaps until.
    accepted: int = 0
    committed: list[int] = field(default_factory=lambda: [0] * PARTITIONS)  # The stream group's.
    positions: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def of(self, group: str, partition: int, offset: int) -> Progress:
        return self.progress.setdefault((group, partition, offset), Progress())

    def offsets(self, partition: int) -> range:
        return range(len(self.logs[partition]))

    def lag(self, group: str, partition: int) -> int:
        return sum(self.of(group, partition, offset).state != "done" for offset in self.offsets(partition))

    def count(self, group: str, state: str) -> int:
        return sum(
            progress.state == state for (name, _, _), progress in self.progress.items() if name == group
        )

    def next_ready(self, group: str, partition: int, now_ms: int) -> int:
        """The offset a lease would begin with: due retries by time, then the highest lane; -1 if none."""
        due, fresh = [], []
        for offset in self.offsets(partition):
            progress = self.of(group, partition, offset)
            if progress.state == "waiting" and progress.due_ms <= now_ms:
                due.append((progress.due_ms, offset))
            elif progress.state == "fresh":
                fresh.append((-self.logs[partition][offset].lane, offset))
        for ready in (due, fresh):
            if ready:
                return min(ready)[1]
        return -1

    def decided(self, partition: int) -> None:
        """A decision of this partition was answered: everything noted before it is on disk too."""
        for (_, number, _), progress in self.progress.items():
            if number == partition:
                progress.noted_ms = -1


@dataclass
class Held:
    """A message in a consumer's hands, as both sides see it."""

    message: ReceivedMessage
    consumer: Consumer
    group: str


class BrokerAgainstModel(RuleBasedStateMachine):
    """See the top of the module."""

    held = Bundle("held")
    answered = Bundle("answered")

    @initialize(attempts=st.integers(1, 3), bury_expired=st.booleans(), snapshots=st.booleans())
    def open_first(self, attempts: int, bury_expired: bool, snapshots: bool) -> None:
        self.attempts = attempts
        self.disk = CrashDisk()
        self.clock = ManualClock()
        # With snapshots: one at every upkeep, so that replay mostly begins from one.
        self.config = BrokerConfig(snapshot_bytes=1 if snapshots else 1 << 30)
        self.model = Model()
        self.bury_expired = bury_expired
        self.highest_wall_ms = self.clock.wall_ms()
        self.consumers: dict[tuple[str, int], Consumer] = {}
        self.broker = self.open()
        self.broker.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            retention=None,
            dedup_window=DEDUP_MS / 1000,
            dead_letter_expired=bury_expired,
            segment_bytes=4096,
        )
        for group in GROUPS:
            self.broker.create_group(
                TOPIC,
                group,
                max_attempts=attempts,
                visibility_timeout=VISIBILITY_MS / 1000,
                backoff=[wait_ms / 1000 for wait_ms in BACKOFF_MS],
            )

        self.broker.create_group(TOPIC, STREAM, kind="stream", session_timeout="24h")

    def open(self) -> TestBroker:
        return TestBroker.open("data", config=self.config, files=self.disk, clock=self.clock)

    @property
    def now_ms(self) -> int:
        return self.clock.steady_ms()

    @property
    def wall_ms(self) -> int:
        return self.clock.wall_ms()

    # Publishing.

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        priority=st.sampled_from(sorted(LANES)),
        ttl_ms=st.none() | st.integers(1, 30_000),
        delay_ms=st.none() | st.integers(0, 30_000),
        dedup=st.none() | st.sampled_from("abc"),
    )
    def publish(
        self, partition: int, priority: str, ttl_ms: int | None, delay_ms: int | None, dedup: str | None
    ) -> None:
        self.model.accepted += 1
        entry = Entry(b"%d" % self.model.accepted, LANES[priority])
        if ttl_ms is not None:
            entry.expires_ms = self.wall_ms + (delay_ms or 0) + ttl_ms
        receipt = self.broker.publish(
            TOPIC,
            entry.value,
            partition=partition,
            priority=priority,
            ttl=None if ttl_ms is None else ttl_ms / 1000,
            delay=None if delay_ms is None else delay_ms / 1000,
            dedup_id=dedup,
        )
        if self.is_repeat(dedup, receipt):
            return
        self.accept(entry, partition, delay_ms, receipt)
        self.remember(dedup, receipt)

    @rule(count=st.integers(1, 6), partition=st.integers(0, PARTITIONS - 1))
    def publish_batch(self, count: int, partition: int) -> None:
        values = [b"%d" % (self.model.accepted + number) for number in range(1, count + 1)]
        self.model.accepted += count
        receipts = self.broker.publish_batch(TOPIC, [Message(value, partition=partition) for value in values])
        for value, receipt in zip(values, receipts, strict=True):
            self.accept(Entry(value, 0), partition, None, receipt)

    def accept(self, entry: Entry, partition: int, delay_ms: int | None, receipt: Receipt) -> None:
        assert receipt.partition == partition
        assert not receipt.duplicate
        if delay_ms is None:
            assert receipt.offset == len(self.model.logs[partition])
            self.model.logs[partition].append(entry)
        else:
            assert receipt.offset is None
            due_ms = self.wall_ms + delay_ms
            self.model.delayed.append(Delayed(due_ms, self.model.accepted, entry, partition))

    def is_repeat(self, dedup: str | None, receipt: Receipt) -> bool:
        if dedup not in self.model.dedup:
            assert not receipt.duplicate
            return False
        surely_ms, perhaps_ms, first = self.model.dedup[dedup]
        if self.highest_wall_ms < surely_ms:
            assert receipt.duplicate
        elif self.wall_ms >= perhaps_ms:
            assert not receipt.duplicate
        if receipt.duplicate:
            assert (receipt.partition, receipt.offset, receipt.schedule_id) == (
                first.partition,
                first.offset,
                first.schedule_id,
            )
        return receipt.duplicate

    def remember(self, dedup: str | None, receipt: Receipt) -> None:
        if dedup is not None:
            # Where the wall clock was set back, timestamps stand still, and so does the age of an id; and
            # what it made too old by going forward is not remembered when it goes back.
            self.model.dedup[dedup] = (self.wall_ms + DEDUP_MS, self.highest_wall_ms + DEDUP_MS, receipt)

    # Consuming.

    @rule(target=held, group=st.sampled_from(GROUPS), number=st.integers(0, 1), limit=st.integers(1, 5))
    def receive(self, group: str, number: int, limit: int) -> Any:
        consumer = self.consumers.get((group, number))
        if consumer is None:
            consumer = self.consumers[group, number] = self.broker.consumer(TOPIC, group=group)
        first = local(consumer)._state.turn % PARTITIONS
        messages = consumer.receive(limit)
        expected: list[tuple[int, int, bytes, int]] = []
        for step in range(PARTITIONS):
            self.expect(group, (first + step) % PARTITIONS, limit, expected)
        assert [(m.partition, m.offset, m.value, m.attempt) for m in messages] == expected
        for message in messages:
            self.lend(self.model.of(group, message.partition, message.offset), message, consumer)
        return multiple(*(Held(message, consumer, group) for message in messages))

    def expect(
        self, group: str, partition: int, limit: int, expected: list[tuple[int, int, bytes, int]]
    ) -> None:
        """What a receive takes from one partition; what it passes over is settled."""
        while len(expected) < limit and (offset := self.model.next_ready(group, partition, self.now_ms)) >= 0:
            entry, progress = self.model.logs[partition][offset], self.model.of(group, partition, offset)
            if entry.only not in ("", group):
                progress.note(self.now_ms)
                progress.state = "done"
            elif entry.expires_ms <= self.wall_ms:
                self.expire(group, partition, offset)
            else:
                expected.append((partition, offset, entry.value, progress.attempt))
                progress.note(self.now_ms)
                progress.state = "leased"

    def lend(self, progress: Progress, message: ReceivedMessage, consumer: Consumer) -> None:
        progress.deadline_ms = self.now_ms + VISIBILITY_MS
        progress.lease = message.delivery.lease
        progress.consumer = id(consumer)

    def expire(self, group: str, partition: int, offset: int) -> None:
        progress = self.model.of(group, partition, offset)
        if self.bury_expired:
            self.bury(group, partition, offset)
        else:
            progress.note(self.now_ms)
            progress.state = "done"

    def bury(self, group: str, partition: int, offset: int) -> None:
        self.buried(group, partition, offset)
        self.model.decided(partition)

    def buried(self, group: str, partition: int, offset: int) -> None:
        progress = self.model.of(group, partition, offset)
        self.model.dead[group, partition, offset, progress.attempt] += 1
        self.model.listed[group, partition, offset] += 1
        progress.state = "done"

    # Answers.

    def holds(self, held: Held) -> bool:
        """Is the message still this consumer's?  If not, its answer must be refused."""
        message = held.message
        progress = self.model.of(held.group, message.partition, message.offset)
        return progress.state == "leased" and progress.lease == message.delivery.lease

    def answer(self, held: Held, ask: Callable[[], None]) -> Progress | None:
        """Give an answer; None if it was refused, as it must be if the message is not held any more."""
        if local(held.consumer)._core is not self.broker._core:
            return None  # Of a process that is gone.
        if held.consumer not in self.consumers.values():
            with pytest.raises(Closed):
                ask()
            return None
        if not self.holds(held):
            with pytest.raises((LeaseLost, AlreadySettled)):
                ask()
            return None
        ask()
        message = held.message
        self.model.decided(message.partition)
        return self.model.of(held.group, message.partition, message.offset)

    @rule(target=answered, held=consumes(held))
    def ack(self, held: Held) -> Held:
        progress = self.answer(held, held.message.ack)
        if progress is not None:
            progress.state = "done"
        return held

    @rule(target=answered, held=consumes(held), delay_ms=st.none() | st.integers(0, 20_000))
    def nack(self, held: Held, delay_ms: int | None) -> Held:
        delay = None if delay_ms is None else delay_ms / 1000
        progress = self.answer(held, lambda: held.message.nack(delay=delay, error="no"))
        if progress is not None:
            message = held.message
            if delay_ms is None:
                delay_ms = BACKOFF_MS[min(progress.attempt, len(BACKOFF_MS)) - 1]
            self.come_again(held.group, message.partition, message.offset, self.now_ms + delay_ms)
        return held

    @rule(target=answered, held=consumes(held))
    def reject(self, held: Held) -> Held:
        if self.answer(held, lambda: held.message.reject("bad")) is not None:
            self.bury(held.group, held.message.partition, held.message.offset)
        return held

    @rule(held=answered)
    def ack_again(self, held: Held) -> None:
        if local(held.consumer)._core is self.broker._core:
            with pytest.raises((AlreadySettled, LeaseLost, Closed)):
                held.message.ack()

    @rule(held=held, duration_ms=st.integers(1, 30_000))
    def extend(self, held: Held, duration_ms: int) -> None:
        if held.consumer not in self.consumers.values() or not self.holds(held):
            return
        held.message.extend(duration_ms / 1000)
        lease = (held.group, held.message.partition, held.message.delivery.lease)
        for (group, partition, _), progress in self.model.progress.items():
            if progress.state == "leased" and (group, partition, progress.lease) == lease:
                progress.deadline_ms = self.now_ms + duration_ms

    def come_again(self, group: str, partition: int, offset: int, due_ms: int) -> None:
        """A delivery has failed."""
        progress = self.model.of(group, partition, offset)
        if progress.attempt == self.attempts:
            self.bury(group, partition, offset)
        else:
            progress.state = "waiting"
            progress.attempt += 1
            progress.due_ms = due_ms

    @rule(group=st.sampled_from(GROUPS), number=st.integers(0, 1))
    def leave(self, group: str, number: int) -> None:
        consumer = self.consumers.pop((group, number), None)
        if consumer is not None:
            consumer.close()
            self.release(id(consumer))

    def release(self, consumer: int | None) -> None:
        """What is held goes back at once, and the delivery does not count."""
        for progress in self.model.progress.values():
            if progress.state == "leased" and consumer in (None, progress.consumer):
                progress.note(self.now_ms)
                progress.state = "waiting"
                progress.due_ms = self.now_ms

    # The stream group.

    def follower(self) -> Consumer:
        if (STREAM, 0) not in self.consumers:
            self.consumers[STREAM, 0] = self.broker.consumer(TOPIC, group=STREAM)
        return self.consumers[STREAM, 0]

    @rule(limit=st.integers(1, 8))
    def follow(self, limit: int) -> None:
        messages = self.follower().receive(limit)
        before = sum(self.model.positions)
        for message in messages:
            offset = self.model.positions[message.partition]
            assert message.offset == offset
            assert message.value == self.model.logs[message.partition][offset].value
            self.model.positions[message.partition] += 1
        assert len(messages) == min(limit, sum(map(len, self.model.logs)) - before)

    @rule()
    def commit(self) -> None:
        self.follower().commit()
        for partition, position in enumerate(self.model.positions):
            if position > self.model.committed[partition]:
                self.model.committed[partition] = position
                self.model.decided(partition)

    # Groups and dead letters.

    @rule(group=st.sampled_from(GROUPS), partition=st.integers(0, PARTITIONS - 1), share=st.floats(0, 1))
    def seek(self, group: str, partition: int, share: float) -> None:
        offset = round(share * len(self.model.logs[partition]))
        self.broker.seek(TOPIC, group, offset, partition=partition)
        self.model.decided(partition)
        for number in self.model.offsets(partition):
            state = "done" if number < offset else "fresh"
            self.model.progress[group, partition, number] = Progress(state)

    @rule(limit=st.integers(1, 3))
    def redrive(self, limit: int) -> None:
        letters = self.broker.dead_letters(TOPIC)[:limit]
        done = self.broker.redrive(TOPIC, limit=limit)
        assert done.redriven == len(letters)
        for letter in letters:
            partition, offset = (int(part) for part in letter.source.split(":")[1:])
            self.model.listed[letter.group, partition, offset] -= 1
            origin = self.model.logs[partition][offset]
            self.model.logs[partition].append(Entry(origin.value, origin.lane, only=letter.group))

    # Time.

    @rule(duration_ms=st.sampled_from([1, 500, 999, 1000, 4000, 10_000, 30_000, 61_000]))
    def advance(self, duration_ms: int) -> None:
        self.broker.advance(duration_ms / 1000)
        self.highest_wall_ms = max(self.highest_wall_ms, self.wall_ms)
        late = sorted(
            (progress.deadline_ms, place)
            for place, progress in self.model.progress.items()
            if progress.state == "leased" and progress.deadline_ms <= self.now_ms
        )
        for deadline_ms, place in late:
            self.model.progress[place].note(deadline_ms)
            self.come_again(*place, deadline_ms)
        due = sorted(
            (delayed for delayed in self.model.delayed if delayed.due_ms <= self.wall_ms),
            key=lambda delayed: (delayed.due_ms, delayed.number),
        )
        for delayed in due:
            self.model.delayed.remove(delayed)
            self.model.logs[delayed.partition].append(delayed.entry)

    @rule(step_ms=st.integers(1, 100_000), back=st.booleans())
    def set_the_wall_clock(self, step_ms: int, back: bool) -> None:
        self.clock.step_wall(step_ms / 1000, back=back)
        self.advance(1000)  # The schedule looks at the wall clock every second.

    # Ends and beginnings.

    @rule(how=st.sampled_from(["close", "kill", "power cut"]), seed=st.integers(0, 1000))
    def end(self, how: str, seed: int) -> None:
        """The process ends, and the next one begins."""
        if how == "close":
            self.broker.close()
            self.release(None)
        elif how == "kill":
            self.disk.kill()
        else:
            self.disk.power_cut(Random(seed))
        self.consumers.clear()
        self.model.positions = list(self.model.committed)
        self.broker = self.open()
        if how != "close":
            for place, progress in self.model.progress.items():
                self.compare_after_crash(place, progress, power=how == "power cut")
        for partition in range(PARTITIONS):
            self.model.decided(partition)

    def compare_after_crash(self, place: tuple[str, int, int], progress: Progress, *, power: bool) -> None:
        """Everything decided is as it was; of what was only noted, some may be forgotten."""
        group, partition, offset = place
        engine = self.broker._core.state.topics[TOPIC].partitions[partition].groups[group].engine
        possible = {progress.following} if progress.state != "done" else set()
        unsure = progress.noted_ms >= 0 and (power or progress.noted_ms + FLUSH_MS > self.now_ms)
        if unsure:
            possible |= progress.after_cut if power else progress.after_kill
        if engine.done.contains(offset):
            if progress.state != "done":
                # Only a message whose last delivery was cut short is settled by a crash.
                assert self.attempts + 1 in possible
                progress.attempt = self.attempts
                self.buried(*place)
            return
        attempt = engine.waiting_attempt(offset)
        assert max(attempt, 1) in possible
        due_ms = next((due for start, end, due in engine.waiting_ranges() if start <= offset < end), 0)
        if progress.state == "waiting" and progress.due_ms > self.now_ms:
            assert due_ms == progress.due_ms
        else:
            assert due_ms <= self.now_ms
        progress.state = "waiting" if attempt else "fresh"
        progress.attempt = max(attempt, 1)
        progress.due_ms = due_ms

    # Comparison.

    @invariant()
    def the_logs_are_equal(self) -> None:
        for partition, entries in enumerate(self.model.logs):
            stored = self.broker.read(TOPIC, partition=partition, limit=10_000)
            assert [message.value for message in stored] == [entry.value for entry in entries]

    @invariant()
    def the_schedules_are_equal(self) -> None:
        waiting = self.broker.scheduled(TOPIC)
        assert sorted((entry.due_ms, entry.value) for entry in waiting) == sorted(
            (delayed.due_ms, delayed.entry.value) for delayed in self.model.delayed
        )

    @invariant()
    def the_groups_are_equal(self) -> None:
        for group in GROUPS:
            info = self.broker.describe_group(TOPIC, group)
            assert [lag.lag for lag in info.partitions] == [
                self.model.lag(group, partition) for partition in range(PARTITIONS)
            ]
            assert info.in_flight == self.model.count(group, "leased")
            assert info.waiting_retry == self.model.count(group, "waiting")

    @invariant()
    def the_oldest_unacked_messages_are_equal(self) -> None:
        for group in GROUPS:
            delivered = [
                (partition, offset)
                for (name, partition, offset), progress in self.model.progress.items()
                if name == group and progress.state in ("leased", "waiting")
            ]
            self.compare_oldest(group, delivered)
        read = [
            (partition, offset)
            for partition in range(PARTITIONS)
            for offset in range(self.model.committed[partition], self.model.positions[partition])
        ]
        self.compare_oldest(STREAM, read)

    def compare_oldest(self, group: str, places: list[tuple[int, int]]) -> None:
        oldest = self.broker.describe_group(TOPIC, group).oldest_unacked
        if oldest is None:
            assert not places
            return
        ages = {
            (message.partition, message.offset): max(self.wall_ms - message.timestamp, 0) / 1000
            for message in self.broker.read(TOPIC, limit=10_000)
        }
        first = min(places, key=lambda place: (-ages[place], place))
        assert (oldest.id, oldest.age_seconds) == (f"{TOPIC}:{first[0]}:{first[1]}", ages[first])
        if group == STREAM:
            assert (oldest.attempts, oldest.due_seconds) == (1, None)
            assert oldest.consumer == self.consumers[STREAM, 0].consumer_id
            return
        progress = self.model.of(group, *first)
        held = progress.state == "leased"
        until_ms = progress.deadline_ms if held else progress.due_ms
        holders = {id(consumer): consumer.consumer_id for consumer in self.consumers.values()}
        assert oldest.consumer == (holders[progress.consumer] if held else None)
        assert (oldest.attempts, oldest.failures) == (progress.attempt - (not held), progress.attempt - 1)
        assert oldest.due_seconds == max(until_ms - self.now_ms, 0) / 1000

    @invariant()
    def the_commits_are_equal(self) -> None:
        info = self.broker.describe_group(TOPIC, STREAM)
        assert [lag.floor for lag in info.partitions] == self.model.committed

    @invariant()
    def the_dead_letters_are_equal(self) -> None:
        if f"{TOPIC}.dlq" not in self.broker.topics():
            assert self.model.dead.total() == 0
            return
        letters: Counter[tuple[str, int, int, int]] = Counter()
        for message in self.broker.read(f"{TOPIC}.dlq", limit=10_000):
            about = message.headers
            place = (int(about["x-source-partition"]), int(about["x-source-offset"]))
            letters[about["x-group"], *place, int(about["x-attempts"])] += 1
        assert letters == self.model.dead
        listed = [
            (letter.group, *(int(part) for part in letter.source.split(":")[1:]))
            for letter in self.broker.dead_letters(TOPIC)
        ]
        assert Counter(listed) == +self.model.listed
        assert sum(error.count for error in self.broker.dead_letter_errors(TOPIC)) == len(listed)

    def teardown(self) -> None:
        """Work everything off: each group settles each message, and nothing is left."""
        if not hasattr(self, "broker"):
            return
        for _ in range(3):
            self.advance(61_000)
        for group in GROUPS:
            while received := self.receive(group, 0, 5).values:
                for held in received:
                    self.ack(held)
            assert self.broker.describe_group(TOPIC, group).lag == 0
        self.the_dead_letters_are_equal()
        self.broker.close()


TestBrokerAgainstModel = BrokerAgainstModel.TestCase
