"""Creating, growing and deleting topics: CreateTopics, DeleteTopics, CreatePartitions."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from penstock.broker.frontend import Layout
from penstock.config.broker import TopicOptions
from penstock.errors import Forbidden, InvalidValue, PenstockError, TopicExists, TopicNotFound
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.configs.configs import config_entries
from penstock.frontends.kafka.configs.topic_configs import options_of
from penstock.frontends.kafka.errors import code_of, words_of
from penstock.frontends.kafka.session import NODE
from penstock.types import check_name
from penstock.wire.kafka.codes import Code
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
    """Make topics, or see whether they could be made."""
    counts = Counter(topic.name for topic in call.request.topics)
    return CreateTopicsResponse(
        topics=[await _created(call, topic, counts[topic.name]) for topic in call.request.topics]
    )


async def _created(
    call: KafkaCall[CreateTopicsRequest], wanted: CreatableTopic, count: int
) -> CreatableTopicResult:
    try:
        if count > 1:
            raise InvalidValue(name="topic", value=wanted.name, why="it is asked for twice")
        options = _options(call, wanted)
        if call.request.validate_only:
            return _could_be(call, wanted.name, options)
        await call.run(call.operations.create_topic(wanted.name, options))
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


def _options(call: KafkaCall[CreateTopicsRequest], wanted: CreatableTopic) -> TopicOptions:
    replication = call.shared.settings.accept_replication
    factor = wanted.replication_factor
    if factor not in (1, BY_DEFAULT) and not (replication and factor > 1):
        why = "there is one broker; kafka.accept_replication allows more, and keeps one replica"
        raise InvalidValue(name="replication factor", value=factor, why=why)
    partitions = wanted.num_partitions
    if wanted.assignments:
        _check_assignments([each.broker_ids for each in wanted.assignments])
        partitions = len(wanted.assignments)
    requested = {config.name: config.value for config in wanted.configs}
    options = options_of(requested, call.shared.defaults, replication=replication)
    if partitions != BY_DEFAULT:
        options["partitions"] = partitions
    return options


def _check_assignments(assignments: Sequence[list[int]]) -> None:
    if any(brokers != [NODE] for brokers in assignments):
        raise InvalidValue(name="assignment", value=assignments, why=f"there is one broker, {NODE}")


def _could_be(call: KafkaCall[CreateTopicsRequest], name: str, options: TopicOptions) -> CreatableTopicResult:
    check_name("topic", name)
    try:
        call.operations.layout(name)
    except TopicNotFound:
        partitions = options.get("partitions", call.shared.defaults.partitions)
        if partitions < 1:
            raise InvalidValue(name="partitions", value=partitions, why="there is at least one") from None
        return CreatableTopicResult(
            name=name, error_message=None, num_partitions=partitions, replication_factor=1, configs=None
        )
    raise TopicExists(topic=name)


def _created_result(call: KafkaCall[CreateTopicsRequest], layout: Layout) -> CreatableTopicResult:
    configs = [
        CreatableTopicConfigs(
            name=entry.name, value=entry.value, read_only=entry.read_only, config_source=entry.config_source
        )
        for entry in config_entries(layout.settings, call.shared.defaults)
    ]
    return CreatableTopicResult(
        name=layout.topic,
        topic_id=layout.id,
        error_message=None,
        num_partitions=layout.partitions,
        replication_factor=1,
        configs=configs,
    )


def _code(error: PenstockError) -> int:
    if isinstance(error, InvalidValue):
        return CODES.get(error.name, Code.INVALID_CONFIG)
    return code_of(error)


async def delete_topics(call: KafkaCall[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """Remove topics, by name or by id."""
    wanted = call.request.topics
    if call.version < STATES_SINCE:
        wanted = [DeleteTopicState(name=name) for name in call.request.topic_names]
    return DeleteTopicsResponse(responses=[await _deleted(call, each) for each in wanted])


async def _deleted(call: KafkaCall[DeleteTopicsRequest], wanted: DeleteTopicState) -> DeletableTopicResult:
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
    return CreatePartitionsResponse(results=[await _grown(call, each) for each in call.request.topics])


async def _grown(
    call: KafkaCall[CreatePartitionsRequest], wanted: CreatePartitionsTopic
) -> CreatePartitionsTopicResult:
    answer = CreatePartitionsTopicResult(name=wanted.name)
    try:
        _check_growth(call.operations.layout(wanted.name).partitions, wanted)
        if not call.request.validate_only:
            options = cast("TopicOptions", {"partitions": wanted.count})
            await call.run(call.operations.alter_topic(wanted.name, options))
    except PenstockError as error:
        answer.error_code, answer.error_message = _code(error), words_of(error)
    return answer


def _check_growth(partitions: int, wanted: CreatePartitionsTopic) -> None:
    if wanted.count <= partitions:
        why = f"there are {partitions} already, and they can only become more"
        raise InvalidValue(name="partitions", value=wanted.count, why=why)
    if wanted.assignments:
        _check_assignments([each.broker_ids for each in wanted.assignments])
        if len(wanted.assignments) != wanted.count - partitions:
            why = f"{wanted.count - partitions} partitions are new"
            raise InvalidValue(name="assignment", value=len(wanted.assignments), why=why)


APIS = (
    Api(request=CreateTopicsRequest, response=CreateTopicsResponse, handler=create_topics),
    Api(request=DeleteTopicsRequest, response=DeleteTopicsResponse, handler=delete_topics),
    Api(request=CreatePartitionsRequest, response=CreatePartitionsResponse, handler=create_partitions),
)
