"""Topics and groups: made, changed, deleted, and their settings over a restart."""

from datetime import timedelta

import msgspec
import pytest
from crc32c import crc32c

from penstock import BrokerConfig, GroupSettings, TopicSettings
from penstock.delivery import events
from penstock.errors import (
    DirectoryUnusable,
    InvalidValue,
    QueueFull,
    TopicDamaged,
    TopicExists,
    TopicNotFound,
)
from penstock.log.files import MemoryFiles
from penstock.model.message import Message
from penstock.testing import TestBroker

HOUR_MS = 3_600_000


def sealed(text: bytes) -> bytes:
    return text + b"\ncrc32c %08x\n" % crc32c(text)


def test_a_topic_has_these_settings_unless_told_otherwise() -> None:
    with TestBroker.open("data", files=MemoryFiles()) as broker:
        broker.create_topic("orders")

        settings = broker.describe_topic("orders").settings

    assert settings == TopicSettings()
    assert (settings.partitions, settings.durability, settings.compression) == (1, "fsync", "none")
    assert (settings.retention_ms, settings.retention_bytes) == (7 * 24 * HOUR_MS, None)
    assert (settings.dedup_window_ms, settings.delay_max_ms) == (5 * 60_000, 365 * 24 * HOUR_MS)
    assert (settings.segment_bytes, settings.message_bytes_max) == (256 * 1024**2, 1024**2)


def test_settings_survive_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic(
            "orders",
            partitions=3,
            durability="os",
            compression="zstd",
            retention=timedelta(hours=2),
            retention_bytes=10_000,
            retain_until_settled=True,
            segment_bytes=8192,
            compact=True,
            tombstone_retention="1h",
            ttl=90,
            dead_letter_expired=True,
            dead_letter_topic="morgue",
            message_bytes_max=500,
            depth_max=7,
            depth_policy="wait",
            depth_wait="3s",
            dedup_window="1h",
            delay_max="2d",
        )
        broker.create_group(
            "orders",
            "g",
            visibility_timeout="7s",
            max_attempts=9,
            backoff=["1s", "2s"],
            ordered=True,
            lanes="weighted",
            dead_letter=False,
        )
        before = broker.describe_topic("orders").settings

    assert before.ttl_ms == 90_000
    assert before.retention_ms == 2 * HOUR_MS
    with TestBroker.open("data", files=files) as broker:
        assert broker.describe_topic("orders").settings == before
        assert broker.groups("orders") == ["g"]
        group = broker._core.state.topics["orders"].groups["g"].settings
        assert (group.visibility_timeout_ms, group.max_attempts, group.backoff) == (
            7000,
            9,
            "fixed:1000,2000",
        )
        assert (group.ordered, group.lanes, group.dead_letter) == (True, "weighted", False)


def test_a_topic_can_be_changed_while_it_works(penstock: TestBroker) -> None:
    penstock.create_topic("orders", message_bytes_max=10)

    penstock.alter_topic("orders", message_bytes_max=1000, retention=None, ttl="1h")

    settings = penstock.describe_topic("orders").settings
    assert (settings.message_bytes_max, settings.retention_ms, settings.ttl_ms) == (1000, None, HOUR_MS)
    penstock.publish("orders", b"x" * 500)


def test_changed_settings_survive_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        broker.create_group("orders", "g")
        broker.alter_topic("orders", partitions=3, compression="gzip")
        broker.create_group("orders", "g", max_attempts=2)

    with TestBroker.open("data", files=files) as broker:
        settings = broker.describe_topic("orders").settings
        assert (settings.partitions, settings.compression) == (3, "gzip")
        broker.publish("orders", b"x", partition=2)
        consumer = broker.consumer("orders", group="g", backoff=["1s"])
        for attempt in (1, 2):
            [message] = consumer.receive(wait="1m")
            assert (message.partition, message.attempt) == (2, attempt)
            message.nack()
        assert len(broker.dead_letters("orders")) == 1


def test_new_partitions_belong_to_every_group(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    consumer = penstock.consumer("orders")

    penstock.alter_topic("orders", partitions=4)
    for partition in range(4):
        penstock.publish("orders", b"x", partition=partition)

    assert sorted(message.partition for message in consumer.receive(10)) == [0, 1, 2, 3]


def test_partitions_only_become_more_and_durability_stays() -> None:
    with TestBroker.open("data", files=MemoryFiles()) as broker:
        broker.create_topic("orders", partitions=2)

        with pytest.raises(InvalidValue, match="they stay"):
            broker.alter_topic("orders", partitions=1)
        with pytest.raises(InvalidValue, match="fixed when a topic is created"):
            broker.alter_topic("orders", durability="os")


def test_a_topic_is_made_once(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    with pytest.raises(TopicExists, match="alter_topic"):
        penstock.create_topic("orders")


def test_topics_are_listed_by_name(penstock: TestBroker) -> None:
    for name in ("b", "a", "c"):
        penstock.create_topic(name)

    assert penstock.topics() == ["a", "b", "c"]


def test_a_deleted_topic_is_gone_with_its_messages_groups_and_schedule() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        broker.publish("orders", b"y", delay="1h")
        broker.create_group("orders", "g")
        broker.delete_topic("orders")
        assert broker.topics() == []
        with pytest.raises(TopicNotFound):
            broker.read("orders")
        broker.advance("2h")
        broker.create_topic("orders")
        assert (broker.read("orders"), broker.groups("orders")) == ([], [])
        assert broker.scheduled_count("orders") == 0
        broker.delete_topic("orders")

    with TestBroker.open("data", files=files) as broker:
        assert broker.topics() == []


def test_a_broker_in_memory_has_no_durable_topics(penstock: TestBroker) -> None:
    with pytest.raises(InvalidValue, match="keeps all in memory"):
        penstock.create_topic("orders", durability="fsync")


def test_a_topic_in_memory_beside_durable_ones_comes_back_empty() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("clicks", durability="memory", partitions=2)
        broker.create_topic("orders")
        broker.publish("clicks", b"a", delay="1s")
        broker.publish("clicks", b"b")
        broker.publish("orders", b"c")
        broker.advance("1s")
        assert {message.value for message in broker.consumer("clicks").receive(10)} == {b"a", b"b"}

        assert not [path for path in files.list("data/topics/clicks") if path != "topic.json"]

    with TestBroker.open("data", files=files) as broker:
        assert (broker.depth("clicks"), broker.depth("orders")) == (0, 1)
        assert broker.describe_topic("clicks").settings.partitions == 2
        assert broker.publish("clicks", b"d").offset == 0
        broker.delete_topic("clicks")
        broker.create_topic("clicks", durability="memory")
        assert broker.peek("clicks") == []


def test_a_schedule_has_a_limit(penstock: TestBroker) -> None:
    penstock.create_topic("orders", scheduled_max=2)
    penstock.publish("orders", b"a", delay="1h")
    penstock.schedule("orders", b"b", cron="0 9 * * *")

    with pytest.raises(QueueFull, match="schedule of 'orders'"):
        penstock.publish("orders", b"c", delay="1h")

    penstock.advance("1h")
    assert penstock.publish("orders", b"c", delay="1h").schedule_id is not None


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"format": 1}', *map(sealed, [b"{", b"[]", b'{"format": "one"}'])]
)
def test_a_damaged_manifest_is_made_again_and_no_producer_id_is_given_twice(content: bytes) -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders", durability="fsync")
        broker.producer().publish("orders", b"x")
        before = broker._core.catalogue.new_producer_id()
    files.write_file("data/penstock.json", content)

    with TestBroker.open("data", files=files) as broker:
        assert [problem.kind for problem in broker.stats().problems] == ["file_damaged"]
        given = [broker._core.catalogue.new_producer_id() for _ in range(2)]
        assert min(given) > before + 1000
    with TestBroker.open("data", files=files) as broker:
        assert broker.stats().problems == []
        assert broker._core.catalogue.new_producer_id() > max(given)


def test_a_directory_of_a_newer_version_is_refused() -> None:
    files = MemoryFiles()
    TestBroker.open("data", files=files).close()
    files.write_file("data/penstock.json", sealed(b'{"format": 99}'))

    with pytest.raises(DirectoryUnusable, match="newer"):
        TestBroker.open("data", files=files)
    with pytest.raises(DirectoryUnusable):  # Not DirectoryInUse: the lock was let go.
        TestBroker.open("data", files=files)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", *map(sealed, [b"nonsense", b'{"partitions": 0}', b'{"durability": "sometimes"}'])],
)
def test_a_topic_with_damaged_settings_is_offline_and_the_others_work(content: bytes) -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        for topic in ("orders", "bills"):
            broker.create_topic(topic, durability="fsync")
            broker.publish(topic, b"kept")
    intact = files.read_file("data/topics/orders/topic.json")
    files.write_file("data/topics/orders/topic.json", content)

    with TestBroker.open("data", files=files) as broker:
        assert [message.value for message in broker.read("bills")] == [b"kept"]
        for call in (
            lambda: broker.publish("orders", b"x"),
            lambda: broker.read("orders"),
            lambda: broker.create_topic("orders"),
            lambda: broker.consumer("orders"),
        ):
            with pytest.raises(TopicDamaged, match=r"topic\.json"):
                call()
        [problem] = broker.stats().problems
        assert (problem.kind, problem.topic) == ("topic_offline", "orders")
    files.write_file("data/topics/orders/topic.json", intact)

    with TestBroker.open("data", files=files) as broker:
        assert [message.value for message in broker.read("orders")] == [b"kept"]


def test_a_topic_that_is_offline_can_be_deleted() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders", durability="fsync")
    files.write_file("data/topics/orders/topic.json", b"")

    with TestBroker.open("data", files=files) as broker:
        broker.delete_topic("orders")
        assert broker.stats().problems == []
        broker.create_topic("orders", durability="fsync")
        broker.publish("orders", b"new")


def test_what_goes_to_a_topic_that_is_offline_waits_for_it() -> None:
    """An ack with outputs is both or neither: the outputs are not dropped."""
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, durability="fsync")
        broker.publish("in", b"x")
        [message] = broker.consumer("in", group="work").receive()
        [partition] = broker._core.state.topics["in"].partitions
        assert partition.journal is not None
        member = partition.groups["work"]
        outputs = [("out", Message(b"y"))]
        settled: list[events.AnyEvent] = [
            events.Settled(member.number, message.delivery.lease, 0, 1, events.ACKED)
        ]
        broker._core.dead_letters.send(partition, member.number, settled, outputs, 0, 1)
        broker._core.state.jobs.clear()  # The process ends before it is published.
        partition.journal.log.sync()
        content = dict(files._contents)
    files._contents = {path: bytearray(data) for path, data in content.items()}
    intact = files.read_file("data/topics/out/topic.json")
    files.write_file("data/topics/out/topic.json", b"")
    with TestBroker.open("data", files=files) as broker:
        broker.advance("10s")
    files.write_file("data/topics/out/topic.json", intact)

    with TestBroker.open("data", files=files) as broker:
        broker.advance("10s")
        assert [stored.value for stored in broker.read("out")] == [b"y"]


def test_settings_of_a_later_version_are_ignored_and_missing_ones_have_their_default() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders", partitions=2)
    known = msgspec.json.decode(files.read_file("data/topics/orders/topic.json").splitlines()[0])
    del known["depth_policy"]
    changed = msgspec.json.encode({**known, "colour": "red"})
    files.write_file("data/topics/orders/topic.json", sealed(changed))

    with TestBroker.open("data", files=files) as broker:
        settings = broker.describe_topic("orders").settings
        assert (settings.partitions, settings.depth_policy) == (2, "reject")


def test_a_broker_may_be_told_what_new_topics_and_groups_are_like() -> None:
    config = BrokerConfig(
        topic=TopicSettings(partitions=3, retention_ms=HOUR_MS), group=GroupSettings(max_attempts=9)
    )
    with TestBroker.open("data", files=MemoryFiles(), config=config) as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_group("orders", "g", visibility_timeout="5s")

        topic = broker.describe_topic("orders").settings
        group = broker._core.state.topics["orders"].groups["g"].settings

    assert topic == TopicSettings(partitions=2, retention_ms=HOUR_MS)
    assert group == GroupSettings(max_attempts=9, visibility_timeout_ms=5000)


def test_in_memory_new_topics_are_in_memory_whatever_the_broker_was_told() -> None:
    with TestBroker.open(config=BrokerConfig(topic=TopicSettings(durability="os", partitions=2))) as broker:
        broker.create_topic("orders")

        assert broker.describe_topic("orders").settings == TopicSettings(durability="memory", partitions=2)
