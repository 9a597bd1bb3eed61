"""Data log, journal, schedule and dead letters come back from a power cut each with its own end.

Under durability "os" nothing is synced before it is answered, so a power cut
may take the end of any of these files and leave the others whole.  Something
may be lost then; that is what "os" means.  But what is left must make sense,
and what is published afterwards must not suffer: an offset settled before the
cut must not swallow the new message that gets that offset, and a number used
before the cut must not make a new message look like a repeat.

Each test makes a small directory, kills the process, and opens copies of it
with every combination of ends cut off, at every batch and inside batches.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from penstock.config.broker import BrokerConfig
from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.records import read_header

CONFIG = BrokerConfig(clock_check_ms=24 * 3600 * 1000)
FIRST = "00000000000000000000.log"
DATA = f"data/topics/orders/0/{FIRST}"
JOURNAL = f"data/topics/orders/0/journal/{FIRST}"
SCHEDULE = f"data/topics/orders/0/schedule/{FIRST}"
DEAD = f"data/topics/orders.dlq/0/{FIRST}"
OUT = f"data/topics/out/0/{FIRST}"


class Directory:
    """A data directory as a killed process left it."""

    def __init__(self, disk: CrashDisk, clock: ManualClock) -> None:
        disk.kill()
        self._contents = {path: bytes(node.content) for path, node in disk._names.items()}
        self._now_ms = clock.steady_ms()

    def ends(self, path: str) -> list[int]:
        """Where its batches end, and a place inside the last one."""
        data = self._contents[path]
        ends = [0]
        while ends[-1] < len(data):
            ends.append(ends[-1] + read_header(data, ends[-1]).size)
        return [*ends, ends[-1] - 7] if len(ends) > 1 else ends

    def copy(self, cuts: dict[str, int]) -> tuple[CrashDisk, ManualClock]:
        """The directory with these files cut off."""
        disk = CrashDisk()
        for path, data in self._contents.items():
            file = disk.open(path, create=True)
            file.append((data[: cuts.get(path, len(data))],))
            file.sync()
            disk.sync_directory(path.rpartition("/")[0])
        return disk, ManualClock(self._now_ms + 1000)

    def cut_copies(self, *paths: str) -> Iterator[tuple[CrashDisk, ManualClock]]:
        """Every combination of ends of these files."""
        for ends in product(*(self.ends(path) for path in paths)):
            yield self.copy(dict(zip(paths, ends, strict=True)))


def begin(**options: object) -> tuple[CrashDisk, ManualClock, TestBroker]:
    disk, clock = CrashDisk(), ManualClock()
    broker = reopen(disk, clock)
    for topic in ("orders", "out"):
        broker.create_topic(topic, durability="os", retention=None, **options)  # type: ignore[arg-type]
    return disk, clock, broker


def reopen(disk: CrashDisk, clock: ManualClock) -> TestBroker:
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    # No thread that syncs every second: what a test does not sync is not synced.
    broker._core.state.commit.kick = lambda: None  # type: ignore[method-assign]
    return broker


def drain(broker: TestBroker, group: str = "work") -> list[bytes]:
    """Receive and ack everything there is for a group."""
    found: list[bytes] = []
    consumer = broker.consumer("orders", group=group, max_attempts=1000)
    while messages := consumer.receive(100):
        found += [message.value for message in messages]
        consumer.ack(messages)
    return found


def queue_directory() -> Directory:
    """Some acked, out of order, one nacked, one held, one never received."""
    disk, clock, broker = begin()
    for number in range(7):
        broker.publish("orders", b"old-%d" % number, priority="high" if number == 3 else 0)
    consumer = broker.consumer("orders", group="work", max_attempts=1000)
    held = {message.value: message for message in consumer.receive(6)}
    for number in (0, 3, 1, 5):
        held[b"old-%d" % number].ack()
    held[b"old-2"].nack(delay=0)
    return Directory(disk, clock)


@pytest.mark.slow
@pytest.mark.parametrize("again", ["nothing", "kill", "power cut"])
def test_settled_offsets_beyond_the_end_of_the_log_swallow_no_new_message(again: str) -> None:
    """Also if the first process after the cut ends before it has done anything."""
    acked = {b"old-0", b"old-1", b"old-3", b"old-5"}
    for seed, (disk, clock) in enumerate(queue_directory().cut_copies(DATA, JOURNAL)):
        broker = reopen(disk, clock)
        stored = [message.value for message in broker.read("orders")]
        if again == "kill":
            disk.kill()
        elif again == "power cut":
            disk.power_cut(Random(seed))
        if again != "nothing":
            broker = reopen(disk, clock)
            stored = [message.value for message in broker.read("orders")]
        new = [b"new-%d" % number for number in range(8)]
        for number, value in enumerate(new):
            broker.publish("orders", value, priority="high" if number % 3 == 0 else 0)

        delivered = Counter(drain(broker))

        assert max(delivered.values()) == 1
        assert set(new) <= set(delivered)
        assert set(stored) - acked <= set(delivered) <= set(stored) | set(new)
        disk.kill()
        broker = reopen(disk, clock)
        assert drain(broker) == []
        assert broker.describe_group("orders", "work").lag == 0


def test_attempts_of_what_is_left_survive_a_shorter_log() -> None:
    directory = queue_directory()
    for end in directory.ends(DATA)[4:]:  # What was nacked is still there, some after it is not.
        disk, clock = directory.copy({DATA: end})
        for _ in range(2):  # As told by the old journal, and by what recovery wrote of it.
            broker = reopen(disk, clock)
            waiting = {m.value: m.attempt for m in broker.consumer("orders", group="work").receive(10)}
            assert waiting[b"old-2"] >= 2
            disk.power_cut(Random(end))


def test_a_commit_beyond_the_end_of_the_log_swallows_no_new_message() -> None:
    disk, clock, broker = begin()
    for number in range(5):
        broker.publish("orders", b"old-%d" % number)
        consumer = broker.consumer("orders", group="flow", kind="stream", consumer_id=f"c{number}")
        consumer.receive(10)
        consumer.commit()
        consumer.close()
    directory = Directory(disk, clock)
    for disk, clock in directory.cut_copies(DATA, JOURNAL):
        broker = reopen(disk, clock)
        stored = [message.value for message in broker.read("orders")]
        disk.power_cut(Random(len(stored)))
        broker = reopen(disk, clock)
        stored = [message.value for message in broker.read("orders")]
        new = [b"new-%d" % number for number in range(6)]
        broker.publish_batch("orders", new)

        consumer = broker.consumer("orders", group="flow", kind="stream")
        received = [message.value for message in consumer.receive(100)]

        assert received[-6:] == new
        assert received[:-6] == stored[len(stored) - len(received) + 6 :]
        consumer.commit()
        disk.kill()
        assert reopen(disk, clock).describe_group("orders", "flow").lag == 0


@pytest.mark.slow
def test_numbers_of_the_outbox_that_were_lost_make_no_new_message_look_like_a_repeat() -> None:
    """Journal and targets lose different ends; dead letters and outputs of later decisions all arrive."""
    disk, clock, broker = begin()
    broker.create_group("orders", "work", max_attempts=1000)
    for number in range(4):
        broker.publish("orders", b"old-%d" % number)
        consumer = broker.consumer("orders", group="work")
        [message] = consumer.receive(1)
        if number % 2:
            message.reject("old")
        else:
            consumer.ack(message, publish=[("out", Message(message.value))])
    directory = Directory(disk, clock)
    for disk, clock in directory.cut_copies(JOURNAL, DEAD, OUT):
        broker = reopen(disk, clock)
        drain(broker)
        before = Counter(m.value for topic in ("orders.dlq", "out") for m in broker.read(topic))
        assert all(count == 1 or value.startswith(b"old") for value, count in before.items())
        for number in range(4):
            broker.publish("orders", b"new-%d" % number)
            consumer = broker.consumer("orders", group="work", max_attempts=1000)
            [message] = consumer.receive(1)
            if number % 2:
                message.reject("new")
            else:
                consumer.ack(message, publish=[("out", Message(message.value))])

        for _ in range(2):
            after = Counter(m.value for topic in ("orders.dlq", "out") for m in broker.read(topic))
            assert after - before == Counter(b"new-%d" % number for number in range(4))
            disk.kill()
            broker = reopen(disk, clock)


def test_what_an_outbox_published_is_published_once_if_only_the_targets_were_cut() -> None:
    """The journal is whole, as it is before anything is published under "fsync": redone, and once."""
    disk, clock, broker = begin()
    for number in range(3):
        broker.publish("orders", b"%d" % number)
        [message] = broker.consumer("orders", group="work").receive(1)
        message.reject("bad")
    directory = Directory(disk, clock)
    for disk, clock in directory.cut_copies(DEAD):
        for _ in range(3):
            broker = reopen(disk, clock)
            assert [message.value for message in broker.read("orders.dlq")] == [b"0", b"1", b"2"]
            disk.power_cut(Random(1))


@pytest.mark.slow
def test_entries_of_the_schedule_come_once_whatever_ends_were_lost() -> None:
    disk, clock, broker = begin()
    for number in range(4):
        broker.publish("orders", b"old-%d" % number, delay=number / 10)
        broker.advance(0.05)
    directory = Directory(disk, clock)
    for disk, clock in directory.cut_copies(DATA, SCHEDULE):
        broker = reopen(disk, clock)
        waiting = {entry.value for entry in broker.scheduled("orders")}
        there = {message.value for message in broker.read("orders")}
        new = {b"new-%d" % number for number in range(5)}
        for value in sorted(new):
            broker.publish("orders", value, delay="1s")
        disk.kill()
        broker = reopen(disk, clock)
        broker.advance("1m")

        for _ in range(2):
            values = Counter(message.value for message in broker.read("orders"))
            assert set(values) == waiting | there | new
            assert set(values.values()) == {1}
            disk.kill()
            broker = reopen(disk, clock)
            broker.advance("1m")


def test_a_snapshot_that_outlived_the_end_of_the_journal_holds() -> None:
    """The snapshot is synced and the journal is not, so it may be the newer one."""
    disk, clock, broker = begin()
    broker.publish_batch("orders", [b"%d" % number for number in range(6)])
    consumer = broker.consumer("orders", group="work", visibility_timeout="1h")
    messages = consumer.receive(4)
    consumer.ack(messages[:2])
    messages[2].nack(delay=0)
    [partition] = broker._core.state.topics["orders"].partitions
    assert broker._core.maintenance.snapshot(partition)
    directory = Directory(disk, clock)
    for end in directory.ends(JOURNAL):
        disk, clock = directory.copy({JOURNAL: end})
        for _ in range(2):
            broker = reopen(disk, clock)
            assert broker.describe_group("orders", "work").lag == 4
            received = broker.consumer("orders", group="work", visibility_timeout="1h").receive(10)
            assert Counter(message.value for message in received) == Counter([b"2", b"3", b"4", b"5"])
            disk.power_cut(Random(end))
        broker = reopen(disk, clock)
        drain(broker)
        broker.publish("orders", b"new")
        disk.kill()
        broker = reopen(disk, clock)
        assert drain(broker) == [b"new"]


def test_a_digest_of_a_longer_log_is_not_believed_when_the_log_has_grown_again() -> None:
    """Dedup ids and producers are read from the log that is there, not from one that was lost."""
    disk, clock, broker = begin()
    broker.publish("orders", b"old")
    broker.publish_batch("orders", [b"x"] * 10)
    broker.close()
    disk.kill()
    disk = _cut(disk, clock, DATA)
    broker = reopen(disk, clock)
    for number in range(3):
        broker.publish("orders", b"%d" % number, dedup_id=f"id-{number}")
    broker.publish_batch("orders", [b"y"] * 20)
    disk.kill()

    broker = reopen(disk, clock)
    for number in range(3):
        assert broker.publish("orders", b"again", dedup_id=f"id-{number}").duplicate


def _cut(disk: CrashDisk, clock: ManualClock, path: str) -> CrashDisk:
    directory = Directory(disk, clock)
    copy, _ = directory.copy({path: directory.ends(path)[1]})
    return copy
