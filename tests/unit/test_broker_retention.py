"""Retention by time and by size, groups that are overtaken, compaction by key."""

import json
from typing import Literal

import pytest
from crc32c import crc32c

from penstock import Message
from penstock.config.broker import ARCHIVE_GROUP, TopicOptions
from penstock.errors import AlreadySettled, OffsetOutOfRange
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker

KB = b"x" * 1000


def test_messages_older_than_the_retention_are_deleted(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h")
    penstock.publish_batch("orders", [b"0", b"1"])
    penstock.advance("59m")
    assert len(penstock.read("orders")) == 2

    penstock.advance("3m")
    penstock.publish("orders", b"2")

    assert [(message.offset, message.value) for message in penstock.read("orders")] == [(2, b"2")]
    with pytest.raises(OffsetOutOfRange, match="holds 2 up to 3"):
        penstock.read("orders", offset=0)


def test_a_young_message_keeps_its_whole_segment(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h")
    penstock.publish("orders", b"old")
    penstock.advance("50m")
    penstock.publish("orders", b"young")
    penstock.advance("20m")

    assert [message.value for message in penstock.read("orders")] == [b"old", b"young"]


def test_the_oldest_segments_go_when_the_log_is_too_large(penstock: TestBroker) -> None:
    penstock.create_topic("orders", segment_bytes=4096, retention_bytes=20_000, retention=None)
    for _ in range(60):
        penstock.publish("orders", KB)

    penstock.advance("1m")

    info = penstock.describe_topic("orders")
    assert 15_000 < info.bytes < 30_000
    assert info.partitions[0].end == 60
    assert info.messages == len(penstock.read("orders", limit=1000)) < 30


def test_without_retention_nothing_goes(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention=None)
    penstock.publish("orders", b"x")
    penstock.advance("10d")

    assert len(penstock.read("orders")) == 1


def test_a_group_that_is_overtaken_knows_what_it_lost(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h")
    penstock.publish_batch("orders", [b"%d" % number for number in range(10)])
    consumer = penstock.consumer("orders", visibility_timeout="10h")
    messages = consumer.receive(4)
    consumer.ack(messages[:3])

    penstock.advance("2h")
    penstock.publish("orders", b"new")

    info = penstock.describe_group("orders", "default")
    assert (info.lost, info.lag, info.in_flight) == (7, 1, 0)
    with pytest.raises(AlreadySettled):
        messages[3].ack()
    assert [message.value for message in consumer.receive(10)] == [b"new"]
    assert consumer.in_flight == 1


def test_what_was_lost_is_remembered_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", retention="1h")
        broker.create_group("orders", "g")
        broker.publish_batch("orders", [b"x"] * 5)
        broker.advance("2h")
        assert broker.describe_group("orders", "g").lost == 5

    with TestBroker.open("data", files=files, clock=clock) as broker:
        info = broker.describe_group("orders", "g")
        assert (info.lost, info.lag) == (5, 0)


def test_retention_waits_for_the_slowest_group_if_told_to(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h", retain_until_settled=True)
    quick, slow = penstock.consumer("orders", group="quick"), penstock.consumer("orders", group="slow")
    penstock.publish_batch("orders", [b"0", b"1"])
    quick.ack(quick.receive(2))

    penstock.advance("3h")
    messages = slow.receive(10)
    assert [message.value for message in messages] == [b"0", b"1"]
    slow.ack(messages)
    penstock.advance("2m")

    assert penstock.read("orders") == []
    assert penstock.describe_group("orders", "slow").lost == 0


def test_retention_waits_for_the_commit_of_a_stream_group(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h", retain_until_settled=True)
    consumer = penstock.consumer("orders", kind="stream")
    penstock.publish_batch("orders", [b"0", b"1"])
    penstock.advance("3h")

    assert len(consumer.receive(10)) == 2
    consumer.commit()
    penstock.advance("2m")

    assert penstock.read("orders") == []


def test_offsets_go_on_after_everything_was_deleted_and_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", retention="1h")
        broker.publish_batch("orders", [b"x"] * 5)
        broker.advance("2h")
        assert broker.read("orders") == []

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert broker.publish("orders", b"new").offset == 5


def test_dead_letters_are_kept_for_two_weeks(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h")
    penstock.publish("orders", b"x")
    penstock.consumer("orders").receive()[0].reject("no")

    penstock.advance("13d")
    assert penstock.read("orders") == []
    assert len(penstock.dead_letters("orders")) == 1


# Compaction.


def compacted(broker: TestBroker, tombstone_retention: str = "1h") -> None:
    broker.create_topic("prices", compact=True, retention=None, tombstone_retention=tombstone_retention)


def test_compaction_keeps_the_last_value_of_every_key(penstock: TestBroker) -> None:
    compacted(penstock)
    for number in range(30):
        penstock.publish("prices", b"%d" % number, key=f"k{number % 3}")
    penstock.alter_topic("prices", compact=False)
    penstock.publish("prices", b"no key")
    penstock.alter_topic("prices", compact=True)

    penstock.advance("2m")

    kept = [(message.offset, message.value) for message in penstock.read("prices")]
    assert kept == [(27, b"27"), (28, b"28"), (29, b"29"), (30, b"no key")]


def test_a_tombstone_removes_its_key_and_then_goes_itself(penstock: TestBroker) -> None:
    compacted(penstock, tombstone_retention="1h")
    penstock.publish("prices", b"1", key="a")
    penstock.publish("prices", b"1", key="b")
    penstock.publish("prices", None, key="a")

    penstock.advance("2m")
    assert [(m.key, m.is_tombstone) for m in penstock.read("prices")] == [(b"b", False), (b"a", True)]
    penstock.advance("3h")
    assert [(m.key, m.is_tombstone) for m in penstock.read("prices")] == [(b"b", False)]


def test_a_consumer_goes_over_the_gaps(penstock: TestBroker) -> None:
    compacted(penstock)
    queue = penstock.consumer("prices", group="q")
    stream = penstock.consumer("prices", group="s", kind="stream", session_timeout="1d")
    for number in range(20):
        penstock.publish("prices", b"%d" % number, key=f"k{number % 2}")
    penstock.advance("2m")

    messages = queue.receive(100)
    assert [message.value for message in messages] == [b"18", b"19"]
    queue.ack(messages)
    assert penstock.depth("prices", "q") == 0
    assert [message.value for message in stream.receive(100)] == [b"18", b"19"]
    stream.commit()
    assert penstock.depth("prices", "s") == 0


def test_a_compacted_topic_is_the_same_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        compacted(broker)
        for number in range(20):
            broker.publish("prices", b"%d" % number, key=f"k{number % 2}")
        broker.advance("2m")
        before = [(message.offset, message.value) for message in broker.read("prices")]

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert [(message.offset, message.value) for message in broker.read("prices")] == before
        assert broker.publish("prices", b"new", key="k0").offset == 20


def test_lanes_and_headers_survive_compaction(penstock: TestBroker) -> None:
    compacted(penstock)
    for _ in range(2):
        penstock.publish_batch(
            "prices",
            [
                Message(b"h", key="a", priority="high", headers={"h": "v"}),
                Message(b"l", key="b", priority="low"),
            ],
        )
    penstock.advance("2m")

    messages = penstock.consumer("prices").receive(10)

    assert [(m.value, m.priority, m.offset) for m in messages] == [(b"h", "high", 2), (b"l", "low", 3)]
    assert messages[0].headers == {"h": "v"}


# The archive.


def test_retention_waits_for_the_archive_if_told_to(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h", retention_waits_for_archive=True, segment_bytes=4096)
    for number in range(8):
        penstock.publish("orders", b"%d" % number * 1000)
    penstock.advance("3h")
    assert len(penstock.read("orders")) == 8  # Nobody archives.

    penstock.commit_offsets("orders", ARCHIVE_GROUP, {0: 5})
    penstock.advance("2m")
    kept = penstock.read("orders")
    assert kept[0].offset == 3  # Whole segments go, and none that is not archived.
    assert penstock.describe_group("orders", ARCHIVE_GROUP).lost == 0

    penstock.commit_offsets("orders", ARCHIVE_GROUP, {0: 8})
    penstock.advance("2m")
    assert penstock.read("orders") == []


def test_a_queue_group_is_no_archive_whatever_its_name(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h", retention_waits_for_archive=True)
    consumer = penstock.consumer("orders", group=ARCHIVE_GROUP)
    penstock.publish("orders", b"x")
    consumer.ack(consumer.receive())

    penstock.advance("3h")

    assert len(penstock.read("orders")) == 1


def test_retention_does_not_wait_unless_told_to(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h")
    penstock.publish("orders", b"x")
    penstock.commit_offsets("orders", ARCHIVE_GROUP, {0: 0})

    penstock.advance("3h")

    assert penstock.describe_group("orders", ARCHIVE_GROUP).lost == 1


def full(broker: TestBroker) -> int:
    """Write 30 keys over several segments, let a day pass, and count what is left."""
    for number in range(30):
        broker.publish("prices", KB, key=f"k{number}")
    broker.advance("1d")
    return len(broker.read("prices", limit=100))


LIMITS: TopicOptions = {"retention": "1h", "retention_bytes": 8192, "segment_bytes": 4096, "compact": True}


@pytest.mark.parametrize("limits", [LIMITS, {"retention": "1h", "compact": True}])
def test_a_compacted_topic_keeps_every_key_whatever_its_retention(
    penstock: TestBroker, limits: TopicOptions
) -> None:
    penstock.create_topic("prices", **limits)

    assert full(penstock) == 30
    assert penstock.describe_topic("prices").settings.retention_ms == 3_600_000  # Stored, though not applied.


def test_a_topic_that_becomes_compacted_is_not_deleted_any_more(penstock: TestBroker) -> None:
    penstock.create_topic("prices", **LIMITS | {"compact": False})
    penstock.alter_topic("prices", compact=True)
    assert full(penstock) == 30

    penstock.alter_topic("prices", retention="1m", retention_bytes=4096)
    penstock.advance("1d")
    assert len(penstock.read("prices", limit=100)) == 30

    penstock.alter_topic("prices", compact=False)
    penstock.advance("1d")
    assert penstock.read("prices") == []


@pytest.mark.parametrize(
    ("compact", "applies", "left"),
    [
        (True, "always", 0),
        (True, "never", 30),
        (False, "never", 30),
        (False, "always", 0),
        (False, "auto", 0),
    ],
)
def test_whether_retention_applies_can_be_said(
    penstock: TestBroker, compact: bool, applies: Literal["auto", "always", "never"], left: int
) -> None:
    penstock.create_topic("prices", **LIMITS | {"compact": compact, "retention_applies": applies})

    assert full(penstock) == left


def test_a_compacted_topic_of_an_older_directory_is_not_deleted() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("prices", **LIMITS)
    stored = json.loads(files.read_file("data/topics/prices/topic.json").partition(b"\n")[0])
    del stored["retention_applies"]
    text = json.dumps(stored).encode()
    files.write_file("data/topics/prices/topic.json", text + b"\ncrc32c %08x\n" % crc32c(text))

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert full(broker) == 30


def test_the_trace_of_a_compacted_message_names_no_end(penstock: TestBroker) -> None:
    penstock.create_topic("prices", compact=True, retention="1h")
    receipt = penstock.publish("prices", b"1", key="a")
    assert "retention" not in str(penstock.trace(receipt.id)).lower()


def test_a_clock_that_jumps_ahead_deletes_nothing_before_its_time(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="7d")
    penstock.create_group("orders", "g")
    penstock.publish_batch("orders", [b"0", b"1"])

    penstock.clock.step_wall("10d")
    penstock.advance("6d")

    assert len(penstock.read("orders")) == 2
    assert penstock.describe_group("orders", "g").lost == 0
    penstock.advance("2d")
    assert penstock.read("orders") == []


def test_a_clock_that_jumps_ahead_and_back_changes_nothing(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="7d")
    penstock.publish("orders", b"0")
    penstock.clock.step_wall("10d")
    penstock.advance("1d")
    penstock.clock.step_wall("10d", back=True)
    penstock.advance("5d")
    assert len(penstock.read("orders")) == 1

    penstock.advance("2d")

    assert penstock.read("orders") == []


def test_a_clock_that_is_set_back_keeps_messages_longer(penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="7d")
    penstock.publish("orders", b"0")
    penstock.clock.step_wall("3d", back=True)

    penstock.advance("8d")

    assert len(penstock.read("orders")) == 1


def test_tombstones_outlive_a_clock_that_jumps_ahead(penstock: TestBroker) -> None:
    penstock.create_topic("orders", compact=True, tombstone_retention="1d")
    penstock.publish("orders", b"0", key="k")
    penstock.publish("orders", None, key="k")
    penstock.publish("orders", b"1", key="other")

    penstock.clock.step_wall("10d")
    penstock.advance("2m")

    assert [message.is_tombstone for message in penstock.read("orders") if message.key == b"k"][-1:] == [True]
