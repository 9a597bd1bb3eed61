"""Publishing: what a receipt says, where a message goes, what stays as it was given."""

from datetime import UTC, datetime

import pytest

from penstock import Message
from penstock.errors import EmptyMessage, MessageTooLarge
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker


def test_a_receipt_says_where_and_when_the_message_is(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    now_ms = penstock.clock.wall_ms()

    receipt = penstock.publish("orders", b"one")

    assert (receipt.topic, receipt.partition, receipt.offset) == ("orders", 0, 0)
    assert (receipt.timestamp, receipt.schedule_id, receipt.duplicate) == (now_ms, None, False)
    assert receipt.id == "orders:0:0"


def test_offsets_rise_by_one_from_zero(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    assert [penstock.publish("orders", b"x").offset for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_message_arrives_as_it_was_given(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish(
        "orders",
        b"\x00\xffbody",
        key="order-123",
        headers={"content-type": "application/json", "raw": b"\xff\x00"},
        priority="high",
    )

    [message] = penstock.consumer("orders", group="processors").receive()

    assert message.value == b"\x00\xffbody"
    assert message.key == b"order-123"
    assert message.headers["content-type"] == "application/json"
    assert message.raw_headers == [("content-type", b"application/json"), ("raw", b"\xff\x00")]
    assert (message.topic, message.partition, message.offset, message.id) == ("orders", 0, 0, "orders:0:0")
    assert (message.attempt, message.priority, message.group) == (1, "high", "processors")
    assert message.timestamp == penstock.clock.wall_ms()
    assert message.published_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_header_that_is_not_text_survives_being_passed_on(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", headers={"raw": b"\xff\x00"})
    [first] = penstock.read("orders")

    penstock.publish("orders", b"x", headers=first.headers)

    assert penstock.read("orders")[1].raw_headers == [("raw", b"\xff\x00")]


def test_a_batch_answers_one_receipt_each_in_the_given_order(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    given = [
        Message(b"a", partition=2),
        Message(b"b", partition=0, priority="high"),
        Message(b"c", partition=2),
        Message(b"d", partition=0),
        Message(b"e", partition=1, delay="1h"),
    ]

    receipts = penstock.publish_batch("orders", given)

    assert [receipt.partition for receipt in receipts] == [2, 0, 2, 0, 1]
    assert receipts[4].schedule_id is not None
    stored = {message.id: message.value for message in penstock.read("orders")}
    assert [stored[receipt.id] for receipt in receipts[:4]] == [b"a", b"b", b"c", b"d"]


def test_a_batch_takes_plain_bytes_and_any_iterable(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    receipts = penstock.publish_batch("orders", (b"%d" % number for number in range(3)))

    assert [receipt.offset for receipt in receipts] == [0, 1, 2]
    assert [message.value for message in penstock.read("orders")] == [b"0", b"1", b"2"]


def test_an_empty_batch_is_nothing(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    assert penstock.publish_batch("orders", []) == []
    assert penstock.read("orders") == []


@pytest.mark.parametrize(
    ("bad", "error"), [(Message(None), EmptyMessage), (Message(b"x" * 2000), MessageTooLarge)]
)
def test_nothing_of_a_batch_is_written_unless_all_of_it_is_acceptable(
    penstock: TestBroker, bad: Message, error: type[Exception]
) -> None:
    penstock.create_topic("orders", message_bytes_max=1000)

    with pytest.raises(error):
        penstock.publish_batch("orders", [Message(b"good"), Message(b"later", delay="1h"), bad])

    assert penstock.read("orders") == []
    assert penstock.scheduled_count("orders") == 0


def test_equal_keys_go_to_one_partition(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=6)

    places = {
        key: {penstock.publish("orders", b"x", key=key).partition for _ in range(5)}
        for key in ("a", "b", "c", "d", "e", "f", "g")
    }

    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) > 1, "different keys are spread"


def test_text_and_bytes_of_a_key_are_the_same_key(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=6)

    assert (
        penstock.publish("orders", b"x", key="køb").partition
        == penstock.publish("orders", b"x", key="køb".encode()).partition
    )


def test_messages_without_a_key_go_round_the_partitions(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)

    places = [penstock.publish("orders", b"x").partition for _ in range(6)]

    assert sorted(places) == [0, 0, 1, 1, 2, 2]


def test_a_named_partition_wins_over_the_key(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)

    assert [penstock.publish("orders", b"x", key="k", partition=p).partition for p in (2, 0, 1)] == [2, 0, 1]


def test_a_key_without_a_value_is_a_tombstone(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", None, key="k")

    [message] = penstock.consumer("orders").receive()

    assert message.is_tombstone
    assert message.value == b""


def test_an_empty_value_is_a_value(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"")

    [message] = penstock.consumer("orders").receive()

    assert message.value == b""
    assert not message.is_tombstone


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_topic_gives_back_what_went_in(penstock: TestBroker, compression: str) -> None:
    penstock.create_topic("orders", compression=compression)  # type: ignore[arg-type]
    values = [b"a" * 100, b"", b"\x00\x01" * 50]

    penstock.publish_batch("orders", values)
    penstock.publish("orders", b"single", key="k", headers={"h": "v"})

    messages = penstock.consumer("orders").receive(10)
    assert [message.value for message in messages] == [*values, b"single"]
    assert messages[3].headers == {"h": "v"}


def test_timestamps_never_fall_when_the_wall_clock_is_set_back(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    first = penstock.publish("orders", b"before").timestamp

    penstock.clock.step_wall("1h", back=True)
    second = penstock.publish("orders", b"after").timestamp

    assert second == first


def test_what_was_published_is_there_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders", partitions=2)
        for number in range(10):
            broker.publish("orders", b"%d" % number, key=f"k{number}", headers={"n": str(number)})
        before = [(m.id, m.key, m.value, m.headers, m.timestamp) for m in broker.read("orders")]

    with TestBroker.open("data", files=files, clock=clock) as broker:
        after = [(m.id, m.key, m.value, m.headers, m.timestamp) for m in broker.read("orders")]

    assert len(before) == 10
    assert after == before
