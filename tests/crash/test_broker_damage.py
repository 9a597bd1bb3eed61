"""Files of a data directory are cut, filled with zeros, emptied or removed behind the broker's back.

``test_flipped_bytes.py`` changes single bytes.  Here more is lost, so less can be promised: the broker opens;
every message that is returned is the one that was published at that offset; nothing acked is delivered again,
unless the journal itself was damaged; and whatever is missing is reported.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from tests.logs import undecodable

from penstock.config.broker import BrokerConfig
from penstock.errors import PenstockError, TopicDamaged
from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

CONFIG = BrokerConfig(clock_check_ms=24 * 3600 * 1000)


@dataclass
class Original:
    """A directory with some of everything, and what is in it."""

    contents: dict[str, bytes]
    now_ms: int
    values: dict[tuple[str, int], bytes] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    waiting: set[bytes | None] = field(default_factory=set)

    def copy(self, path: str, data: bytes | None) -> tuple[CrashDisk, ManualClock]:
        """The directory with one file changed, or removed."""
        disk = CrashDisk()
        for name, content in self.contents.items():
            changed = data if name == path else content
            if changed is not None:
                file = disk.open(name, create=True)
                file.append((changed,))
                file.sync()
                disk.sync_directory(name.rpartition("/")[0])
        return disk, ManualClock(self.now_ms)


def make_original(*, closed: bool) -> Original:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    broker.create_topic("orders", segment_bytes=4096, retention=None)
    for number in range(20):
        priority = "high" if number % 5 == 0 else 0
        broker.publish("orders", b"%d " % number * 100, priority=priority, dedup_id=f"id-{number}")
    for hours in (1, 100):
        broker.publish("orders", b"in %d hours" % hours, delay=f"{hours}h")
    consumer = broker.consumer("orders", group="work", visibility_timeout="1h", backoff=["1h"])
    received = consumer.receive(9)
    consumer.ack(received[:5])
    received[5].reject("bad")
    received[6].nack(error="no")
    original = Original({}, 0)
    original.acked = {message.offset for message in received[:6]}
    [partition] = broker._core.state.topics["orders"].partitions
    assert broker._core.maintenance.snapshot(partition)
    received[7].ack()
    original.acked.add(received[7].offset)
    original.waiting = {entry.value for entry in broker.scheduled("orders")}
    for topic in broker.topics():
        original.values |= {(topic, m.offset): m.value for m in broker.read(topic, limit=1000)}
    if closed:
        broker.close()
    disk.kill()
    original.contents = {path: bytes(node.content) for path, node in disk._names.items()}
    original.now_ms = clock.steady_ms()
    return original


ORIGINALS = {"closed": make_original(closed=True), "killed": make_original(closed=False)}


def kinds(original: Original) -> dict[str, str]:
    """One file of every kind, by what it is; of segments, the first and the last."""
    found: dict[str, str] = {}
    for path in sorted(original.contents):
        kind = re.sub(r"\d{20}|[0-9.]+(?=$)", "N", path)
        found.setdefault(kind, path)
        if kind.endswith("/N.log"):
            found[f"{kind} (last)"] = path
    return found


LOGS = re.compile(r"\d{20}\.log$")


def cases(*, logs: bool = True, killed_logs: bool = True) -> list[object]:
    return [
        pytest.param(how, path, id=f"{how} {kind}")
        for how, original in ORIGINALS.items()
        for kind, path in kinds(original).items()
        if not LOGS.search(path) or (logs and (killed_logs or how == "closed"))
    ]


def test_every_kind_of_file_is_there() -> None:
    closed = " ".join(kinds(ORIGINALS["closed"]))
    for part in (
        "penstock.json", "topic.json", "0/N.log", "0/N.index", "0/N.lanes", "0/digest", "journal/N.log",
        "journal/snapshot", "schedule/N.log",
    ):  # fmt: skip
        assert part in closed


def test_undamaged_everything_is_as_it_was() -> None:
    for original in ORIGINALS.values():
        disk, clock = original.copy("", None)
        broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
        assert compare(broker, original) == []
        broker.close()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "path"), cases())
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data + b"\0" * 100,
        lambda data: b"\0" * len(data),
    ],
    ids=["halved", "one byte short", "zeros behind", "all zeros"],
)
def test_a_file_that_is_cut_or_filled_is_noticed_or_does_not_matter(
    how: str, path: str, change: Callable[[bytes], bytes]
) -> None:
    check(ORIGINALS[how], path, change(ORIGINALS[how].contents[path]))


@pytest.mark.slow
@pytest.mark.parametrize(("how", "path"), cases(killed_logs=False))
def test_a_file_that_is_empty_is_noticed_or_does_not_matter(how: str, path: str) -> None:
    """Except the last segment of a process that was killed, which may well be empty."""
    check(ORIGINALS[how], path, b"")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "path"), cases(logs=False))
def test_a_file_that_is_gone_is_noticed_or_does_not_matter(how: str, path: str) -> None:
    """Except a segment: a missing first one looks like retention, a missing last one like a new log."""
    check(ORIGINALS[how], path, None)


def check(original: Original, path: str, data: bytes | None) -> None:
    """Open the directory with the file changed so, and look at everything."""
    disk, clock = original.copy(path, data)
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    problems = compare(broker, original)
    if problems:
        assert broker.stats().problems, problems
    with suppress(PenstockError):
        broker.publish("orders", b"after")
    broker.close()


def compare(broker: TestBroker, original: Original) -> list[str]:
    """What is not as it was; a wrong message is not forgiven at all."""
    problems: list[str] = []
    for topic in {topic for topic, _ in original.values}:
        expected = {offset: value for (name, offset), value in original.values.items() if name == topic}
        found: dict[int, bytes] = {}
        if topic not in broker.topics():
            problems.append(f"{topic} is offline")
            continue
        for message in broker.read(topic, limit=1000):
            assert message.value == expected[message.offset]
            found[message.offset] = message.value
        if found != expected:
            problems.append(f"{topic}: {len(expected) - len(found)} are missing")
    if "orders" in broker.topics():
        problems += compare_group(broker, original)
        waiting = {entry.value for entry in broker.scheduled("orders")}
        assert waiting <= original.waiting
        if waiting != original.waiting:
            problems.append("the schedule has lost something")
    return problems


def compare_group(broker: TestBroker, original: Original) -> list[str]:
    expected = {offset: value for (name, offset), value in original.values.items() if name == "orders"}
    if "work" not in broker.groups("orders"):
        return ["the group is gone"]
    delivered: set[int] = set()
    consumer = broker.consumer("orders", group="work", max_attempts=1000, visibility_timeout="12h")
    for _ in range(40):
        for message in consumer.receive(1):
            assert message.value == expected[message.offset]
            assert message.offset not in delivered
            delivered.add(message.offset)
    if delivered & original.acked:
        return ["something acked was delivered again"]
    return []


def test_a_topic_is_offline_if_the_snapshot_of_a_trimmed_journal_is_damaged() -> None:
    """Without it nobody knows which groups there are; to go on would deliver everything again."""
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    broker.create_topic("orders", retention=None)
    consumer = broker.consumer("orders", group="work")
    broker.publish_batch("orders", [Message(b"%d" % number) for number in range(10)])
    consumer.ack(consumer.receive(10))
    [partition] = broker._core.state.topics["orders"].partitions
    assert partition.journal is not None
    assert broker._core.maintenance.snapshot(partition)
    partition.journal.log.roll()
    partition.journal.log.delete_before(partition.journal.log.end)
    broker.close()
    path = "data/topics/orders/0/journal/snapshot"
    disk.kill()
    disk.damage(path, lambda data: data[:-1] + bytes([data[-1] ^ 1]))

    with TestBroker.open("data", config=CONFIG, files=disk, clock=clock) as broker:
        with pytest.raises(TopicDamaged, match="snapshot"):
            broker.read("orders")
        broker.create_topic("others")
        assert [problem.kind for problem in broker.stats().problems] == ["topic_offline"]


def test_batches_that_nobody_can_decode_keep_nobody_from_what_is_around_them() -> None:
    with TestBroker.open("data", config=CONFIG, files=CrashDisk(), clock=ManualClock()) as broker:
        for topic in ("orders", "orders.dlq"):
            broker.create_topic(topic)
            log = broker._core.state.topics[topic].partitions[0].log
            for number in range(30):
                if number % 3 == 1:
                    log.append(undecodable())
                else:
                    broker.publish(topic, b"%d" % number, key=b"k")
            log.sync()
        expected = [number for number in range(30) if number % 3 != 1]
        stream = broker.consumer("orders", group="stream", kind="stream")
        queue = broker.consumer("orders", group="queue")
        ordered = broker.consumer("orders", group="ordered", ordered=True)
        assert [message.offset for message in stream.receive(100)] == expected
        stream.commit()
        received = queue.receive(100)
        assert [message.offset for message in received] == expected
        queue.ack(received)
        in_order: list[int] = []
        while messages := ordered.receive(1):
            in_order += [message.offset for message in messages]
            ordered.ack(messages)
        assert in_order == expected
        assert [message.offset for message in broker.read("orders")] == expected
        assert [message.offset for message in broker.peek("orders", count=3)] == expected[-3:]
        for group in ("stream", "queue", "ordered"):
            assert broker.describe_group("orders", group).lag == 0
            assert broker.delivery_states("orders", group, 0, 0, 30)
        assert broker.dead_letters("orders") == []
        assert broker.dead_letter_errors("orders") == []
        for offset in (0, 1, 2):
            broker.trace("orders", partition=0, offset=offset)
        damaged = [problem for problem in broker.stats().problems if problem.topic == "orders"]
        assert [problem.first_offset for problem in damaged] == list(range(1, 30, 3))


def test_damage_is_no_problem_any_more_once_it_is_deleted() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    broker.create_topic("orders", segment_bytes=4096, retention="1h")
    for number in range(10):
        broker.publish("orders", b"%d" % number * 1000)
    broker.close()
    path = f"data/topics/orders/0/{0:020d}.log"
    disk.damage(path, lambda data: data.replace(b"1" * 1000, b"!" * 1000))

    broker = TestBroker.open("data", config=CONFIG, files=disk, clock=clock)
    assert len(broker.read("orders")) == 9
    [problem] = broker.stats().problems
    assert (problem.kind, problem.first_offset) == ("damaged", 1)
    broker.advance("2h")

    assert broker.read("orders") == []
    assert not disk.exists(path)
    assert broker.stats().problems == []
    broker.close()
