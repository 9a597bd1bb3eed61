"""Settings of topics by Kafka's names: those that are only stored, LogAppendTime, replicas."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.frontends.kafka.clients import receive
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw, versions
from tests.frontends.kafka.test_topics import configs, one, refusal

from penstock.config.server import KafkaSettings
from penstock.frontends.kafka.configs.stored_configs import STORED
from penstock.testing.kafka import KafkaServer
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.admin import configs as wire
from penstock.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.records import BatchBuilder, encode_values

OF_TOOLS = {
    "segment.ms": "600000",
    "flush.ms": "1000",
    "flush.messages": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "1000",
    "max.compaction.lag.ms": "60000",
    "file.delete.delay.ms": "0",
    "index.interval.bytes": "1024",
    "message.timestamp.difference.max.ms": "86400000",
    "message.timestamp.before.max.ms": "86400000",
    "message.timestamp.after.max.ms": "3600000",
    "preallocate": "true",
    "remote.storage.enable": "false",
    "unclean.leader.election.enable": "TRUE",
    "segment.jitter.ms": "5",
    "segment.index.bytes": "4096",
    "leader.replication.throttled.replicas": "0:0,1:0",
    "follower.replication.throttled.replicas": "*",
    "min.insync.replicas": "1",
    "compression.zstd.level": "-7",
    "local.retention.ms": "-2",
    "message.format.version": "3.0-IV1",
}
A_DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def admin(kafka: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.address})


def change(admin: AdminClient, name: str, value: str, how: AlterConfigOpType) -> Any:
    entry = ConfigEntry(name, value, incremental_operation=how)
    return admin.incremental_alter_configs([ConfigResource("topic", "jobs", incremental_configs=[entry])])


def test_settings_that_are_not_used_are_stored_and_told(kafka: Server, admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1, config=OF_TOOLS)]))

    told = configs(admin, "jobs")
    assert {name: told[name] for name in OF_TOOLS} == OF_TOOLS
    stored = kafka.run(kafka.broker.describe_topic("jobs")).settings.kafka_configs
    assert stored == OF_TOOLS


def test_they_change_one_by_one_and_are_as_in_kafka_by_default(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1, config={"flush.ms": "7", "segment.ms": "8"})]))
    one(change(admin, "segment.ms", "9", AlterConfigOpType.SET))
    one(change(admin, "preallocate", "true", AlterConfigOpType.SET))
    one(change(admin, "flush.ms", "", AlterConfigOpType.DELETE))

    told = configs(admin, "jobs")
    assert (told["segment.ms"], told["preallocate"]) == ("9", "true")
    assert {name: told[name] for name in STORED} == {
        **{name: stored.default for name, stored in STORED.items()},
        "segment.ms": "9",
        "preallocate": "true",
    }


def test_the_older_way_to_alter_resets_those_that_are_not_named(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1, config={"flush.ms": "7", "segment.ms": "8"})]))

    with pytest.warns(DeprecationWarning, match="incremental"):
        one(admin.alter_configs([ConfigResource("topic", "jobs", set_config={"segment.ms": "9"})]))

    told = configs(admin, "jobs")
    assert (told["flush.ms"], told["segment.ms"]) == (STORED["flush.ms"].default, "9")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.ms", "0"),
        ("flush.messages", "0"),
        ("flush.ms", "soon"),
        ("flush.ms", "9223372036854775808"),
        ("flush.ms", "9" * 5000),
        ("index.interval.bytes", "2147483648"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("preallocate", "yes"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "all"),
        ("message.format.version", "new"),
        ("message.timestamp.type", "Whenever"),
        ("min.insync.replicas", "0"),
        ("max.compaction.lag.ms", "0"),
    ],
)
def test_values_that_cannot_be_are_refused_as_in_kafka(admin: AdminClient, name: str, value: str) -> None:
    asked = admin.create_topics([NewTopic("jobs", 1, 1, config={name: value})])

    assert refusal(asked) == KafkaError.INVALID_CONFIG


def test_the_shortest_compaction_lag_is_not_above_the_longest(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1, config={"max.compaction.lag.ms": "10"})]))

    changed = change(admin, "min.compaction.lag.ms", "11", AlterConfigOpType.SET)
    assert refusal(changed) == KafkaError.INVALID_CONFIG


def test_what_was_stored_by_other_means_is_checked_when_a_client_changes_something(
    kafka: Server, admin: AdminClient
) -> None:
    kafka.run(kafka.broker.create_topic("jobs", kafka_configs={"min.insync.replicas": "many"}))

    assert refusal(change(admin, "flush.ms", "1", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    one(change(admin, "min.insync.replicas", "1", AlterConfigOpType.SET))
    one(change(admin, "flush.ms", "1", AlterConfigOpType.SET))


def test_what_is_stored_survives_a_restart(tmp_path: Any) -> None:
    for server in serving(str(tmp_path)):
        admin = AdminClient({"bootstrap.servers": server.address})
        one(admin.create_topics([NewTopic("jobs", 1, 1, config={"segment.ms": "9"})]))
    for server in serving(str(tmp_path)):
        assert configs(AdminClient({"bootstrap.servers": server.address}), "jobs")["segment.ms"] == "9"


@pytest.mark.parametrize("version", versions(wire.DescribeConfigsRequest))
@pytest.mark.parametrize("asked", [False, True])
def test_synonyms_are_told_only_if_asked_for(
    kafka: Server, admin: AdminClient, version: int, asked: bool
) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1, config={"segment.ms": "9"})]))
    resources = [
        wire.DescribeConfigsResource(kind, name, None) for kind, name in ((2, "jobs"), (4, "0"), (32, "g"))
    ]
    request = wire.DescribeConfigsRequest(resources=resources, include_synonyms=asked)

    with Raw(kafka) as raw:
        results = raw.ask(request, wire.DescribeConfigsResponse, version).results

    assert [result.error_code for result in results] == [0, 0, 0]
    assert all(config.synonyms == [] for result in results for config in result.configs) is not asked


# Replicas.


@pytest.fixture
def lenient() -> Iterator[Server]:
    """A server that accepts what only several brokers could do."""
    yield from serving(settings=KafkaSettings(accept_replication=True))


def test_more_replicas_than_brokers_are_refused(admin: AdminClient) -> None:
    assert refusal(admin.create_topics([NewTopic("jobs", 1, 3)])) == KafkaError.INVALID_REPLICATION_FACTOR
    strict = NewTopic("jobs", 1, 1, config={"min.insync.replicas": "2"})
    assert refusal(admin.create_topics([strict])) == KafkaError.INVALID_CONFIG
    assert refusal(admin.create_topics([NewTopic("jobs", 1, 0)])) == KafkaError.INVALID_REPLICATION_FACTOR


def test_or_accepted_if_the_server_is_told_so(lenient: Server) -> None:
    admin = AdminClient({"bootstrap.servers": lenient.address})
    one(admin.create_topics([NewTopic("jobs", 1, 3, config={"min.insync.replicas": "2"})]))

    assert configs(admin, "jobs")["min.insync.replicas"] == "2"
    [partition] = admin.list_topics("jobs", timeout=10).topics["jobs"].partitions.values()
    assert partition.replicas == partition.isrs == [0]
    producer = Producer({"bootstrap.servers": lenient.address, "acks": "all"})
    producer.produce("jobs", b"x")
    assert producer.flush(10) == 0
    assert refusal(admin.create_topics([NewTopic("x", 1, 0)])) == KafkaError.INVALID_REPLICATION_FACTOR


# Timestamps.


def produced(
    kafka: Server | KafkaServer, topic: str, batch: bytes, version: int = 8
) -> PartitionProduceResponse:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(records=batch)])
    with Raw(kafka) as raw:
        answer = raw.ask(ProduceRequest(acks=-1, topic_data=[data]), ProduceResponse, version)
    [response] = answer.responses[0].partition_responses
    return response


def stamped(kafka: KafkaServer, **options: Any) -> AdminClient:
    """A topic whose log gives records its time."""
    admin = AdminClient({"bootstrap.servers": kafka.address})
    one(admin.create_topics([NewTopic("jobs", 1, 1, config={"message.timestamp.type": "LogAppendTime"})]))
    assert configs(admin, "jobs")["message.timestamp.type"] == "LogAppendTime"
    return admin


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_records_get_the_time_of_the_log(penstock_kafka: KafkaServer, codec: str) -> None:
    stamped(penstock_kafka)
    now_ms = penstock_kafka.run(penstock_kafka.broker.publish("jobs", b"native")).timestamp
    producer = Producer({"bootstrap.servers": penstock_kafka.address, "compression.type": codec})
    told: list[Any] = []
    for value in (b"a", b"b"):
        producer.produce("jobs", value, timestamp=1000, on_delivery=lambda _, it: told.append(it.timestamp()))
    assert producer.flush(10) == 0
    penstock_kafka.advance("1h")
    producer.produce("jobs", b"c", timestamp=2000, on_delivery=lambda _, it: told.append(it.timestamp()))
    assert producer.flush(10) == 0

    consumer = Consumer({"bootstrap.servers": penstock_kafka.address, "group.id": "g"})
    consumer.assign([TopicPartition("jobs", 0, 0)])
    got = receive(consumer, 4)
    consumer.close()

    later_ms = now_ms + 3600_000
    assert [it.value() for it in got] == [b"native", b"a", b"b", b"c"]
    assert {it.timestamp()[0] for it in got} == {TIMESTAMP_LOG_APPEND_TIME}
    times = [it.timestamp()[1] for it in got]
    assert times == pytest.approx([now_ms, now_ms, now_ms, later_ms], abs=60_000)
    assert told == [(TIMESTAMP_LOG_APPEND_TIME, at) for at in times[1:]]
    read = penstock_kafka.run(penstock_kafka.broker.read("jobs"))
    assert [message.timestamp for message in read] == times


def test_a_time_far_ahead_does_not_matter_where_the_log_gives_its_own(penstock_kafka: KafkaServer) -> None:
    stamped(penstock_kafka)
    penstock_kafka.run(penstock_kafka.broker.create_topic("own", partitions=1))
    ahead = bytes(encode_values([b"x"], 2**40 * 10))

    assert produced(penstock_kafka, "jobs", ahead).error_code == Code.NONE
    assert produced(penstock_kafka, "own", ahead).error_code == Code.INVALID_TIMESTAMP


def test_a_batch_that_is_sent_again_is_answered_with_the_time_of_the_first(
    penstock_kafka: KafkaServer,
) -> None:
    stamped(penstock_kafka)
    builder = BatchBuilder()
    builder.add(None, b"x", [])
    batch = bytes(builder.build(1000, 1000, 0, 4711, 0, 0))

    first = produced(penstock_kafka, "jobs", batch)
    penstock_kafka.advance("1h")
    second = produced(penstock_kafka, "jobs", batch)

    assert first.log_append_time_ms > 1000
    assert (second.base_offset, second.log_append_time_ms) == (0, first.log_append_time_ms)


def test_the_setting_may_change_while_there_are_records(penstock_kafka: KafkaServer) -> None:
    admin = stamped(penstock_kafka)
    batch = bytes(encode_values([b"x"], 1000))
    assert produced(penstock_kafka, "jobs", batch).log_append_time_ms > 1000

    one(change(admin, "message.timestamp.type", "CreateTime", AlterConfigOpType.SET))

    assert produced(penstock_kafka, "jobs", batch).log_append_time_ms == -1
    read = penstock_kafka.run(penstock_kafka.broker.read("jobs"))
    assert read[0].timestamp > 1000
    assert read[1].timestamp == 1000


@pytest.mark.parametrize("version", [5, 8, 12])
def test_a_produce_is_told_where_the_log_begins(kafka: Server, admin: AdminClient, version: int) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1)]))
    batch = bytes(encode_values([b"x", b"y"], 1000))

    assert produced(kafka, "jobs", batch, version).log_start_offset == 0
    one(admin.delete_records([TopicPartition("jobs", 0, 1)]))
    assert produced(kafka, "jobs", batch, version).log_start_offset == 1
    assert produced(kafka, "nothing", batch, version).log_start_offset == -1
