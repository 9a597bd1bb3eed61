"""Which topics and partitions there are: Metadata, DescribeTopicPartitions.

The owner of a partition leads it and holds its one replica; without a cluster that is this server.  A topic
that a client asks for by name is created if it does not exist, unless the client or the setting
``topic.auto_create`` forbids it."""

from collections.abc import Awaitable
from contextlib import suppress

from penstock.errors import Forbidden, PenstockError
from penstock.frontends.kafka.authorized import ON_CLUSTER, ON_TOPIC, authorized
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import topic_code
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.fields import NO_UUID
from penstock.wire.kafka.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.wire.kafka.messages.parts import TopicCursor

PARTITIONS_MAX = 2000  # In one answer to DescribeTopicPartitions.
ALL_IF_EMPTY = 0  # In this version no list is said by an empty one.


def metadata(call: KafkaCall[MetadataRequest]) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Topics by name, by id, or all of them."""
    asked = _asked(call)
    new = _new(call, asked)
    return _made(call, asked, new) if new else _answer(call, asked, {})


def _new(call: KafkaCall[MetadataRequest], asked: list[MetadataRequestTopic]) -> list[str]:
    """The names of topics to create."""
    if not call.request.allow_auto_topic_creation:
        return []
    creatable = call.shared.gateway.is_creatable
    return [topic.name for topic in asked if topic.name is not None and creatable(topic.name)]


async def _made(
    call: KafkaCall[MetadataRequest], asked: list[MetadataRequestTopic], new: list[str]
) -> MetadataResponse:
    """Create the missing topics that may be created, then respond."""
    failures: dict[str, PenstockError] = {}
    for name in new:
        try:
            with suppress(Forbidden):  # Who may not create it finds none.
                await call.run(call.operations.auto_create_topic(name, {}))
        except PenstockError as error:
            failures[name] = error
    return _answer(call, asked, failures)


def _answer(
    call: KafkaCall[MetadataRequest], topics: list[MetadataRequestTopic], failures: dict[str, PenstockError]
) -> MetadataResponse:
    brokers = call.session.brokers
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=host, port=port)
            for node, (host, port) in brokers.items()
        ],
        cluster_id=call.shared.cluster_id,
        controller_id=call.owners.node,
        topics=[_described(call, asked, failures) for asked in topics],
        cluster_authorized_operations=authorized(
            call, ON_CLUSTER, asked=call.request.include_cluster_authorized_operations
        ),
    )


def _asked(call: KafkaCall[MetadataRequest]) -> list[MetadataRequestTopic]:
    topics = call.request.topics
    if topics is None or (not topics and call.version == ALL_IF_EMPTY):
        return [MetadataRequestTopic(name=name) for name in call.operations.topics()]
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())


def _described(
    call: KafkaCall[MetadataRequest], asked: MetadataRequestTopic, failures: dict[str, PenstockError]
) -> MetadataResponseTopic:
    name = asked.name
    if name is None:
        names = call.operations.topic_names()
        name = names.get(asked.topic_id)
    if name is None:
        return MetadataResponseTopic(
            error_code=Code.UNKNOWN_TOPIC_ID, name=None if call.version >= 12 else "", topic_id=asked.topic_id
        )
    try:
        layout = call.operations.layout(name)
    except PenstockError as missing:
        error = failures.get(name, missing)
        return MetadataResponseTopic(error_code=topic_code(error, name), name=name, topic_id=NO_UUID)
    leaders = [call.owners.owner_of(name, number) for number in range(layout.partitions)]
    partitions = [
        MetadataResponsePartition(
            error_code=Code.NONE if node >= 0 else Code.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=node,
            leader_epoch=epoch,
            replica_nodes=[node],
            isr_nodes=[node],
        )
        for number, (node, epoch) in enumerate(leaders)
    ]
    return MetadataResponseTopic(
        name=name,
        topic_id=layout.id,
        is_internal=name.startswith("__"),
        partitions=partitions,
        topic_authorized_operations=authorized(
            call, ON_TOPIC, topic=name, asked=call.request.include_topic_authorized_operations
        ),
    )


def describe_topic_partitions(
    call: KafkaCall[DescribeTopicPartitionsRequest],
) -> DescribeTopicPartitionsResponse:
    """Topics by name, in order, from a cursor on, and up to this many partitions."""
    asked = call.request
    names = sorted(topic.name for topic in asked.topics) or call.operations.topics()
    answer = DescribeTopicPartitionsResponse()
    if asked.cursor is not None and asked.cursor.partition_index < 0:
        invalid = [
            DescribeTopicPartitionsResponseTopic(error_code=Code.INVALID_REQUEST, name=name) for name in names
        ]
        return DescribeTopicPartitionsResponse(topics=invalid)
    left = max(min(asked.response_partition_limit, PARTITIONS_MAX), 1)
    for name in names:
        first = 0
        if asked.cursor is not None:
            if name < asked.cursor.topic_name:
                continue
            first = asked.cursor.partition_index if name == asked.cursor.topic_name else 0
        if not left:
            answer.next_cursor = TopicCursor(topic_name=name, partition_index=first)
            return answer
        topic, following = _detailed(call, name, first, left)
        answer.topics.append(topic)
        left -= len(topic.partitions)
        if following:
            answer.next_cursor = TopicCursor(topic_name=name, partition_index=following)
            return answer
    return answer


def _detailed(
    call: KafkaCall[DescribeTopicPartitionsRequest], name: str, first: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int]:
    """A topic from a partition on, and the partition to continue with, if that is not all of it."""
    try:
        layout = call.operations.layout(name)
    except PenstockError as error:
        return DescribeTopicPartitionsResponseTopic(error_code=topic_code(error, name), name=name), 0
    end = min(layout.partitions, first + limit)
    leaders = [call.owners.owner_of(name, number) for number in range(first, end)]
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=Code.NONE if node >= 0 else Code.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=node,
            leader_epoch=epoch,
            replica_nodes=[node],
            isr_nodes=[node],
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
        for number, (node, epoch) in enumerate(leaders, first)
    ]
    topic = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=layout.id,
        is_internal=name.startswith("__"),
        partitions=partitions,
        topic_authorized_operations=authorized(call, ON_TOPIC, topic=name),
    )
    return topic, end if end < layout.partitions else 0


APIS = (
    Api(MetadataRequest, MetadataResponse, metadata),
    Api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, describe_topic_partitions),
)
