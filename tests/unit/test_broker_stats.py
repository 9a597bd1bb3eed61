"""The broker at a glance, and what waits where."""

from pathlib import Path

import pytest

import penstock as package
from penstock.errors import Closed
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def test_a_broker_tells_its_size_and_what_it_did(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    penstock.create_topic("events")
    penstock.publish_batch("orders", [b"x"] * 5)
    penstock.publish("events", b"later", delay="1h")
    with penstock.consumer("orders") as consumer, penstock.consumer("orders"):
        consumer.ack(consumer.receive(3))
        penstock.advance("90s")

        info = penstock.stats()

    assert (info.version, info.directory, info.durability) == (package.__version__, ":memory:", "memory")
    assert (info.topics, info.partitions, info.groups, info.consumers) == (2, 4, 1, 2)
    assert (info.messages, info.scheduled, info.connections) == (5, 1, 0)
    assert (info.published, info.delivered, info.acked) == (5, 3, 3)
    assert info.uptime_seconds == 90
    assert info.memory_bytes_peak > 1_000_000


def test_the_groups_of_the_broker_itself_do_not_count(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.consumer("orders").receive()[0].reject("no")
    penstock.redrive("orders")

    assert penstock.stats().groups == 1


def test_the_bytes_are_those_on_disk_with_journal_and_schedule() -> None:
    disk, clock = CrashDisk(), ManualClock()
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        broker.create_topic("orders")
        empty = broker.stats()
        broker.publish("orders", b"x" * 1000)
        stored = broker.stats()
        broker.publish("orders", b"x" * 1000, delay="1h")
        scheduled = broker.stats()
        broker.consumer("orders").receive()[0].ack()
        settled = broker.stats()

    assert (empty.bytes, empty.directory, empty.durability) == (0, "data", "fsync")
    assert stored.bytes > 1000
    assert scheduled.bytes > stored.bytes + 1000
    assert settled.bytes > scheduled.bytes
    with TestBroker.open("data", files=disk, clock=clock) as broker:
        again = broker.stats()
        assert (again.messages, again.scheduled, again.published) == (1, 1, 0)
        assert again.bytes >= settled.bytes


def test_a_server_may_say_how_many_connections_it_has(penstock: TestBroker) -> None:
    penstock._local.server_counts.connections = lambda: 7

    assert penstock.stats().connections == 7


def test_a_closed_broker_tells_nothing(penstock: TestBroker) -> None:
    penstock.close()

    with pytest.raises(Closed):
        penstock.stats()


def test_what_waits_is_told_by_partition_for_the_slowest_group(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.create_topic("audit")
    for partition in (0, 0, 0, 1, 1):
        penstock.publish("orders", b"x", partition=partition)
    penstock.publish("audit", b"x")
    quick, slow = penstock.consumer("orders", group="quick"), penstock.consumer("orders", group="slow")
    quick.ack(quick.receive(5))
    slow.ack([message for message in slow.receive(5) if message.partition == 0][:2])
    stream = penstock.consumer("orders", group="stream", kind="stream")
    stream.receive(5)
    stream.commit()

    waiting = penstock._driver.run(penstock._local.waiting())

    assert waiting == {("orders", 0): 1, ("orders", 1): 2, ("audit", 0): 1}


def test_the_lake_is_beside_the_topics_unless_it_is_named(tmp_path: Path) -> None:
    def lake(directory: str | None, named: str = "") -> str:
        with TestBroker.open(directory, config=package.BrokerConfig(lake=named)) as broker:
            return broker.stats().lake

    assert lake(str(tmp_path)) == str(tmp_path / "lake")
    assert lake(str(tmp_path), "s3://bucket/lake") == "s3://bucket/lake"
    assert lake(str(tmp_path), "elsewhere") == str(Path.cwd() / "elsewhere")
    assert lake(None) == ""
    assert lake(None, str(tmp_path / "x")) == str(tmp_path / "x")
