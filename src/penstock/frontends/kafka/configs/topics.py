"""Creating, growing and deleting topics: CreateTopics, DeleteTopics, CreatePartitions."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from penstock.broker.frontend import Layout
from penstock.config.broker import TopicOptions, TopicSettings, settings_with
from penstock.errors import Forbidden, InvalidValue, PenstockError, TopicExists, TopicNotFound
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.configs.configs import config_entries
from penstock.frontends.kafka.configs.topic_configs import options_of
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.types import check_name
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.fields import NO_UUID
from penstock.wire.kafka.messages.admin.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BY_DEFAULT = -1
STATES_SINCE = 6  # Of DeleteTopics: from this version on it takes ids, too.
# What was wrong with a topic that a client wanted, by the setting that could not be as it was.
CODES = {
    "partitions": Code.INVALID_PARTITIONS,
    "replication factor": Code.INVALID_REPLICATION_FACTOR,
    "assignment": Code.INVALID_REPLICA_ASSIGNMENT,
    "topic": Code.INVALID_REQUEST,
}


async def create_topics(call: KafkaCall[CreateTopicsRequest]) -> CreateTopicsResponse:
    """Create topics, or validate only."""
    counts = Counter(topic.name for topic in call.request.topics)
    once = {topic.name: topic for topic in call.request.topics}  # What is asked for twice is refused once.
    return CreateTopicsResponse(
        topics=[await _created(call, topic, counts[topic.name]) for topic in once.values()]
    )


async def _created(
    call: KafkaCall[CreateTopicsRequest], wanted: CreatableTopic, count: int
) -> CreatableTopicResult:
    try:
        _check_once(wanted.name, count)
        options = _options(call, wanted)
        if call.request.validate_only:
            return _could_be(call, wanted.name, options)
        await call.run(call.operations.create_topic(wanted.name, options))
        await _assign(
            call, wanted.name, {each.partition_index: each.broker_ids for each in wanted.assignments}
        )
        with suppress(Forbidden):  # A client that may create it need not be allowed to describe it.
            return _created_result(call, call.operations.layout(wanted.name))
        return CreatableTopicResult(
            name=wanted.name,
            error_message=None,
            topic_config_error_code=Code.TOPIC_AUTHORIZATION_FAILED,
            configs=None,
        )
    except PenstockError as error:
        return CreatableTopicResult(name=wanted.name, error_code=_code(error), error_message=words_of(error))


def _check_once(name: str | None, count: int) -> None:
    if count > 1:
        raise InvalidValue(name="topic", value=name, why="it is requested twice")


def _options(call: KafkaCall[CreateTopicsRequest], wanted: CreatableTopic) -> TopicOptions:
    replication = call.accepts_replication
    factor = wanted.replication_factor
    if factor not in (1, BY_DEFAULT) and not (replication and factor > 1):
        why = "there is one broker; kafka.accept_replication allows more, and keeps one replica"
        raise InvalidValue(name="replication factor", value=factor, why=why)
    partitions = wanted.num_partitions
    if wanted.assignments:
        if (partitions, factor) != (BY_DEFAULT, BY_DEFAULT):
            why = "with an assignment, both the partitions and the replication factor are -1"
            raise InvalidValue(name="topic", value=wanted.name, why=why)
        _check_assignments(call, [each.broker_ids for each in wanted.assignments])
        partitions = len(wanted.assignments)
        if {each.partition_index for each in wanted.assignments} != set(range(partitions)):
            raise InvalidValue(
                name="assignment", value=partitions, why="partitions count from 0, without a gap"
            )
    requested: dict[str, str | None] = {}
    for config in wanted.configs:
        if config.value is None:
            raise InvalidValue(
                name=config.name, value=None, why="a new topic has a value for it, or leaves it out"
            )
        requested[config.name] = config.value
    options = options_of(requested, call.shared.defaults, replication=replication)
    if partitions != BY_DEFAULT:
        options["partitions"] = partitions
    return options


def _check_assignments(call: KafkaCall[Any], assignments: Sequence[list[int]]) -> None:
    nodes = call.session.brokers
    for brokers in assignments:
        if not brokers or len(set(brokers)) < len(brokers) or not set(brokers) <= nodes.keys():
            why = f"each partition has different brokers out of {', '.join(map(str, sorted(nodes)))}"
            raise InvalidValue(name="assignment", value=brokers, why=why)


async def _assign(call: KafkaCall[Any], topic: str, assignments: dict[int, list[int]]) -> None:
    """Move new partitions to the first of their brokers; the store keeps the copies.

    The topic is there already, so a partition that cannot be moved stays where the cluster has put it.
    """

    async def move(number: int, node: int) -> None:
        with suppress(PenstockError):
            await call.run(call.operations.move_partition(topic, number, node))

    if call.owners.nodes():
        await asyncio.gather(*(move(number, brokers[0]) for number, brokers in assignments.items()))


def _could_be(call: KafkaCall[CreateTopicsRequest], name: str, options: TopicOptions) -> CreatableTopicResult:
    check_name("topic", name)
    try:
        call.operations.layout(name)
    except TopicNotFound:
        partitions = options.get("partitions", call.shared.defaults.partitions)
        if partitions < 1:
            raise InvalidValue(name="partitions", value=partitions, why="it must be at least 1") from None
        return CreatableTopicResult(
            name=name,
            error_message=None,
            num_partitions=partitions,
            replication_factor=1,
            configs=_configs(settings_with(call.shared.defaults, options), call.shared.defaults),
        )
    raise TopicExists(topic=name)


def _created_result(call: KafkaCall[CreateTopicsRequest], layout: Layout) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=layout.topic,
        topic_id=layout.id,
        error_message=None,
        num_partitions=layout.partitions,
        replication_factor=1,
        configs=_configs(layout.settings, call.shared.defaults),
    )


def _configs(settings: TopicSettings, defaults: TopicSettings) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name, value=entry.value, read_only=entry.read_only, config_source=entry.config_source
        )
        for entry in config_entries(settings, defaults)
    ]


def _code(error: PenstockError) -> int:
    if isinstance(error, InvalidValue):
        return CODES.get(error.name, Code.INVALID_CONFIG)
    return code_of(error)


async def delete_topics(call: KafkaCall[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """Delete topics, by name or by id."""
    wanted = call.request.topics
    if call.version < STATES_SINCE:
        wanted = [DeleteTopicState(name=name) for name in call.request.topic_names]
    counts = Counter((each.name, each.topic_id) for each in wanted)
    once = {(each.name, each.topic_id): each for each in wanted}
    return DeleteTopicsResponse(
        responses=[await _deleted(call, each, counts[key]) for key, each in once.items()]
    )


async def _deleted(
    call: KafkaCall[DeleteTopicsRequest], wanted: DeleteTopicState, count: int
) -> DeletableTopicResult:
    if count > 1 or (wanted.name is None) == (wanted.topic_id == NO_UUID):
        why = "A topic is named once, by its name or by its id."
        return DeletableTopicResult(wanted.name, wanted.topic_id, Code.INVALID_REQUEST, why)
    name = wanted.name if wanted.name is not None else call.session.names.get(wanted.topic_id)
    if name is None:
        return DeletableTopicResult(name=None, topic_id=wanted.topic_id, error_code=Code.UNKNOWN_TOPIC_ID)
    answer = DeletableTopicResult(name=name, topic_id=wanted.topic_id)
    try:
        answer.topic_id = call.operations.layout(name).id
        await call.run(call.operations.delete_topic(name))
    except PenstockError as error:
        answer.error_code, answer.error_message = code_of(error), words_of(error)
    return answer


async def create_partitions(call: KafkaCall[CreatePartitionsRequest]) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in call.request.topics)
    once = {topic.name: topic for topic in call.request.topics}
    return CreatePartitionsResponse(
        results=[await _grown(call, each, counts[each.name]) for each in once.values()]
    )


async def _grown(
    call: KafkaCall[CreatePartitionsRequest], wanted: CreatePartitionsTopic, count: int
) -> CreatePartitionsTopicResult:
    answer = CreatePartitionsTopicResult(name=wanted.name)
    try:
        _check_once(wanted.name, count)
        partitions = call.operations.layout(wanted.name).partitions
        _check_growth(call, partitions, wanted)
        if not call.request.validate_only:
            options = cast("TopicOptions", {"partitions": wanted.count})
            await call.run(call.operations.alter_topic(wanted.name, options))
            brokers = [each.broker_ids for each in wanted.assignments or ()]
            await _assign(call, wanted.name, dict(enumerate(brokers, partitions)))
    except PenstockError as error:
        answer.error_code, answer.error_message = _code(error), words_of(error)
    return answer


def _check_growth(call: KafkaCall[Any], partitions: int, wanted: CreatePartitionsTopic) -> None:
    if wanted.count <= partitions:
        why = f"there are {partitions} already, and they can only become more"
        raise InvalidValue(name="partitions", value=wanted.count, why=why)
    if wanted.assignments:
        _check_assignments(call, [each.broker_ids for each in wanted.assignments])
        if len(wanted.assignments) != wanted.count - partitions:
            why = f"{wanted.count - partitions} partitions are new"
            raise InvalidValue(name="assignment", value=len(wanted.assignments), why=why)


APIS = (
    Api(CreateTopicsRequest, CreateTopicsResponse, create_topics),
    Api(DeleteTopicsRequest, DeleteTopicsResponse, delete_topics),
    Api(CreatePartitionsRequest, CreatePartitionsResponse, create_partitions),
)
