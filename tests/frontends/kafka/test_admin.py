"""What admin clients ask for beside topics: the cluster, directories, settings of groups."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server, serving
from tests.frontends.kafka.raw import Raw, versions

from penstock.frontends.kafka.configs.configs import BROKER, GROUP, METRICS, TOPIC
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import cluster
from penstock.wire.kafka.messages.admin import configs, replicas
from penstock.wire.kafka.messages.groups import share
from penstock.wire.kafka.messages.parts import NamePartitions

BILLING = ConfigResource(ResourceType.GROUP, "billing") if hasattr(ResourceType, "GROUP") else None
SET, DELETE = 0, 1


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """A server for tests that leave nothing behind."""
    for server in serving():
        server.run(server.broker.create_topic("orders", partitions=2))
        yield server


@pytest.mark.parametrize("version", versions(cluster.DescribeQuorumRequest))
def test_the_quorum_is_one_broker_which_leads(shared: Server, version: int) -> None:
    places = [cluster.DescribeQuorumPartition(partition_index=number) for number in (0, 1)]
    asked = [cluster.DescribeQuorumTopic(topic_name="__cluster_metadata", partitions=places)]
    with Raw(shared) as raw:
        told = raw.ask(cluster.DescribeQuorumRequest(topics=asked), cluster.DescribeQuorumResponse, version)

    first, second = told.topics[0].partitions
    assert (first.error_code, first.leader_id, len(first.current_voters)) == (0, 0, 1)
    assert (second.error_code, second.current_voters) == (Code.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert [node.node_id for node in told.nodes] == ([0] if version == 2 else [])


@pytest.mark.parametrize("version", versions(replicas.AlterReplicaLogDirsRequest))
def test_a_partition_stays_in_its_directory(shared: Server, version: int) -> None:
    with Raw(shared) as raw:
        [home] = raw.ask(
            replicas.DescribeLogDirsRequest(topics=None), replicas.DescribeLogDirsResponse, 4
        ).results
        dirs = [
            replicas.AlterReplicaLogDir(path=path, topics=[NamePartitions(name="orders", partitions=[0, 7])])
            for path in (home.log_dir, "elsewhere")
        ]
        told = raw.ask(
            replicas.AlterReplicaLogDirsRequest(dirs=dirs), replicas.AlterReplicaLogDirsResponse, version
        )

    assert [[each.error_code for each in topic.partitions] for topic in told.results] == [
        [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.LOG_DIR_NOT_FOUND, Code.LOG_DIR_NOT_FOUND],
    ]


def resources(raw: Raw, *kinds: int, version: int = 1) -> list[tuple[int, str]] | int:
    asked = configs.ListConfigResourcesRequest(resource_types=list(kinds))
    told = raw.ask(asked, configs.ListConfigResourcesResponse, version)
    return told.error_code or [(each.resource_type, each.resource_name) for each in told.config_resources]


def test_what_has_settings_is_listed(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    with Raw(kafka) as raw:
        assert alter(raw, "billing", {"share.record.lock.duration.ms": "5000"}) == 0

        assert resources(raw) == [(TOPIC, "orders"), (BROKER, "0"), (GROUP, "billing")]
        assert resources(raw, GROUP) == [(GROUP, "billing")]
        assert resources(raw, 99) == Code.UNSUPPORTED_VERSION
        assert resources(raw, version=0) == []
        assert resources(raw, METRICS) == []


def alter(raw: Raw, group: str, settings: dict[str, str | None], *, dry: bool = False) -> int:
    changes = [
        configs.IncrementalAlterConfigsRequestAlterableConfig(name, DELETE if value is None else SET, value)
        for name, value in settings.items()
    ]
    of = configs.IncrementalAlterConfigsRequestAlterConfigsResource(GROUP, group, changes)
    asked = configs.IncrementalAlterConfigsRequest(resources=[of], validate_only=dry)
    return raw.ask(asked, configs.IncrementalAlterConfigsResponse, 1).responses[0].error_code


def described(raw: Raw, group: str = "billing") -> dict[str, tuple[str | None, int]]:
    asked = configs.DescribeConfigsRequest(resources=[configs.DescribeConfigsResource(GROUP, group, None)])
    [told] = raw.ask(asked, configs.DescribeConfigsResponse, 4).results
    assert told.error_code == 0
    return {each.name: (each.value, each.config_source) for each in told.configs}


def test_a_group_has_settings_before_anybody_is_in_it_and_keeps_them(tmp_path: Path) -> None:
    for kafka in serving(str(tmp_path)):
        with Raw(kafka) as raw:
            usual = described(raw)
            assert usual["share.auto.offset.reset"] == ("latest", 5)
            assert usual["consumer.session.timeout.ms"] == ("45000", 5)
            changes: dict[str, str | None] = {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": "5000",
            }
            assert alter(raw, "billing", changes, dry=True) == 0
            assert described(raw) == usual
            assert alter(raw, "billing", changes) == 0

    for kafka in serving(str(tmp_path)):
        with Raw(kafka) as raw:
            told = described(raw)
            assert told["share.auto.offset.reset"] == ("earliest", 8)
            assert told["share.record.lock.duration.ms"] == ("5000", 8)

            assert alter(raw, "billing", dict.fromkeys(changes)) == 0
            assert described(raw) == usual
            assert resources(raw, GROUP) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "soon"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.record.lock.duration.ms", "-1"),
        ("share.delivery.count.limit", "many"),
        ("consumer.heartbeat.interval.ms", "45000"),
        ("share.isolation.level", "serializable"),
        ("share.partition.max.record.locks", "99"),
        ("streams.session.timeout.ms", "45000"),
    ],
)
def test_a_setting_of_a_group_that_cannot_be_is_refused(shared: Server, name: str, value: str) -> None:
    with Raw(shared) as raw:
        before = described(raw)

        assert alter(raw, "billing", {name: value}) == Code.INVALID_CONFIG

        assert described(raw) == before


def test_a_group_without_a_name_has_no_settings(shared: Server) -> None:
    with Raw(shared) as raw:
        assert alter(raw, "", {"share.auto.offset.reset": "earliest"}) == Code.INVALID_REQUEST
        assert alter(raw, "__own", {"share.auto.offset.reset": "earliest"}) == Code.INVALID_GROUP_ID


@pytest.mark.parametrize(("start", "got"), [("earliest", 1), ("by_duration:PT1H", 1), ("latest", 0)])
def test_a_share_group_begins_where_its_settings_say(kafka: Server, start: str, got: int) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=1))
    publish(kafka, [b"before"])
    with Raw(kafka) as raw:
        changes = {"share.auto.offset.reset": start, "share.record.lock.duration.ms": "5000"}
        assert alter(raw, "billing", {**changes, "share.heartbeat.interval.ms": "300"}) == 0

        told = raw.ask(
            share.ShareGroupHeartbeatRequest(
                group_id="billing", member_id="m", member_epoch=0, subscribed_topic_names=["orders"]
            ),
            share.ShareGroupHeartbeatResponse,
            1,
        )

        assert told.heartbeat_interval_ms == 300
        info = kafka.run(kafka.broker.describe_group("orders", "billing"))
        assert info.lag == got
        assert described(raw)["share.record.lock.duration.ms"] == ("5000", 8)


def test_a_queue_group_that_is_there_is_changed_and_told_as_it_is(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    kafka.run(kafka.broker.create_group("orders", "billing", visibility_timeout="7s", max_attempts=3))
    with Raw(kafka) as raw:
        assert described(raw)["share.record.lock.duration.ms"] == ("7000", 5)

        assert alter(raw, "billing", {"share.record.lock.duration.ms": "9000"}) == 0

        told = described(raw)
        assert told["share.record.lock.duration.ms"] == ("9000", 8)
        assert told["share.delivery.count.limit"] == ("3", 5)
    state = kafka.broker.operations._core.state
    assert state.topics["orders"].groups["billing"].settings.visibility_timeout_ms == 9000


@pytest.mark.skipif(BILLING is None, reason="this confluent-kafka has no settings of groups")
def test_confluents_admin_sets_and_reads_a_group(kafka: Server) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    entry = ConfigEntry("consumer.session.timeout.ms", "50000", incremental_operation=AlterConfigOpType.SET)
    assert BILLING is not None
    BILLING.add_incremental_config(entry)

    for future in admin.incremental_alter_configs([BILLING]).values():
        future.result(timeout=10)

    [told] = admin.describe_configs([BILLING]).values()
    assert told.result(timeout=10)["consumer.session.timeout.ms"].value == "50000"
