"""Topics, partitions and settings, with confluent-kafka's AdminClient."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.frontends.kafka.clients import producer, publish, reader, receive
from tests.frontends.kafka.conftest import Server

from penstock.testing.kafka import KafkaServer

T = TypeVar("T")


@pytest.fixture
def admin(kafka: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.address})


def one(futures: Mapping[Any, "Future[T]"]) -> T:
    [future] = futures.values()
    return future.result(timeout=10)


def refusal(futures: Mapping[Any, "Future[Any]"]) -> int:
    with pytest.raises(KafkaException) as refused:
        one(futures)
    code: int = refused.value.args[0].code()
    return code


def configs(admin: AdminClient, topic: str) -> dict[str, str]:
    entries = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return {name: entry.value for name, entry in entries.items()}


def test_a_topic_is_made_with_settings_and_told(kafka: Server, admin: AdminClient) -> None:
    settings = {"retention.ms": "60000", "cleanup.policy": "compact,delete", "max.message.bytes": "5000"}
    one(admin.create_topics([NewTopic("jobs", 3, 1, config=settings)]))

    assert len(admin.list_topics("jobs", timeout=5).topics["jobs"].partitions) == 3
    told = configs(admin, "jobs")
    assert {name: told[name] for name in settings} == settings
    info = kafka.run(kafka.broker.describe_topic("jobs"))
    assert (info.settings.retention_ms, info.settings.compact) == (60_000, True)


def test_a_topic_has_an_id_that_it_loses_with_its_end(admin: AdminClient) -> None:
    ids = []
    for _ in range(2):
        one(admin.create_topics([NewTopic("jobs", 1, 1)]))
        ids.append(str(one(admin.describe_topics(TopicCollection(["jobs"]))).topic_id))
        one(admin.delete_topics(["jobs"]))

    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("orders", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("a b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("x", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("x", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("x", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("x", 1, 1, config={"min.insync.replicas": "2"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda each: getattr(each, "topic", each),
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_cannot_be_is_refused(
    kafka: Server, admin: AdminClient, topic: NewTopic, code: int, validate_only: bool
) -> None:
    kafka.run(kafka.broker.create_topic("orders"))

    assert refusal(admin.create_topics([topic], validate_only=validate_only)) == code
    assert kafka.run(kafka.broker.topics()) == ["orders"]


def test_a_topic_grows_and_does_not_shrink(kafka: Server, admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 2, 1)]))

    one(admin.create_partitions([NewPartitions("jobs", 5)]))
    assert refusal(admin.create_partitions([NewPartitions("jobs", 5)])) == KafkaError.INVALID_PARTITIONS
    assert len(kafka.run(kafka.broker.describe_topic("jobs")).partitions) == 5


def test_settings_change_one_by_one_or_all_at_once(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1)]))
    before = configs(admin, "jobs")

    added = ConfigEntry("retention.ms", "1234", incremental_operation=AlterConfigOpType.SET)
    one(admin.incremental_alter_configs([ConfigResource("topic", "jobs", incremental_configs=[added])]))
    assert configs(admin, "jobs") == before | {"retention.ms": "1234"}

    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    one(admin.incremental_alter_configs([ConfigResource("topic", "jobs", incremental_configs=[policy])]))
    assert configs(admin, "jobs")["cleanup.policy"] == "compact,delete"

    with pytest.warns(
        DeprecationWarning, match="incremental"
    ):  # By the client; older ones have nothing else.
        one(admin.alter_configs([ConfigResource("topic", "jobs", set_config={"max.message.bytes": "777"})]))
    assert configs(admin, "jobs") == before | {"max.message.bytes": "777"}


def test_the_broker_tells_its_settings(admin: AdminClient) -> None:
    told = one(admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]))

    assert told["broker.id"].value == "0"
    assert told["num.partitions"].is_read_only


def test_the_cluster_is_one_broker(kafka: Server, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(timeout=10)

    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [kafka.address]
    assert cluster.controller.id == cluster.nodes[0].id


@pytest.mark.parametrize("offset", [7, 10])
def test_records_are_deleted_up_to_an_offset(kafka: Server, admin: AdminClient, offset: int) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1)]))
    publish(kafka, [b"%d" % number for number in range(10)], "jobs")

    deleted = one(admin.delete_records([TopicPartition("jobs", 0, offset)]))

    assert deleted.low_watermark == offset
    consumer = reader(kafka, "jobs", offset)
    assert consumer.get_watermark_offsets(TopicPartition("jobs", 0)) == (offset, 10)
    if offset < 10:
        assert [it.value() for it in receive(consumer, 3)] == [b"7", b"8", b"9"]
    consumer.close()


def test_an_offset_is_found_by_time_exact_to_the_record(kafka: Server, admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("jobs", 1, 1)]))
    made = producer(kafka, {"linger.ms": 50})
    for second in (10, 20, 15, 40, 30):
        made.produce("jobs", b"x", timestamp=1_700_000_000_000 + second)
    assert made.flush(10) == 0

    def at(spec: OffsetSpec) -> int:
        found: int = one(admin.list_offsets({TopicPartition("jobs", 0): spec})).offset
        return found

    times = [at(OffsetSpec.for_timestamp(1_700_000_000_000 + second)) for second in (0, 11, 21, 41)]
    assert times == [0, 1, 3, -1]
    assert [at(OffsetSpec.earliest()), at(OffsetSpec.latest()), at(OffsetSpec.max_timestamp())] == [0, 5, 3]


LIMITS = {"retention.ms": "3600000", "retention.bytes": "8192", "segment.bytes": "4096"}


def altered(admin: AdminClient, *entries: ConfigEntry) -> None:
    one(admin.incremental_alter_configs([ConfigResource("topic", "keys", incremental_configs=list(entries))]))


def created_compact(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("keys", 1, 1, config={"cleanup.policy": "compact", **LIMITS})]))


def given_limits(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("keys", 1, 1, config={"cleanup.policy": "compact"})]))
    for name, value in LIMITS.items():
        altered(admin, ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))


def made_compact(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("keys", 1, 1, config=LIMITS)]))
    altered(
        admin,
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET),
    )


def deletion_removed(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("keys", 1, 1, config={"cleanup.policy": "delete,compact", **LIMITS})]))
    altered(admin, ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT))


def replaced(admin: AdminClient) -> None:
    one(admin.create_topics([NewTopic("keys", 1, 1)]))
    settings = {"cleanup.policy": "compact", **LIMITS}
    with pytest.warns(DeprecationWarning, match="incremental"):
        one(admin.alter_configs([ConfigResource("topic", "keys", set_config=settings)]))


@pytest.mark.parametrize(
    "configure", [created_compact, given_limits, made_compact, deletion_removed, replaced]
)
def test_a_compacted_topic_is_never_deleted_by_time_or_size(
    penstock_kafka: KafkaServer, configure: Callable[[AdminClient], None]
) -> None:
    admin = AdminClient({"bootstrap.servers": penstock_kafka.address})
    configure(admin)
    producer = Producer({"bootstrap.servers": penstock_kafka.address, "linger.ms": 0})
    for number in range(30):
        producer.produce("keys", b"x" * 1000, key=str(number))
        assert producer.flush(20) == 0

    penstock_kafka.advance("30d")

    told = configs(admin, "keys")
    assert told["cleanup.policy"] == "compact"
    assert {name: told[name] for name in LIMITS} == LIMITS
    assert len(penstock_kafka.run(penstock_kafka.broker.read("keys", limit=100))) == 30


def test_a_policy_of_which_nothing_is_left_keeps_everything(penstock_kafka: KafkaServer) -> None:
    admin = AdminClient({"bootstrap.servers": penstock_kafka.address})
    one(admin.create_topics([NewTopic("keys", 1, 1, config=LIMITS)]))
    penstock_kafka.run(penstock_kafka.broker.publish("keys", b"x"))

    altered(admin, ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT))
    penstock_kafka.advance("30d")
    assert configs(admin, "keys")["cleanup.policy"] == ""
    assert len(penstock_kafka.run(penstock_kafka.broker.read("keys"))) == 1

    altered(admin, ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND))
    penstock_kafka.advance("1m")
    assert configs(admin, "keys")["cleanup.policy"] == "delete"
    assert penstock_kafka.run(penstock_kafka.broker.read("keys")) == []
