"""What happened to messages, as rows."""

from typing import Any

import penstock
from penstock.model.ranges import OffsetRange
from penstock.spark.queries.journal import JournalReader, journal_rows, ranges_of
from penstock.spark.runtime.connections import Address
from penstock.testing import TestBroker

Row = dict[str, Any]


def rows(broker: penstock.Broker, topic: str = "orders", at: Any = "earliest") -> list[Row]:
    parts = ranges_of(broker, topic, at)
    return [row for part in parts for batch in journal_rows(broker, part) for row in batch.to_pylist()]


def short(found: list[Row]) -> list[tuple[Any, ...]]:
    names = ("group", "event", "start", "end", "attempt", "consumer")
    return [tuple(row[name] for name in names) for row in found]


def filled(broker: TestBroker, count: int) -> None:
    broker.create_topic("orders", partitions=1)
    broker.publish_batch("orders", [b"%d" % number for number in range(count)])


def test_a_row_for_each_decision_with_who_had_the_messages() -> None:
    with TestBroker.open() as broker:
        filled(broker, 5)
        consumer = broker.consumer("orders", group="g", consumer_id="worker", backoff=["1s"], max_attempts=2)
        messages = consumer.receive(5)
        consumer.ack(messages[:3])
        messages[3].nack(error=ValueError("no stock"))
        messages[4].reject("no good")
        broker.advance("1s")
        consumer.ack(consumer.receive())

        found = rows(broker)

    assert short(found) == [
        ("g", "group set", 0, None, None, None),
        ("g", "delivered", 0, 5, 1, "worker"),
        ("g", "acked", 0, 3, 1, "worker"),
        ("g", "nacked", 3, 4, 1, "worker"),
        ("g", "rejected", 4, 5, 1, "worker"),
        ("g", "dead-lettered", 4, 5, None, None),
        ("g", "sent", 4, 5, None, None),
        ("g", "redelivered", 3, 4, 2, "worker"),
        ("g", "acked", 3, 4, 2, "worker"),
    ]
    nacked = found[3]
    assert (nacked["why"], nacked["error_class"], nacked["error"]) == ("nacked", "ValueError", "no stock")
    assert nacked["fingerprint"]
    assert (nacked["due"] - nacked["time"]).total_seconds() == 1
    assert [row["offset"] for row in found] == list(range(9))


def test_what_stream_groups_and_the_broker_itself_do() -> None:
    with TestBroker.open() as broker:
        filled(broker, 4)
        broker.commit_offsets("orders", "query", {0: 1})
        broker.commit_offsets("orders", "query", {0: 4})
        broker.seek("orders", "query", 2)
        broker.delete_group("orders", "query")

        found = short(rows(broker))

    assert [row[:4] for row in found] == [
        ("query", "group set", 0, None),
        ("query", "committed", 0, 1),
        ("query", "committed", 1, 4),
        ("query", "group moved", 2, None),
        ("query", "group deleted", None, None),
    ]


def test_a_journal_from_a_time_on_still_knows_the_groups() -> None:
    with TestBroker.open() as broker:
        filled(broker, 2)
        consumer = broker.consumer("orders", group="g", visibility_timeout="2h")
        first, second = consumer.receive(), consumer.receive()
        broker.advance("1h")
        later = broker.clock.wall_ms() / 1000
        consumer.ack(first)

        assert short(rows(broker, at=later)) == [("g", "acked", 0, 1, None, None)]
        assert second


def test_what_was_deleted_meanwhile_is_left_out() -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders", partitions=1, retention="1h")
        consumer = broker.consumer("orders", group="g")
        for _ in range(400):
            broker.publish_batch("orders", [b"x"] * 100)
            for message in consumer.receive(100):
                message.nack(error="e" * 500)
            consumer.close()
            consumer = broker.consumer("orders", group="g")
        old = ranges_of(broker, "orders")
        broker.advance("3h")
        broker.publish("orders", b"new")
        assert ranges_of(broker, "orders")[0].start > old[0].start

        found = [row for batch in journal_rows(broker, old[0]) for row in batch.to_pylist()]

    assert found
    assert {row["group"] for row in found} == {"g"}


def test_journals_are_a_source_with_a_task_for_each(servers: str, broker: penstock.Broker) -> None:
    """That Spark reads it is in ``test_rollup.py``."""
    broker.create_topic("journal-table", partitions=3)
    for partition in range(3):
        for number in range(4):
            broker.publish("journal-table", b"%d" % number, partition=partition)
    with broker.consumer("journal-table", group="g") as consumer:
        while messages := consumer.receive(100, wait="100ms"):
            consumer.ack(messages)

    def read(*ranges: OffsetRange) -> list[Row]:
        reader = JournalReader(Address(servers), list(ranges))
        tasks = reader.partitions()
        assert len(tasks) == max(len([each for each in ranges if each.start < each.end]), 1)
        return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]

    found = read(*ranges_of(broker, "journal-table"))
    ends = {row["partition"]: row["end"] for row in found if row["event"] == "acked"}

    assert ends == {0: 4, 1: 4, 2: 4}
    assert read(OffsetRange("journal-table", 0, 0, 0)) == []
