"""Answers to bad requests that differed from those of Apache Kafka (``make kafka-reference``)."""

from typing import Any

import pytest
from tests.frontends.kafka.conftest import Server
from tests.frontends.kafka.raw import Raw

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages import cluster, fetch, metadata, positions, produce, transactions
from penstock.wire.kafka.messages.admin import configs, topics
from penstock.wire.kafka.messages.groups import consumer_groups, membership, offsets
from penstock.wire.kafka.messages.parts import NamePartitions

TOPIC = 2


@pytest.fixture
def raw(kafka: Server) -> Any:
    kafka.run(kafka.broker.create_topic("orders", partitions=2))
    with Raw(kafka) as made:
        yield made


def test_what_is_named_twice_is_refused_once(raw: Raw) -> None:
    wanted = topics.CreatableTopic(name="bills", num_partitions=1, replication_factor=1)
    [created] = raw.ask(
        topics.CreateTopicsRequest(topics=[wanted, wanted]), topics.CreateTopicsResponse, 7
    ).topics
    grown = topics.CreatePartitionsTopic("orders", 4, None)
    [more] = raw.ask(
        topics.CreatePartitionsRequest(topics=[grown, grown]), topics.CreatePartitionsResponse, 3
    ).results
    doomed = topics.DeleteTopicsRequest(topic_names=["orders", "orders"])
    [deleted] = raw.ask(doomed, topics.DeleteTopicsResponse, 5).responses
    assert created.error_code == more.error_code == deleted.error_code == Code.INVALID_REQUEST

    asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="orders")] * 2)
    assert len(raw.ask(asked, metadata.MetadataResponse, 12).topics) == 1


@pytest.mark.parametrize("state", [topics.DeleteTopicState(), topics.DeleteTopicState("orders", b"x" * 16)])
def test_a_topic_is_deleted_by_name_or_by_id(raw: Raw, state: topics.DeleteTopicState) -> None:
    [answer] = raw.ask(topics.DeleteTopicsRequest(topics=[state]), topics.DeleteTopicsResponse, 6).responses
    assert answer.error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("partitions", "placed", "configs_", "code"),
    [
        (-1, [1], [], Code.INVALID_REPLICA_ASSIGNMENT),
        (2, [0, 1], [], Code.INVALID_REQUEST),
        (1, [], [topics.CreatableTopicConfig("retention.ms", None)], Code.INVALID_CONFIG),
    ],
)
def test_a_topic_is_not_created_from_half_a_description(
    raw: Raw, partitions: int, placed: list[int], configs_: list[Any], code: int
) -> None:
    assignments = [topics.CreatableReplicaAssignment(number, [0]) for number in placed]
    factor = -1 if partitions < 0 else 1
    wanted = topics.CreatableTopic("bills", partitions, factor, assignments, configs_)
    [answer] = raw.ask(topics.CreateTopicsRequest(topics=[wanted]), topics.CreateTopicsResponse, 7).topics
    assert answer.error_code == code


def test_a_dry_run_tells_the_settings(raw: Raw) -> None:
    wanted = topics.CreatableTopic("bills", 1, 1, [], [topics.CreatableTopicConfig("retention.ms", "1000")])
    asked = topics.CreateTopicsRequest(topics=[wanted], validate_only=True)
    [answer] = raw.ask(asked, topics.CreateTopicsResponse, 7).topics
    assert ("retention.ms", "1000") in [(each.name, each.value) for each in answer.configs or []]


def test_a_name_that_no_topic_can_have_is_invalid(raw: Raw) -> None:
    asked = configs.DescribeConfigsRequest(resources=[configs.DescribeConfigsResource(TOPIC, "a b", None)])
    [described] = raw.ask(asked, configs.DescribeConfigsResponse, 4).results
    details = metadata.DescribeTopicPartitionsRequest(topics=[metadata.TopicRequest("a b")])
    [detailed] = raw.ask(details, metadata.DescribeTopicPartitionsResponse, 0).topics
    assert described.error_code == detailed.error_code == Code.INVALID_TOPIC_EXCEPTION


def test_a_setting_needs_a_value(raw: Raw) -> None:
    wanted = configs.AlterConfigsRequestAlterConfigsResource(
        TOPIC, "orders", [configs.AlterConfigsRequestAlterableConfig("retention.ms", None)]
    )
    [answer] = raw.ask(
        configs.AlterConfigsRequest(resources=[wanted]), configs.AlterConfigsResponse, 2
    ).responses
    assert answer.error_code == Code.INVALID_REQUEST


def test_clients_say_their_name_and_ask_for_brokers(raw: Raw) -> None:
    bad = cluster.ApiVersionsRequest(client_software_name="a b", client_software_version="1")
    assert raw.ask(bad, cluster.ApiVersionsResponse, 3).error_code == Code.INVALID_REQUEST
    for kind, code in ((2, Code.MISMATCHED_ENDPOINT_TYPE), (9, Code.UNSUPPORTED_ENDPOINT_TYPE)):
        asked = cluster.DescribeClusterRequest(endpoint_type=kind)
        assert raw.ask(asked, cluster.DescribeClusterResponse, 1).error_code == code


def test_a_timestamp_with_a_meaning_needs_the_version_that_brought_it(raw: Raw) -> None:
    for at, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 11)):
        partition = positions.ListOffsetsPartition(0, -1, at)
        asked = positions.ListOffsetsRequest(topics=[positions.ListOffsetsTopic("orders", [partition])])
        for version, code in ((since - 1, Code.UNSUPPORTED_VERSION), (since, Code.NONE)):
            [topic] = raw.ask(asked, positions.ListOffsetsResponse, version).topics
            assert topic.partitions[0].error_code == code


def test_a_client_that_has_read_from_another_leader_is_out_of_range(raw: Raw) -> None:
    partition = fetch.FetchPartition(partition=0, last_fetched_epoch=5, partition_max_bytes=100)
    asked = fetch.FetchRequest(topics=[fetch.FetchTopic(topic="orders", partitions=[partition])])
    [topic] = raw.ask(asked, fetch.FetchResponse, 12).responses
    assert topic.partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE


def test_half_a_producer_is_none(raw: Raw) -> None:
    asked = produce.InitProducerIdRequest("mine", 1000, producer_id=5)
    answer = raw.ask(asked, produce.InitProducerIdResponse, 4)
    assert (answer.error_code, answer.producer_epoch) == (Code.INVALID_REQUEST, -1)


def test_partitions_are_added_to_a_transaction_together_or_not_at_all(raw: Raw) -> None:
    made = raw.ask(produce.InitProducerIdRequest("mine", 60_000), produce.InitProducerIdResponse, 4)
    wanted = [NamePartitions(name, [0]) for name in ("orders", "nowhere")]
    asked = transactions.AddPartitionsToTxnRequest("mine", made.producer_id, made.producer_epoch, wanted)
    answer = raw.ask(asked, transactions.AddPartitionsToTxnResponse, 3)
    found = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    assert found == {"orders": Code.OPERATION_NOT_ATTEMPTED, "nowhere": Code.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_group_needs_a_name(raw: Raw) -> None:
    beat = membership.HeartbeatRequest(group_id="", generation_id=1, member_id="m")
    assert raw.ask(beat, membership.HeartbeatResponse, 4).error_code == Code.INVALID_GROUP_ID
    for group, epoch in (("", 0), ("g", -5)):
        new = consumer_groups.ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)
        answer = raw.ask(new, consumer_groups.ConsumerGroupHeartbeatResponse, 1)
        assert answer.error_code == Code.INVALID_REQUEST


def test_offsets_are_deleted_from_the_partitions_that_there_are(raw: Raw) -> None:
    commit = offsets.OffsetCommitRequest(
        group_id="g",
        topics=[
            offsets.OffsetCommitRequestTopic(
                "orders", partitions=[offsets.OffsetCommitRequestPartition(0, 0)]
            )
        ],
    )
    raw.ask(commit, offsets.OffsetCommitResponse, 8)
    numbers = [offsets.OffsetDeleteRequestPartition(number) for number in (0, 9)]
    wanted = [offsets.OffsetDeleteRequestTopic(name, numbers) for name in ("orders", "nowhere")]
    answer = raw.ask(offsets.OffsetDeleteRequest("g", wanted), offsets.OffsetDeleteResponse, 0)
    unknown = Code.UNKNOWN_TOPIC_OR_PARTITION
    found = [[each.error_code for each in topic.partitions] for topic in answer.topics]
    assert found == [[Code.NONE, unknown], [unknown, unknown]]
